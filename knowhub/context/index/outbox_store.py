"""The outbox: the state of each event, from pending to done, and the retries of failed events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice

from knowhub.context.index.index_ports import DeadLetter, IndexRequest
from knowhub.context.index_model import EventStatus, OutboxEvent
from knowhub.core.clock import Clock

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The lease of a claim, and the pauses between retries, in seconds.

    The pause doubles from `first_pause_s` up to `longest_pause_s`. After `max_attempts` failures an event is dead.
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
    """Events by id, in memory. Done events are removed. A new event supersedes an older event of the same URI.

    Two workers never hold the same event. The claims of a crashed worker end with their lease, so no event is lost.
    """

    def __init__(self, clock: Clock, policy: RetryPolicy | None = None) -> None:
        self._clock = clock
        self._policy = policy or RetryPolicy()
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
        """Return a pending or failed event; None if it is done or unknown."""
        entry = self._entries.get(event_id)
        return None if entry is None else entry.event

    def knows(self, account: str, address: str) -> bool:
        """Return whether there is an event for a node."""
        return (account, address) in self._newest

    def append(self, event: OutboxEvent, seq: int = 0) -> OutboxEvent:
        """Add an event, in place of an older event of the same URI. A known event stays as it is."""
        known = self._entries.get(event.event_id)
        if known is not None:
            return known.event
        key = _key(event)
        self._drop(self._newest.get(key))
        fresh = replace(event, status=EventStatus.PENDING)
        self._entries[event.event_id] = _Entry(fresh, seq)
        self._newest[key] = event.event_id
        self._ready[event.event_id] = None
        return fresh

    def append_batch(self, asked: Sequence[IndexRequest]) -> list[OutboxEvent]:
        """Add events in their order."""
        return [self.append(item.event, item.seq) for item in asked]

    def claim_batch(self, worker_id: str, limit: int) -> list[OutboxEvent]:
        """Claim up to `limit` events for a worker until the lease ends, the oldest first."""
        self._take_due()
        until = self._clock.now() + self._policy.lease_s
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
        """Remove a claimed event. A superseded or done event is left as it is."""
        entry = self._entries.get(event_id)
        if entry is not None and entry.event.status is EventStatus.CLAIMED:
            self._drop(event_id)

    def mark_failed(self, event_id: str, error: str, *, retryable: bool = True) -> OutboxEvent | None:
        """Schedule a retry of a claimed event, or make it a dead letter. Return the changed event.

        None if it is not claimed: it was superseded, or its lease has ended and it is retried anyway.
        """
        entry = self._entries.get(event_id)
        if entry is None or entry.event.status is not EventStatus.CLAIMED:
            return None
        count = entry.event.retry_count + 1
        entry.event = replace(entry.event, retry_count=count, error=error)
        if not retryable or count >= self._policy.max_attempts:
            self._put(entry, EventStatus.DEAD)
            return entry.event
        pause = min(self._policy.first_pause_s * 2 ** (count - 1), self._policy.longest_pause_s)
        entry.until = self._clock.now() + pause
        self._put(entry, EventStatus.FAILED)
        heappush(self._later, (entry.until, event_id))
        return entry.event

    def release(self, worker_id: str, event_ids: Sequence[str]) -> int:
        """Put the claimed events of a worker back at the end of the queue; not a failure. Return their number."""
        mine = [self._entries[event_id] for event_id in event_ids if event_id in self._entries]
        mine = [item for item in mine if item.event.status is EventStatus.CLAIMED and item.worker == worker_id]
        for entry in mine:
            self._put(entry, EventStatus.PENDING)
            self._ready[entry.event.event_id] = None
        return len(mine)

    def retry(self, event_id: str) -> OutboxEvent | None:
        """Retry a dead event as if it had never failed; None if it is not dead."""
        entry = self._entries.get(event_id)
        if entry is None or entry.event.status is not EventStatus.DEAD:
            return None
        entry.event = replace(entry.event, retry_count=0, error="")
        self._put(entry, EventStatus.PENDING)
        self._ready[event_id] = None
        return entry.event

    def forget(self, event_id: str) -> None:
        """Drop an event in any status: it is not requested any more."""
        self._drop(event_id)

    def letters(self) -> list[DeadLetter]:
        """Return the events that failed at least once, to store them for the next start."""
        return [_letter(entry) for entry in self._entries.values() if entry.event.retry_count]

    def restore(self, letter: DeadLetter) -> None:
        """Add a stored event again, with the pause that it had."""
        event = letter.event
        entry = _Entry(event, letter.seq, until=letter.not_before)
        self._entries[event.event_id] = entry
        self._newest[_key(event)] = event.event_id
        if event.status is not EventStatus.DEAD:
            heappush(self._later, (entry.until, event.event_id))

    def _take_due(self) -> None:
        """Make ready the events whose lease or pause has ended."""
        now = self._clock.now()
        while self._later and self._later[0][0] <= now:
            until, event_id = heappop(self._later)
            entry = self._entries.get(event_id)
            # The entry of the heap may belong to an earlier claim or failure of the same event.
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


def _letter(entry: _Entry) -> DeadLetter:
    if entry.event.status in {EventStatus.DEAD, EventStatus.FAILED}:
        return DeadLetter(entry.event, entry.seq, entry.until)
    # It is being retried. The claim means nothing to the process that reads this, so it is stored as failed.
    return DeadLetter(replace(entry.event, status=EventStatus.FAILED), entry.seq, 0.0)


def _key(event: OutboxEvent) -> _Key:
    return str(event.payload.get("account", "")), event.uri
