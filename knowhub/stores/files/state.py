"""The acknowledged rows in memory, and the view of them that a decision or a read gets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from knowhub.core.operation import Operation, Row
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.model import Head, ListQuery
from knowhub.stores.files.knowledge_catalog import KnowledgeCatalog
from knowhub.stores.files.log_line import RawChange

_ROWS_PER_OPERATION_BITS = 20


class AccountState:
    """Every row of one account as JSON text, tombstones too, with the maps that its queries need.

    `below` is the state that this one overlays, for what is decided and not yet acknowledged.
    """

    def __init__(self, below: "AccountState | None" = None) -> None:
        self._below = below
        self.rows: dict[str, dict[str, bytes]] = {}
        self.undos: dict[str, str] = {}
        self.knowledge: KnowledgeCatalog = KnowledgeCatalog(below.knowledge if below else None)

    def apply(self, seq: int, changes: Sequence[RawChange], decided: "AccountState | None" = None) -> None:
        """Take in one operation; `decided` is the overlay in which it was decided, whose work is not done again."""
        for index, change in enumerate(changes):
            self.rows.setdefault(change.collection, {})[change.id] = change.after
            if change.collection == knowledge.COLLECTION:
                head = decided.knowledge.head(change.id) if decided else None
                self.knowledge.put(head or self._head(change, text_number(seq, index)))

    def note_undo(self, operation: Operation) -> None:
        """Remember which operation undid which."""
        if operation.undo_of is not None:
            self.undos[operation.undo_of] = operation.operation_id

    def _head(self, change: RawChange, text_num: int) -> Head:
        earlier = self._below.knowledge.head(change.id) if self._below else None
        return self.knowledge.head_for(change.after_row, text_num, earlier)


def text_number(seq: int, index: int) -> int:
    """Name one change of one operation by a number that is the same in every process."""
    return (seq << _ROWS_PER_OPERATION_BITS) | index


@dataclass(frozen=True, slots=True)
class StateView:
    """One account at one moment: what is acknowledged, and over it what this batch has decided so far."""

    state: AccountState
    now: float
    overlay: AccountState | None = None

    def raw(self, collection: str, row_id: str) -> bytes | None:
        if self.overlay is not None:
            pending = self.overlay.rows.get(collection, {}).get(row_id)
            if pending is not None:
                return pending
        return self.state.rows.get(collection, {}).get(row_id)

    def get(self, collection: str, row_id: str) -> Row | None:
        raw = self.raw(collection, row_id)
        return None if raw is None else orjson.loads(raw)

    def head(self, knowledge_id: str) -> Head | None:
        pending = self.overlay.knowledge.head(knowledge_id) if self.overlay is not None else None
        return pending or self.state.knowledge.head(knowledge_id)

    def duplicates(self, duplicate_key: bytes) -> Sequence[Head]:
        ids = list(self.state.knowledge.duplicate_ids(duplicate_key))
        if self.overlay is not None:
            ids += self.overlay.knowledge.duplicate_ids(duplicate_key)
        heads = map(self.head, dict.fromkeys(ids))
        return [head for head in heads if head is not None and head.live and head.duplicate_key == duplicate_key]

    def superseders(self, knowledge_id: str) -> Sequence[Head]:
        ids = list(self.state.knowledge.superseder_ids(knowledge_id))
        if self.overlay is not None:
            ids += self.overlay.knowledge.superseder_ids(knowledge_id)
        heads = map(self.head, dict.fromkeys(ids))
        return [head for head in heads if head is not None and head.live and head.supersedes == knowledge_id]

    def referrers(self, collection: str, row_id: str) -> Sequence[tuple[str, str]]:
        if collection != knowledge.COLLECTION:
            return []
        return [(knowledge.COLLECTION, head.id) for head in self.superseders(row_id)]

    def undone_by(self, operation_id: str) -> str | None:
        undo = self._undo_of(operation_id)
        # An undo that was itself undone does not count: of a chain of undos every second one does.
        counts, last = False, operation_id
        while (newer := self._undo_of(last)) is not None:
            counts, last = not counts, newer
        return undo if counts else None

    def page(self, query: ListQuery) -> Sequence[Head]:
        return self.state.knowledge.page(query)

    def live_heads(self) -> Iterator[Head]:
        return self.state.knowledge.live_heads()

    def _undo_of(self, operation_id: str) -> str | None:
        pending = self.overlay.undos.get(operation_id) if self.overlay is not None else None
        return pending or self.state.undos.get(operation_id)


@dataclass(frozen=True, slots=True)
class SearchableRecords:
    """What a search index reads of one account's records."""

    state: AccountState

    def head(self, knowledge_id: str) -> Head | None:
        return self.state.knowledge.head(knowledge_id)

    def by_text_num(self, text_num: int) -> Head | None:
        return self.state.knowledge.by_text_num(text_num)

    def row(self, knowledge_id: str) -> Row:
        row: Row = orjson.loads(self.state.rows[knowledge.COLLECTION][knowledge_id])
        return row

    def heads(self) -> Iterator[Head]:
        return self.state.knowledge.live_heads()

    def seq_of(self, text_num: int) -> int:
        return text_num >> _ROWS_PER_OPERATION_BITS
