"""The circuit breaker: when it opens, which calls it admits, and what closes it."""

import pytest

from knowhub.providers.breaker import CallResult, CircuitBreaker
from tests.builders import FakeClock

COOL_DOWN_S = 30.0


@pytest.fixture
def breaker(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker(3, COOL_DOWN_S, clock.now)


def start_call(breaker: CircuitBreaker) -> int:
    epoch = breaker.start_call()
    assert epoch is not None
    return epoch


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.note(start_call(breaker), CallResult.ILL)


def test_it_opens_at_the_threshold_and_not_before(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    before = breaker.is_open

    fail(breaker, 1)

    assert not before
    assert breaker.is_open
    assert breaker.start_call() is None
    assert breaker.remaining_s == COOL_DOWN_S


def test_a_success_resets_the_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.note(start_call(breaker), CallResult.WELL)

    fail(breaker, 2)

    assert not breaker.is_open


def test_an_inconclusive_call_does_not_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)

    breaker.note(start_call(breaker), CallResult.NOTHING)

    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open


def test_after_the_cool_down_only_one_call_probes(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)

    may_ask = [breaker.start_call() is not None for _ in range(3)]

    assert may_ask == [True, False, False]
    assert breaker.is_open


@pytest.mark.parametrize(
    ("verdict", "is_open"), [(CallResult.WELL, False), (CallResult.ILL, True), (CallResult.NOTHING, False)]
)
def test_the_probe_closes_or_reopens_it_or_passes_the_probe_on(
    breaker: CircuitBreaker, clock: FakeClock, verdict: CallResult, is_open: bool
) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    probe = start_call(breaker)

    breaker.note(probe, verdict)

    assert breaker.is_open is is_open
    assert (breaker.start_call() is None) is is_open


def test_calls_that_fail_after_it_opened_do_not_lengthen_the_cool_down(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    straggler = start_call(breaker)
    fail(breaker, 3)
    clock.advance(10)

    breaker.note(straggler, CallResult.ILL)

    assert breaker.remaining_s == COOL_DOWN_S - 10


@pytest.mark.parametrize("verdict", list(CallResult))
def test_a_late_call_does_not_decide_for_the_probe(
    breaker: CircuitBreaker, clock: FakeClock, verdict: CallResult
) -> None:
    straggler = start_call(breaker)
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    probe = start_call(breaker)

    breaker.note(straggler, verdict)

    assert breaker.start_call() is None
    assert breaker.remaining_s == 0
    breaker.note(probe, CallResult.WELL)
    assert not breaker.is_open


@pytest.mark.parametrize("verdict", [CallResult.WELL, CallResult.ILL])
def test_a_late_call_does_not_count_after_the_probe_closed_it(clock: FakeClock, verdict: CallResult) -> None:
    breaker = CircuitBreaker(1, COOL_DOWN_S, clock.now)
    straggler = start_call(breaker)
    fail(breaker, 1)
    clock.advance(COOL_DOWN_S)
    breaker.note(start_call(breaker), CallResult.WELL)

    breaker.note(straggler, verdict)

    assert not breaker.is_open


def test_an_abandoned_probe_counts_as_a_late_call(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    first = start_call(breaker)
    breaker.note(first, CallResult.NOTHING)
    second = start_call(breaker)

    breaker.note(first, CallResult.WELL)

    assert breaker.is_open
    breaker.note(second, CallResult.WELL)
    assert not breaker.is_open


def test_with_a_threshold_of_zero_it_never_opens(clock: FakeClock) -> None:
    breaker = CircuitBreaker(0, COOL_DOWN_S, clock.now)

    fail(breaker, 100)

    assert not breaker.is_open
