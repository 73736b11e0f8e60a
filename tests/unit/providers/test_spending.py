"""The limit of an hour by itself."""

import pytest

from knowhub.providers.spending import TokenBudget, estimate_request_tokens
from tests.builders import FakeClock


def test_each_minute_is_forgotten_an_hour_after_it(clock: FakeClock) -> None:
    spending = TokenBudget(100, clock.now)
    assert spending.reserve(60)
    clock.advance(1800)
    assert spending.reserve(40)

    clock.advance(1799)
    before = spending.reserve(1)
    clock.advance(1)

    assert not before
    assert spending.reserve(60)
    assert not spending.reserve(1)


def test_a_limit_of_nothing_is_no_limit(clock: FakeClock) -> None:
    spending = TokenBudget(0, clock.now)

    assert all(spending.reserve(10**9) for _ in range(10))


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("编程语言", 5), ("a word or two", 5)])
def test_tokens_are_guessed_by_the_bytes(text: str, tokens: int) -> None:
    assert estimate_request_tokens(text.encode()) == tokens
