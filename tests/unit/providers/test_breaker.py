"""The breaker by itself: when it opens, whom it lets through, what closes it."""

import pytest

from knowhub.providers.breaker import Breaker, Verdict
from tests.builders import FakeClock

COOL_DOWN_S = 30.0


@pytest.fixture
def breaker(clock: FakeClock) -> Breaker:
    return Breaker(3, COOL_DOWN_S, clock.now)


def admitted(breaker: Breaker) -> int:
    epoch = breaker.admit()
    assert epoch is not None
    return epoch


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.note(admitted(breaker), Verdict.ILL)


def test_it_opens_at_the_last_failure_in_a_row_and_not_before(breaker: Breaker) -> None:
    fail(breaker, 2)
    before = breaker.is_open

    fail(breaker, 1)

    assert not before
    assert breaker.is_open
    assert breaker.admit() is None
    assert breaker.remaining_s == COOL_DOWN_S


def test_a_success_begins_the_count_anew(breaker: Breaker) -> None:
    fail(breaker, 2)
    breaker.note(admitted(breaker), Verdict.WELL)

    fail(breaker, 2)

    assert not breaker.is_open


def test_a_call_that_says_nothing_is_neither_failure_nor_success(breaker: Breaker) -> None:
    fail(breaker, 2)

    breaker.note(admitted(breaker), Verdict.NOTHING)

    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open


def test_after_the_cool_down_one_call_probes_and_the_others_wait_for_it(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)

    may_ask = [breaker.admit() is not None for _ in range(3)]

    assert may_ask == [True, False, False]
    assert breaker.is_open


@pytest.mark.parametrize(("verdict", "is_open"), [(Verdict.WELL, False), (Verdict.ILL, True), (Verdict.NOTHING, False)])
def test_the_probe_closes_it_or_opens_it_anew_or_leaves_the_probe_to_another(
    breaker: Breaker, clock: FakeClock, verdict: Verdict, is_open: bool
) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    probe = admitted(breaker)

    breaker.note(probe, verdict)

    assert breaker.is_open is is_open
    assert (breaker.admit() is None) is is_open


def test_one_failed_probe_is_enough_to_open_it_for_the_whole_cool_down(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    fail(breaker, 1)

    clock.advance(COOL_DOWN_S - 1)

    assert breaker.remaining_s == 1
    assert breaker.is_open


def test_calls_that_fail_after_it_opened_do_not_lengthen_the_cool_down(breaker: Breaker, clock: FakeClock) -> None:
    straggler = admitted(breaker)
    fail(breaker, 3)
    clock.advance(10)

    breaker.note(straggler, Verdict.ILL)

    assert breaker.remaining_s == COOL_DOWN_S - 10


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_straggler_neither_frees_the_probes_place_nor_decides_for_it(
    breaker: Breaker, clock: FakeClock, verdict: Verdict
) -> None:
    straggler = admitted(breaker)
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    probe = admitted(breaker)

    breaker.note(straggler, verdict)

    assert breaker.admit() is None
    assert breaker.remaining_s == 0
    breaker.note(probe, Verdict.WELL)
    assert not breaker.is_open


@pytest.mark.parametrize("verdict", [Verdict.WELL, Verdict.ILL])
def test_a_straggler_of_before_does_not_count_once_the_probe_has_closed_it(clock: FakeClock, verdict: Verdict) -> None:
    breaker = Breaker(1, COOL_DOWN_S, clock.now)
    straggler = admitted(breaker)
    fail(breaker, 1)
    clock.advance(COOL_DOWN_S)
    breaker.note(admitted(breaker), Verdict.WELL)

    breaker.note(straggler, verdict)

    assert not breaker.is_open


def test_a_straggler_does_not_close_what_has_opened(breaker: Breaker) -> None:
    straggler = admitted(breaker)
    fail(breaker, 3)

    breaker.note(straggler, Verdict.WELL)

    assert breaker.is_open


def test_a_probe_that_was_given_up_is_a_straggler_to_the_next_one(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, 3)
    clock.advance(COOL_DOWN_S)
    first = admitted(breaker)
    breaker.note(first, Verdict.NOTHING)
    second = admitted(breaker)

    breaker.note(first, Verdict.WELL)

    assert breaker.is_open
    breaker.note(second, Verdict.WELL)
    assert not breaker.is_open


def test_with_a_threshold_of_nothing_it_never_opens(clock: FakeClock) -> None:
    breaker = Breaker(0, COOL_DOWN_S, clock.now)

    fail(breaker, 100)

    assert not breaker.is_open
