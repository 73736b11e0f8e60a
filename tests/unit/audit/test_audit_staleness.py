"""Which records are stale or never found, from what was shown recently."""

from knowhub.audit.impressions import RecentImpressions
from tests.builders import START, FakeClock


def test_impressions_are_remembered_by_account() -> None:
    clock = FakeClock()
    shown = RecentImpressions(clock)
    clock.advance(5)

    shown.note("default", ["a", "b"])

    assert shown.known_since == START
    assert shown.last_shown("default", "a") == START + 5
    assert shown.last_shown("default", "c") is None
    assert shown.last_shown("elsewhere", "a") is None


def test_dropped_impressions_move_the_start_of_the_known_time() -> None:
    clock = FakeClock()
    shown = RecentImpressions(clock, limit=2)
    for record_id in ("a", "b", "a", "c"):
        clock.advance(1)
        shown.note("default", [record_id])

    assert shown.last_shown("default", "b") is None
    assert (shown.last_shown("default", "a"), shown.last_shown("default", "c")) == (START + 3, START + 4)
    assert shown.known_since == START + 2
