"""What a model proposes to tidy up a tree, with everything dropped that the tree could not take (KT-245)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.choices import Choices, pointed_at, short_text
from knowhub.core.operation import Row
from knowhub.keywords import tree
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.model import ROOT_ID, Node

MAX_NODES = 400
MAX_DESCRIPTION = 500
_MAX_NAME = 200
_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Proposals:
    """Proposals by id: (keyword, new parent), (source, into), (keyword, text), (keyword, [(group, children)])."""

    moves: Sequence[tuple[str, str]] = ()
    merges: Sequence[tuple[str, str]] = ()
    descriptions: Sequence[tuple[str, str]] = ()
    splits: Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]] = ()
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


def listed(eyes: Eyes, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Return keywords as the prompt lists them, idx from 1."""
    return [
        {
            "idx": idx,
            "name": node.name,
            "path": eyes.candidate(node).path,
            "described": node.is_described,
            "children": sum(eyes.sees(child) for child in eyes.view.children(node.id)),
        }
        for idx, node in enumerate(nodes, 1)
    ]


def read(answer: Mapping[str, Any], choices: Choices, eyes: Eyes) -> Proposals:
    """Return the proposals that the tree as it was shown could take, one by one; never raises."""
    reader = _Reader(choices, eyes)
    return Proposals(
        moves=reader.moves(answer.get("moves")),
        merges=reader.merges(answer.get("merges")),
        descriptions=reader.descriptions(answer.get("descriptions")),
        splits=reader.splits(answer.get("splits")),
        reason=short_text(answer.get("reason"), _MAX_REASON),
    )


class _Reader:
    def __init__(self, choices: Choices, eyes: Eyes) -> None:
        self._choices = choices
        self._eyes = eyes

    def moves(self, said: object) -> list[tuple[str, str]]:
        moves: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            parent_id = self._choices.pick(item.get("new_parent_id"))
            node = self._eyes.node(keyword_id)
            if parent_id is None or node is None or parent_id == node.parent_id:
                continue
            if not tree.is_within(self._eyes.view, parent_id, keyword_id):
                moves.setdefault(keyword_id, parent_id)
        return list(moves.items())

    def merges(self, said: object) -> list[tuple[str, str]]:
        merges: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            into = self._choices.pick(item.get("into_id"))
            # A keyword that goes into another takes no other in: the order of merges would decide what is left.
            if into in (None, ROOT_ID) or into in merges or keyword_id in merges.values():
                continue
            if not tree.is_within(self._eyes.view, str(into), keyword_id):
                merges.setdefault(keyword_id, str(into))
        return list(merges.items())

    def descriptions(self, said: object) -> list[tuple[str, str]]:
        texts: dict[str, str] = {}
        for keyword_id, item in self._items(said):
            text = short_text(item.get("description"), MAX_DESCRIPTION)
            node = self._eyes.node(keyword_id)
            # What somebody wrote stands: only what is missing is filled in.
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
        free = {child.id for child in self._eyes.view.children(keyword_id)}
        groups: dict[str, list[str]] = {}
        for item in pointed_at(said):
            if not isinstance(item, Mapping):
                continue
            name = short_text(item.get("name"), _MAX_NAME)
            members = [one for one in self._choices.pick_all(pointed_at(item.get("node_ids"))) if one in free]
            if name and members:
                groups.setdefault(name, []).extend(members)
                free.difference_update(members)
        return list(groups.items())

    def _items(self, said: object, *, root: bool = False) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for item in pointed_at(said)[:MAX_NODES]:
            if isinstance(item, Mapping):
                keyword_id = self._choices.pick(item.get("node_id"))
                if keyword_id is not None and (root or keyword_id != ROOT_ID):
                    yield keyword_id, item
