"""The outbox of a running hub: it takes events from the log, stores failures, and shows callers their own events."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context.index.index_ports import Backlog, DeadLetter, DeadLetterStore, IndexRequest
from knowhub.context.index.outbox_store import OutboxStore
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.context.model import ContextSummary
from knowhub.core import permissions
from knowhub.core.clock import Clock
from knowhub.core.errors import NotFound
from knowhub.core.request_context import RequestContext

_COUNTED_PER_TURN: Final = 1_000
_SHOWN_LETTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """The events that a caller may see, counted. `lag_s` is the age of the oldest event, without dead letters.

    `dead_letters` has the oldest dead letters, at most a thousand.
    """

    pending: int = 0
    claimed: int = 0
    failed: int = 0
    dead: int = 0
    lag_s: float = 0.0
    dead_letters: Sequence[OutboxEvent] = ()


class Outbox:
    """The events for texts without a vector. They follow from the missing vectors, so a restart loses none.

    Only the leader of the directory processes events. Failed events are stored in one small file. The other processes
    read the failures from that file, and write to it when a dead letter should be retried.
    """

    def __init__(self, store: OutboxStore, backlog: Backlog, dead_letters: DeadLetterStore, clock: Clock) -> None:
        self._store = store
        self._backlog = backlog
        self._dead_letters = dead_letters
        self._clock = clock
        self._is_working = False

    @property
    def has_ready(self) -> bool:
        """Whether a worker could claim an event now. Vectors that were missing before the start do not count."""
        return self._store.has_ready or self._backlog.has_requests

    @property
    def counts(self) -> Mapping[EventStatus, int]:
        """The number of events by status, over all accounts, for monitoring."""
        return Counter(event.status for event in self._events().values())

    @property
    def erase_seq(self) -> int | None:
        """The number of the newest erase that the file of failed events includes; None without a file."""
        return self._dead_letters.erase_seq

    async def catch_up(self) -> None:
        """Continue where another leader ended, retry requested dead letters, and store failures. Raises Unavailable."""
        if not self._is_working:
            self._begin()
        asked = self._dead_letters.list_retries()
        for event_id in asked:
            self._retry(event_id)
        if asked:
            self._dead_letters.forget_retries(asked)
        await self._dead_letters.save(self._letters())

    async def claim_batch(self, worker_id: str, limit: int) -> list[OutboxEvent]:
        """Claim up to `limit` events for a worker: due retries, then new requests of the log."""
        if self._store.ready < limit:
            self._store.append_batch(await self._backlog.next_requests(limit - self._store.ready, self._store.knows))
        return self._store.claim_batch(worker_id, limit)

    def mark_done(self, event_id: str) -> None:
        """End an event."""
        self._store.mark_done(event_id)

    def mark_failed(self, event_id: str, error: str, *, retryable: bool = True) -> OutboxEvent | None:
        """Schedule a retry of an event, or make it a dead letter; see `OutboxStore.mark_failed`."""
        failed = self._store.mark_failed(event_id, error, retryable=retryable)
        if failed is not None and failed.status is EventStatus.DEAD:
            self._backlog.give_up(str(failed.payload["account"]), failed.uri)
        return failed

    def release(self, worker_id: str, event_ids: Sequence[str]) -> int:
        """Release the events that a worker has not ended."""
        return self._store.release(worker_id, event_ids)

    async def status(self, ctx: RequestContext) -> OutboxStatus:
        """Count the events that the caller may see, and list the dead letters among them."""
        seen = {event_id: event for event_id, event in self._events().items() if _is_seen(ctx, event)}
        counts = Counter(event.status for event in seen.values())
        known = {event.uri for event in seen.values() if event.event_type is not EventType.DELETE_CONTEXT}
        oldest = [event.created_at for event in seen.values() if event.status is not EventStatus.DEAD]
        for number, head in enumerate(self._backlog.pending(ctx.account), start=1):
            if ctx.sees(head.audience) and head.uri not in known:
                counts[EventStatus.PENDING] += 1
                oldest.append(head.updated_at)
            if number % _COUNTED_PER_TURN == 0:
                await asyncio.sleep(0)
        dead = [event for event in seen.values() if event.status is EventStatus.DEAD]
        return OutboxStatus(
            pending=counts[EventStatus.PENDING],
            claimed=counts[EventStatus.CLAIMED],
            failed=counts[EventStatus.FAILED],
            dead=len(dead),
            lag_s=max(0.0, self._clock.now() - min(oldest)) if oldest else 0.0,
            dead_letters=sorted(dead, key=lambda event: (event.created_at, event.event_id))[:_SHOWN_LETTERS],
        )

    async def retry(self, ctx: RequestContext, event_id: str) -> OutboxEvent:
        """Retry a dead letter, as if it had never failed.

        Raises Forbidden for a reader, NotFound if the caller sees no such dead letter, and Unavailable.
        """
        permissions.check_can_write(ctx)
        event = self._events().get(event_id)
        if event is None or event.status is not EventStatus.DEAD or not _is_seen(ctx, event):
            raise NotFound.of("dead letter", event_id)
        if self._is_working:
            self._retry(event_id)
            await self._dead_letters.save(self._letters())
        else:
            self._dead_letters.request_retry(event_id)
        return replace(event, status=EventStatus.PENDING, retry_count=0, error="")

    def _begin(self) -> None:
        self._backlog.begin()
        # The leader before may have given up nodes that no dead letter names any more.
        self._backlog.resume()
        for letter in self._dead_letters.load():
            if self._is_due(letter):
                self._store.restore(letter)
                if letter.event.status is EventStatus.DEAD:
                    self._backlog.give_up(str(letter.event.payload["account"]), letter.event.uri)
        self._is_working = True

    def _retry(self, event_id: str) -> None:
        event = self._store.retry(event_id)
        if event is not None:
            self._backlog.resume(str(event.payload["account"]), event.uri)

    def _letters(self) -> list[DeadLetter]:
        """Return the failures to store. Drop those whose text was changed, deleted, or got a vector."""
        kept = []
        for letter in self._store.letters():
            if self._is_due(letter):
                kept.append(letter)
            else:
                self._store.forget(letter.event.event_id)
        return kept

    def _is_due(self, letter: DeadLetter) -> bool:
        if letter.event.event_type is EventType.DELETE_CONTEXT:
            return True
        since = self._backlog.missing_since(str(letter.event.payload["account"]), letter.event.uri)
        return since is not None and since <= letter.seq

    def _events(self) -> Mapping[str, OutboxEvent]:
        """Return the events that are not done. A process that is not the leader knows only the failed events."""
        if self._is_working:
            return {event.event_id: event for event in self._store.events()}
        wished = set(self._dead_letters.list_retries())
        letters = [letter.event for letter in self._dead_letters.load() if self._is_due(letter)]
        return {
            event.event_id: replace(event, status=EventStatus.PENDING) if event.event_id in wished else event
            for event in letters
        }


class EmptyBacklog:
    """Implements `Backlog` without an embedder: no vector is ever missing."""

    has_requests = False

    def begin(self) -> None:
        """Do nothing."""

    async def next_requests(self, limit: int, known: Callable[[str, str], bool]) -> list[IndexRequest]:
        """Return nothing."""
        del limit, known
        return []

    def pending(self, account: str) -> Iterator[ContextSummary]:
        """Return nothing."""
        del account
        return iter(())

    def missing_since(self, account: str, address: str) -> int | None:
        """Return None."""
        del account, address
        return None

    def give_up(self, account: str, address: str) -> None:
        """Do nothing."""

    def resume(self, account: str | None = None, address: str | None = None) -> None:
        """Do nothing."""


def _is_seen(ctx: RequestContext, event: OutboxEvent) -> bool:
    # A memory is visible to its owner, and to callers who see the whole account.
    is_own = ctx.visible is None or event.payload.get("owner") in ctx.visible
    return event.payload.get("account") == ctx.account and is_own
