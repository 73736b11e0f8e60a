"""What saving, editing and feedback do to a record, with no store and no clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.knowledge import decisions
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.model import Feedback
from knowhub.knowledge.votes import confidence as confidence_of
from tests.builders import START, imported, knowledge_row, local

LATER = START + 60
VOTES = st.lists(st.booleans(), max_size=60)


def voted(row: dict[str, Any], helpful: bool) -> dict[str, Any]:
    case = {"task": "t"}
    given_case = Feedback(helpful_case=case) if helpful else Feedback(harmful_case=case)
    return dict(evidence.with_feedback(row, given_case, LATER))


def test_two_rows_share_no_list_that_one_could_change_for_the_other() -> None:
    one, other = knowledge_row("a"), knowledge_row("b")

    after = voted(one, helpful=True)

    assert after["eval"]["helpful_history"]
    assert one["eval"]["helpful_history"] == other["eval"]["helpful_history"] == []


@given(VOTES)
def test_confidence_moves_with_each_vote_and_stays_within_its_bounds(votes: list[bool]) -> None:
    row = knowledge_row("a")
    for helpful in votes:
        after = voted(row, helpful)
        was, now_is = row["eval"]["confidence"], after["eval"]["confidence"]
        assert now_is >= was if helpful else now_is <= was
        assert 0 <= now_is < 1
        row = after


@given(VOTES)
def test_confidence_from_fresh_is_the_rule_of_the_evidence_when_votes_go_one_way(votes: list[bool]) -> None:
    row = knowledge_row("a")
    for _ in votes:
        row = voted(row, helpful=True)

    assert row["eval"]["confidence"] == pytest.approx(confidence_of(row["eval"], LATER), abs=1e-4)
    assert (row["eval"]["confidence"] > 0.5) == bool(votes)


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

    fresh = decisions.make_imported_row(line, "a", None, START, local())
    over = decisions.make_imported_row(line, "a", before, START, local())

    assert (fresh["eval"]["helpful"], fresh["eval"]["score"], fresh["version"]) == (7, 5, 1)
    assert over["version"] == 5
