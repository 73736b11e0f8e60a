"""What a model is shown of the tree: a flat list, recent matches first, then breadth first (seed 000 §6, C-22)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from knowhub.keywords.ports import KeywordView
from knowhub.keywords.prompts import Candidate

MAX_PATH = 400
MAX_DESCRIPTION = 300
NO_DESCRIPTION = "无描述"
_PATH_HEAD = 100
_MAX_WALKED = 20_000


class Eyes:
    """What one caller sees of one state of the tree; whatever they do not see is not there."""

    def __init__(self, view: KeywordView, ctx: RequestContext) -> None:
        self.view = view
        self._ctx = ctx

    def sees(self, node: Node) -> bool:
        """Tell whether a keyword exists for the caller. Everybody sees the root."""
        return node.live and (node.id == ROOT_ID or self._ctx.sees(node.audience))

    def node(self, keyword_id: str) -> Node | None:
        """Return a keyword that is there now; None when it is deleted, hidden or was never made."""
        node = tree.live_node(self.view, keyword_id)
        return node if node is not None and self.sees(node) else None

    def path(self, keyword_id: str) -> list[Node]:
        """Return the visible keywords from the root to this one; the root alone when it is gone."""
        path = [node for node in tree.path_of(self.view, keyword_id) if self.sees(node)]
        return path or [self.node(ROOT_ID) or tree.ROOT_NODE]

    def is_leaf(self, keyword_id: str) -> bool:
        """Tell whether nothing that the caller sees hangs below."""
        return not self.below([keyword_id], 1)

    def first_view(self, recent: Iterable[str], limit: int) -> list[Node]:
        """Return what round one shows: recent matches, half of the places at most, then the tree from its top.

        Recent matches are pinned before the walk: each hangs below one of the root's children, and would be
        swallowed by it if both were only places to begin at (C-22).
        """
        pinned = self._pinned(recent, limit // 2)
        tops = dedup_ancestors(self.view, [ROOT_ID, *(node.id for node in pinned)])
        return [*pinned, *self.below(tops, limit - len(pinned), skip=pinned)]

    def below(self, keyword_ids: Sequence[str], limit: int, skip: Iterable[Node] = ()) -> list[Node]:
        """Return up to `limit` keywords below these, breadth first, those of several in turns (KT-118, KT-125).

        What the caller does not see is walked through, not shown. The walk ends when the places are taken.
        """
        shown = {node.id for node in skip}
        found: list[Node] = []
        walked = {ROOT_ID}
        level: Iterable[Node] = _in_turns([self.view.children(keyword_id) for keyword_id in keyword_ids])
        while limit > len(found):
            passed: list[Node] = []
            for node in level:
                if node.id in walked:
                    continue
                walked.add(node.id)
                passed.append(node)
                if node.id not in shown and self.sees(node):
                    found.append(node)
                if len(found) == limit or len(walked) > _MAX_WALKED:
                    return found
            if not passed:
                return found
            level = (child for node in passed for child in self.view.children(node.id))
        return found

    def candidate(self, node: Node, *, described: bool = False) -> Candidate:
        """Return a keyword as prompts show it, with the names on its path below the root."""
        names = [one.name for one in self.path(node.id) if one.id != ROOT_ID]
        return Candidate(node.id, node.version, node.name, path_text(names), self._description(node, described))

    def _pinned(self, recent: Iterable[str], limit: int) -> list[Node]:
        nodes = (self.node(keyword_id) for keyword_id in recent)
        return [node for node in nodes if node is not None and node.id != ROOT_ID][: max(limit, 0)]

    def _description(self, node: Node, described: bool) -> str | None:  # noqa: FBT001 -- named at the one call
        if not described:
            return None
        row = self.view.get(KEYWORDS, node.id) if node.is_described else None
        return str(row["description"])[:MAX_DESCRIPTION] if row is not None else NO_DESCRIPTION


def dedup_ancestors(view: KeywordView, keyword_ids: Sequence[str]) -> list[str]:
    """Return the keywords that hang below no other of these: the tops of independent subtrees (KT-117)."""
    given = dict.fromkeys(keyword_ids)
    return [one for one in given if not any(above.id in given for above in tree.path_of(view, one)[:-1])]


def path_text(names: Sequence[str]) -> str:
    """Join names to a path; the middle of a very long one is left out, so that no prompt grows with the depth."""
    text = " / ".join(names)
    return text if len(text) <= MAX_PATH else f"{text[:_PATH_HEAD]} … {text[_PATH_HEAD + 3 - MAX_PATH :]}"


def _in_turns(rows: Sequence[Iterable[Node]]) -> Iterator[Node]:
    # One wide target of a jump must not fill every place before the others had one.
    return (node for turn in zip_longest(*rows) for node in turn if node is not None)
