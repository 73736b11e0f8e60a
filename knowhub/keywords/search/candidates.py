"""The keywords that are offered for a query: those that share words with it, and the list that a model is shown."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.prompts import NearKeywordIds, OutlineLine, PromptCandidate
from knowhub.keywords.tree import BY_NAME, BY_PINYIN, find_by_term

MAX_PATH = 400
MAX_DESCRIPTION = 300
MORE_NAMES = 1_000
MORE_CHARS = 24_000
_PATH_HEAD = 100
_MAX_WALKED = 20_000
# Of the first list, the share for the query's own words and the recent matches; the rest shows the tree.
_PINNED_SHARE = 0.4
# What a line of an outline costs in a prompt beside the name.
_LINE_CHARS = 14
_UPPER_LEVELS = 2


@dataclass(frozen=True, slots=True)
class TreePage:
    """The keywords of one round. `upper` are those of the two levels below the start, without recent matches.

    `next_offset` is where the next page begins; None if this is the last.
    """

    nodes: Sequence[Node]
    upper: Sequence[Node]
    next_offset: int | None


class VisibleTree:
    """The tree as a caller sees it at one moment; hidden keywords do not exist in it."""

    def __init__(self, view: View, ctx: RequestContext) -> None:
        self.view = view
        self.ctx = ctx

    def is_visible(self, node: Node) -> bool:
        """Return whether the caller sees a keyword."""
        return node.live and self.ctx.sees(node.audience)

    def get_node(self, keyword_id: str) -> Node | None:
        """Return a keyword; None if it is deleted, hidden or unknown."""
        return rendering.get_visible_node(self.view, self.ctx, keyword_id)

    def list_path(self, keyword_id: str) -> list[Node]:
        """Return the visible keywords from the root to this one; only the root if it does not exist."""
        return rendering.list_visible_path(self.view, self.ctx, keyword_id) or [tree.ROOT_NODE]

    def format_path(self, node: Node) -> str:
        """Return the names from the top of the tree down to a keyword."""
        return join_path([item.name for item in self.list_path(node.id) if item.id != ROOT_ID])

    def is_leaf(self, keyword_id: str) -> bool:
        """Return whether a keyword has no visible descendants."""
        return next(self._walk([keyword_id]), None) is None

    def list_first_page(self, near: NearKeywordIds, recent: Iterable[str], limit: int) -> TreePage:
        """Return what round one shows: keywords near the query, recent matches, and the top of the tree.

        The next page begins at the same place whatever was recent, so that its decision can be reused.
        """
        walked = list(islice(self._walk([ROOT_ID]), limit + 1))
        max_pinned = int(limit * _PINNED_SHARE)
        named = [*near.by_name[: max_pinned // 2], *near.by_text[: max_pinned // 4], *recent, *near.by_name]
        pinned = [node for node in map(self.get_node, named) if node is not None and node.id != ROOT_ID]
        nodes = {node.id: node for node in list({node.id: node for node in pinned}.values())[:max_pinned]}
        for _, node in walked:
            if len(nodes) < limit:
                nodes.setdefault(node.id, node)
        has_more = len(walked) > limit or any(node.id not in nodes for _, node in walked)
        next_offset = max(limit - max_pinned, 1) if has_more else None
        return TreePage(list(nodes.values()), _list_upper(walked[:limit]), next_offset)

    def list_page(
        self, keyword_ids: Sequence[str], limit: int, offset: int = 0, max_chars: float = math.inf
    ) -> TreePage:
        """Return descendants of these keywords from `offset` on, breadth first, taking turns between them.

        They are at most `limit`, and their outline has about `max_chars` characters in a prompt.
        """
        shown: list[tuple[int, Node]] = []
        walked = islice(self._walk(keyword_ids), offset, None)
        has_more = False
        for level, node in walked:
            max_chars -= len(node.name) + level + _LINE_CHARS
            has_more = len(shown) == limit or (bool(shown) and max_chars < 0)
            if has_more:
                break
            shown.append((level, node))
        next_offset = offset + len(shown) if has_more else None
        return TreePage([node for _, node in shown], _list_upper(shown), next_offset)

    def make_outline(self, nodes: Sequence[Node]) -> list[OutlineLine]:
        """Return keywords with all that is above them, each parent before its children."""
        below: dict[str, list[str]] = {}
        listed: dict[str, Node] = {}
        for node in nodes:
            path = [item for item in self.list_path(node.id) if item.id != ROOT_ID]
            for above, item in zip([None, *path], path, strict=False):
                if item.id not in listed:
                    listed[item.id] = item
                    below.setdefault(above.id if above is not None else ROOT_ID, []).append(item.id)
        lines: list[OutlineLine] = []
        waiting = [(0, keyword_id) for keyword_id in reversed(below.get(ROOT_ID, []))]
        while waiting:
            level, keyword_id = waiting.pop()
            node = listed[keyword_id]
            children = rendering.count_visible_children(self.view, self.ctx, keyword_id)
            lines.append(OutlineLine(keyword_id, " ".join(node.name.split()), level, children))
            waiting += [(level + 1, child_id) for child_id in reversed(below.get(keyword_id, []))]
        return lines

    def make_candidate(self, node: Node, *, described: bool = False) -> PromptCandidate:
        """Return a keyword as a prompt shows it, with its path below the root."""
        row = self.view.get(KEYWORDS, node.id) if described and node.is_described else None
        return PromptCandidate(
            node.id,
            node.name,
            self.format_path(node),
            "" if row is None else " ".join(str(row["description"]).split())[:MAX_DESCRIPTION],
            rendering.count_visible_children(self.view, self.ctx, node.id),
            rendering.count_visible_infos(self.view, self.ctx, node.id),
        )

    def _walk(self, keyword_ids: Sequence[str]) -> Iterator[tuple[int, Node]]:
        """Yield the visible descendants with their level below the start, breadth first.

        Hidden keywords are walked through, but not yielded.
        """
        walked = tree.walk(self.view, keyword_ids, _MAX_WALKED)
        return ((level, node) for level, node in walked if self.is_visible(node))


def _list_upper(walked: Iterable[tuple[int, Node]]) -> list[Node]:
    return [node for level, node in walked if level <= _UPPER_LEVELS]


def join_path(names: Sequence[str]) -> str:
    """Join names to a path; the middle of a very long path is left out."""
    text = " / ".join(names)
    return text if len(text) <= MAX_PATH else f"{text[:_PATH_HEAD]} … {text[_PATH_HEAD + 3 - MAX_PATH :]}"


MAX_BY_NAME = 10
_MAX_TERMS = 32
_NODES_PER_TERM = 200
_MAX_POOL = 1_000
_MAX_NAMES = 20
_MAX_KEY_CHARS = 48
_PART_CHARS = range(2, 13)
_MIN_ASCII_PART_CHARS = 3
_MIN_ASCII_SHARE = 0.4
_WHOLE_NAME = math.log(1 + _NODES_PER_TERM)
_SPELT = 100.0


def find_word_candidates(view: View, ctx: RequestContext, text: KeywordText, query: str) -> list[Node]:
    """Return up to ten visible keywords that share words with the query, the best first.

    Names whose pinyin initials are the query come first. A shared word counts more the rarer it is. A name that
    contains the query, or is contained in it, counts more the less is left over. Ties go to fewer words, then to the
    older keyword. The work is bounded: the 32 rarest words, 200 keywords each, 1,000 in all.
    """
    scores: dict[str, float] = {}
    found: dict[str, Node] = {}

    def add(nodes: Sequence[Node], weight: float) -> None:
        for node in nodes:
            if node.id in scores:
                scores[node.id] += weight
            elif len(found) < _MAX_POOL and node.id != ROOT_ID and ctx.sees(node.audience):
                found[node.id], scores[node.id] = node, weight

    name_keys = [name_key[:_MAX_KEY_CHARS] for name_key in text.name_keys(query)]
    for name_key in name_keys:
        add(view.lookup(BY_PINYIN, name_key)[:_NODES_PER_TERM], _SPELT)
        for part in _list_parts(name_key):
            add(view.lookup(BY_NAME, part)[:_NODES_PER_TERM], 0.0)
    # A lone digit is shared by too much.
    terms = [term for term in text.terms(query) if len(term) > 1 or not term.isdigit()][:_MAX_TERMS]
    posted = [(term, find_by_term(view, term, _NODES_PER_TERM)) for term in terms]
    for _, nodes in sorted(posted, key=lambda item: (len(item[1]), item[0])):
        if nodes:
            add(nodes, math.log(1 + _NODES_PER_TERM / len(nodes)))
    for node in found.values():
        closest = max(
            (_get_overlap(name_key, own) for name_key in name_keys for own in node.name_keys[:_MAX_NAMES]), default=0.0
        )
        scores[node.id] += _WHOLE_NAME * closest
    return sorted(found.values(), key=lambda node: (-scores[node.id], len(node.terms), node.ordinal))[:MAX_BY_NAME]


def _list_parts(name_key: str) -> Iterator[str]:
    """Yield the possible names inside a name."""
    for length in _PART_CHARS:
        for start in range(len(name_key) - length + 1):
            part = name_key[start : start + length]
            if part != name_key and _is_significant(part, name_key):
                yield part


def _get_overlap(left: str, right: str) -> float:
    """Return the share of the longer form that the shorter one covers; 0 if it is not a part of it."""
    shorter, longer = sorted((left, right), key=len)
    return len(shorter) / len(longer) if shorter in longer and _is_significant(shorter, longer) else 0.0


def _is_significant(part: str, whole: str) -> bool:
    # Two Chinese characters are a word; two Latin letters occur in half of all words.
    if not part.isascii():
        return len(part) >= _PART_CHARS.start
    return len(part) >= _MIN_ASCII_PART_CHARS and len(part) >= _MIN_ASCII_SHARE * len(whole)
