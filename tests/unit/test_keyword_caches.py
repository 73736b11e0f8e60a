"""What searches found is kept until an operation touches what it rests on, or its time is over."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from knowhub.keywords.caches import Picks, ResultCache, touched
from knowhub.keywords.descent import PickQuestion
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


DESCENDED = {"path": ["root", "a"], "reason": "r"}
DECISION = {
    "action": "match",
    "node_id": "a",
    "node_ids": [],
    "jump_depth": 1,
    "suggest_name": None,
    "candidate_ids": [],
    "reason": "",
}
QUESTION = PickQuestion(
    account="default",
    reader=None,
    model="m",
    intent="search",
    query="蟒蛇",
    start_ids=("root",),
    candidates=(("k1", 1, "Python", "技术 / 语言"), ("k2", 4, "Go", "技术 / 语言")),
)


def test_a_value_is_kept_until_its_time_is_over() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("exact:x", "found", 3_600, [A])

    clock.advance(3_599.9)
    just_before = cache.get("exact:x")
    clock.advance(0.1)

    assert just_before == "found"
    assert cache.get("exact:x") is None


def test_what_is_over_leaves_nothing_behind() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("exact:x", "found", 1, [A, B])

    clock.advance(1)
    cache.get("exact:x")

    assert (len(cache), cache.get("exact:x")) == (0, None)


def test_what_rests_on_the_touched_goes_and_nothing_else() -> None:
    cache = ResultCache(FakeClock())
    cache.put("on a", 1, 60, [A])
    cache.put("on a and b", 2, 60, [A, B])
    cache.put("on b", 3, 60, [B])
    cache.put("on a of another account", 4, 60, [("another", "a")])

    cache.touch("default", ["a", "unknown"])

    assert [cache.get(key) for key in ("on a", "on a and b")] == [None, None]
    assert [cache.get(key) for key in ("on b", "on a of another account")] == [3, 4]


def test_a_value_that_is_put_again_rests_on_the_new_only() -> None:
    cache = ResultCache(FakeClock())
    cache.put("x", "old", 60, [A])
    cache.put("x", "new", 60, [B])

    cache.touch("default", ["a"])

    assert cache.get("x") == "new"


def test_a_value_that_is_put_after_a_touch_holds() -> None:
    cache = ResultCache(FakeClock())
    cache.put("x", "old", 60, [A])

    cache.touch("default", ["a"])
    cache.put("x", "new", 60, [A])
    cache.touch("default", ["b"])

    assert cache.get("x") == "new"


def test_what_is_older_than_the_touches_that_are_remembered_is_only_asked_again() -> None:
    cache = ResultCache(FakeClock(), remembered=2)
    cache.put("older", 1, 60, [A])
    cache.touch("default", ["c", "d"])
    cache.put("newer", 2, 60, [A])
    both = [cache.get(key) for key in ("older", "newer")]
    cache.put("older", 1, 60, [A])
    cache.touch("default", ["e"])
    cache.put("newer", 2, 60, [A])

    cache.touch("default", ["f", "g"])

    assert both == [1, 2]
    assert [cache.get(key) for key in ("older", "newer")] == [None, 2]


def test_over_capacity_what_was_read_longest_ago_goes() -> None:
    cache = ResultCache(FakeClock(), capacity=2)
    cache.put("x", 1, 60, [A])
    cache.put("y", 2, 60, [A])
    cache.get("x")

    cache.put("z", 3, 60, [A])

    assert [cache.get(key) for key in "xyz"] == [1, None, 3]


def test_wide_values_take_the_place_of_several() -> None:
    cache = ResultCache(FakeClock(), capacity=4)
    cache.put("x", 1, 60, [A])
    cache.put("y", 2, 60, [A])

    cache.put("wide", 3, 60, [("default", f"k{number}") for number in range(4 * 32 - 1)])

    assert [cache.get(key) for key in ("x", "y", "wide")] == [None, 2, 3]


def test_a_value_that_is_put_again_takes_one_place() -> None:
    cache = ResultCache(FakeClock(), capacity=4)
    wide = [("default", f"k{number}") for number in range(3 * 32)]
    cache.put("x", 1, 60, [A])

    for _ in range(10):
        cache.put("wide", 2, 60, wide)

    assert (cache.get("x"), cache.get("wide")) == (1, 2)


def test_a_value_for_which_all_others_would_have_to_go_is_not_kept() -> None:
    cache = ResultCache(FakeClock(), capacity=4)
    cache.put("x", 1, 60, [A])

    cache.put("too wide", 2, 60, [("default", f"k{number}") for number in range(4 * 32 + 1)])

    assert (cache.get("x"), cache.get("too wide")) == (1, None)


def test_what_was_paid_for_survives_a_restart_and_nothing_else() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("exact:x", b"rows", 3_600, [A])
    cache.put("descend:x", DESCENDED, 3_600, [A])
    cache.put("agent:pick:x", DECISION, 7_200, [B])

    written = json.dumps(cache.persistable())
    clock.advance(3_599)
    again = ResultCache(clock)
    again.restore(json.loads(written))

    assert again.get("exact:x") is None
    assert [again.get(key) for key in ("descend:x", "agent:pick:x")] == [DESCENDED, DECISION]
    again.touch("default", ["b"])
    clock.advance(1)
    assert [again.get(key) for key in ("descend:x", "agent:pick:x")] == [None, None]


def test_what_is_over_is_neither_written_nor_read_back() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("descend:x", DESCENDED, 60, [A])
    written = cache.persistable()

    clock.advance(60)
    cache.restore(written)

    assert cache.get("descend:x") is None
    assert cache.persistable() == []


@pytest.mark.parametrize(
    ("key", "value", "ttl_s"), [("descend:x", DESCENDED, 3_600), ("agent:pick:x", DECISION, 21_600)]
)
def test_what_was_put_before_the_clock_was_set_back_is_not_read_back(
    key: str, value: dict[str, Any], ttl_s: float
) -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put(key, value, ttl_s, [A])
    written = cache.persistable()

    now, earlier = ResultCache(clock), ResultCache(FakeClock(clock.now() - 1))
    now.restore(written)
    earlier.restore(written)

    assert (now.get(key), earlier.get(key)) == (value, None)


def test_a_clock_that_is_set_back_makes_nothing_immortal() -> None:
    clock = FakeClock()
    cache, read_back = ResultCache(clock), ResultCache(clock)
    cache.put("descend:x", DESCENDED, 3_600, [A])
    read_back.restore(cache.persistable())

    clock.advance(-365 * 86_400)
    left = [one.left_s("descend:x") for one in (cache, read_back)]
    listed = cache.persistable()
    clock.advance(300 * 86_400)

    assert (left, listed) == ([0, 0], [])
    assert [one.get("descend:x") for one in (cache, read_back)] == [None, None]
    assert len(cache) == 0


def test_what_a_value_has_left_is_told() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    cache.put("x", 1, 60, [A])

    clock.advance(45)
    before = cache.left_s("x")
    clock.advance(15)

    assert (before, cache.left_s("x"), cache.left_s("never")) == (15, 0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"key": 1},
        {"uses": None},
        {"uses": ["ab"]},
        {"uses": [["default"]]},
        {"uses": [["default", 1]]},
        {"expires_at": "soon"},
        {"expires_at": float("nan")},
        {"expires_at": 10**400},
        {"key": "exact:y"},
        {"key": "path:y"},
        {"key": "descended"},
        {"key": "agent:pick:y"},
        {"value": None},
        {"value": []},
        {"value": {}},
        {"value": {"path": ["root", "a"]}},
        {"value": {"reason": "r"}},
        {"value": {"path": [], "reason": "r"}},
        {"value": {"path": "root", "reason": "r"}},
        {"value": {"path": ["root", 5], "reason": "r"}},
        {"value": {"path": ["root"], "reason": ["r"]}},
        {"value": DECISION},
        {"key": "agent:pick:y", "value": DECISION | {"node_ids": [1]}},
        {"key": "agent:pick:y", "value": {"action": "match"}},
        {"key": "agent:pick:y", "value": None},
    ],
)
def test_what_another_version_wrote_in_another_shape_is_left_out(broken: dict[str, Any]) -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    good = {"key": "descend:x", "value": DESCENDED, "uses": [["default", "a"]], "expires_at": clock.now() + 60}

    cache.restore([good | {"key": "descend:y"} | broken if broken else {}, good])

    assert cache.get("descend:x") == DESCENDED
    assert len(cache) == 1


def test_those_read_last_stay_longest_over_a_restart_too() -> None:
    clock = FakeClock()
    cache = ResultCache(clock)
    for key in ("descend:x", "descend:y", "descend:z"):
        cache.put(key, DESCENDED, 60, [A])
    cache.get("descend:x")

    smaller = ResultCache(clock, capacity=2)
    smaller.restore(cache.persistable())

    assert [entry["key"] for entry in smaller.persistable()] == ["descend:z", "descend:x"]


def test_the_very_same_question_is_answered_as_before_for_six_hours() -> None:
    clock = FakeClock()
    picks = Picks(ResultCache(clock))
    picks.put(QUESTION, {"action": "match"})

    clock.advance(6 * 3_600 - 1)
    kept = picks.get(replace(QUESTION))
    clock.advance(1)

    assert kept == {"action": "match"}
    assert picks.get(QUESTION) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"account": "another"},
        {"reader": frozenset({"user:li"})},
        {"model": "n"},
        {"intent": "suggest_parent"},
        {"query": "蟒"},
        {"start_ids": ("k1",)},
        {"candidates": QUESTION.candidates[:1]},
        {"candidates": QUESTION.candidates[::-1]},
        {"candidates": (("k1", 2, "Python", "技术 / 语言"), QUESTION.candidates[1])},
        {"candidates": (("k1", 1, "Python", "技术 / 动物"), QUESTION.candidates[1])},
    ],
)
def test_whatever_an_answer_depends_on_makes_another_question(changed: dict[str, Any]) -> None:
    picks = Picks(ResultCache(FakeClock()))

    picks.put(QUESTION, {"action": "match"})

    assert picks.get(replace(QUESTION, **changed)) is None


@pytest.mark.parametrize("used", ["root", "k1", "k2"])
def test_a_decision_goes_when_what_was_shown_or_hangs_above_it_is_touched(used: str) -> None:
    cache = ResultCache(FakeClock())
    Picks(cache).put(QUESTION, {"action": "match"})

    cache.touch("default", [used])

    assert Picks(cache).get(QUESTION) is None


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
def test_a_change_touches_what_answers_rest_on(
    collection: str, before: dict[str, Any] | None, after: dict[str, Any], expected: set[str]
) -> None:
    assert touched(collection, before, after) == expected


KEYS = st.sampled_from(["descend:1", "descend:2", "exact:3", "exact:4"])
ACCOUNTS = st.sampled_from(["default", "another"])
USED = st.sets(st.sampled_from("abc"))


@dataclass
class Kept:
    """An entry of the naive model."""

    value: int
    put_at: float
    expires_at: float
    uses: set[tuple[str, str]]
    is_touched: bool = False

    def holds(self, now: float) -> bool:
        return self.put_at <= now < self.expires_at and not self.is_touched


def descended(value: int) -> dict[str, Any]:
    """What a descent keeps; the cache asks nothing of a value, until it reads it back."""
    return {"path": ["root", str(value)], "reason": ""}


class CacheMachine(RuleBasedStateMachine):
    """Any order of steps, against a list of entries in the order of their last use."""

    CAPACITY = 3

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.cache = ResultCache(self.clock, self.CAPACITY)
        self.kept: dict[str, Kept] = {}

    @rule(key=KEYS, value=st.integers(), ttl_s=st.sampled_from([1, 5, 10]), account=ACCOUNTS, used=USED)
    def put(self, key: str, value: int, ttl_s: float, account: str, used: set[str]) -> None:
        uses = {(account, one) for one in used}
        self.cache.put(key, descended(value), ttl_s, list(uses))
        self.kept.pop(key, None)
        self.kept[key] = Kept(value, self.clock.now(), self.clock.now() + ttl_s, uses)
        if len(self.kept) > self.CAPACITY:
            del self.kept[next(iter(self.kept))]

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        kept = self.kept.pop(key, None)
        expected = None
        if kept is not None and kept.holds(self.clock.now()):
            self.kept[key] = kept
            expected = descended(kept.value)

        assert self.cache.get(key) == expected

    @rule(account=ACCOUNTS, used=USED)
    def touch(self, account: str, used: set[str]) -> None:
        for kept in self.kept.values():
            kept.is_touched |= any((account, one) in kept.uses for one in used)

        self.cache.touch(account, used)

    @rule(seconds=st.sampled_from([0.5, 1, 4, -0.5, -4]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def restart(self) -> None:
        written = json.dumps(self.cache.persistable())
        self.cache = ResultCache(self.clock, self.CAPACITY)
        self.cache.restore(json.loads(written))
        now = self.clock.now()
        self.kept = {
            key: replace(kept, put_at=now)
            for key, kept in self.kept.items()
            if key.startswith("descend:") and kept.holds(now)
        }

    @invariant()
    def as_many_are_kept(self) -> None:
        assert len(self.cache) == len(self.kept)


TestCacheAgainstModel = CacheMachine.TestCase
TestCacheAgainstModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_the_texts_of_all_answers_have_a_bound_and_no_answer_takes_it_all() -> None:
    cache = ResultCache(FakeClock(), capacity_bytes=1600)

    for number in range(40):
        cache.put(f"exact:{number}", (b"x" * 50, {"path": ["y" * 50]}), 60, [])
    cache.put("exact:wide", [b"x" * 101], 60, [])

    assert [number for number in range(40) if cache.get(f"exact:{number}")] == list(range(24, 40))
    assert cache.get("exact:wide") is None
