"""A record is stale when its time is over, and never found when nothing speaks for it."""

from typing import Any

import pytest

from knowhub.audit.documents import find_stale, never_found
from knowhub.audit.impressions import RecentImpressions
from knowhub.core.clock import iso
from tests.builders import START, FakeClock, knowledge_row

DAY_S = 86_400.0
DAYS = 90


def row(**evaluation: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    made = knowledge_row()
    return {**made, "eval": {**made["eval"], **evaluation}}


def after(days: float) -> float:
    return START + days * DAY_S


def test_a_fresh_record_is_neither_stale_nor_never_found() -> None:
    assert find_stale(row(), None, after(89.9), DAYS) == {}
    assert never_found(row(), None, after(89.9), DAYS) == {}


def test_each_reason_is_named_with_what_shows_it() -> None:
    expired = {**row(score=2, harmful=1), "valid_to": iso(after(1))}

    reasons = find_stale(expired, "knowledge-2", after(90), DAYS)

    assert reasons == {
        "expired": {"valid_to": iso(after(1))},
        "superseded": {"by": "knowledge-2"},
        "bad_evidence": {"score": 2, "helpful": 1, "harmful": 1},
        "untouched": {"updated_at": iso(START), "days": 90},
    }


@pytest.mark.parametrize(("seconds", "is_over"), [(-1.0, False), (0.0, True), (1.0, True)])
def test_a_record_expires_at_its_valid_to(seconds: float, is_over: bool) -> None:
    ending = {**row(), "valid_to": iso(after(1))}

    assert ("expired" in find_stale(ending, None, after(1) + seconds, DAYS)) == is_over


@pytest.mark.parametrize(
    ("score", "helpful", "harmful", "is_bad"),
    [(3, 1, 2, False), (3, 1, 3, True), (2, 5, 1, True), (2, 1, 0, False), (5, 1, 3, False), (5, 0, 3, True)],
)
def test_evidence_is_bad_below_zero_or_with_harm_and_a_low_score(
    score: int, helpful: int, harmful: int, is_bad: bool
) -> None:
    judged = find_stale(row(score=score, helpful=helpful, harmful=harmful), None, START, DAYS)

    assert ("bad_evidence" in judged) == is_bad


def test_a_record_that_was_voted_for_or_shown_is_not_never_found() -> None:
    old = after(DAYS)

    assert never_found(row(), None, old, DAYS) == {"created_at": iso(START), "days": DAYS, "votes": 0}
    assert never_found(row(helpful=2), None, old, DAYS) == {}
    assert never_found(row(harmful=1), None, old, DAYS) == {}
    assert never_found(row(helpful_history=[{"task": "t"}]), None, old, DAYS) == {}
    assert never_found(row(), old - 1, old, DAYS) == {}


def test_what_was_shown_is_remembered_by_account() -> None:
    clock = FakeClock()
    shown = RecentImpressions(clock)
    clock.advance(5)

    shown.note("default", ["a", "b"])

    assert shown.known_since == START
    assert shown.last_shown("default", "a") == START + 5
    assert shown.last_shown("default", "c") is None
    assert shown.last_shown("elsewhere", "a") is None


def test_what_is_forgotten_moves_the_time_from_which_on_all_is_known() -> None:
    clock = FakeClock()
    shown = RecentImpressions(clock, limit=2)
    for record_id in ("a", "b", "a", "c"):
        clock.advance(1)
        shown.note("default", [record_id])

    assert shown.last_shown("default", "b") is None
    assert (shown.last_shown("default", "a"), shown.last_shown("default", "c")) == (START + 3, START + 4)
    assert shown.known_since == START + 2
