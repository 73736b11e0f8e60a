"""What a model proposes for a tree, without proposals that are impossible."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core.model_calls import NumberedChoices, list_pointers, short_text
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.curate.plan import MergeStep, MoveStep
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.search import prompts
from knowhub.keywords.search.agent import KeywordAgent, ModelAnswer
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import list_children

MAX_NODES = 400
_FIELDS = ("moves", "merges", "descriptions", "splits")
MAX_DESCRIPTION = 500
_MAX_NAME = 200
_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Proposals(ModelAnswer):
    """Proposals by id: (keyword, new parent), (source, into), (keyword, text), (keyword, [(group, children)]).

    `impossible` counts those that the model made and that cannot be meant or done.
    """

    moves: Sequence[tuple[str, str]] = ()
    merges: Sequence[tuple[str, str]] = ()
    descriptions: Sequence[tuple[str, str]] = ()
    splits: Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]] = ()
    impossible: int = 0


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
    return await agent.ask(
        question, choices, budget_s, lambda answer: parse_proposals(answer, choices, visible_tree), Proposals()
    )


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


def parse_proposals(answer: Mapping[str, Any], choices: NumberedChoices, visible_tree: VisibleTree) -> Proposals | None:
    """Parse the proposals that are possible, each by itself; None for one that has other fields only."""
    if answer and not answer.keys() & {*_FIELDS, "reason"}:
        return None
    reader = _Reader(choices, visible_tree)
    read_all = Proposals(
        moves=reader.moves(answer.get("moves")),
        merges=reader.merges(answer.get("merges")),
        descriptions=reader.descriptions(answer.get("descriptions")),
        splits=reader.splits(answer.get("splits")),
        reason=short_text(answer.get("reason"), _MAX_REASON),
    )
    made = sum(len(list_pointers(answer.get(name))) for name in _FIELDS)
    return replace(read_all, impossible=made - sum(len(getattr(read_all, name)) for name in _FIELDS))


class _Reader:
    def __init__(self, choices: NumberedChoices, visible_tree: VisibleTree) -> None:
        self._choices = choices
        self._eyes = visible_tree

    def moves(self, said: object) -> list[tuple[str, str]]:
        moves: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            parent_id = self._choices.pick(item.get("new_parent_id"))
            node = self._eyes.get_node(keyword_id)
            if parent_id is None or node is None or parent_id == node.parent_id:
                continue
            if not tree.is_within(self._eyes.view, parent_id, keyword_id):
                moves.setdefault(keyword_id, parent_id)
        return list(moves.items())

    def merges(self, said: object) -> list[tuple[str, str]]:
        merges: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            into = self._choices.pick(item.get("into_id"))
            # No chains: a source of one merge is not the target of another.
            if into in (None, ROOT_ID) or into in merges or keyword_id in merges.values():
                continue
            if not tree.is_within(self._eyes.view, str(into), keyword_id):
                merges.setdefault(keyword_id, str(into))
        return list(merges.items())

    def descriptions(self, said: object) -> list[tuple[str, str]]:
        texts: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            text = short_text(item.get("description"), MAX_DESCRIPTION)
            node = self._eyes.get_node(keyword_id)
            # Only missing descriptions are filled in.
            if text and node is not None and not node.is_described:
                texts.setdefault(keyword_id, text)
        return list(texts.items())

    def splits(self, said: object) -> list[tuple[str, list[tuple[str, list[str]]]]]:
        splits: dict[str, list[tuple[str, list[str]]]] = {}
        for keyword_id, item in self._items(said, root=True):
            groups = self._groups(keyword_id, item.get("groups"))
            if groups:
                splits.setdefault(keyword_id, groups)
        return list(splits.items())

    def _groups(self, keyword_id: str, said: object) -> list[tuple[str, list[str]]]:
        free = {child.id for child in list_children(self._eyes.view, keyword_id)}
        groups: dict[str, list[str]] = {}
        for item in list_pointers(said):
            if not isinstance(item, Mapping):
                continue
            name = short_text(item.get("name"), _MAX_NAME)
            members = [entry for entry in self._choices.pick_all(list_pointers(item.get("node_ids"))) if entry in free]
            if name and members:
                groups.setdefault(name, []).extend(members)
                free.difference_update(members)
        return list(groups.items())

    def _items(self, said: object, *, root: bool = False) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for item in list_pointers(said)[:MAX_NODES]:
            if isinstance(item, Mapping):
                keyword_id = self._choices.pick(item.get("node_id"))
                if keyword_id is not None and (root or keyword_id != ROOT_ID):
                    yield keyword_id, item
