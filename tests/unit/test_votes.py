"""What votes weigh as rows: where nobody is told apart, where records become one, and in a record's head."""

from typing import Any

import pytest

from knowhub.knowledge import table
from knowhub.knowledge.evolve.merging import merge_evaluation
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.model import Feedback
from tests.builders import START, knowledge_row


def evaluation(helpful: int, harmful: int, effective: tuple[int, int] | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {**knowledge_row()["eval"], "helpful": helpful, "harmful": harmful}
    return row if effective is None else row | {"effective": dict(zip(("helpful", "harmful"), effective, strict=True))}


def test_evidence_of_nobody_in_particular_weighs_each_time() -> None:
    row = knowledge_row() | {"eval": evaluation(5, 2, (2, 1))}

    after = evidence.with_feedback(row, Feedback(helpful_case={}, harmful_case={}), START)

    assert after["eval"]["effective"] == {"helpful": 3, "harmful": 2}
    assert (after["eval"]["helpful"], row["eval"]["effective"]["helpful"]) == (6, 2)


def test_a_record_is_ranked_by_what_its_votes_weigh() -> None:
    weighed, counted = (
        table.summarize(knowledge_row() | {"eval": one}, 1, 1) for one in (evaluation(1, 9, (1, 1)), evaluation(1, 9))
    )

    assert [evidence.summary_quality(one) for one in (weighed, counted)] == [2.0, -14.0]


@pytest.mark.parametrize(
    ("survivor", "source", "effective"),
    [
        (evaluation(3, 0), evaluation(4, 2), None),
        (evaluation(3, 0, (2, 0)), evaluation(4, 2), {"helpful": 5, "harmful": 2}),
        (evaluation(3, 0), evaluation(4, 2, (1, 1)), {"helpful": 3, "harmful": 1}),
        (evaluation(3, 0, (2, 0)), evaluation(4, 2, (2, 1)), {"helpful": 3, "harmful": 1}),
    ],
)
def test_what_records_weigh_that_become_one_adds_up(
    survivor: dict[str, Any], source: dict[str, Any], effective: dict[str, int] | None
) -> None:
    joined = merge_evaluation(survivor, [source])

    assert joined.get("effective") == effective
    assert (joined["helpful"], joined["harmful"]) == (6, 2)
