"""What a model proposes for a tree, and which steps of the rules it refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.model_calls import NumberedChoices, list_pointers, short_text
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate.plan import DescribeStep, MergeStep, MoveStep, NodeRef, SplitGroup, SplitStep, Step
from knowhub.keywords.model import Node
from knowhub.keywords.search import prompts
from knowhub.keywords.search.agent import KeywordAgent, ModelAnswer
from knowhub.keywords.search.candidates import VisibleTree

MAX_NODES = 400
_FIELDS = ("merges", "moves", "splits", "descriptions")
_BY_MODEL = "proposed by the model"
MAX_DESCRIPTION = 500
_MAX_NAME = 200
_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Proposals(ModelAnswer):
    """Steps between shown keywords, which may be impossible in the tree; `unclear` counts those that name no such."""

    steps: Sequence[Step] = ()
    unclear: int = 0


async def propose(
    agent: KeywordAgent, ctx: RequestContext, view: View, nodes: Sequence[Node], budget_s: float
) -> Proposals:
    """Ask the model how to put these keywords in better order; nothing is changed.

    At most MAX_NODES are shown. A caller with more keywords asks in parts.
    """
    visible_tree = VisibleTree(view, ctx)
    there = [node for node in nodes[:MAX_NODES] if visible_tree.is_visible(node)]
    choices = NumberedChoices([node.id for node in there])
    question = prompts.reorganize(list_for_prompt(visible_tree, there))
    return await agent.ask(question, choices, budget_s, lambda answer: parse_proposals(answer, choices), Proposals())


def list_for_prompt(visible_tree: VisibleTree, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Return keywords as the prompt lists them, with idx from 1."""
    return [
        {"idx": idx, **prompts.format_candidate(visible_tree.make_candidate(node, described=True))}
        for idx, node in enumerate(nodes, 1)
    ]


@dataclass(frozen=True, slots=True)
class Review(ModelAnswer):
    """The places of the steps that a model refuses."""

    refused: frozenset[int] = frozenset()


async def review(
    agent: KeywordAgent, ctx: RequestContext, view: View, steps: Sequence[MergeStep | MoveStep], budget_s: float
) -> Review:
    """Let the model refuse merges and moves of the rules; if it fails, none is refused."""
    visible_tree = VisibleTree(view, ctx)
    places = {str(place): place for place in range(len(steps))}
    choices = NumberedChoices(list(places))
    shown = []
    for idx, step in enumerate(steps, 1):
        kind, ends = (
            ("merge", (step.source, step.into)) if isinstance(step, MergeStep) else ("move", (step.node, step.to))
        )
        nodes = [visible_tree.get_node(end.id) for end in ends]
        first, second = (
            {} if node is None else prompts.format_candidate(visible_tree.make_candidate(node, described=True))
            for node in nodes
        )
        shown.append({"idx": idx, "kind": kind, "keyword": first, "target": second})

    def parse(answer: Mapping[str, Any]) -> Review | None:
        named = list_pointers(answer.get("refused"))
        refused = choices.pick_all(named)
        if named and not refused:
            return None
        return Review(refused=frozenset(places[item] for item in refused))

    return await agent.ask(prompts.review_plan(shown), choices, budget_s, parse, Review())


def parse_proposals(answer: Mapping[str, Any], choices: NumberedChoices) -> Proposals | None:
    """Parse the proposals, each by itself; None for an answer that has other fields only."""
    if answer and not answer.keys() & {*_FIELDS, "reason"}:
        return None
    reason = short_text(answer.get("reason"), _MAX_REASON)
    made = [(name, item) for name in _FIELDS for item in list_pointers(answer.get(name))[:MAX_NODES]]
    parsed = (_parse_step(name, item, choices, reason or _BY_MODEL) for name, item in made)
    steps = [step for step in parsed if step is not None]
    return Proposals(reason=reason, steps=steps, unclear=len(made) - len(steps))


def _parse_step(field: str, said: object, choices: NumberedChoices, reason: str) -> Step | None:
    if not isinstance(said, Mapping):
        return None
    node, parent, into = (_parse_ref(said.get(name), choices) for name in ("node_id", "new_parent_id", "into_id"))
    description = short_text(said.get("description"), MAX_DESCRIPTION)
    groups = _parse_groups(said.get("groups"), choices)
    if node is None:
        return None
    if field == "merges" and into is not None:
        return MergeStep(node, into, reason)
    if field == "moves" and parent is not None:
        return MoveStep(node, parent, reason)
    if field == "splits" and groups:
        return SplitStep(node, groups, reason)
    return DescribeStep(node, description, _BY_MODEL) if field == "descriptions" and description else None


def _parse_groups(said: object, choices: NumberedChoices) -> list[SplitGroup]:
    groups: dict[str, list[NodeRef]] = {}
    for item in list_pointers(said):
        if not isinstance(item, Mapping):
            continue
        name = short_text(item.get("name"), _MAX_NAME)
        members = choices.pick_all(list_pointers(item.get("node_ids")))
        if name and members:
            groups.setdefault(name, []).extend(NodeRef(member, 0) for member in members)
    return [SplitGroup(name, children) for name, children in groups.items()]


def _parse_ref(said: object, choices: NumberedChoices) -> NodeRef | None:
    # The version is set when the plan is made.
    keyword_id = choices.pick(said)
    return None if keyword_id is None else NodeRef(keyword_id, 0)
