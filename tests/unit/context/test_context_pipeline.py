"""Candidates of the rules: which are kept, and their limits."""

from dataclasses import replace
from typing import Any

import pytest

from knowhub.context.commit.rule_extraction import normalize_candidates
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.model import MemoryCategory
from knowhub.conversations.recalled import RecalledTexts

NOTHING = RecalledTexts(frozenset(), ())
TEA = CandidateMemory(MemoryCategory.PREFERENCES, "tea", "I love tea.", ["u/1"])


def normalize(*candidates: CandidateMemory) -> list[CandidateMemory]:
    return normalize_candidates(candidates, NOTHING)[0]


def with_field(field: str, text: str) -> CandidateMemory:
    fields: dict[str, Any] = {field: text}
    return replace(TEA, **fields)


def test_a_repeated_statement_is_one_candidate_with_both_sources() -> None:
    again = replace(TEA, content="I really love TEA", source_refs=["u/2"])

    (kept,) = normalize(TEA, again)

    assert list(kept.source_refs) == ["u/1", "u/2"]


def test_another_topic_or_another_category_is_another_candidate() -> None:
    others = [
        replace(TEA, routing_key="drinks"),
        replace(TEA, category=MemoryCategory.PROFILE),
        replace(TEA, content="No tea."),
    ]

    assert len(normalize(TEA, *others)) == 4


@pytest.mark.parametrize("field", ["routing_key", "content"])
def test_a_candidate_with_an_empty_field_is_dropped(field: str) -> None:
    assert normalize(with_field(field, " \n")) == []


@pytest.mark.parametrize("field", ["routing_key", "content"])
def test_candidates_with_credentials_are_dropped(field: str) -> None:
    held = with_field(field, "My password is hunter2secret9!")

    assert normalize(held) == []


def test_a_candidate_is_trimmed_and_bounded() -> None:
    long = replace(
        TEA,
        routing_key=f" {'k' * 300} ",
        content=f"  {'c' * 9_000}",
        source_refs=[f"u/{number}" for number in range(80)],
    )

    (kept,) = normalize(long)

    assert (len(kept.routing_key), len(kept.content)) == (200, 8_000)
    assert len(kept.source_refs) == 50


def test_at_most_a_thousand_candidates_are_kept() -> None:
    many = [replace(TEA, content=f"I love tea number {number}.") for number in range(1_010)]

    assert len(normalize(*many)) == 1_000
