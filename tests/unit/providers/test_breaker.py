"""The circuit breaker: when it opens, which calls it admits, and what closes it."""

import pytest

from knowhub.providers.breaker import CallResult, CircuitBreaker
from tests.builders import FakeClock

COOL_DOWN_S = 30.0


@pytest.fixture
def breaker(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker(3, COOL_DOWN_S, clock.now)


def note(breaker: CircuitBreaker, result: CallResult) -> None:
    assert breaker.start_call()
    breaker.record(result)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        note(breaker, CallResult.FAILURE)


def test_it_opens_at_the_threshold_and_not_before(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    before = breaker.is_open

    fail(breaker, 1)

    assert not before
    assert breaker.is_open
    assert not breaker.start_call()
    assert breaker.remaining_s == COOL_DOWN_S


def test_a_success_resets_the_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    note(breaker, CallResult.SUCCESS)

    fail(breaker, 2)

    assert not breaker.is_open


def test_an_inconclusive_call_does_not_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)

    note(breaker, CallResult.UNKNOWN)

    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open


def test_after_the_cool_down_only_one_call_probes(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)

    may_ask = [breaker.start_call() for _ in range(3)]

    assert may_ask == [True, False, False]
    assert breaker.is_open


@pytest.mark.parametrize(
    ("verdict", "is_open"), [(CallResult.SUCCESS, False), (CallResult.FAILURE, True), (CallResult.UNKNOWN, False)]
)
def test_the_probe_closes_or_reopens_it_or_passes_the_probe_on(
    breaker: CircuitBreaker, clock: FakeClock, verdict: CallResult, is_open: bool
) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)

    note(breaker, verdict)

    assert breaker.is_open is is_open
    assert breaker.start_call() is not is_open


def test_calls_that_fail_after_it_opened_do_not_lengthen_the_cool_down(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    assert breaker.start_call()
    fail(breaker, 3)
    clock.advance(10)

    breaker.record(CallResult.FAILURE)

    assert breaker.remaining_s == COOL_DOWN_S - 10
