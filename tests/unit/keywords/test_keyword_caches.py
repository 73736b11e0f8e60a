"""Search results are cached until an operation changes a row that they depend on, or until they expire."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from knowhub.core.operation import Change
from knowhub.keywords.cache import TTL_S, ResultCache, list_changed_dependencies
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS
from tests.builders import FakeClock

A = ("default", "a")


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


def test_values_with_many_dependencies_use_several_slots() -> None:
    cache = ResultCache(FakeClock(), capacity=4)
    cache.put("x", 1, [A])
    cache.put("y", 2, [A])

    cache.put("wide", 3, [("default", f"k{number}") for number in range(4 * 32 - 1)])

    assert [cache.get(key) for key in ("x", "y", "wide")] == [None, 2, 3]


@pytest.mark.parametrize(
    ("collection", "before", "after", "expected"),
    [
        pytest.param(KEYWORDS, None, keyword_row(), {"k", "p", "name:python"}, id="create"),
        pytest.param(
            KEYWORDS,
            None,
            keyword_row(id="root", parent_id=None, normalized=[]),
            {"root"},
            id="create the root",
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(description="a snake"), {"k", "name:python"}, id="describe"),
        pytest.param(
            KEYWORDS,
            keyword_row(),
            keyword_row(normalized=["蟒蛇"], pinyin=["mangshe"]),
            {"k", "name:python", "name:蟒蛇", "name:mangshe"},
            id="rename",
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(parent_id="q"), {"k", "p", "q", "name:python"}, id="move"),
        pytest.param(
            KEYWORDS, keyword_row(), keyword_row(deleted=True), {"k", "p", "name:python"}, id="delete or merge away"
        ),
        pytest.param(
            KEYWORDS, keyword_row(deleted=True), keyword_row(), {"k", "p", "name:python"}, id="undo of a delete"
        ),
        pytest.param(
            KEYWORDS, keyword_row(), keyword_row(scopes=["owner"]), {"k", "p", "name:python"}, id="hide from others"
        ),
        pytest.param(KEYWORDS, keyword_row(), keyword_row(owner="user:li"), {"k", "p", "name:python"}, id="give away"),
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
    change = Change(collection, str(after["id"]), before, after)

    assert list_changed_dependencies(change) == expected


KEYS = st.sampled_from(["descend:1", "descend:2", "exact:3", "exact:4"])
ACCOUNTS = st.sampled_from(["default", "another"])
NAMES = st.sets(st.sampled_from("abc"))


@dataclass
class ModelEntry:
    """An entry of the naive model."""

    value: int
    put_at: float
    dependencies: set[tuple[str, str]]

    def is_valid_at(self, now: float) -> bool:
        return self.put_at <= now < self.put_at + TTL_S


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

    @rule(key=KEYS, value=st.integers(), account=ACCOUNTS, names=NAMES)
    def put(self, key: str, value: int, account: str, names: set[str]) -> None:
        dependencies = {(account, name) for name in names}
        self.cache.put(key, descent_value(value), list(dependencies))
        self.kept.pop(key, None)
        self.kept[key] = ModelEntry(value, self.clock.now(), dependencies)
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

    @rule(account=ACCOUNTS, names=NAMES)
    def touch(self, account: str, names: set[str]) -> None:
        for key, kept in list(self.kept.items()):
            if any((account, name) in kept.dependencies for name in names):
                del self.kept[key]

        self.cache.invalidate(account, names)

    @rule(seconds=st.sampled_from([600, 3_000, -0.5, -4_000]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_size(self) -> None:
        assert len(self.cache) == len(self.kept)


TestCacheAgainstModel = CacheMachine.TestCase


def test_cached_texts_have_a_total_and_a_single_size_limit() -> None:
    cache = ResultCache(FakeClock(), capacity_bytes=1600)

    for number in range(40):
        cache.put(f"exact:{number}", number, rows=[b"x" * 50, b"y" * 50])
    cache.put("exact:wide", "wide", rows=[b"x" * 101])

    assert [number for number in range(40) if cache.get(f"exact:{number}") is not None] == list(range(24, 40))
    assert cache.get("exact:wide") is None
