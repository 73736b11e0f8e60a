"""OUTBOX: where each event stands, from pending to done, and how a failed one comes again (CE-144…148, G-14)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from knowhub.context.index.index_ports import Asked, Letter
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.core.clock import Clock

_ALONE: Final = frozenset({EventType.UPSERT_RELATION})
_Key = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a claim holds and how often a failed event comes again, in seconds.

    The pause doubles from `first_pause_s` up to `longest_pause_s`; the failure number `max_attempts` is the last.
    """

    lease_s: float = 300.0
    first_pause_s: float = 2.0
    longest_pause_s: float = 300.0
    max_attempts: int = 5


@dataclass(slots=True)
class _Entry:
    event: OutboxEvent
    seq: int
    worker: str = ""
    until: float = 0.0


class OutboxStore:
    """Events by id, in memory. One that is done is gone; of one URI only the newest event counts.

    Of two workers each gets events that the other has not. One that dies gives nothing back: its claims end with
    their lease, so that no event is lost with it.
    """

    def __init__(self, clock: Clock, patience: Patience | None = None) -> None:
        self._clock = clock
        self._patience = patience or Patience()
        self._entries: dict[str, _Entry] = {}
        self._newest: dict[_Key, str] = {}
        self._ready: dict[str, None] = {}
        self._later: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def has_ready(self) -> bool:
        """Whether something can be claimed now."""
        self._take_due()
        return bool(self._ready)

    @property
    def ready(self) -> int:
        """How many events can be claimed now."""
        self._take_due()
        return len(self._ready)

    def events(self) -> Iterator[OutboxEvent]:
        """Yield every event that is not done."""
        return (entry.event for entry in self._entries.values())

    def event(self, event_id: str) -> OutboxEvent | None:
        """Return an event that is not done; None where it is, or never was."""
        entry = self._entries.get(event_id)
        return None if entry is None else entry.event

    def knows(self, account: str, address: str) -> bool:
        """Tell whether there is an event of the text of a node."""
        return (account, address, False) in self._newest

    def append(self, event: OutboxEvent, seq: int = 0) -> OutboxEvent:
        """Take in an event; what its URI waited for before is superseded. One that is here already stays as it is."""
        known = self._entries.get(event.event_id)
        if known is not None:
            return known.event
        account, address, is_alone = key = _key(event)
        self._drop(self._newest.get(key))
        if event.event_type is EventType.DELETE_CONTEXT:
            self._drop(self._newest.get((account, address, not is_alone)))
        fresh = replace(event, status=EventStatus.PENDING)
        self._entries[event.event_id] = _Entry(fresh, seq)
        self._newest[key] = event.event_id
        self._ready[event.event_id] = None
        return fresh

    def append_batch(self, asked: Sequence[Asked]) -> list[OutboxEvent]:
        """Take in events in their order."""
        return [self.append(one.event, one.seq) for one in asked]

    def claim_batch(self, worker_id: str, limit: int) -> list[OutboxEvent]:
        """Give a worker up to `limit` events, those first that have waited most; nobody else gets them in the lease."""
        self._take_due()
        until = self._clock.now() + self._patience.lease_s
        claimed = []
        for event_id in list(islice(self._ready, limit)):
            del self._ready[event_id]
            entry = self._entries[event_id]
            entry.worker, entry.until = worker_id, until
            self._put(entry, EventStatus.CLAIMED)
            heappush(self._later, (until, event_id))
            claimed.append(entry.event)
        return claimed

    def mark_done(self, event_id: str) -> None:
        """End an event; one that is superseded or done already stays so."""
        entry = self._entries.get(event_id)
        if entry is not None and entry.event.status is EventStatus.CLAIMED:
            self._drop(event_id)

    def mark_failed(self, event_id: str, error: str, *, retryable: bool = True) -> OutboxEvent | None:
        """Let a claimed event come again after a pause, or no more; return it as it stands now.

        None where it is not claimed: it is superseded, or its lease has ended and it will be tried again anyway.
        """
        entry = self._entries.get(event_id)
        if entry is None or entry.event.status is not EventStatus.CLAIMED:
            return None
        count = entry.event.retry_count + 1
        entry.event = replace(entry.event, retry_count=count, error=error)
        if not retryable or count >= self._patience.max_attempts:
            self._put(entry, EventStatus.DEAD)
            return entry.event
        pause = min(self._patience.first_pause_s * 2 ** (count - 1), self._patience.longest_pause_s)
        entry.until = self._clock.now() + pause
        self._put(entry, EventStatus.FAILED)
        heappush(self._later, (entry.until, event_id))
        return entry.event

    def release(self, worker_id: str, event_ids: Sequence[str]) -> int:
        """Give back what a worker has claimed and not ended, behind what waits; that is no failure. Return how many."""
        mine = [self._entries[event_id] for event_id in event_ids if event_id in self._entries]
        mine = [one for one in mine if one.event.status is EventStatus.CLAIMED and one.worker == worker_id]
        for entry in mine:
            self._put(entry, EventStatus.PENDING)
            self._ready[entry.event.event_id] = None
        return len(mine)

    def retry(self, event_id: str) -> OutboxEvent | None:
        """Let a dead event be tried again as if it had never failed; None where it is not dead."""
        entry = self._entries.get(event_id)
        if entry is None or entry.event.status is not EventStatus.DEAD:
            return None
        entry.event = replace(entry.event, retry_count=0, error="")
        self._put(entry, EventStatus.PENDING)
        self._ready[event_id] = None
        return entry.event

    def forget(self, event_id: str) -> None:
        """Drop an event whatever it waits for: nothing is asked for any more."""
        self._drop(event_id)

    def letters(self) -> list[Letter]:
        """Return what failed and is to be kept over a restart: how often it did, and what is dead."""
        return [_letter(entry) for entry in self._entries.values() if entry.event.retry_count]

    def restore(self, letter: Letter) -> None:
        """Take back what was kept; it waits for as long as it had to."""
        event = letter.event
        entry = _Entry(event, letter.seq, until=letter.not_before)
        self._entries[event.event_id] = entry
        self._newest[_key(event)] = event.event_id
        if event.status is not EventStatus.DEAD:
            heappush(self._later, (entry.until, event.event_id))

    def _take_due(self) -> None:
        """Make ready what was claimed by somebody who is gone, and what has waited out its pause."""
        now = self._clock.now()
        while self._later and self._later[0][0] <= now:
            until, event_id = heappop(self._later)
            entry = self._entries.get(event_id)
            # What is here may be about an earlier claim, or an earlier failure, of the same event.
            waits = entry is not None and entry.event.status in {EventStatus.CLAIMED, EventStatus.FAILED}
            if entry is not None and waits and entry.until == until:
                self._put(entry, EventStatus.PENDING)
                self._ready[event_id] = None

    def _put(self, entry: _Entry, status: EventStatus) -> None:
        entry.event = replace(entry.event, status=status)

    def _drop(self, event_id: str | None) -> None:
        entry = self._entries.pop(event_id, None) if event_id is not None else None
        if entry is not None and event_id is not None:
            self._ready.pop(event_id, None)
            if self._newest.get(_key(entry.event)) == event_id:
                del self._newest[_key(entry.event)]


def _letter(entry: _Entry) -> Letter:
    if entry.event.status in {EventStatus.DEAD, EventStatus.FAILED}:
        return Letter(entry.event, entry.seq, entry.until)
    # It is being tried again; whoever reads this is another, to whom that claim means nothing.
    return Letter(replace(entry.event, status=EventStatus.FAILED), entry.seq, 0.0)


def _key(event: OutboxEvent) -> _Key:
    return str(event.payload.get("account", "")), event.uri, event.event_type in _ALONE
