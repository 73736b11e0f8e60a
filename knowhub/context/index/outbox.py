"""The outbox of a running hub: fed by the log, kept over a restart, and seen by each caller as far as they may."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context.index.index_ports import Asked, Backlog, Letter, LetterBox
from knowhub.context.index.outbox_store import OutboxStore
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.context.model import ContextHead
from knowhub.core import permissions
from knowhub.core.clock import Clock
from knowhub.core.errors import NotFound
from knowhub.core.request_context import RequestContext

_COUNTED_PER_TURN: Final = 1_000
_SHOWN_LETTERS: Final = 1_000
_OF_NO_TEXT: Final = frozenset({EventType.DELETE_CONTEXT, EventType.UPSERT_RELATION})


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """What waits of what a caller sees; `lag_s` is how old the oldest of it is, dead letters left aside.

    `dead_letters` are the oldest of the dead, at most a thousand.
    """

    pending: int = 0
    claimed: int = 0
    failed: int = 0
    dead: int = 0
    lag_s: float = 0.0
    dead_letters: Sequence[OutboxEvent] = ()


class Outbox:
    """What is pending is what the vectors lack: there is no other note of it, so a restart loses none.

    Only the keeper of the directory works it off. What failed is kept in one small file, from which the others read
    how it stands, and through which they ask for a dead letter to be tried again.
    """

    def __init__(self, store: OutboxStore, backlog: Backlog, box: LetterBox, clock: Clock) -> None:
        self._store = store
        self._backlog = backlog
        self._box = box
        self._clock = clock
        self._is_working = False

    @property
    def has_ready(self) -> bool:
        """Whether a worker would get something now, what the vectors have lacked for long left aside."""
        return self._store.has_ready or self._backlog.has_asked

    @property
    def counts(self) -> Mapping[EventStatus, int]:
        """How many events of all accounts stand where, for who watches the server."""
        return Counter(event.status for event in self._events().values())

    async def keep(self) -> None:
        """Begin where another keeper ended, answer wishes, and keep what has failed. Raises Unavailable."""
        if not self._is_working:
            self._begin()
        asked = self._box.asked()
        for event_id in asked:
            self._retry(event_id)
        if asked:
            self._box.answered(asked)
        await self._box.save(self._letters())

    async def claim_batch(self, worker_id: str, limit: int) -> list[OutboxEvent]:
        """Give a worker up to `limit` events, fetching what the log asks for beside those that came again."""
        if self._store.ready < limit:
            self._store.append_batch(await self._backlog.next_asked(limit - self._store.ready, self._store.knows))
        return self._store.claim_batch(worker_id, limit)

    def mark_done(self, event_id: str) -> None:
        """End an event."""
        self._store.mark_done(event_id)

    def mark_failed(self, event_id: str, error: str, *, retryable: bool = True) -> OutboxEvent | None:
        """Let an event come again, or be a dead letter; see `OutboxStore.mark_failed`."""
        failed = self._store.mark_failed(event_id, error, retryable=retryable)
        if failed is not None and failed.status is EventStatus.DEAD:
            self._backlog.give_up(str(failed.payload["account"]), failed.uri)
        return failed

    def release(self, worker_id: str, event_ids: Sequence[str]) -> int:
        """Give back what a worker has not ended."""
        return self._store.release(worker_id, event_ids)

    async def status(self, ctx: RequestContext) -> OutboxStatus:
        """Count what waits of what the caller sees, and show its dead letters."""
        seen = {event_id: event for event_id, event in self._events().items() if _is_seen(ctx, event)}
        counts = Counter(event.status for event in seen.values())
        known = {event.uri for event in seen.values() if event.event_type not in _OF_NO_TEXT}
        oldest = [event.created_at for event in seen.values() if event.status is not EventStatus.DEAD]
        for number, head in enumerate(self._backlog.waiting(ctx.account), start=1):
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
        """Let a dead letter be tried again, as if it had never failed.

        Raises Forbidden for a reader, NotFound where it is none that the caller sees, and Unavailable.
        """
        permissions.check_may_write(ctx)
        event = self._events().get(event_id)
        if event is None or event.status is not EventStatus.DEAD or not _is_seen(ctx, event):
            raise NotFound.of("dead letter", event_id)
        if self._is_working:
            self._retry(event_id)
            await self._box.save(self._letters())
        else:
            self._box.ask(event_id)
        return replace(event, status=EventStatus.PENDING, retry_count=0, error="")

    def _begin(self) -> None:
        self._backlog.begin()
        # Who kept the directory before may have given up what no letter tells of any more.
        self._backlog.take_up()
        for letter in self._box.load():
            if self._is_due(letter):
                self._store.restore(letter)
                if letter.event.status is EventStatus.DEAD:
                    self._backlog.give_up(str(letter.event.payload["account"]), letter.event.uri)
        self._is_working = True

    def _retry(self, event_id: str) -> None:
        event = self._store.retry(event_id)
        if event is not None:
            self._backlog.take_up(str(event.payload["account"]), event.uri)

    def _letters(self) -> list[Letter]:
        """Return what is to be kept, and forget what nothing is lacking of any more: it was changed, or is gone."""
        kept = []
        for letter in self._store.letters():
            if self._is_due(letter):
                kept.append(letter)
            else:
                self._store.forget(letter.event.event_id)
        return kept

    def _is_due(self, letter: Letter) -> bool:
        if letter.event.event_type in _OF_NO_TEXT:
            return True
        since = self._backlog.lacked_since(str(letter.event.payload["account"]), letter.event.uri)
        return since is not None and since <= letter.seq

    def _events(self) -> Mapping[str, OutboxEvent]:
        """Return the events that are not done, as far as this process knows; one that only follows knows the failed."""
        if self._is_working:
            return {event.event_id: event for event in self._store.events()}
        wished = set(self._box.asked())
        letters = [letter.event for letter in self._box.load() if self._is_due(letter)]
        return {
            event.event_id: replace(event, status=EventStatus.PENDING) if event.event_id in wished else event
            for event in letters
        }


class NothingLacking:
    """Implements `Backlog` where no embedder is configured: there are no vectors that could lack something."""

    has_asked = False

    def begin(self) -> None:
        """Do nothing."""

    async def next_asked(self, limit: int, known: Callable[[str, str], bool]) -> list[Asked]:
        """Return nothing."""
        del limit, known
        return []

    def waiting(self, account: str) -> Iterator[ContextHead]:
        """Return nothing."""
        del account
        return iter(())

    def lacked_since(self, account: str, address: str) -> int | None:
        """Return None."""
        del account, address
        return None

    def give_up(self, account: str, address: str) -> None:
        """Do nothing."""

    def take_up(self, account: str | None = None, address: str | None = None) -> None:
        """Do nothing."""


def _is_seen(ctx: RequestContext, event: OutboxEvent) -> bool:
    # A memory is seen by who owns it, and by who sees everything of the account.
    is_own = ctx.visible is None or event.payload.get("owner") in ctx.visible
    return event.payload.get("account") == ctx.account and is_own
