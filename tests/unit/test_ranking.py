"""Quality, filter rules and order of recalled hits."""

from dataclasses import replace
from typing import Any

import pytest

from knowhub.core.recall import SearchHit, StageScore
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.model import ROUTING, KnowledgeSummary, Order
from knowhub.knowledge.search.filters import find_score_rule, find_time_rule
from knowhub.knowledge.search.ranking import order_hits, select_hits
from knowhub.knowledge.table import summarize
from tests.builders import START, caller, knowledge_row, local


def head(row_id: str = "a", **fields: Any) -> KnowledgeSummary:  # noqa: ANN401 -- any field of a record
    evaluation = {name: fields.pop(name) for name in ("score", "helpful", "harmful") if name in fields}
    row = knowledge_row(row_id, **fields)
    return summarize(row | {"eval": row["eval"] | evaluation}, 0, 1)


def chosen(hits: list[SearchHit[KnowledgeSummary]], top_k: int, order: Order, ctx: RequestContext) -> list[str]:
    return [hit.head.id for hit in order_hits(select_hits(hits, top_k, order), order, ctx)]


@pytest.mark.parametrize(
    ("score", "helpful", "harmful", "expected"), [(3, 1, 0, 4.0), (5, 10, 2, 11.0), (1, 0, 1, -1.0)]
)
def test_quality_is_score_and_helpful_less_twice_harmful(
    score: int, helpful: int, harmful: int, expected: float
) -> None:
    assert evidence.quality(score, helpful, harmful) == expected


def test_confidence_of_a_fresh_record_is_a_half() -> None:
    assert evidence.confidence(1, 0) == 0.5


@pytest.mark.parametrize(
    ("evidence", "rule"),
    [
        ({"score": 3}, None),
        ({"score": 2}, "score_below_min_score"),
        ({"score": 3, "helpful": 0, "harmful": 2}, "negative_quality"),
        ({"score": 4, "helpful": 0, "harmful": 2}, None),
    ],
)
def test_evidence_drops_a_record_by_a_rule_with_a_name(evidence: dict[str, Any], rule: str | None) -> None:
    assert find_score_rule(head(**evidence), 3) == rule


@pytest.mark.parametrize(
    ("as_of", "rule"),
    [(START - 1, "not_yet_valid"), (START, None), (START + 59, None), (START + 60, "no_longer_valid")],
)
def test_validity_begins_at_its_first_second_and_ends_before_its_last(as_of: float, rule: str | None) -> None:
    valid = head(valid_from="2026-03-05T12:00:00Z", valid_to="2026-03-05T12:01:00Z")

    assert find_time_rule(valid, as_of) == rule


def test_the_best_of_the_pool_are_chosen_by_quality_and_ties_keep_their_order() -> None:
    hits = [
        SearchHit(head(name, score=score), relevance)
        for name, score, relevance in [("a", 3, 9.0), ("b", 5, 8.0), ("c", 3, 7.0), ("d", 4, 6.0), ("e", 5, 5.0)]
    ]  # fmt: skip -- a table

    assert chosen(hits, 2, Order.QUALITY, local()) == ["b", "d"]
    assert chosen(hits, 2, Order.AUTO, local()) == ["b", "d"]
    assert chosen(hits, 2, Order.RELEVANCE, local()) == ["a", "b"]
    assert chosen(hits[:1] + hits[2:3], 5, Order.QUALITY, local()) == ["a", "c"]


def found_by(stage: str, row_id: str, relevance: float, score: int) -> SearchHit[KnowledgeSummary]:
    return SearchHit(head(row_id, score=score), relevance, (StageScore(stage, 1, None),))


def test_votes_do_not_choose_what_is_far_less_relevant_before_what_is_relevant() -> None:
    hits = [
        found_by("lexical", "right", 10.0, 3),
        *(found_by("lexical", f"other-{number}", 3.9, 5) for number in range(3)),
        found_by("lexical", "near", 4.0, 4),
    ]

    assert chosen(hits[:1] + hits[4:] + hits[1:4], 3, Order.AUTO, local()) == ["other-0", "near", "right"]
    assert chosen(hits[:1] + hits[4:] + hits[1:4], 2, Order.QUALITY, local()) == ["near", "right"]


def test_what_only_vectors_find_and_is_far_less_relevant_is_shown_behind_whatever_its_quality() -> None:
    hits = [
        found_by("lexical", "right", 1.0, 3),
        found_by("vector", "far", 0.3, 5),
        found_by("vector", "picked", 0.0, 4),
    ]
    hits[2] = replace(hits[2], parts=(*hits[2].parts, StageScore(ROUTING, 1, None)))

    assert chosen(hits, 3, Order.AUTO, local()) == ["picked", "right", "far"]
    assert chosen(hits, 3, Order.QUALITY, local()) == ["far", "picked", "right"]


def test_a_named_caller_gets_the_nearest_scope_first_and_profiles_before_all() -> None:
    hits = [
        SearchHit(head("public", scopes=["public"], score=5), 9.0),
        SearchHit(head("team", scopes=["team:web"], score=4), 8.0),
        SearchHit(head("mine", scopes=["user:ann"], score=3), 7.0),
        SearchHit(head("profile", scopes=["public"], types=("user_profile",), score=3), 6.0),
    ]
    ann = caller(user_id="ann", team_id="web")

    assert chosen(hits, 4, Order.AUTO, ann) == ["profile", "mine", "team", "public"]
    assert chosen(hits, 4, Order.SCOPE, ann) == ["mine", "team", "public", "profile"]
    assert chosen(hits, 4, Order.QUALITY, ann) == ["public", "team", "mine", "profile"]
