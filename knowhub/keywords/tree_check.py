"""Checks the keyword trees of all accounts: one root, parents that exist, no cycle, links with two ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from knowhub.core.row_check import RowProblem
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID

_ADVICE: Final = (
    "move it below a keyword that is there, or restore a snapshot from before; nothing repairs this by itself"
)
_ROOT_ADVICE: Final = "restore a snapshot from before; nothing repairs this by itself"
_OUTDATED: Final = "is looked up by other forms of its names than this version makes"
_KEY_ADVICE: Final = (
    "another version wrote them, or a program with rules of its own; to look them up by the rules of this version, "
    "send the name of each again (PATCH)"
)
_LINK_ADVICE: Final = "unlink it, or undo what took its end away"


@dataclass(slots=True)
class _Tree:
    """The live rows of one account: the parent of each keyword, the infos and the links."""

    parents: dict[str, str | None] = field(default_factory=dict)
    infos: set[str] = field(default_factory=set)
    links: set[tuple[str, str]] = field(default_factory=set)
    outdated: set[str] = field(default_factory=set)


class TreeCheck:
    """Implements `core.row_check.RowCheck`."""

    name = "tree"

    def __init__(self, name_keys_of: Callable[[str], Sequence[str]]) -> None:
        """Check keywords against the normal forms that `tokens_of` makes of names now."""
        self._name_keys_of = name_keys_of
        self._trees: dict[str, _Tree] = {}

    def add(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        """Take the newest version of a row so far."""
        tree, is_live = self._trees.setdefault(account, _Tree()), not row.get("deleted", False)
        if collection == KEYWORDS and is_live:
            tree.parents[row["id"]] = row["parent_id"]
            (tree.outdated.add if self._is_outdated(row) else tree.outdated.discard)(row["id"])
        elif collection == KEYWORDS:
            tree.parents.pop(row["id"], None)
            tree.outdated.discard(row["id"])
        elif collection == INFOS:
            (tree.infos.add if is_live else tree.infos.discard)(row["id"])
        elif collection == LINKS:
            (tree.links.add if is_live else tree.links.discard)((row["info_id"], row["keyword_id"]))

    def _is_outdated(self, row: Mapping[str, Any]) -> bool:
        forms = {form for name in (row["name"], *row["aliases"]) for form in self._name_keys_of(name)}
        return row["id"] != ROOT_ID and forms != set(row["normalized"])

    def find_problems(self) -> Iterator[RowProblem]:
        """Yield what is wrong with the tree of each account."""
        for account, tree in sorted(self._trees.items()):
            for rows, problem, advice in _find_problems(tree):
                if rows:
                    yield RowProblem(f"tree of {account}", problem, rows, advice)
            if tree.outdated:
                yield RowProblem(f"tree of {account}", _OUTDATED, sorted(tree.outdated), _KEY_ADVICE, is_note=True)

    def summarize(self) -> str | None:
        """Count keywords, infos and links."""
        trees = self._trees.values()
        keywords = sum(len(tree.parents) for tree in trees)
        if not keywords:
            return None
        infos, links = sum(len(tree.infos) for tree in trees), sum(len(tree.links) for tree in trees)
        return f"keywords: {keywords}, infos: {infos}, links: {links}; every parent and both ends of every link exist"


def _find_problems(tree: _Tree) -> list[tuple[list[str], str, str]]:
    parents = tree.parents
    orphans = sorted(child for child, parent in parents.items() if parent is not None and parent not in parents)
    tops = sorted(child for child, parent in parents.items() if parent is None and child != ROOT_ID)
    without_info = sorted(f"{info}:{keyword}" for info, keyword in tree.links if info not in tree.infos)
    # Links to the root are right before its row is written.
    keywords = {*parents, ROOT_ID}
    without_keyword = sorted(f"{info}:{keyword}" for info, keyword in tree.links if keyword not in keywords)
    return [
        ([ROOT_ID] if parents and parents.get(ROOT_ID, "") is not None else [], "there is no root", _ROOT_ADVICE),
        (tops, "hangs below nothing and is not the root", _ADVICE),
        (orphans, "its parent is not there", _ADVICE),
        (_find_cycles(parents), "hangs below itself", _ADVICE),
        (without_info, "a link whose info is not there", _LINK_ADVICE),
        (without_keyword, "a link whose keyword is not there", _LINK_ADVICE),
    ]


def _find_cycles(parents: Mapping[str, str | None]) -> list[str]:
    """Return every keyword that is in a cycle or below one."""
    is_endless: dict[str, bool] = {}
    for start in parents:
        path: dict[str, None] = {}
        node: str | None = start
        while node is not None and node in parents and node not in is_endless and node not in path:
            path[node] = None
            node = parents[node]
        is_endless |= dict.fromkeys(path, node is not None and (node in path or is_endless.get(node, False)))
    return sorted(keyword for keyword, endless in is_endless.items() if endless)
