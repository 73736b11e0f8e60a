"""The outbox's state machine: no event is lost, none is done twice, and none is given up before its time."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from knowhub.context.index.index_ports import IndexRequest
from knowhub.context.index.outbox_store import OutboxStore, RetryPolicy
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from tests.builders import FakeClock

PATIENCE = RetryPolicy(lease_s=60.0, first_pause_s=2.0, longest_pause_s=5.0, max_attempts=3)
UPSERT, DELETE = EventType.UPSERT_CONTEXT, EventType.DELETE_CONTEXT


def event(number: int, address: str | None = None, kind: EventType = UPSERT) -> OutboxEvent:
    """Return the event of this number, of a URI of its own unless one is named."""
    whose = {"account": "default", "owner": "user:li"}
    return OutboxEvent(f"e{number}", kind, address or f"ctx://default/{number}", whose, created_at=float(number))


def outbox(*events: OutboxEvent, clock: FakeClock | None = None) -> OutboxStore:
    store = OutboxStore(clock or FakeClock(), PATIENCE)
    store.append_batch([IndexRequest(one, 1) for one in events])
    return store


def claimed(store: OutboxStore, limit: int = 100, worker: str = "one") -> list[str]:
    return [one.event_id for one in store.claim_batch(worker, limit)]


def standing(store: OutboxStore) -> dict[str, EventStatus]:
    return {one.event_id: one.status for one in store.events()}


def test_an_event_that_is_done_is_gone_and_can_be_done_again_without_harm() -> None:
    store = outbox(event(1))
    claimed(store)

    store.mark_done("e1")
    store.mark_done("e1")

    assert (len(store), store.event("e1"), claimed(store)) == (0, None, [])


def test_nothing_is_done_that_nobody_has_claimed() -> None:
    store = outbox(event(1))

    store.mark_done("e1")
    failed = store.mark_failed("e1", "no")

    assert failed is None
    assert standing(store) == {"e1": EventStatus.PENDING}


def test_the_claims_of_a_dead_worker_come_back_when_their_lease_ends() -> None:
    clock = FakeClock()
    store = outbox(event(1), event(2), clock=clock)
    claimed(store, worker="dead")

    clock.advance(PATIENCE.lease_s - 1)
    before = claimed(store, worker="living")
    clock.advance(1)
    after = claimed(store, worker="living")

    assert (before, sorted(after)) == ([], ["e1", "e2"])


def test_a_lease_is_of_one_claim_and_an_earlier_one_does_not_end_it() -> None:
    clock = FakeClock()
    store = outbox(event(1), clock=clock)
    claimed(store, worker="one")
    store.mark_failed("e1", "late")
    clock.advance(PATIENCE.first_pause_s)
    claimed(store, worker="two")

    clock.advance(PATIENCE.lease_s - PATIENCE.first_pause_s)
    when_the_first_would_end = claimed(store, worker="one")
    clock.advance(PATIENCE.first_pause_s)

    assert (when_the_first_would_end, claimed(store, worker="one")) == ([], ["e1"])


def test_a_failed_event_comes_again_after_pauses_that_double_up_to_a_cap() -> None:
    clock = FakeClock()
    store = OutboxStore(clock, replace(PATIENCE, max_attempts=10))
    store.append(event(1))
    pauses = []

    for _ in range(4):
        claimed(store)
        store.mark_failed("e1", "no vector")
        waited = 0.0
        while not store.has_ready:
            clock.advance(0.5)
            waited += 0.5
        pauses.append(waited)

    assert pauses == [2.0, 4.0, 5.0, 5.0]


def test_the_last_attempt_makes_a_dead_letter_that_names_its_error() -> None:
    clock = FakeClock()
    store = outbox(event(1), clock=clock)
    stages = []

    for _ in range(PATIENCE.max_attempts):
        claimed(store)
        failed = store.mark_failed("e1", "no vector")
        stages.append(failed.status if failed else None)
        clock.advance(3600)

    assert stages == [EventStatus.FAILED, EventStatus.FAILED, EventStatus.DEAD]
    assert claimed(store) == []
    dead = store.event("e1")
    assert dead is not None
    assert (dead.error, dead.retry_count) == ("no vector", PATIENCE.max_attempts)


def test_what_cannot_be_retried_is_dead_at_once_and_lives_again_when_asked() -> None:
    store = outbox(event(1))
    claimed(store)
    store.mark_failed("e1", "never", retryable=False)

    again = store.retry("e1")
    twice = store.retry("e1")

    assert again is not None
    assert (again.status, again.retry_count, again.error, twice) == (EventStatus.PENDING, 0, "", None)
    assert claimed(store) == ["e1"]


def test_what_a_worker_gives_back_goes_behind_what_waits_and_counts_as_no_failure() -> None:
    store = outbox(event(1), event(2))
    mine = claimed(store, 1)

    released = (store.release("other", mine), store.release("one", mine))

    assert released == (0, 1)
    assert claimed(store) == ["e2", "e1"]
    assert [one.retry_count for one in store.events()] == [0, 0]


def test_failures_survive_a_restart_as_letters() -> None:
    clock = FakeClock()
    store = outbox(event(1), event(2), event(3), clock=clock)
    claimed(store, 2)
    store.mark_failed("e1", "late")
    store.mark_failed("e2", "never", retryable=False)

    restored = OutboxStore(clock, PATIENCE)
    for letter in store.letters():
        restored.restore(letter)
    at_once = claimed(restored)
    clock.advance(2)
    later = claimed(restored)

    assert (at_once, later) == ([], ["e1"])
    dead = restored.event("e2")
    assert dead is not None
    assert (dead.status, dead.error) == (EventStatus.DEAD, "never")


class OutboxMachine(RuleBasedStateMachine):
    """Two workers, one of which may die, over few URIs: what each URI was last asked for is what must come to an end.

    `owed` is by URI the event that is neither done nor superseded, `failures` how often it has failed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = OutboxStore(self.clock, PATIENCE)
        self.owed: dict[str, str] = {}
        self.failures: dict[str, int] = {}
        self.held: dict[str, float] = {}
        self.ended: set[str] = set()
        self.number = 0

    @rule(address=st.sampled_from("abcd"))
    def append(self, address: str) -> None:
        self.number += 1
        superseded = self.owed.get(address)
        if superseded is not None:
            self.ended.add(superseded)
            self.held.pop(superseded, None)
        self.owed[address] = f"e{self.number}"
        self.failures[f"e{self.number}"] = 0
        self.store.append(event(self.number, address), self.number)

    @rule(limit=st.integers(1, 3), worker=st.sampled_from(["one", "two"]))
    def claim(self, limit: int, worker: str) -> None:
        now = self.clock.now()
        for event_id in claimed(self.store, limit, worker):
            assert event_id in self.owed.values(), "what is superseded or done is not given out"
            assert self.held.get(event_id, 0.0) <= now, "what is held is not given out"
            self.held[event_id] = now + PATIENCE.lease_s

    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        if self.held:
            event_id = data.draw(st.sampled_from(sorted(self.held)))
            is_claimed = standing(self.store).get(event_id) is EventStatus.CLAIMED
            self.store.mark_done(event_id)
            if is_claimed:
                assert event_id not in self.ended, "nothing is done twice"
                self._end(event_id)

    @rule(data=st.data(), retryable=st.booleans())
    def fail(self, data: st.DataObject, *, retryable: bool) -> None:
        if self.held:
            event_id = data.draw(st.sampled_from(sorted(self.held)))
            failed = self.store.mark_failed(event_id, "no", retryable=retryable)
            if failed is not None:
                self.held.pop(event_id)
                self.failures[event_id] += 1
                is_last = self.failures[event_id] >= PATIENCE.max_attempts
                assert (failed.status is EventStatus.DEAD) == (is_last or not retryable)

    @rule(seconds=st.sampled_from([1.0, 5.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def restart(self) -> None:
        letters = self.store.letters()
        missing = [one for one in self.store.events() if not one.retry_count]
        self.store = OutboxStore(self.clock, PATIENCE)
        for letter in letters:
            self.store.restore(letter)
        # What never failed has no letter: the vectors lack it, and so the backlog asks for it again.
        self.store.append_batch([IndexRequest(one, 1) for one in missing])
        self.held.clear()

    @rule()
    def retry_the_dead(self) -> None:
        for one in list(self.store.events()):
            if self.store.retry(one.event_id) is not None:
                self.failures[one.event_id] = 0

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(standing(self.store)) == set(self.owed.values())

    def _end(self, event_id: str) -> None:
        self.ended.add(event_id)
        self.held.pop(event_id)
        self.owed = {address: owed for address, owed in self.owed.items() if owed != event_id}


TestOutboxMachine = OutboxMachine.TestCase
TestOutboxMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
