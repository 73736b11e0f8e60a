"""The in-memory maps behind the queries of `knowledge/ports.py`, fed by the log and by nothing else."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import TypeVar

from knowhub.core.operation import Row
from knowhub.knowledge.heads import head_of
from knowhub.knowledge.model import Head, ListQuery

KeyT = TypeVar("KeyT")


class KnowledgeCatalog:
    """Heads of one account's records, by id, by duplicate key, by facet and by what they supersede."""

    def __init__(self, below: "KnowledgeCatalog | None" = None) -> None:
        # What overlays another catalog goes on counting where that ends, and is never listed.
        self._first_ordinal = len(below) if below is not None else 0
        self._is_listed = below is None
        self._heads: dict[str, Head] = {}
        self._ids: list[str] = []
        self._by_text_num: dict[int, str] = {}
        self._by_key: dict[bytes, tuple[str, ...]] = {}
        self._by_facet: dict[str, list[int]] = {}
        self._superseders: dict[str, tuple[str, ...]] = {}

    def head_for(self, row: Row, text_num: int, earlier: Head | None = None) -> Head:
        """Make the head of a row's new content. `earlier` is its head below, for a catalog that overlays another."""
        return head_of(row, self._first_ordinal + len(self._ids), text_num, self._heads.get(row["id"]) or earlier)

    def put(self, head: Head) -> None:
        """Take in a record's new head."""
        known = self._heads.get(head.id)
        self._heads[head.id] = head
        # A record that stands below an overlay has its place there already: only a new one takes the next.
        if head.ordinal == self._first_ordinal + len(self._ids):
            self._ids.append(head.id)
        if known is None or known.text_num != head.text_num:
            self._index_text(head, known)
        if known is None or known.supersedes != head.supersedes:
            self._index_supersedes(head, known)

    def head(self, knowledge_id: str) -> Head | None:
        return self._heads.get(knowledge_id)

    def by_text_num(self, text_num: int) -> Head | None:
        """Return the record whose searched text is still the one of `text_num`; None when that is outdated."""
        knowledge_id = self._by_text_num.get(text_num)
        return None if knowledge_id is None else self._heads[knowledge_id]

    def duplicate_ids(self, duplicate_key: bytes) -> Sequence[str]:
        return self._by_key.get(duplicate_key, ())

    def superseder_ids(self, knowledge_id: str) -> Sequence[str]:
        return self._superseders.get(knowledge_id, ())

    def live_heads(self) -> Iterator[Head]:
        return (head for head in map(self._heads.__getitem__, self._ids) if head.live)

    def page(self, query: ListQuery) -> list[Head]:
        """Return the newest heads, live or as asked for, that pass every filter, walking the rarest's records only."""
        found: list[Head] = []
        for ordinal in self._newest_first(query):
            head = self._heads[self._ids[ordinal]]
            if _is_asked_for(head, query) and all(not group.isdisjoint(head.facets) for group in query.filters):
                found.append(head)
                if len(found) == query.limit:
                    break
        return found

    def __len__(self) -> int:
        return len(self._heads)

    def _newest_first(self, query: ListQuery) -> Iterable[int]:
        below = len(self._ids) if query.before is None else min(query.before, len(self._ids))
        if not query.filters:
            return range(below - 1, -1, -1)
        rarest = min(query.filters, key=lambda group: sum(len(self._by_facet.get(name, ())) for name in group))
        postings = [self._descending(name, below) for name in rarest if name in self._by_facet]
        return _distinct(merge(*postings, reverse=True))

    def _descending(self, facet: str, below: int) -> Iterator[int]:
        ordinals = self._by_facet[facet]
        return (ordinals[index] for index in range(bisect_left(ordinals, below) - 1, -1, -1))

    def _index_text(self, head: Head, known: Head | None) -> None:
        if known is not None:
            self._by_text_num.pop(known.text_num, None)
            _remove(self._by_key, known.duplicate_key, head.id)
        self._by_text_num[head.text_num] = head.id
        self._by_key[head.duplicate_key] = (*self._by_key.get(head.duplicate_key, ()), head.id)
        if not self._is_listed:
            return
        # A facet that a record lost stays behind: reading checks the head, and a list is not searched for it.
        for name in head.facets - known.facets if known else head.facets:
            ordinals = self._by_facet.setdefault(name, [])
            if not ordinals or ordinals[-1] < head.ordinal:
                ordinals.append(head.ordinal)
            elif ordinals[bisect_left(ordinals, head.ordinal)] != head.ordinal:
                insort(ordinals, head.ordinal)

    def _index_supersedes(self, head: Head, known: Head | None) -> None:
        if known is not None and known.supersedes is not None:
            _remove(self._superseders, known.supersedes, head.id)
        if head.supersedes is not None:
            self._superseders[head.supersedes] = (*self._superseders.get(head.supersedes, ()), head.id)


def _is_asked_for(head: Head, query: ListQuery) -> bool:
    # One that was merged into another neither lives nor was deleted.
    if query.is_merged:
        return head.merged_into is not None
    return not head.live and head.merged_into is None if query.is_deleted else head.live


def _remove(index: dict[KeyT, tuple[str, ...]], key: KeyT, knowledge_id: str) -> None:
    rest = tuple(other for other in index.get(key, ()) if other != knowledge_id)
    if rest:
        index[key] = rest
    else:
        index.pop(key, None)


def _distinct(ordinals: Iterable[int]) -> Iterator[int]:
    last = -1
    for ordinal in ordinals:
        if ordinal != last:
            yield ordinal
        last = ordinal
