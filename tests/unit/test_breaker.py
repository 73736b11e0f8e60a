"""The breaker by itself: when it opens, whom it lets through, what closes it."""

import pytest

from knowhub.providers.breaker import Breaker, Verdict
from tests.builders import FakeClock

COOL_DOWN_S = 30.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def breaker(clock: FakeClock) -> Breaker:
    return Breaker(3, COOL_DOWN_S, clock.now)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        assert breaker.admits()
        breaker.note(Verdict.ILL)


def test_it_opens_at_the_last_failure_in_a_row_and_not_before(breaker: Breaker) -> None:
    fail(breaker, 2)
    before = breaker.is_open

    fail(breaker, 1)

    assert not before
    assert breaker.is_open
    assert not breaker.admits()
    assert breaker.remaining_s == COOL_DOWN_S


def test_a_success_begins_the_count_anew(breaker: Breaker) -> None:
    fail(breaker, 2)
    breaker.note(Verdict.WELL)

    fail(breaker, 2)

    assert not breaker.is_open


def test_a_call_that_says_nothing_is_neither_failure_nor_success(breaker: Breaker) -> None:
    fail(breaker, 2)

    breaker.note(Verdict.NOTHING)

    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open


def test_after_the_cool_down_one_call_probes_and_the_others_wait_for_it(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)

    admitted = [breaker.admits() for _ in range(3)]

    assert admitted == [True, False, False]
    assert breaker.is_open


@pytest.mark.parametrize(("verdict", "is_open"), [(Verdict.WELL, False), (Verdict.ILL, True), (Verdict.NOTHING, False)])
def test_the_probe_closes_it_or_opens_it_anew_or_leaves_the_probe_to_another(
    breaker: Breaker, clock: FakeClock, verdict: Verdict, is_open: bool
) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    assert breaker.admits()

    breaker.note(verdict)

    assert breaker.is_open is is_open
    assert breaker.admits() is not is_open


def test_one_failed_probe_is_enough_to_open_it_for_the_whole_cool_down(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    fail(breaker, 1)

    clock.advance(COOL_DOWN_S - 1)

    assert breaker.remaining_s == 1
    assert breaker.is_open


def test_calls_that_fail_after_it_opened_do_not_lengthen_the_cool_down(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(10)

    breaker.note(Verdict.ILL)

    assert breaker.remaining_s == COOL_DOWN_S - 10
