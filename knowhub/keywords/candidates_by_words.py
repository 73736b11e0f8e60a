"""Keywords that share words with a query, offered where no name is the query and no model chose one."""

import math
from collections.abc import Iterator, Sequence

from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.ports import KeywordText, KeywordView

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


def candidates_by_words(
    view: KeywordView, ctx: RequestContext, text: KeywordText, query: str, limit: int = OFFERED
) -> list[Node]:
    """Return up to `limit` keywords that the caller sees, the nearest first; the order is the same every time.

    A keyword counts for each word that it shares with the query, the more the fewer have that word; and for a name
    that stands in the query, or holds it, the more the less is left over. Of equals the one with fewer words is
    first, then the older one. The work is bounded: 32 words, the rarest first, 200 keywords of
    each, 1,000 in all.
    """
    pool = _Pool(ctx)
    tokens = [token[:_MAX_TOKEN_CHARS] for token in text.tokens(query)]
    for token in tokens:
        for part in _parts(token):
            for node in view.by_token(part)[:_NODES_PER_TERM]:
                pool.add(node, 0.0)
    for nodes in _rarest_first(view, text.terms(query)):
        weight = math.log(1 + _NODES_PER_TERM / len(nodes))
        for node in nodes:
            pool.add(node, weight)
    for node in pool.nodes():
        closest = max((_closeness(token, own) for token in tokens for own in node.tokens[:_MAX_NAMES]), default=0.0)
        pool.add(node, _WHOLE_NAME * closest)
    return pool.best(limit)


class _Pool:
    """The keywords in question with what counts for each; those that the caller does not see never get in."""

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

    def nodes(self) -> Sequence[Node]:
        return list(self._nodes.values())

    def best(self, limit: int) -> list[Node]:
        return sorted(self._nodes.values(), key=self._rank)[:limit]

    def _rank(self, node: Node) -> tuple[float, int, int]:
        return -self._scores[node.id], len(node.terms), node.ordinal


def _parts(token: str) -> Iterator[str]:
    """Yield what a name inside `token` could be, the whole of it left out: that would be an exact hit."""
    for length in _PART_CHARS:
        for start in range(len(token) - length + 1):
            part = token[start : start + length]
            if part != token and _says_enough(part, token):
                yield part


def _rarest_first(view: KeywordView, terms: Sequence[str]) -> list[Sequence[Node]]:
    posted = [(term, view.by_term(term, _NODES_PER_TERM)) for term in terms[:_MAX_TERMS]]
    return [nodes for _, nodes in sorted(posted, key=lambda one: (len(one[1]), one[0])) if nodes]


def _closeness(left: str, right: str) -> float:
    """Return how much of the longer form the shorter one fills where it stands in it; 0 where it does not."""
    shorter, longer = sorted((left, right), key=len)
    return len(shorter) / len(longer) if shorter in longer and _says_enough(shorter, longer) else 0.0


def _says_enough(part: str, whole: str) -> bool:
    # Two Chinese characters are a word; two Latin letters stand in half of all words.
    if not part.isascii():
        return len(part) >= _PART_CHARS.start
    return len(part) >= _MIN_ASCII_PART_CHARS and len(part) >= _MIN_ASCII_SHARE * len(whole)
