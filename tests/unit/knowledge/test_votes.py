"""Votes on a record: their weight in the ranking is bounded for every voter and any number of votes."""

from itertools import pairwise
from typing import Any

import pytest

from knowhub.core.operation import Row
from knowhub.knowledge import evidence
from knowhub.knowledge.evidence import Evidence, VoteKind, Voter, is_sunk, sum_votes, weigh_votes
from knowhub.knowledge.evolve.merging import merge_evaluation
from knowhub.knowledge.model import Feedback
from tests.builders import START, knowledge_row

HELPFUL, HARMFUL = Feedback(helpful_case={}), Feedback(harmful_case={})


def count_votes(row: Row, now: float = START) -> Evidence:
    return sum_votes(weigh_votes(row["eval"]), now)


def apply_votes(row: Row, feedback: Feedback, times: int = 1, voter: Voter | None = None) -> Row:
    for _ in range(times):
        row = evidence.with_feedback(row, feedback, START, voter)
    return row


def make_imported_row(**fields: Any) -> Row:  # noqa: ANN401 -- any figure
    row = knowledge_row()
    return row | {"eval": row["eval"] | fields}


def test_a_new_record_has_no_evidence_and_is_neutral() -> None:
    row = knowledge_row()

    assert count_votes(row) == (0.0, 0.0, 0.0)
    assert evidence.confidence(row["eval"], START) == row["eval"]["confidence"] == 0.5


def test_the_last_vote_of_a_voter_for_a_goal_counts() -> None:
    row = apply_votes(knowledge_row(), HELPFUL, 10, Voter("user:li", "goal"))
    changed = apply_votes(row, HARMFUL, 1, Voter("user:li", "goal"))
    other = apply_votes(row, HELPFUL, 1, Voter("user:li", "other goal"))

    assert count_votes(row) == (1.0, 0.0, 0.0)
    assert count_votes(changed) == (0.0, 1.0, 0.0)
    assert count_votes(other).helpful == pytest.approx(1.9)
    assert changed["eval"]["helpful"] == 11


def test_votes_without_a_goal_count_less_each_time() -> None:
    weights = [
        count_votes(apply_votes(knowledge_row(), HELPFUL, times, Voter("user:li"))).helpful
        for times in (1, 2, 3, 10_000)
    ]

    assert weights[0] == 1.0
    assert weights[1] == pytest.approx(1.45)
    assert all(item < other for item, other in pairwise(weights))
    assert weights[-1] < 2


def test_ten_thousand_votes_of_one_voter_do_not_outweigh_others() -> None:
    row = apply_votes(
        apply_votes(knowledge_row(), HELPFUL, 1, Voter("user:chen", "goal")), HARMFUL, 10_000, Voter("user:li")
    )

    assert row["eval"]["harmful"] == 10_000
    assert (count_votes(row).helpful > 0.5, count_votes(row).harmful < 2) == (True, True)
    assert not is_sunk(row["eval"]["score"], count_votes(row))


def test_ten_thousand_voters_weigh_less_than_ten_votes() -> None:
    row: Row = knowledge_row()
    for number in range(10_000):
        row = apply_votes(row, HARMFUL, 1, Voter(f"user:{number}", "goal"))

    assert 9 < count_votes(row).harmful < 10
    assert len(row["eval"]["votes"]) == 40
    assert is_sunk(row["eval"]["score"], count_votes(row))
    assert 0 < row["eval"]["confidence"] < 0.5


def test_passed_over_votes_change_no_counter() -> None:
    row = evidence.with_vote(knowledge_row(), VoteKind.PASSED_OVER, START, Voter("user:li", "goal"))

    assert count_votes(row) == (0.0, 0.0, 1.0)
    assert {name: row["eval"][name] for name in ("helpful", "harmful", "confidence")} == {
        "helpful": 1,
        "harmful": 0,
        "confidence": 0.5,
    }


def test_weak_evidence_is_counted_separately() -> None:
    row = evidence.with_weak_evidence(knowledge_row(), START, has_succeeded=True)
    row = evidence.with_weak_evidence(row, START, has_succeeded=False)

    assert row["eval"]["weak"] == {"success": 1, "failure": 1}
    assert (count_votes(row), row["eval"]["helpful"], row["eval"]["harmful"]) == ((0.0, 0.0, 0.0), 1, 0)


def test_a_restored_record_starts_without_evidence() -> None:
    sunk: Row = knowledge_row()
    for number in range(5):
        sunk = apply_votes(sunk, HARMFUL, 1, Voter(f"user:{number}", "goal"))

    restored = evidence.with_vote(sunk, VoteKind.RESTORED, START, Voter("user:li"))

    assert is_sunk(3, count_votes(sunk))
    assert (count_votes(restored), restored["eval"]["harmful"]) == ((0.0, 0.0, 0.0), 5)
    assert count_votes(apply_votes(restored, HELPFUL)).helpful == 1.0


@pytest.mark.parametrize(
    ("fields", "helpful", "harmful"),
    [
        ({"helpful": 4}, 2.71, 0.0),
        ({"helpful": 1, "harmful": 2}, 0.0, 1.9),
        ({"helpful": 2, "helpful_history": [{"timestamp": "2026-03-05T12:00:00Z"}]}, 1.0, 0.0),
        ({"helpful": 1_000_000}, 9.85, 0.0),
    ],
)
def test_the_counters_of_earlier_versions_and_imports_are_votes(
    fields: dict[str, Any], helpful: float, harmful: float
) -> None:
    found = count_votes(make_imported_row(**fields))

    assert [found.helpful, found.harmful] == pytest.approx([helpful, harmful], abs=0.01)


def test_the_first_vote_converts_old_counters_to_votes() -> None:
    row = apply_votes(
        make_imported_row(helpful=3, effective={"helpful": 2, "harmful": 0}), HELPFUL, 1, Voter("user:li", "goal")
    )

    assert count_votes(row).helpful == pytest.approx(2.71, abs=0.01)
    assert "effective" not in row["eval"]


def test_merged_records_have_the_votes_of_all() -> None:
    first = apply_votes(knowledge_row("a"), HELPFUL, 1, Voter("user:li", "goal"))["eval"]
    other = apply_votes(knowledge_row("b"), HARMFUL, 1, Voter("user:chen", "goal"))["eval"] | {
        "weak": {"success": 2, "failure": 1}
    }

    joined = merge_evaluation(first, [other], START)

    assert [item["kind"] for item in joined["votes"]] == ["helpful", "harmful"]
    assert joined["weak"] == {"success": 2, "failure": 1}
    assert (joined["helpful"], joined["harmful"]) == (2, 1)
