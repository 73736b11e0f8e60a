"""The structure of a keyword tree as its rows tell it: one root, parents that exist, no cycle, links with two ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID
from knowhub.stores.files.doctor.findings import Finding, Severity, some_of

_ADVICE = "move it below a keyword that is there, or restore a snapshot from before; nothing repairs this by itself"
_ROOT_ADVICE = "restore a snapshot from before; nothing repairs this by itself"
_LINK_ADVICE = "unlink it, or undo what took its end away"


@dataclass(slots=True)
class TreeRead:
    """The newest rows of one account's tree: the parent of each live keyword, the live infos and links."""

    parents: dict[str, str | None] = field(default_factory=dict)
    infos: set[str] = field(default_factory=set)
    links: set[tuple[str, str]] = field(default_factory=set)

    def take(self, collection: str, row: Mapping[str, Any]) -> None:
        """Take in a row's newest content."""
        is_live = not row.get("deleted", False)
        if collection == KEYWORDS and is_live:
            self.parents[row["id"]] = row["parent_id"]
        elif collection == KEYWORDS:
            self.parents.pop(row["id"], None)
        elif collection == INFOS:
            (self.infos.add if is_live else self.infos.discard)(row["id"])
        elif collection == LINKS:
            (self.links.add if is_live else self.links.discard)((row["info_id"], row["keyword_id"]))


def tree_findings(trees: Mapping[str, TreeRead]) -> Iterator[Finding]:
    """Name what is wrong with the structure of each account's tree, the first few of each kind."""
    found = [finding for account, tree in sorted(trees.items()) for finding in _findings(account, tree)]
    keywords = sum(len(tree.parents) for tree in trees.values())
    if not found and keywords:
        infos, links = (sum(len(part) for part in parts) for parts in _sizes(trees))
        detail = f"keywords: {keywords}, infos: {infos}, links: {links}; every parent and both ends of every link exist"
        yield Finding(Severity.OK, "tree", detail)
    yield from found


def _sizes(trees: Mapping[str, TreeRead]) -> tuple[list[set[str]], list[set[tuple[str, str]]]]:
    return [tree.infos for tree in trees.values()], [tree.links for tree in trees.values()]


def _findings(account: str, tree: TreeRead) -> Iterator[Finding]:
    parents = tree.parents
    orphans = sorted(child for child, parent in parents.items() if parent is not None and parent not in parents)
    tops = sorted(child for child, parent in parents.items() if parent is None and child != ROOT_ID)
    loose = sorted(f"{info}:{keyword}" for info, keyword in tree.links if info not in tree.infos)
    # The root is there before it is made.
    there = {*parents, ROOT_ID}
    dangling = sorted(f"{info}:{keyword}" for info, keyword in tree.links if keyword not in there)
    kinds = [
        ([ROOT_ID] if parents and parents.get(ROOT_ID, "") is not None else [], "there is no root", _ROOT_ADVICE),
        (tops, "hangs below nothing and is not the root", _ADVICE),
        (orphans, "its parent is not there", _ADVICE),
        (_cycles(parents), "hangs below itself", _ADVICE),
        (loose, "a link whose info is not there", _LINK_ADVICE),
        (dangling, "a link whose keyword is not there", _LINK_ADVICE),
    ]
    for names, what, advice in kinds:
        if names:
            yield Finding(Severity.PROBLEM, f"tree of {account}", f"{what}: {some_of(names)}", advice)


def _cycles(parents: Mapping[str, str | None]) -> list[str]:
    """Return every keyword from which going up never ends."""
    ends: dict[str, bool] = {}
    for begin in parents:
        walked: dict[str, None] = {}
        node: str | None = begin
        while node is not None and node in parents and node not in ends and node not in walked:
            walked[node] = None
            node = parents[node]
        is_endless = node is not None and (node in walked or ends.get(node, False))
        ends |= dict.fromkeys(walked, is_endless)
    return sorted(child for child, is_endless in ends.items() if is_endless)
