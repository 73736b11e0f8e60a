"""The vectors of layered memories as their outbox and its worker see them: what is lacking, and what is brought."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from knowhub.context import uri
from knowhub.context.events import events_of
from knowhub.context.index.index_ports import IndexRequest
from knowhub.context.index_model import EventType, OutboxEvent, TextToEmbed
from knowhub.context.model import ContextSummary, Level
from knowhub.core.language_models import Vector
from knowhub.core.operation import Operation
from knowhub.search.account_vectors import PendingText
from knowhub.search.ports import Records
from knowhub.search.texts import ContextTexts, get_collection, truncate
from knowhub.search.vector_index import VectorIndex
from knowhub.search.vectors import Matrix

# More than a leader leaves unread in any case that is not lost anyway; what falls out shows in what is lacking.
_NOTED_OPERATIONS: Final = 10_000


class OperationLog(Protocol):
    """Operations by their number."""

    def at(self, seq: int) -> Operation | None: ...


class ContextVectors:
    """Implements `VectorStore` and `Backlog` with a `VectorIndex` and the log.

    Only L0 texts have vectors. A text is identified by the number of its change. A moved node keeps its text, so its
    vector is copied.
    """

    def __init__(
        self,
        vectors: VectorIndex[ContextSummary],
        records: Callable[[str], Records[ContextSummary]],
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

    def follow(self, _account: str, seq: int, _changes: Sequence[Any]) -> None:
        """Note an operation with index events. Called by the store, in order."""
        if self._is_begun:
            self._noted.append(seq)

    def begin(self) -> None:
        """Start to note operations; see `Backlog.begin`."""
        self._is_begun = True

    @property
    def has_requests(self) -> bool:
        """Whether there are noted operations to read."""
        return bool(self._noted)

    async def next_requests(self, limit: int, known: Callable[[str, str], bool]) -> list[IndexRequest]:
        """Return up to `limit` requests of the noted operations, or of missing vectors if there are none."""
        asked: list[IndexRequest] = []
        while self._noted and len(asked) < limit:
            seq = self._noted.popleft()
            asked += [IndexRequest(event, seq) for event in self._events_at(seq)]
            await asyncio.sleep(0)
        return asked or self._requests_for_missing(limit, known)

    def pending(self, account: str) -> Iterator[ContextSummary]:
        """Yield the nodes that have no vector yet."""
        vectors, records = self._vectors.accounts.get(account), self._records(account)
        heads = map(records.head, list(vectors.pending) if vectors is not None else ())
        return (head for head in heads if head is not None)

    def missing_since(self, account: str, address: str) -> int | None:
        """Return the operation that wrote a text without a vector."""
        number = self.missing_number(account, address)
        return None if number is None else self._records(account).seq_of(number)

    def give_up(self, account: str, address: str) -> None:
        """Reject the text of a node: it is no longer pending."""
        vectors = self._vectors.accounts.get(account)
        number = None if vectors is None else vectors.get_missing_number(address)
        if vectors is not None and number is not None:
            vectors.reject(PendingText(address, number, ""))

    def resume(self, account: str | None = None, address: str | None = None) -> None:
        """Make rejected texts pending again."""
        for name, vectors in self._vectors.accounts.items():
            if account in (None, name):
                vectors.retry_rejected(address)

    # what the worker brings

    def missing_number(self, account: str, address: str) -> int | None:
        """Return the number of a text without a vector."""
        vectors = self._vectors.accounts.get(account)
        return None if vectors is None else vectors.get_missing_number(address)

    async def embed_texts(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text; see `VectorStore.embedded`."""
        return await self._vectors.embed_texts([truncate(text) for text in texts])

    async def reuse_vectors(self, account: str, texts: Sequence[TextToEmbed]) -> Sequence[TextToEmbed]:
        """Copy the vectors of equal texts; return the other texts."""
        vectors = self._vectors.account(account)
        for text in texts:
            vectors.retry_rejected(text.uri)
        left = {item.row_id for item in await vectors.copy_vectors([_make_pending(text) for text in texts])}
        return [text for text in texts if text.uri in left]

    async def upsert(self, account: str, texts: Sequence[TextToEmbed], vectors: "Sequence[Vector]") -> bool:
        """Write vectors of current texts; see `VectorStore.upsert`."""
        return not texts or await self._vectors.account(account).write_vectors(list(map(_make_pending, texts)), vectors)

    async def delete_by_uri(self, account: str, address: str) -> None:
        """Remove a node from the pending texts. Its row is skipped until the file is rewritten."""
        vectors = self._vectors.accounts.get(account)
        head = self._records(account).head(address)
        if vectors is not None and (head is None or not head.live):
            vectors.drop(address)

    async def move_uri(self, account: str, from_uri: str, to_uri: str) -> None:
        """Copy the vectors of the moved texts to their nodes at and below `to_uri`."""
        del from_uri
        vectors, records = self._vectors.accounts.get(account), self._records(account)
        if vectors is None:
            return
        moved = [
            PendingText(address, number, self._texts.embedding_text(records.row(address)))
            for address, number in list(vectors.pending.items())
            if address == to_uri or address.startswith(f"{to_uri}/")
        ]
        await vectors.copy_vectors(moved)

    async def search(
        self, account: str, query: Matrix, groups: Sequence[frozenset[str]], top_k: int, level: Level = Level.L0
    ) -> list[tuple[float, ContextSummary]]:
        """Return the `top_k` most similar nodes; only L0 has vectors."""
        if level is not Level.L0:
            return []
        return await self._vectors.search(account, np.asarray(query, np.float32), groups, _is_live, top_k)

    def _requests_for_missing(self, limit: int, known: Callable[[str, str], bool]) -> list[IndexRequest]:
        asked: list[IndexRequest] = []
        for name, vectors in self._vectors.accounts.items():
            for address, number in vectors.pending.items():
                if len(asked) >= limit:
                    return asked
                if not known(name, address):
                    seq = self._records(name).seq_of(number)
                    asked.append(IndexRequest(self._event_of(name, address, number, seq), seq))
        return asked

    def _event_of(self, account: str, address: str, number: int, seq: int) -> OutboxEvent:
        """Return the event that asked for a text; make one if the log has been compacted."""
        if self._read[0] != seq:
            self._read = (seq, {event.uri: event for event in self._events_at(seq)})
        event = self._read[1].get(address)
        if event is not None:
            return event
        records = self._records(account)
        row = records.row(address)
        head = records.head(address)
        whose = {"account": account, "owner": row["owner"], "collection": get_collection(row)}
        event_id = uri.stable_hash(number, address, EventType.UPSERT_CONTEXT.value)
        created_at = 0.0 if head is None else head.updated_at
        return OutboxEvent(event_id, EventType.UPSERT_CONTEXT, address, whose, created_at=created_at)

    def _events_at(self, seq: int) -> list[OutboxEvent]:
        operation = self._log.at(seq)
        if operation is None:
            return []
        events = events_of(operation.account, operation.operation_id, operation.timestamp, operation.changes)
        # Edges have no vector.
        return [event for event in events if event.event_type is not EventType.UPSERT_RELATION]


def _make_pending(text: TextToEmbed) -> PendingText:
    return PendingText(text.uri, text.number, truncate(text.text))


def _is_live(head: ContextSummary) -> bool:
    return head.live
