"""Search results are cached until an operation changes a row that they depend on, or until they expire."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from knowhub.keywords.cache import ResultCache, list_changed_keys
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS
from tests.builders import FakeClock

A, B = ("default", "a"), ("default", "b")


def keyword_row(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    return {
        "id": "k",
        "normalized": ["python"],
        "pinyin": [],
        "parent_id": "p",
        "description": "",
        "scopes": ["public"],
        "owner": "user:local",
    } | fields


def test_values_older_than_remembered_invalidations_are_misses() -> None:
    cache = ResultCache(FakeClock(), remembered=2)
    cache.put("older", 1, 60, [A])
    cache.invalidate("default", ["c", "d"])
    cache.put("newer", 2, 60, [A])
    both = [cache.get(key) for key in ("older", "newer")]
    cache.put("older", 1, 60, [A])
    cache.invalidate("default", ["e"])
    cache.put("newer", 2, 60, [A])

    cache.invalidate("default", ["f", "g"])

    assert both == [1, 2]
    assert [cache.get(key) for key in ("older", "newer")] == [None, 2]


def test_values_with_many_dependencies_use_several_slots() -> None:
    cache = ResultCache(FakeClock(), capacity=4)
    cache.put("x", 1, 60, [A])
    cache.put("y", 2, 60, [A])

    cache.put("wide", 3, 60, [("default", f"k{number}") for number in range(4 * 32 - 1)])

    assert [cache.get(key) for key in ("x", "y", "wide")] == [None, 2, 3]


@pytest.mark.parametrize(
    ("collection", "before", "after", "expected"),
    [
        pytest.param(KEYWORDS, None, keyword_row(), {"k", "p", "token:python"}, id="create"),
        pytest.param(
            KEYWORDS,
            None,
            keyword_row(id="root", parent_id=None, normalized=[]),
            {"root"},
            id="create the root",
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(description="a snake"), {"k", "token:python"}, id="describe"),
        pytest.param(
            KEYWORDS,
            keyword_row(),
            keyword_row(normalized=["蟒蛇"], pinyin=["mangshe"]),
            {"k", "token:python", "token:蟒蛇", "token:mangshe"},
            id="rename",
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(parent_id="q"), {"k", "p", "q", "token:python"}, id="move"),
        pytest.param(
            KEYWORDS, keyword_row(), keyword_row(deleted=True), {"k", "p", "token:python"}, id="delete or merge away"
        ),
        pytest.param(
            KEYWORDS, keyword_row(deleted=True), keyword_row(), {"k", "p", "token:python"}, id="undo of a delete"
        ),
        pytest.param(
            KEYWORDS, keyword_row(), keyword_row(scopes=["owner"]), {"k", "p", "token:python"}, id="hide from others"
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(owner="user:li"), {"k", "p", "token:python"}, id="give away"),
        pytest.param(INFOS, None, {"id": "i"}, {"i"}, id="create an info"),
        pytest.param(INFOS, {"id": "i"}, {"id": "i", "deleted": True}, {"i"}, id="delete an info"),
        pytest.param(LINKS, None, {"id": "i:k", "info_id": "i", "keyword_id": "k"}, {"i", "k"}, id="link"),
        pytest.param(
            LINKS,
            {"id": "i:k", "info_id": "i", "keyword_id": "k"},
            {"id": "i:k", "info_id": "i", "keyword_id": "k", "deleted": True},
            {"i", "k"},
            id="unlink",
        ),
        pytest.param("knowledge", None, {"id": "x"}, set(), id="something else"),
    ],
)
def test_a_change_invalidates_dependent_answers(
    collection: str, before: dict[str, Any] | None, after: dict[str, Any], expected: set[str]
) -> None:
    assert list_changed_keys(collection, before, after) == expected


KEYS = st.sampled_from(["descend:1", "descend:2", "exact:3", "exact:4"])
ACCOUNTS = st.sampled_from(["default", "another"])
USED = st.sets(st.sampled_from("abc"))


@dataclass
class ModelEntry:
    """An entry of the naive model."""

    value: int
    put_at: float
    expires_at: float
    uses: set[tuple[str, str]]
    is_touched: bool = False

    def is_valid_at(self, now: float) -> bool:
        return self.put_at <= now < self.expires_at and not self.is_touched


def descent_value(value: int) -> dict[str, Any]:
    """Return the cached value of a descent; the cache does not look into it."""
    return {"path": ["root", str(value)], "reason": ""}


class CacheMachine(RuleBasedStateMachine):
    """Any order of steps, against a list of entries in the order of their last use."""

    CAPACITY = 3

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.cache = ResultCache(self.clock, self.CAPACITY)
        self.kept: dict[str, ModelEntry] = {}

    @rule(key=KEYS, value=st.integers(), ttl_s=st.sampled_from([1, 5, 10]), account=ACCOUNTS, used=USED)
    def put(self, key: str, value: int, ttl_s: float, account: str, used: set[str]) -> None:
        uses = {(account, item) for item in used}
        self.cache.put(key, descent_value(value), ttl_s, list(uses))
        self.kept.pop(key, None)
        self.kept[key] = ModelEntry(value, self.clock.now(), self.clock.now() + ttl_s, uses)
        if len(self.kept) > self.CAPACITY:
            del self.kept[next(iter(self.kept))]

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        kept = self.kept.pop(key, None)
        expected = None
        if kept is not None and kept.is_valid_at(self.clock.now()):
            self.kept[key] = kept
            expected = descent_value(kept.value)

        assert self.cache.get(key) == expected

    @rule(account=ACCOUNTS, used=USED)
    def touch(self, account: str, used: set[str]) -> None:
        for kept in self.kept.values():
            kept.is_touched |= any((account, item) in kept.uses for item in used)

        self.cache.invalidate(account, used)

    @rule(seconds=st.sampled_from([0.5, 1, 4, -0.5, -4]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_size(self) -> None:
        assert len(self.cache) == len(self.kept)


TestCacheAgainstModel = CacheMachine.TestCase


def test_cached_texts_have_a_total_and_a_single_size_limit() -> None:
    cache = ResultCache(FakeClock(), capacity_bytes=1600)

    for number in range(40):
        cache.put(f"exact:{number}", (b"x" * 50, {"path": ["y" * 50]}), 60, [])
    cache.put("exact:wide", [b"x" * 101], 60, [])

    assert [number for number in range(40) if cache.get(f"exact:{number}")] == list(range(24, 40))
    assert cache.get("exact:wide") is None
