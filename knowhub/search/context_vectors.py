"""The vectors of layered memories as their outbox and its worker see them: what is lacking, and what is brought."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from knowhub.context import uri
from knowhub.context.events import events_of
from knowhub.context.index.index_ports import Asked
from knowhub.context.index_model import EventType, IndexRecord, OutboxEvent
from knowhub.context.model import ContextHead, Level
from knowhub.core.embedding import Vector
from knowhub.core.operation import Operation
from knowhub.search.account_vectors import Waiting
from knowhub.search.following import Records, touches
from knowhub.search.texts import ContextTexts, collection_of, shortened
from knowhub.search.vector_index import VectorIndex
from knowhub.search.vectors import Matrix

# More than a keeper leaves unread in any case that is not lost anyway; what falls out shows in what is lacking.
_NOTED_OPERATIONS: Final = 10_000


class OperationLog(Protocol):
    """Operations by their number."""

    def at(self, seq: int) -> Operation | None: ...


class ContextVectors:
    """Implements `VectorStore` and `Backlog` over a `VectorIndex`, following the log behind it.

    The rows on the disk are of L0 texts alone. One is known by the number of the change that wrote its text: what has
    moved is another row with the same text, and needs no embedder for its vector.
    """

    def __init__(
        self,
        vectors: VectorIndex[ContextHead],
        records: Callable[[str], Records[ContextHead]],
        log: OperationLog,
    ) -> None:
        self._vectors = vectors
        self._records = records
        self._log = log
        self._texts = ContextTexts()
        self._noted: deque[int] = deque(maxlen=_NOTED_OPERATIONS)
        self._is_begun = False
        self._read: tuple[int, Mapping[str, OutboxEvent]] = (0, {})

    # what the log asks for

    def follow(self, account: str, seq: int, changes: Sequence[Any]) -> None:
        """Note an operation that asks for something. Called by the store, in order."""
        del account
        if self._is_begun and touches(changes, self._texts.collections):
            self._noted.append(seq)

    def begin(self) -> None:
        """Note operations from now on; see `Backlog.begin`."""
        self._is_begun = True

    @property
    def has_asked(self) -> bool:
        """Whether operations were noted and not read yet."""
        return bool(self._noted)

    async def next_asked(self, limit: int, known: Callable[[str, str], bool]) -> list[Asked]:
        """Return what operations ask for, as many as make up `limit`; where none is left, of what is lacking."""
        asked: list[Asked] = []
        while self._noted and len(asked) < limit:
            seq = self._noted.popleft()
            asked += [Asked(event, seq) for event in self._events_at(seq)]
            await asyncio.sleep(0)
        return asked or self._lacking(limit, known)

    def waiting(self, account: str) -> Iterator[ContextHead]:
        """Yield what has no vector yet and may get one."""
        vectors, records = self._vectors.accounts.get(account), self._records(account)
        heads = map(records.head, list(vectors.waiting) if vectors is not None else ())
        return (head for head in heads if head is not None)

    def lacked_since(self, account: str, address: str) -> int | None:
        """Return the operation that wrote the text that has no vector."""
        number = self.lacked(account, address)
        return None if number is None else self._records(account).seq_of(number)

    def give_up(self, account: str, address: str) -> None:
        """Count a node among what waits no more."""
        vectors = self._vectors.accounts.get(account)
        number = None if vectors is None else vectors.lacked(address)
        if vectors is not None and number is not None:
            vectors.refuse(Waiting(address, number, ""))

    def take_up(self, account: str | None = None, address: str | None = None) -> None:
        """Count what was given up among what waits again."""
        for name, vectors in self._vectors.accounts.items():
            if account in (None, name):
                vectors.retry_refused(address)

    # what the worker brings

    def lacked(self, account: str, address: str) -> int | None:
        """Return the number of a text that has no vector."""
        vectors = self._vectors.accounts.get(account)
        return None if vectors is None else vectors.lacked(address)

    async def embedded(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text; see `VectorStore.embedded`."""
        return await self._vectors.embedded([shortened(text) for text in texts])

    async def take_alike(self, account: str, records: Sequence[IndexRecord]) -> Sequence[IndexRecord]:
        """Give what has the text of something embedded that vector; return the others."""
        vectors = self._vectors.account(account)
        for record in records:
            vectors.retry_refused(record.uri)
        left = {one.row_id for one in await vectors.take_alike([_waiting(record) for record in records])}
        return [record for record in records if record.uri in left]

    async def upsert(self, account: str, records: Sequence[IndexRecord], vectors: "Sequence[Vector]") -> bool:
        """Write vectors, each for as long as its text stands; see `VectorStore.upsert`."""
        return not records or await self._vectors.account(account).take(list(map(_waiting, records)), vectors)

    async def delete_by_uri(self, account: str, address: str) -> None:
        """Nothing waits for it any more, and its row is skipped from then on, until the file is written anew."""
        vectors = self._vectors.accounts.get(account)
        head = self._records(account).head(address)
        if vectors is not None and (head is None or not head.live):
            vectors.drop(address)

    async def move_uri(self, account: str, from_uri: str, to_uri: str) -> None:
        """Give what now stands at and below `to_uri` the vectors of the texts that stood below `from_uri`."""
        del from_uri
        vectors, records = self._vectors.accounts.get(account), self._records(account)
        if vectors is None:
            return
        moved = [
            Waiting(address, number, self._texts.embedded(records.row(address)))
            for address, number in list(vectors.waiting.items())
            if address == to_uri or address.startswith(f"{to_uri}/")
        ]
        await vectors.take_alike(moved)

    async def search(
        self, account: str, query: Matrix, groups: Sequence[frozenset[str]], top_k: int, level: Level = Level.L0
    ) -> list[tuple[float, ContextHead]]:
        """Return the `top_k` nodes whose text is most like a query (CE-157); no other level has vectors."""
        if level is not Level.L0:
            return []
        return await self._vectors.search(account, np.asarray(query, np.float32), groups, _is_live, top_k)

    def _lacking(self, limit: int, known: Callable[[str, str], bool]) -> list[Asked]:
        asked: list[Asked] = []
        for name, vectors in self._vectors.accounts.items():
            for address, number in vectors.waiting.items():
                if len(asked) >= limit:
                    return asked
                if not known(name, address):
                    seq = self._records(name).seq_of(number)
                    asked.append(Asked(self._event_of(name, address, number, seq), seq))
        return asked

    def _event_of(self, account: str, address: str, number: int, seq: int) -> OutboxEvent:
        """Return the event that asked for a text; of an operation that the log has forgotten, one like it."""
        if self._read[0] != seq:
            texts = [event for event in self._events_at(seq) if event.event_type is not EventType.UPSERT_RELATION]
            self._read = (seq, {event.uri: event for event in texts})
        event = self._read[1].get(address)
        if event is not None:
            return event
        records = self._records(account)
        row = records.row(address)
        head = records.head(address)
        whose = {"account": account, "owner": row["owner"], "collection": collection_of(row)}
        event_id = uri.stable_hash(number, address, EventType.UPSERT_CONTEXT.value)
        created_at = 0.0 if head is None else head.updated_at
        return OutboxEvent(event_id, EventType.UPSERT_CONTEXT, address, whose, created_at=created_at)

    def _events_at(self, seq: int) -> list[OutboxEvent]:
        operation = self._log.at(seq)
        if operation is None:
            return []
        return events_of(operation.account, operation.operation_id, operation.timestamp, operation.changes)


def _waiting(record: IndexRecord) -> Waiting:
    return Waiting(record.uri, int(record.metadata["text_num"]), shortened(record.text))


def _is_live(head: ContextHead) -> bool:
    return head.live
