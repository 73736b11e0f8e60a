"""A model selects by idx, by idx as text, or by a shown id; every other value selects nothing."""

import math

import pytest

from knowhub.core.model_calls import MAX_POINTED, NumberedChoices
from knowhub.keywords.search.prompts import AgentAction, AgentDecision, parse_decision

IDS = ["a1", "b2", "c3"]


class NoText:
    """An object whose `str()` raises."""

    def __str__(self) -> str:
        raise RuntimeError("nobody may ask for the text of this")

    __repr__ = object.__repr__


@pytest.fixture
def choices() -> NumberedChoices:
    return NumberedChoices(IDS, also=["root", "up"])


@pytest.mark.parametrize(
    ("pointed", "meant"),
    [(1, "a1"), (3, "c3"), ("2", "b2"), (" 2 ", "b2"), ("３", "c3"), ("b2", "b2"), ("up", "up"), ("root", "root")],
)
def test_an_idx_or_an_id_that_was_shown_is_understood(choices: NumberedChoices, pointed: object, meant: str) -> None:
    assert choices.pick(pointed) == meant


def test_other_values_select_no_candidate(choices: NumberedChoices) -> None:
    # In one test: pytest cannot name an int of 5,000 digits.
    numbers = [0, -1, 4, 10**5000, True, False, 1.0, math.nan, math.inf]
    texts = ["", "0", "-1", "4", "1.0", "1e0", "²", "9" * 5000, "A1", "d4", "1, 2", "\ud800", "a1\x00"]
    others = [None, b"1", object(), [], [1], {"idx": 1}, {1}, (1,), [[[1]]]]

    assert [choices.pick(pointed) for pointed in (*numbers, *texts, *others)] == [None] * 31


def decide(answer: object, choices: NumberedChoices) -> AgentDecision:
    decision = parse_decision(answer, choices)
    assert decision is not None
    return decision


@pytest.mark.parametrize(
    ("pointers", "targets", "has_unknown_targets"),
    [
        ({"node_ids": [2, "3", 2, "c3"], "node_id": 1}, ("b2", "c3"), False),
        ({"node_ids": [], "node_id": "1"}, ("a1",), False),
        ({"node_ids": [None, "", " "], "node_id": 1}, ("a1",), False),
        ({"node_ids": [99], "node_id": 1}, (), True),
        ({"node_ids": None, "node_id": ""}, (), False),
        pytest.param({"node_ids": 2}, ("b2",), False, id="a scalar for a list"),
        pytest.param({"node_id": [3]}, ("c3",), False, id="a list for a scalar"),
    ],
)
def test_several_targets_come_before_a_single_one(
    choices: NumberedChoices, pointers: dict[str, object], targets: tuple[str, ...], has_unknown_targets: bool
) -> None:
    decision = decide({"action": "match", **pointers}, choices)

    assert (decision.targets, decision.has_unknown_targets) == (targets, has_unknown_targets)


def test_all_fields_of_an_answer_are_read(choices: NumberedChoices) -> None:
    names = {"candidate_ids": [1, "2", 9], "jump_depth": 2, "suggest_name": " R\n ", "reason": "why"}

    decision = decide({"action": "ambiguous", **names}, choices)

    assert decision == AgentDecision(AgentAction.AMBIGUOUS, ("a1", "b2"), "R", "why", has_unknown_targets=True)


def test_long_lists_and_texts_are_cut(choices: NumberedChoices) -> None:
    many = NumberedChoices([f"k{number}" for number in range(200)])

    long = decide({"action": "match", "node_ids": list(range(10_000)), "reason": "x" * 10_000}, many)
    odd = decide({"action": "missing", "suggest_name": ["R"], "reason": {"no": "text"}, "jump_depth": True}, choices)

    assert (len(long.targets), len(long.reason)) == (MAX_POINTED, 500)
    assert (odd.suggest_name, odd.reason) == (None, "")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "match",
        7,
        {},
        {"action": None},
        {"action": "delete"},
        {"action": ["match"]},
        {"action": {}},
        {"action": b"match"},
        {"action": NoText()},
        {"acti": 1},
    ],
)
def test_an_invalid_decision_is_none(choices: NumberedChoices, answer: object) -> None:
    assert parse_decision(answer, choices) is None


def test_deeply_nested_lists_are_no_action(choices: NumberedChoices) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    assert parse_decision({"action": deep}, choices) is None
