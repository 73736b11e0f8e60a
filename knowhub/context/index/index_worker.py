"""Brings the index what the outbox asks of it: vectors in batches, moves, deletions, edges (CE-149, CE-150, CE-173)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context import edits, l0
from knowhub.context.index.index_ports import VectorStore
from knowhub.context.index.index_projector import IndexProjector
from knowhub.context.index.outbox import Outbox
from knowhub.context.index_model import EventStatus, EventType, IndexBatchResult, IndexRecord, OutboxEvent
from knowhub.context.model import NODES
from knowhub.context.ports import ContextStore, GraphStore
from knowhub.core.embedding import Vector
from knowhub.core.errors import Unavailable
from knowhub.core.operation import is_live

REFUSED: Final = "the embedder does not take this text"
_EMBEDDED_AT_ONCE: Final = 64


@dataclass(slots=True)
class _Tally:
    done: int = 0
    dead: int = 0
    failed: int = 0
    problem: Unavailable | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    event: OutboxEvent
    account: str
    record: IndexRecord


class IndexWorker:
    """Works off an outbox; several may at once. An embedder that is down is no failure of an event: it waits.

    A text that the embedder does not take hinders no other: it comes again, and is a dead letter in the end.
    """

    def __init__(
        self,
        outbox: Outbox,
        store: ContextStore,
        vectors: VectorStore,
        graph: GraphStore | None = None,
        worker_id: str = "keeper",
    ) -> None:
        self._outbox = outbox
        self._store = store
        self._vectors = vectors
        self._graph = graph
        self._worker_id = worker_id
        self._projector = IndexProjector()
        self._problem: Unavailable | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether something waits that needs no vector."""
        return self._outbox.has_ready

    @property
    def complaint(self) -> str | None:
        """What is to be said of dead letters; None where there are none."""
        dead = self._outbox.counts[EventStatus.DEAD]
        return f"without a vector, and found by their words alone, are {dead}: see the outbox" if dead else None

    async def drain(self) -> None:
        """Work until nothing can be done now; what failed comes again later. Raises Unavailable."""
        await self._outbox.keep()
        try:
            while True:
                done = await self.run_once(_EMBEDDED_AT_ONCE)
                if self._problem is not None:
                    raise self._problem
                if not done.succeeded and not done.failed:
                    return
        finally:
            await self._outbox.keep()

    async def run_once(self, limit: int = 100) -> IndexBatchResult:
        """Claim up to `limit` events and do what they ask for; what cannot be done now is given back (CE-149)."""
        events = await self._outbox.claim_batch(self._worker_id, limit)
        tally = _Tally()
        released = 0
        try:
            await self._handle_all(events, tally)
        finally:
            released = self._outbox.release(self._worker_id, [event.event_id for event in events])
        self._problem = tally.problem
        return IndexBatchResult(len(events), tally.done, tally.dead, tally.failed + released)

    async def handle_event(self, event: OutboxEvent) -> None:
        """Do what one event asks for, whatever it is, and say what became of it (CE-150). Raises Unavailable."""
        tally = _Tally()
        await self._handle_all([event], tally)
        if tally.problem is not None:
            raise tally.problem

    async def _handle_all(self, events: Sequence[OutboxEvent], tally: _Tally) -> None:
        texts = []
        for event in events:
            try:
                if await self._handle_textless(event):
                    self._done(event, tally)
                elif (work := self._work(event)) is not None:
                    texts.append(work)
                else:
                    self._done(event, tally)
            except Unavailable as problem:
                tally.problem = problem
                return
            except Exception as problem:  # noqa: BLE001 -- one event that goes wrong, whyever, must not hinder others
                self._failed(event, f"{type(problem).__name__}: {problem}", tally)
        try:
            await self._give_vectors(texts, tally)
        except Unavailable as problem:
            tally.problem = problem

    async def _handle_textless(self, event: OutboxEvent) -> bool:
        """Do what needs no text; tell whether that is all."""
        account = str(event.payload["account"])
        if event.event_type is EventType.DELETE_CONTEXT:
            await self._vectors.delete_by_uri(account, event.uri)
            if self._graph is not None:
                await self._graph.remove_node(event.uri)
            return True
        if event.event_type is EventType.UPSERT_RELATION:
            row = self._store.view(account).get(NODES, event.uri)
            if self._graph is not None and row is not None and is_live(row):
                await self._graph.upsert_edges(edits.edges_of(row))
            return True
        if event.event_type is EventType.MOVE_CONTEXT:
            move = self._projector.build_move_records(str(event.payload["from_uri"]), event.uri)
            await self._vectors.move_uri(account, move.old_uri, move.new_uri)
        return False

    def _work(self, event: OutboxEvent) -> _Work | None:
        """Return what is to be embedded for an event; None where nothing is lacking (any more)."""
        account = str(event.payload["account"])
        number = self._vectors.lacked(account, event.uri)
        view = self._store.view(account)
        head = view.context_head(event.uri)
        row = None if head is None else view.get(edits.collection_of(head), event.uri)
        # All of one moment: what is written from here on has another number, and an event of its own.
        if number is None or head is None or row is None or not head.live:
            return None
        searched = l0.searched_text(edits.collection_of(head), row)
        records = self._projector.build_context_records(edits.node_of(head, row), searched or " ")
        first = records[0]
        return _Work(event, account, replace(first, metadata={**first.metadata, "text_num": number}))

    async def _give_vectors(self, texts: Sequence[_Work], tally: _Tally) -> None:
        """Embed what nobody has embedded yet. Raises Unavailable; what is not done then is given back."""
        lacking = []
        for account, work in _by_account(texts).items():
            left = {record.id for record in await self._vectors.take_alike(account, [one.record for one in work])}
            for one in work:
                if one.record.id in left:
                    lacking.append(one)
                elif self._vectors.lacked(account, one.event.uri) != one.record.metadata["text_num"]:
                    self._done(one.event, tally)
        for start in range(0, len(lacking), _EMBEDDED_AT_ONCE):
            some = lacking[start : start + _EMBEDDED_AT_ONCE]
            # Nothing is held meanwhile: whoever writes or searches does not notice.
            vectors = await self._vectors.embedded([one.record.text for one in some])
            embedded: list[tuple[_Work, Vector]] = []
            for one, vector in zip(some, vectors, strict=True):
                if vector is None:
                    self._failed(one.event, REFUSED, tally)
                else:
                    embedded.append((one, vector))
            await self._write(embedded, tally)

    async def _write(self, embedded: Sequence[tuple[_Work, Vector]], tally: _Tally) -> None:
        vectors = {one.event.event_id: vector for one, vector in embedded}
        for account, work in _by_account([one for one, _ in embedded]).items():
            given = [vectors[one.event.event_id] for one in work]
            if await self._vectors.upsert(account, [one.record for one in work], given):
                for one in work:
                    self._done(one.event, tally)

    def _done(self, event: OutboxEvent, tally: _Tally) -> None:
        self._outbox.mark_done(event.event_id)
        tally.done += 1

    def _failed(self, event: OutboxEvent, error: str, tally: _Tally) -> None:
        failed = self._outbox.mark_failed(event.event_id, error)
        if failed is not None:
            tally.dead += failed.status is EventStatus.DEAD
            tally.failed += failed.status is not EventStatus.DEAD


def _by_account(texts: Sequence[_Work]) -> dict[str, list[_Work]]:
    found: defaultdict[str, list[_Work]] = defaultdict(list)
    for one in texts:
        found[one.account].append(one)
    return found
