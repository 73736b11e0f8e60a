"""Four concurrent extractors: a slow or failing extractor does not affect the others, and which candidates are kept."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from knowhub.context.commit.candidate_pipeline import CandidatePipeline, ExtractedMemories, PipelineOptions
from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.model import MemoryCategory, MemoryContext
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import RecalledTexts
from tests.context_commits import SESSION, Desk, user, whose

pytestmark = pytest.mark.anyio

NOTHING = RecalledTexts(frozenset(), ())
TEA = CandidateMemory(
    MemoryCategory.PREFERENCES, "user", "tea", "I love tea.", "I love tea.", "I love tea.", 0.9, ["u/1"]
)


class Finds:
    """An extractor that finds what it is told to."""

    def __init__(self, name: str, *candidates: CandidateMemory) -> None:
        self.name = name
        self._candidates = candidates

    async def extract(
        self, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> Sequence[CandidateMemory]:
        assert archive.session_id == ctx.session_id
        assert messages
        return self._candidates


class Fails(Finds):
    async def extract(
        self, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> Sequence[CandidateMemory]:
        raise ValueError(f"my secret {messages[0].content} {archive} {ctx}")


class Waits(Finds):
    """One that goes on only when all of its kind have begun."""

    barrier: asyncio.Barrier

    async def extract(
        self, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> Sequence[CandidateMemory]:
        await self.barrier.wait()
        return await super().extract(messages, archive, ctx)


def pipeline(*extractors: Finds, extractor_s: float = 5.0) -> CandidatePipeline:
    options = PipelineOptions(extractor_s=extractor_s)
    return CandidatePipeline(None, options, lambda *_given: extractors)


def with_field(field: str, text: str) -> CandidateMemory:
    fields: dict[str, Any] = {field: text}
    return replace(TEA, **fields)


async def extracted(made: CandidatePipeline) -> ExtractedMemories:
    messages = [user("I love tea.", "m1")]
    return await made.extract_candidates(whose(), SessionArchive("s1", SESSION, ""), messages, NOTHING)


async def test_the_four_extractors_report_what_they_found() -> None:
    desk = Desk()

    result = await desk.commit(user("I love oolong tea.", "m1"))

    assert result.stats["extractors"] == {
        "profile": {"candidates": 0, "failed": None},
        "preferences": {"candidates": 1, "failed": None},
        "entities_events": {"candidates": 0, "failed": None},
        "procedures": {"candidates": 0, "failed": None},
    }


async def test_one_that_fails_costs_its_own_findings_alone_and_its_words_go_nowhere() -> None:
    done = await extracted(pipeline(Fails("bad"), Finds("good", TEA)))

    assert [one.content for one in done.candidates] == ["I love tea."]
    assert done.extractors == {
        "bad": {"candidates": 0, "failed": "it raised ValueError"},
        "good": {"candidates": 1, "failed": None},
    }


async def test_one_that_is_late_costs_its_own_findings_alone() -> None:
    late = Waits("late")
    late.barrier = asyncio.Barrier(2)

    done = await extracted(pipeline(late, Finds("good", TEA), extractor_s=0.05))

    assert len(done.candidates) == 1
    assert done.extractors["late"]["failed"] == "not done within 0.05 s"


async def test_they_run_side_by_side() -> None:
    both = [Waits("one", TEA), Waits("two")]
    for one in both:
        one.barrier = asyncio.Barrier(2)
    both[1].barrier = both[0].barrier

    done = await extracted(pipeline(*both))

    assert [report["failed"] for report in done.extractors.values()] == [None, None]


def test_what_is_said_twice_is_one_candidate_of_both_sources() -> None:
    again = replace(TEA, content="I really love TEA", source_refs=["u/2"], confidence=0.95)

    (kept,) = pipeline().normalize_candidates(whose(), [TEA, again])

    assert (list(kept.source_refs), kept.confidence) == (["u/1", "u/2"], 0.95)


def test_another_topic_or_another_category_is_another_candidate() -> None:
    others = [
        replace(TEA, routing_key="drinks"),
        replace(TEA, category=MemoryCategory.PROFILE),
        replace(TEA, content="No tea."),
    ]

    assert len(pipeline().normalize_candidates(whose(), [TEA, *others])) == 4


@pytest.mark.parametrize("field", ["routing_key", "abstract", "content"])
def test_a_candidate_of_which_a_part_is_missing_is_dropped(field: str) -> None:
    assert pipeline().normalize_candidates(whose(), [with_field(field, " \n")]) == []


@pytest.mark.parametrize("field", ["routing_key", "abstract", "overview", "content"])
def test_a_credential_is_remembered_nowhere(field: str) -> None:
    held = with_field(field, "My password is hunter2secret9!")

    assert pipeline().normalize_candidates(whose(), [held]) == []


def test_a_candidate_is_trimmed_and_bounded() -> None:
    long = replace(
        TEA,
        routing_key=f" {'k' * 300} ",
        abstract=" I  love\ntea. " + "x" * 400,
        overview="",
        content=f"  {'c' * 9_000}",
        confidence=7.0,
        source_refs=[f"u/{number}" for number in range(80)],
    )

    (kept,) = pipeline().normalize_candidates(whose(), [long])

    assert kept.abstract.startswith("I love tea. xxx")
    assert (len(kept.routing_key), len(kept.abstract), len(kept.content)) == (200, 300, 8_000)
    assert (kept.confidence, len(kept.source_refs)) == (1.0, 50)
    assert kept.overview


def test_there_is_a_bound_on_how_many_are_kept() -> None:
    many = [replace(TEA, content=f"I love tea number {number}.") for number in range(1_010)]

    assert len(pipeline().normalize_candidates(whose(), many)) == 1_000
