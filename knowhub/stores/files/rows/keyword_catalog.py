"""The keyword tree in memory: who hangs below whom, and by which tokens, spellings and words a keyword is found."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from knowhub.core import scopes
from knowhub.core.operation import Row
from knowhub.keywords.model import Node
from knowhub.keywords.tree import node_of

_Postings = dict[str, "int | array[int]"]


class KeywordCatalog:
    """The keywords of one account, deleted ones too.

    Keywords are numbered in the order of their creation, and postings hold numbers: a token of one keyword, which
    most are, costs no object of its own.
    """

    _first_ordinal = 0

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._ids: list[str] = []
        self._tokens: _Postings = {}
        self._pinyin: _Postings = {}
        self._terms: _Postings = {}
        self._children: dict[str, array[int]] = {}

    def node_for(self, row: Row, earlier: Node | None = None) -> Node:
        """Make the node of a row's new content. `earlier` is its node below, for a catalog that overlays another."""
        known = self._nodes.get(row["id"]) or earlier
        return node_of(row, known.ordinal if known else len(self), reach(row["owner"], tuple(row["scopes"])))

    def put(self, node: Node) -> None:
        """Take in a keyword's new content."""
        known = self._nodes.get(node.id)
        self._nodes[node.id] = node
        if node.ordinal == len(self):
            self._ids.append(node.id)
        old, new = (known if known and known.live else None), (node if node.live else None)
        _repost(self._tokens, node.ordinal, old.tokens if old else (), new.tokens if new else ())
        _repost(self._pinyin, node.ordinal, old.pinyin if old else (), new.pinyin if new else ())
        _repost(self._terms, node.ordinal, old.terms if old else (), new.terms if new else ())
        _hang(self._children, node.ordinal, old.parent_id if old else None, new.parent_id if new else None)

    def node(self, keyword_id: str) -> Node | None:
        return self._nodes.get(keyword_id)

    def by_token(self, token: str) -> Iterable[Node]:
        return map(self._at, _posted(self._tokens, token))

    def by_pinyin(self, token: str) -> Iterable[Node]:
        return map(self._at, _posted(self._pinyin, token))

    def by_term(self, term: str, limit: int) -> Iterable[Node]:
        return map(self._at, islice(_posted(self._terms, term), limit))

    def children(self, keyword_id: str) -> Iterable[Node]:
        return map(self._at, self._children.get(keyword_id, ()))

    def child_ids(self, keyword_id: str) -> list[str]:
        return [self._ids[ordinal] for ordinal in self._children.get(keyword_id, ())]

    def child_count(self, keyword_id: str) -> int:
        return len(self._children.get(keyword_id, ()))

    def live_nodes(self) -> Iterator[Node]:
        return (node for node in map(self._nodes.__getitem__, self._ids) if node.live)

    def __len__(self) -> int:
        return self._first_ordinal + len(self._ids)

    def _at(self, ordinal: int) -> Node:
        return self._nodes[self._ids[ordinal]]


class PendingKeywords(KeywordCatalog):
    """What is decided and not yet written over a catalog: few keywords, so they are looked through one by one."""

    def __init__(self, below: KeywordCatalog) -> None:
        super().__init__()
        # It goes on counting where the catalog below ends.
        self._first_ordinal = len(below)

    def put(self, node: Node) -> None:
        self._nodes[node.id] = node
        if node.ordinal == len(self):
            self._ids.append(node.id)

    def by_token(self, token: str) -> Iterable[Node]:
        return [node for node in self._nodes.values() if node.live and token in node.tokens]

    def by_pinyin(self, token: str) -> Iterable[Node]:
        return [node for node in self._nodes.values() if node.live and token in node.pinyin]

    def by_term(self, term: str, limit: int) -> Iterable[Node]:
        return [node for node in self._nodes.values() if node.live and term in node.terms][:limit]

    def children(self, keyword_id: str) -> Iterable[Node]:
        return [node for node in self._nodes.values() if node.live and node.parent_id == keyword_id]

    def live_nodes(self) -> Iterator[Node]:
        return (node for node in self._nodes.values() if node.live)


@lru_cache(maxsize=65_536)
def reach(owner: str, own_scopes: tuple[str, ...]) -> tuple[str, tuple[str, ...], frozenset[str]]:
    """Return an owner, scopes and the audience that follows from them, the same objects for the same words."""
    return owner, own_scopes, scopes.audience(own_scopes, owner)


def _posted(postings: _Postings, key: str) -> "Sequence[int]":
    posted = postings.get(key, ())
    return (posted,) if isinstance(posted, int) else posted


def _repost(postings: _Postings, ordinal: int, old: Sequence[str], new: Sequence[str]) -> None:
    if old == new:
        return
    for key in old:
        posted = postings[key]
        if isinstance(posted, int) or len(posted) == 1:
            del postings[key]
        else:
            del posted[bisect_left(posted, ordinal)]
    for key in new:
        posted = postings.get(key, ordinal)
        if isinstance(posted, int):
            postings[key] = ordinal if posted == ordinal else array("I", sorted((posted, ordinal)))
        else:
            _put_in(posted, ordinal)


def _hang(children: "dict[str, array[int]]", ordinal: int, old: str | None, new: str | None) -> None:
    if old == new:
        return
    if old is not None:
        siblings = children[old]
        del siblings[bisect_left(siblings, ordinal)]
        if not siblings:
            del children[old]
    if new is not None:
        _put_in(children.setdefault(new, array("I")), ordinal)


def _put_in(ordinals: "array[int]", ordinal: int) -> None:
    if not ordinals or ordinals[-1] < ordinal:
        ordinals.append(ordinal)
    else:
        ordinals.insert(bisect_left(ordinals, ordinal), ordinal)
