"""The keywords that are offered for a query: those that share words with it, and the list that a model is shown."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.prompts import PromptCandidate
from knowhub.keywords.tree import find_by_term, find_by_token, list_children

MAX_PATH = 400
MAX_DESCRIPTION = 300
NO_DESCRIPTION = "无描述"
_PATH_HEAD = 100
_MAX_WALKED = 20_000


class VisibleTree:
    """The tree as a caller sees it at one moment; hidden keywords do not exist in it."""

    def __init__(self, view: View, ctx: RequestContext) -> None:
        self.view = view
        self._ctx = ctx

    def is_visible(self, node: Node) -> bool:
        """Return whether the caller sees a keyword. The root is always visible."""
        return node.live and (node.id == ROOT_ID or self._ctx.sees(node.audience))

    def get_node(self, keyword_id: str) -> Node | None:
        """Return a keyword; None if it is deleted, hidden or unknown."""
        node = tree.get_live_node(self.view, keyword_id)
        return node if node is not None and self.is_visible(node) else None

    def list_path(self, keyword_id: str) -> list[Node]:
        """Return the visible keywords from the root to this one; only the root if it does not exist."""
        path = [node for node in tree.get_path(self.view, keyword_id) if self.is_visible(node)]
        return path or [self.get_node(ROOT_ID) or tree.ROOT_NODE]

    def is_leaf(self, keyword_id: str) -> bool:
        """Return whether a keyword has no visible descendants."""
        return not self.list_descendants([keyword_id], 1)

    def list_first_candidates(self, recent: Iterable[str], limit: int) -> list[Node]:
        """Return the candidates of round one: recent matches (at most half), then the tree, breadth first."""
        pinned = self._list_recent(recent, limit // 2)
        tops = drop_descendants(self.view, [ROOT_ID, *(node.id for node in pinned)])
        return [*pinned, *self.list_descendants(tops, limit - len(pinned), skip=pinned)]

    def list_descendants(self, keyword_ids: Sequence[str], limit: int, skip: Iterable[Node] = ()) -> list[Node]:
        """Return up to `limit` descendants of these keywords, breadth first, taking turns between them.

        Hidden keywords are walked through, but not returned.
        """
        shown = {node.id for node in skip}
        found: list[Node] = []
        walked = {ROOT_ID}
        level: Iterable[Node] = _interleave([list_children(self.view, keyword_id) for keyword_id in keyword_ids])
        while limit > len(found):
            passed: list[Node] = []
            for node in level:
                if node.id in walked:
                    continue
                walked.add(node.id)
                passed.append(node)
                if node.id not in shown and self.is_visible(node):
                    found.append(node)
                if len(found) == limit or len(walked) > _MAX_WALKED:
                    return found
            if not passed:
                return found
            level = (child for node in passed for child in list_children(self.view, node.id))
        return found

    def make_candidate(self, node: Node, *, described: bool = False) -> PromptCandidate:
        """Return a keyword as a prompt shows it, with its path below the root."""
        names = [item.name for item in self.list_path(node.id) if item.id != ROOT_ID]
        return PromptCandidate(
            node.id, node.version, node.name, join_path(names), self._get_description(node, described)
        )

    def _list_recent(self, recent: Iterable[str], limit: int) -> list[Node]:
        nodes = (self.get_node(keyword_id) for keyword_id in recent)
        return [node for node in nodes if node is not None and node.id != ROOT_ID][: max(limit, 0)]

    def _get_description(self, node: Node, described: bool) -> str | None:  # noqa: FBT001 -- named at the one call
        if not described:
            return None
        row = self.view.get(KEYWORDS, node.id) if node.is_described else None
        return str(row["description"])[:MAX_DESCRIPTION] if row is not None else NO_DESCRIPTION


def drop_descendants(view: View, keyword_ids: Sequence[str]) -> list[str]:
    """Return the keywords that are not descendants of another of these."""
    given = dict.fromkeys(keyword_ids)
    return [item for item in given if not any(above.id in given for above in tree.get_path(view, item)[:-1])]


def join_path(names: Sequence[str]) -> str:
    """Join names to a path; the middle of a very long path is left out."""
    text = " / ".join(names)
    return text if len(text) <= MAX_PATH else f"{text[:_PATH_HEAD]} … {text[_PATH_HEAD + 3 - MAX_PATH :]}"


def _interleave(rows: Sequence[Iterable[Node]]) -> Iterator[Node]:
    # A wide target of a jump must not fill the list alone.
    return (node for turn in zip_longest(*rows) for node in turn if node is not None)


OFFERED = 10
_MAX_TERMS = 32
_NODES_PER_TERM = 200
_MAX_POOL = 1_000
_MAX_NAMES = 20
_MAX_TOKEN_CHARS = 48
_PART_CHARS = range(2, 13)
_MIN_ASCII_PART_CHARS = 3
_MIN_ASCII_SHARE = 0.4
_WHOLE_NAME = math.log(1 + _NODES_PER_TERM)


def find_word_candidates(
    view: View, ctx: RequestContext, text: KeywordText, query: str, limit: int = OFFERED
) -> list[Node]:
    """Return up to `limit` visible keywords that share words with the query, the best first.

    A shared word counts more the rarer it is. A name that contains the query, or is contained in it, counts more the
    less is left over. Ties go to fewer words, then to the older keyword. The work is bounded: the 32 rarest words, 200
    keywords each, 1,000 in all.
    """
    pool = _WordCandidates(ctx)
    tokens = [token[:_MAX_TOKEN_CHARS] for token in text.tokens(query)]
    for token in tokens:
        for part in _list_parts(token):
            for node in find_by_token(view, part)[:_NODES_PER_TERM]:
                pool.add(node, 0.0)
    for nodes in _sort_by_frequency(view, text.terms(query)):
        weight = math.log(1 + _NODES_PER_TERM / len(nodes))
        for node in nodes:
            pool.add(node, weight)
    for node in pool.list_nodes():
        closest = max((_get_overlap(token, own) for token in tokens for own in node.tokens[:_MAX_NAMES]), default=0.0)
        pool.add(node, _WHOLE_NAME * closest)
    return pool.list_best(limit)


class _WordCandidates:
    """The visible candidates with their scores."""

    def __init__(self, ctx: RequestContext) -> None:
        self._ctx = ctx
        self._scores: dict[str, float] = {}
        self._nodes: dict[str, Node] = {}

    def add(self, node: Node, weight: float) -> None:
        if node.id in self._scores:
            self._scores[node.id] += weight
        elif len(self._nodes) < _MAX_POOL and node.id != ROOT_ID and self._ctx.sees(node.audience):
            self._nodes[node.id] = node
            self._scores[node.id] = weight

    def list_nodes(self) -> Sequence[Node]:
        return list(self._nodes.values())

    def list_best(self, limit: int) -> list[Node]:
        return sorted(self._nodes.values(), key=self._rank)[:limit]

    def _rank(self, node: Node) -> tuple[float, int, int]:
        return -self._scores[node.id], len(node.terms), node.ordinal


def _list_parts(token: str) -> Iterator[str]:
    """Yield the possible names inside `token`."""
    for length in _PART_CHARS:
        for start in range(len(token) - length + 1):
            part = token[start : start + length]
            if part != token and _is_significant(part, token):
                yield part


def _sort_by_frequency(view: View, terms: Sequence[str]) -> list[Sequence[Node]]:
    posted = [(term, find_by_term(view, term, _NODES_PER_TERM)) for term in terms[:_MAX_TERMS]]
    return [nodes for _, nodes in sorted(posted, key=lambda item: (len(item[1]), item[0])) if nodes]


def _get_overlap(left: str, right: str) -> float:
    """Return the share of the longer form that the shorter one covers; 0 if it is not a part of it."""
    shorter, longer = sorted((left, right), key=len)
    return len(shorter) / len(longer) if shorter in longer and _is_significant(shorter, longer) else 0.0


def _is_significant(part: str, whole: str) -> bool:
    # Two Chinese characters are a word; two Latin letters occur in half of all words.
    if not part.isascii():
        return len(part) >= _PART_CHARS.start
    return len(part) >= _MIN_ASCII_PART_CHARS and len(part) >= _MIN_ASCII_SHARE * len(whole)
