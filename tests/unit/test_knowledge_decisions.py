"""What saving, editing and feedback do to a record, with no store and no clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.errors import Forbidden, InvalidInput
from knowhub.knowledge import decisions, ranking
from knowhub.knowledge.model import HISTORY_SHOWN, Feedback
from tests.builders import START, caller, imported, knowledge_row, local, new_knowledge

LATER = START + 60
VOTES = st.lists(st.booleans(), max_size=60)


def voted(row: dict[str, Any], helpful: bool) -> dict[str, Any]:
    case = {"task": "t"}
    given_case = Feedback(helpful_case=case) if helpful else Feedback(harmful_case=case)
    return dict(decisions.with_feedback(row, given_case, LATER))


def test_a_new_row_has_every_field_of_the_seed() -> None:
    row = knowledge_row("k-1", content="wait", tags={"site": "x"}, resource_ids=["r", "r"])

    assert (row["id"], row["version"], row["type"], row["types"]) == ("k-1", 1, "tool", ["tool"])
    assert (row["scopes"], row["owner"], row["visibility"]) == (["user:owner"], "user:local", "private")
    assert (row["created_at"], row["updated_at"]) == ("2026-03-05T12:00:00.000Z", "2026-03-05T12:00:00.000Z")
    assert row["resource_ids"] == ["r"]
    assert row["source"] == {
        "name": None,
        "category": "exp",
        "urls": [],
        "agent_id": None,
        "submitted_by": None,
        "timestamp": "2026-03-05T12:00:00.000Z",
        "message_id": None,
        "trace_id": None,
    }
    assert row["eval"] == {
        "score": 3,
        "helpful": 1,
        "harmful": 0,
        "confidence": 0.5,
        "helpful_history": [],
        "harmful_history": [],
    }


def test_two_rows_share_no_list_that_one_could_change_for_the_other() -> None:
    one, other = knowledge_row("a"), knowledge_row("b")

    after = voted(one, helpful=True)

    assert after["eval"]["helpful_history"]
    assert one["eval"]["helpful_history"] == other["eval"]["helpful_history"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task": " ", "content": "\n"}, "content"),
        ({"valid_from": "2026-03-05T12:00:00Z", "valid_to": "2026-03-05T12:00:00Z"}, "valid_to"),
    ],
)
def test_a_record_that_says_nothing_or_ends_before_it_begins_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        knowledge_row(**fields)

    assert [error.field for error in refused.value.errors] == [field]


def test_a_named_caller_owns_what_they_save_and_cannot_give_it_to_another() -> None:
    ann = caller(user_id="ann")

    row = decisions.new_row(new_knowledge(), "a", START, ann)
    with pytest.raises(Forbidden):
        decisions.new_row(new_knowledge(owner="user:bob"), "a", START, ann)

    assert row["owner"] == "user:ann"
    assert decisions.new_row(new_knowledge(owner="user:bob"), "a", START, local())["owner"] == "user:bob"


def test_a_patch_changes_what_it_names_and_what_follows_from_it() -> None:
    row = knowledge_row("a", source={"name": "chat"})

    after = decisions.patched(
        row, {"types": ["plan", "tool"], "scopes": ["public"], "source": {"message_id": "m-1"}}, LATER
    )

    assert after is not None
    assert (after["type"], after["visibility"], after["message_id"]) == ("plan", "public", "m-1")
    assert (after["source"]["name"], after["source"]["message_id"]) == ("chat", "m-1")
    assert (after["version"], after["updated_at"]) == (2, "2026-03-05T12:01:00.000Z")
    assert {name: after[name] for name in ("id", "content", "eval", "created_at")} == {
        name: row[name] for name in ("id", "content", "eval", "created_at")
    }


def test_a_patch_that_changes_nothing_is_no_change() -> None:
    row = knowledge_row("a", content="wait")

    assert decisions.patched(row, {"content": "wait", "source": {"category": "exp"}}, LATER) is None
    assert decisions.patched(row, {}, LATER) is None


def test_a_patch_that_leaves_nothing_said_is_refused() -> None:
    row = knowledge_row("a", task="", content="wait")

    with pytest.raises(InvalidInput):
        decisions.patched(row, {"content": " "}, LATER)


def test_feedback_counts_each_part_that_is_given() -> None:
    row = knowledge_row("a")
    both = Feedback({"task": "it helped"}, {"task": "it hurt", "timestamp": "2026-01-01T00:00:00Z"}, 5)

    after = decisions.with_feedback(row, both, LATER)

    evaluation = after["eval"]
    assert (evaluation["helpful"], evaluation["harmful"], evaluation["score"]) == (2, 1, 5)
    assert evaluation["helpful_history"] == [{"task": "it helped", "timestamp": "2026-03-05T12:01:00.000Z"}]
    assert evaluation["harmful_history"] == [{"task": "it hurt", "timestamp": "2026-01-01T00:00:00Z"}]
    assert (after["version"], after["content"]) == (2, row["content"])


def test_feedback_that_says_nothing_new_is_no_change() -> None:
    row = knowledge_row("a")

    assert decisions.with_feedback(row, Feedback(), LATER) is row
    assert decisions.with_feedback(row, Feedback(score=3), LATER) is row


def test_a_row_shows_the_last_cases_and_counts_them_all() -> None:
    row = knowledge_row("a")
    for number in range(HISTORY_SHOWN + 5):
        row = dict(decisions.with_feedback(row, Feedback(helpful_case={"task": str(number)}), LATER))

    history = row["eval"]["helpful_history"]
    assert [history[0]["task"], history[-1]["task"], len(history)] == ["5", "54", HISTORY_SHOWN]
    assert row["eval"]["helpful"] == HISTORY_SHOWN + 6


@given(VOTES)
def test_confidence_moves_with_each_vote_and_stays_within_its_bounds(votes: list[bool]) -> None:
    row = knowledge_row("a")
    for helpful in votes:
        after = voted(row, helpful)
        was, now_is = row["eval"]["confidence"], after["eval"]["confidence"]
        assert now_is > was if helpful else now_is < was or (now_is == was == 0)
        assert 0 <= now_is < 1
        row = after


@given(VOTES)
def test_confidence_from_fresh_is_the_rule_of_the_evidence_when_votes_go_one_way(votes: list[bool]) -> None:
    row = knowledge_row("a")
    for _ in votes:
        row = voted(row, helpful=True)

    evaluation = row["eval"]
    expected = ranking.confidence(evaluation["helpful"], evaluation["harmful"])
    assert evaluation["confidence"] == pytest.approx(expected, abs=1e-4)


@given(st.floats(0, 1), st.booleans())
def test_an_imported_confidence_keeps_its_lead(confidence: float, helpful: bool) -> None:
    row = knowledge_row("a")
    row["eval"]["confidence"] = confidence

    after = voted(row, helpful)["eval"]["confidence"]

    assert 0 <= after <= 1
    assert after >= confidence - 1e-6 if helpful else after <= confidence + 1e-6


def test_an_imported_row_keeps_its_evidence_and_its_version_goes_on_rising() -> None:
    line = imported("a", "brought along", helpful=7, score=5)
    before = knowledge_row("a") | {"version": 4}

    fresh = decisions.imported_row(line, "a", None, START, local())
    over = decisions.imported_row(line, "a", before, START, local())

    assert (fresh["eval"]["helpful"], fresh["eval"]["score"], fresh["version"]) == (7, 5, 1)
    assert over["version"] == 5


def test_a_deleted_row_keeps_its_content_so_that_it_can_come_back() -> None:
    row = knowledge_row("a")

    after = decisions.deleted(row, LATER)

    assert (after["deleted"], after["version"], after["content"]) == (True, 2, row["content"])
