"""Decisions of a model are cached for an hour. `search/test_cached_searches.py` tests what they depend on."""

import pytest

from knowhub.core.erasing import ERASED
from knowhub.core.operation import Change
from knowhub.keywords.cache import TTL_S, DecisionCache, RecentMatchesByReader, TreeFollower
from knowhub.keywords.model import INFOS
from tests.builders import FakeClock


def test_the_decision_that_was_not_read_longest_makes_room() -> None:
    cache = DecisionCache(FakeClock(), capacity=2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")

    cache.put("c", 3)

    assert [cache.get(key) for key in "abc"] == [1, None, 3]


@pytest.mark.parametrize(("seconds", "expected"), [(TTL_S - 1, 1), (TTL_S, None), (-1.0, None)])
def test_a_decision_holds_for_an_hour_and_not_before_it_was_made(seconds: float, expected: int | None) -> None:
    clock = FakeClock()
    cache = DecisionCache(clock)
    cache.put("a", 1)

    clock.advance(seconds)

    assert cache.get("a") == expected


def test_an_erase_clears_the_decisions() -> None:
    cache = DecisionCache(FakeClock())
    cache.put("a", 1)
    row = {"id": "i", "content": "", "deleted": True, ERASED: True}

    TreeFollower(cache, RecentMatchesByReader()).follow("default", 1, [Change(INFOS, "i", row, row)])

    assert cache.get("a") is None
