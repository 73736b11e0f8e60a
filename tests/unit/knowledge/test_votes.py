"""Votes on a record: their weight in the ranking is bounded for every voter and any number of votes."""

from typing import Any

import pytest

from knowhub.core.operation import Row
from knowhub.knowledge import evidence
from knowhub.knowledge.evidence import VoteKind, Voter, VoteWeights, is_downvoted, sum_votes, weigh_votes
from knowhub.knowledge.evolve.merging import merge_evaluation
from knowhub.knowledge.model import Feedback
from tests.builders import START, knowledge_row

HELPFUL, HARMFUL = Feedback(helpful_case={}), Feedback(harmful_case={})


def count_votes(row: Row, now: float = START) -> VoteWeights:
    return sum_votes(weigh_votes(row["eval"]), now)


def apply_votes(row: Row, feedback: Feedback, times: int = 1, voter: Voter | None = None) -> Row:
    for _ in range(times):
        row = evidence.with_feedback(row, feedback, START, voter)
    return row


def make_imported_row(**fields: Any) -> Row:  # noqa: ANN401 -- any figure
    row = knowledge_row()
    return row | {"eval": row["eval"] | fields}


def test_ten_thousand_voters_weigh_less_than_ten_votes() -> None:
    row: Row = knowledge_row()
    for number in range(10_000):
        row = apply_votes(row, HARMFUL, 1, Voter(f"user:{number}", "goal"))

    assert 9 < count_votes(row).harmful < 10
    assert len(row["eval"]["votes"]) == 40
    assert is_downvoted(row["eval"]["score"], count_votes(row))
    assert 0 < row["eval"]["confidence"] < 0.5


def test_repeated_votes_of_a_voter_leave_the_votes_of_others_their_weight() -> None:
    row = apply_votes(knowledge_row(), HELPFUL, 1, Voter("user:li", "goal"))
    row = apply_votes(row, HARMFUL, 100, Voter("user:wang"))

    found = count_votes(row)

    assert found.helpful > 0.8
    assert found.harmful < 2


def vote_for_goals(row: Row, feedback: Feedback, voter: str, goals: int) -> Row:
    for number in range(goals):
        row = apply_votes(row, feedback, 1, Voter(voter, f"goal {number}"))
    return row


@pytest.mark.parametrize(("mine", "theirs"), [(HARMFUL, HELPFUL), (HELPFUL, HARMFUL)])
@pytest.mark.parametrize("goals", [10, 40, 500])
def test_a_voter_with_many_goals_does_not_outvote_three_others(mine: Feedback, theirs: Feedback, goals: int) -> None:
    row: Row = knowledge_row()
    for number in range(3):
        row = apply_votes(row, theirs, 1, Voter(f"user:{number}", "goal"))
    row = vote_for_goals(row, mine, "user:loud", goals)

    found = count_votes(row)

    own, others = (found.harmful, found.helpful) if mine is HARMFUL else (found.helpful, found.harmful)
    assert own == pytest.approx(2.0)
    assert others > 2.7 * 0.81


def test_a_voter_whom_nobody_contradicts_learns_from_each_goal() -> None:
    alone = vote_for_goals(knowledge_row(), HARMFUL, "user:li", 10)
    agreed = apply_votes(alone, HARMFUL, 1, Voter("user:chen", "goal"))

    assert count_votes(alone).harmful == pytest.approx(sum(0.9**number for number in range(10)))
    assert count_votes(agreed).harmful > count_votes(alone).harmful


def test_a_single_dissent_takes_a_part_of_what_a_voter_learned() -> None:
    row = vote_for_goals(knowledge_row(), HELPFUL, "user:li", 30)
    dissents = [count_votes(vote_for_goals(row, HARMFUL, "user:chen", goals)) for goals in (0, 1, 20)]

    helpful = [found.helpful for found in dissents]
    assert helpful[0] > 9
    assert 4 < helpful[1] < helpful[0] - 3.5
    assert (helpful[2], dissents[2].harmful) == pytest.approx((2.0, 2.0))


def test_votes_for_many_goals_leave_those_of_others_in_the_store() -> None:
    row = vote_for_goals(knowledge_row("a"), HELPFUL, "user:li", 2)
    row = vote_for_goals(row, HARMFUL, "user:wang", 100)
    other = vote_for_goals(knowledge_row("b"), HARMFUL, "user:wang", 100)

    joined = merge_evaluation(row["eval"], [other["eval"]], START)

    for votes in (row["eval"]["votes"], joined["votes"]):
        assert (len(votes), [item["kind"] for item in votes].count("helpful")) == (40, 2)


def test_who_restores_a_record_takes_back_their_own_votes_only() -> None:
    sunk: Row = knowledge_row()
    for number in range(5):
        sunk = apply_votes(sunk, HARMFUL, 1, Voter("user:li", f"goal {number}"))
    imported = make_imported_row(harmful=4)
    mixed = apply_votes(sunk, HARMFUL, 1, Voter("user:chen", "goal"))

    def restore(row: Row) -> Row:
        return evidence.with_vote(row, VoteKind.RESTORED, START, Voter("user:li"))

    assert is_downvoted(3, count_votes(sunk))
    assert (count_votes(restore(sunk)), restore(sunk)["eval"]["harmful"]) == ((0.0, 0.0, 0.0), 5)
    assert count_votes(restore(mixed)) == (0.0, 1.0, 0.0)
    assert count_votes(restore(imported)) == count_votes(imported)
    assert count_votes(apply_votes(restore(sunk), HELPFUL, 1, Voter("user:li"))).helpful == 1.0


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


def test_merged_records_have_the_votes_of_all() -> None:
    first = apply_votes(knowledge_row("a"), HELPFUL, 1, Voter("user:li", "goal"))["eval"]
    other = apply_votes(knowledge_row("b"), HARMFUL, 1, Voter("user:chen", "goal"))["eval"] | {
        "weak": {"success": 2, "failure": 1}
    }

    joined = merge_evaluation(first, [other], START)

    assert [item["kind"] for item in joined["votes"]] == ["helpful", "harmful"]
    assert joined["weak"] == {"success": 2, "failure": 1}
    assert (joined["helpful"], joined["harmful"]) == (2, 1)
