"""What a model proposes for a tree, and which steps of the rules it refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.model_calls import NumberedChoices, list_pointers, short_text
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate.plan import NodeRef, SplitGroup, Step, StepKind
from knowhub.keywords.model import Node
from knowhub.keywords.search import prompts
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.search.prompts import MAX_NAME, ModelAnswer, parse_reason

MAX_STEPS = 400
# The kind of step in each field of an answer, and the names of its nodes.
_FIELDS: Mapping[str, tuple[StepKind, *tuple[str, ...]]] = {
    "merges": (StepKind.MERGE, "node_id", "into_id"),
    "moves": (StepKind.MOVE, "node_id", "new_parent_id"),
    "splits": (StepKind.SPLIT, "node_id"),
    "descriptions": (StepKind.DESCRIBE, "node_id"),
}
_BY_MODEL = "proposed by the model"
MAX_DESCRIPTION = 500


@dataclass(frozen=True, slots=True)
class Proposals(ModelAnswer):
    """Steps between shown keywords, which may be impossible in the tree; `unusable` counts the others."""

    steps: Sequence[Step] = ()
    unusable: int = 0


async def propose(
    agent: KeywordAgent, ctx: RequestContext, view: View, nodes: Sequence[Node], budget_s: float
) -> Proposals:
    """Ask the model how to put these keywords in better order; nothing is changed."""
    visible_tree = VisibleTree(view, ctx)
    there = [node for node in nodes if visible_tree.is_visible(node)]
    question = prompts.reorganize([visible_tree.make_candidate(node, described=True) for node in there])
    return await agent.ask(question, [node.id for node in there], budget_s, parse_proposals, Proposals())


@dataclass(frozen=True, slots=True)
class Review(ModelAnswer):
    """The indexes of the steps that a model refuses."""

    refused: frozenset[int] = frozenset()


async def review(
    agent: KeywordAgent, ctx: RequestContext, view: View, steps: Sequence[Step], budget_s: float
) -> Review:
    """Let the model refuse merges and moves of the rules; if it fails, none is refused."""
    visible_tree = VisibleTree(view, ctx)
    shown = []
    for idx, step in enumerate(steps, 1):
        nodes = [visible_tree.get_node(ref.id) for ref in step.nodes]
        first, second = (
            {} if node is None else prompts.format_candidate(visible_tree.make_candidate(node, described=True))
            for node in nodes
        )
        shown.append({"idx": idx, "kind": step.kind.value, "keyword": first, "target": second})

    indexes = [str(index) for index in range(len(steps))]
    return await agent.ask(prompts.review_plan(shown), indexes, budget_s, _parse_review, Review())


def _parse_review(answer: Mapping[str, Any], choices: NumberedChoices) -> Review | None:
    named = list_pointers(answer.get("refused"))
    refused = choices.pick_all(named)
    return None if named and not refused else Review(refused=frozenset(map(int, refused)))


def parse_proposals(answer: Mapping[str, Any], choices: NumberedChoices) -> Proposals | None:
    """Parse the proposals, each by itself; None for an answer that has other fields only."""
    if answer and not answer.keys() & {*_FIELDS, "reason"}:
        return None
    reason = parse_reason(answer)
    made = [(name, item) for name in _FIELDS for item in list_pointers(answer.get(name))[:MAX_STEPS]]
    parsed = (_parse_step(name, item, choices, reason or _BY_MODEL) for name, item in made)
    steps = [step for step in parsed if step is not None]
    return Proposals(reason=reason, steps=steps, unusable=len(made) - len(steps))


def _parse_step(field: str, said: object, choices: NumberedChoices, reason: str) -> Step | None:
    if not isinstance(said, Mapping):
        return None
    kind, *names = _FIELDS[field]
    # The versions are set when the plan is made.
    nodes = [NodeRef(keyword_id, 0) for keyword_id in map(choices.pick, map(said.get, names)) if keyword_id is not None]
    if len(nodes) < len(names):
        return None
    description = short_text(said.get("description"), MAX_DESCRIPTION) if kind is StepKind.DESCRIBE else ""
    groups = _parse_groups(said.get("groups"), choices) if kind is StepKind.SPLIT else []
    is_empty = len(names) == 1 and not (description or groups)
    return None if is_empty else Step(kind, nodes, _BY_MODEL if description else reason, description, groups)


def _parse_groups(said: object, choices: NumberedChoices) -> list[SplitGroup]:
    groups: dict[str, list[NodeRef]] = {}
    for item in list_pointers(said):
        if not isinstance(item, Mapping):
            continue
        name = short_text(item.get("name"), MAX_NAME)
        members = choices.pick_all(list_pointers(item.get("node_ids")))
        if name and members:
            groups.setdefault(name, []).extend(NodeRef(member, 0) for member in members)
    return [SplitGroup(name, children) for name, children in groups.items()]
