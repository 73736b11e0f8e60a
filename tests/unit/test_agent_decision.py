"""A model points by idx, by idx as text, or by an id that it was shown; everything else points at nothing."""

import json
import math

import pytest

from knowhub.core.choices import MAX_POINTED, Choices
from knowhub.keywords.agent_decision import Action, decode, is_row

IDS = ["a1", "b2", "c3"]


class Unspeakable:
    """What has no text."""

    def __str__(self) -> str:
        raise RuntimeError("nobody may ask for the text of this")

    __repr__ = object.__repr__


@pytest.fixture
def choices() -> Choices:
    return Choices(IDS, also=["root", "up"])


@pytest.mark.parametrize(
    ("pointed", "meant"),
    [(1, "a1"), (3, "c3"), ("2", "b2"), (" 2 ", "b2"), ("３", "c3"), ("b2", "b2"), ("up", "up"), ("root", "root")],
)
def test_an_idx_or_an_id_that_was_shown_is_understood(choices: Choices, pointed: object, meant: str) -> None:
    assert choices.pick(pointed) == meant


def test_anything_else_points_at_nothing(choices: Choices) -> None:
    # In one test: pytest cannot name an int of 5,000 digits.
    numbers = [0, -1, 4, 10**5000, True, False, 1.0, math.nan, math.inf]
    texts = ["", "0", "-1", "4", "1.0", "1e0", "²", "9" * 5000, "A1", "d4", "1, 2", "\ud800", "a1\x00"]
    others = [None, b"1", object(), [], [1], {"idx": 1}, {1}, (1,), [[[1]]]]

    assert [choices.pick(pointed) for pointed in (*numbers, *texts, *others)] == [None] * 31


def test_numbers_count_from_one_anew_for_each_list_that_is_shown() -> None:
    first, second = Choices(["a1", "b2"]), Choices(["c3"])

    assert (first.pick(1), second.pick(1)) == ("a1", "c3")
    assert (second.pick(2), second.pick("b2")) == (None, None)
    assert first.by_idx == {"1": "a1", "2": "b2"}


def test_several_targets_come_before_a_single_one(choices: Choices) -> None:
    both = decode({"action": "match", "node_ids": [2, "3", 2, "c3"], "node_id": 1}, choices)
    single = decode({"action": "match", "node_ids": [], "node_id": "1"}, choices)
    blanks = decode({"action": "match", "node_ids": [None, "", " "], "node_id": 1}, choices)
    strange = decode({"action": "match", "node_ids": [99], "node_id": 1}, choices)
    none = decode({"action": "match", "node_ids": None, "node_id": ""}, choices)

    assert both is not None
    assert (both.targets, both.strays) == (("b2", "c3"), False)
    assert single is not None
    assert (single.targets, single.strays) == (("a1",), False)
    assert blanks is not None
    assert (blanks.targets, blanks.strays) == (("a1",), False)
    assert strange is not None
    assert (strange.targets, strange.strays) == ((), True)
    assert none is not None
    assert (none.targets, none.strays) == ((), False)


def test_one_target_where_a_list_is_due_and_a_list_where_one_is_due_are_understood(choices: Choices) -> None:
    scalar = decode({"action": "jump", "node_ids": 2}, choices)
    listed = decode({"action": "jump", "node_id": [3]}, choices)

    assert scalar is not None
    assert scalar.targets == ("b2",)
    assert listed is not None
    assert listed.targets == ("c3",)


def test_all_fields_of_an_answer_are_read(choices: Choices) -> None:
    decision = decode(
        {
            "action": "ambiguous",
            "candidate_ids": [1, "2", 9],
            "jump_depth": 2,
            "suggest_name": " R\n ",
            "reason": "why",
        },
        choices,
    )

    assert decision is not None
    assert decision.action is Action.AMBIGUOUS
    assert decision.candidate_ids == ("a1", "b2")
    assert decision.strays
    assert (decision.jump_depth, decision.suggest_name, decision.reason) == (2, "R", "why")


def test_a_list_of_any_length_is_cut_and_so_is_text(choices: Choices) -> None:
    many = Choices([f"k{number}" for number in range(200)])

    long = decode({"action": "match", "node_ids": list(range(10_000)), "reason": "x" * 10_000}, many)
    odd = decode({"action": "missing", "suggest_name": ["R"], "reason": {"no": "text"}, "jump_depth": True}, choices)

    assert long is not None
    assert len(long.targets) == MAX_POINTED
    assert len(long.reason) == 500
    assert odd is not None
    assert (odd.suggest_name, odd.reason, odd.jump_depth) == (None, "", 1)


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
        {"action": Unspeakable()},
        {"acti": 1},
    ],
)
def test_what_is_no_decision_is_none(choices: Choices, answer: object) -> None:
    assert decode(answer, choices) is None


def test_lists_in_lists_without_end_are_no_action(choices: Choices) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    assert decode({"action": deep}, choices) is None


def test_a_decision_that_was_kept_reads_the_same_again(choices: Choices) -> None:
    for answer in (
        {"action": "jump", "node_ids": [1, 2], "jump_depth": 3, "reason": "r"},
        {"action": "match", "node_id": 3},
        {"action": "missing", "suggest_name": "新词"},
        {"action": "ambiguous", "candidate_ids": ["1", "3"]},
    ):
        decision = decode(answer, choices)

        assert decision is not None
        assert decode(decision.as_row(), choices) == decision
        assert is_row(json.loads(json.dumps(decision.as_row())))


@pytest.mark.parametrize(
    "changed",
    [
        {"action": 1},
        {"node_id": ["a1"]},
        {"node_ids": "a1"},
        {"node_ids": [1]},
        {"candidate_ids": None},
        {"candidate_ids": [None]},
        {"suggest_name": 5},
        {"jump_depth": "1"},
        {"reason": None},
    ],
)
def test_what_has_another_shape_than_a_decision_is_none_that_was_kept(
    choices: Choices, changed: dict[str, object]
) -> None:
    decision = decode({"action": "match", "node_id": 3}, choices)

    assert decision is not None
    assert not is_row({**decision.as_row(), **changed})
    assert not is_row({name: one for name, one in decision.as_row().items() if name not in changed})
    assert not is_row([decision.as_row()])


def test_what_no_name_can_hold_does_not_get_through(choices: Choices) -> None:
    decision = decode({"action": "missing", "suggest_name": "a\ud800b\0c", "reason": "\udfff"}, choices)

    assert decision is not None
    assert (decision.suggest_name, decision.reason) == ("a?b c", "?")
