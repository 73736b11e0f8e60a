"""Works off the outbox: gives memories their vectors, in batches, and takes them from what moved or is deleted."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.context import edits, texts
from knowhub.context.index.index_ports import VectorStore
from knowhub.context.index.outbox import Outbox
from knowhub.context.index_model import BatchResult, EventStatus, EventType, OutboxEvent, TextToEmbed
from knowhub.context.queries import find_memory
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import Vector
from knowhub.core.operation import Store

REFUSED: Final = "the embedder does not take this text"
_EMBEDDED_AT_ONCE: Final = 64


@dataclass(slots=True)
class _BatchCounts:
    done: int = 0
    dead: int = 0
    failed: int = 0
    problem: Unavailable | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    event: OutboxEvent
    account: str
    text: TextToEmbed


class IndexWorker:
    """Works off an outbox; several may at once. While the embedder is down an event waits, and has not failed.

    A text that the embedder refuses stops no other. It is tried again, and is a dead letter in the end.
    """

    def __init__(self, outbox: Outbox, store: Store, vectors: VectorStore, worker_id: str = "leader") -> None:
        self._outbox = outbox
        self._store = store
        self._vectors = vectors
        self._worker_id = worker_id
        self._problem: Unavailable | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether something waits that needs no vector."""
        return self._outbox.has_ready

    @property
    def problem_message(self) -> str | None:
        """What is to be said of dead letters; None where there are none."""
        dead = self._outbox.counts[EventStatus.DEAD]
        return f"without a vector, and found by their words alone, are {dead}: see the outbox" if dead else None

    async def drain(self) -> None:
        """Work until nothing can be done now; what failed comes again later. Raises Unavailable."""
        await self._outbox.catch_up()
        try:
            while True:
                done = await self.run_once(_EMBEDDED_AT_ONCE)
                if self._problem is not None:
                    raise self._problem
                if not done.succeeded and not done.failed:
                    return
        finally:
            await self._outbox.catch_up()

    async def run_once(self, limit: int = 100) -> BatchResult:
        """Claim up to `limit` events and do what they ask for; what cannot be done now is given back."""
        events = await self._outbox.claim_batch(self._worker_id, limit)
        counts = _BatchCounts()
        released = 0
        try:
            await self._handle_all(events, counts)
        finally:
            released = self._outbox.release(self._worker_id, [event.event_id for event in events])
        self._problem = counts.problem
        return BatchResult(len(events), counts.done, counts.dead, counts.failed + released)

    async def _handle_all(self, events: Sequence[OutboxEvent], counts: _BatchCounts) -> None:
        texts = []
        for event in events:
            try:
                work = await self._prepare(event)
            except Unavailable as problem:
                counts.problem = problem
                return
            except Exception as problem:  # noqa: BLE001 -- an event that goes wrong, for whatever reason, stops no other
                self._fail(event, f"{type(problem).__name__}: {problem}", counts)
                continue
            if work is None:
                self._end(event, counts)
            else:
                texts.append(work)
        try:
            await self._embed_texts(texts, counts)
        except Unavailable as problem:
            counts.problem = problem

    async def _prepare(self, event: OutboxEvent) -> _Work | None:
        """Do what an event asks for, and return the text that is to be embedded then, None where there is none."""
        account = str(event.payload["account"])
        if event.event_type is EventType.DELETE_CONTEXT:
            await self._vectors.delete_by_uri(account, event.uri)
            return None
        if event.event_type is EventType.MOVE_CONTEXT:
            await self._vectors.move_uri(account, str(event.payload["from_uri"]), event.uri)
        number = self._vectors.missing_number(account, event.uri)
        view = self._store.view(account)
        head = find_memory(view, event.uri)
        row = None if head is None else view.get(edits.collection_of(head), event.uri)
        # All of one moment: what is written from here on has another number, and an event of its own.
        if number is None or head is None or row is None or not head.live:
            return None
        text = texts.get_indexed_text(edits.collection_of(head), row) or " "
        return _Work(event, account, TextToEmbed(event.uri, number, text))

    async def _embed_texts(self, texts: Sequence[_Work], counts: _BatchCounts) -> None:
        """Embed what nobody has embedded yet. Raises Unavailable; what is not done then is given back."""
        lacking = []
        for account, work in _by_account(texts).items():
            left = {text.uri for text in await self._vectors.reuse_vectors(account, [item.text for item in work])}
            for item in work:
                if item.text.uri in left:
                    lacking.append(item)
                elif self._vectors.missing_number(account, item.text.uri) != item.text.number:
                    self._end(item.event, counts)
        for start in range(0, len(lacking), _EMBEDDED_AT_ONCE):
            some = lacking[start : start + _EMBEDDED_AT_ONCE]
            # Nothing is locked meanwhile: writes and searches go on.
            vectors = await self._vectors.embed_texts([item.text.text for item in some])
            embedded: list[tuple[_Work, Vector]] = []
            for item, vector in zip(some, vectors, strict=True):
                if vector is None:
                    self._fail(item.event, REFUSED, counts)
                else:
                    embedded.append((item, vector))
            await self._write(embedded, counts)

    async def _write(self, embedded: Sequence[tuple[_Work, Vector]], counts: _BatchCounts) -> None:
        vectors = {item.event.event_id: vector for item, vector in embedded}
        for account, work in _by_account([item for item, _ in embedded]).items():
            given = [vectors[item.event.event_id] for item in work]
            if await self._vectors.upsert(account, [item.text for item in work], given):
                for item in work:
                    self._end(item.event, counts)

    def _end(self, event: OutboxEvent, counts: _BatchCounts) -> None:
        self._outbox.mark_done(event.event_id)
        counts.done += 1

    def _fail(self, event: OutboxEvent, error: str, counts: _BatchCounts) -> None:
        failed = self._outbox.mark_failed(event.event_id, error)
        if failed is not None:
            counts.dead += failed.status is EventStatus.DEAD
            counts.failed += failed.status is not EventStatus.DEAD


def _by_account(texts: Sequence[_Work]) -> dict[str, list[_Work]]:
    found: defaultdict[str, list[_Work]] = defaultdict(list)
    for item in texts:
        found[item.account].append(item)
    return found
