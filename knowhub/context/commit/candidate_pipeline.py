"""From a session to candidates: four extractors side by side, and what of their findings is kept (CE-064, CE-135)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction import shown
from knowhub.context.extraction.extractors import four_extractors
from knowhub.context.extraction.recalled import Recalled, without_recalled
from knowhub.context.extraction.wording import one_line, plain, shortened
from knowhub.context.model import Category, MemoryContext
from knowhub.context.ports import CandidateExtractor, SecretFinder, SpokenReader
from knowhub.core.asking import Asking
from knowhub.core.chat import ChatModel
from knowhub.core.messages import Message
from knowhub.core.operation import Row

MAX_CANDIDATES: Final = 1_000
_MAX_ABSTRACT: Final = 300
_MAX_OVERVIEW: Final = 2_000
_MAX_CONTENT: Final = 8_000
_MAX_KEY: Final = 200
_MAX_SOURCES: Final = 50
_COUNTED: Final = (Category.SKILLS, Category.TOOLS)

MakeExtractors: TypeAlias = Callable[[SpokenReader, SecretFinder, Asking | None], Sequence[CandidateExtractor]]


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """`budget_s` is what a model has for all that it is asked of a session, `extractor_s` what each extractor has."""

    budget_s: float = 30.0
    extractor_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Extracted:
    """The candidates, what each extractor did, and how many candidates were dropped, by why."""

    candidates: Sequence[CandidateMemory] = ()
    extractors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


class CandidatePipeline:
    """Runs the extractors; `find_secrets` keeps credentials out of all that they make."""

    def __init__(
        self,
        reader: SpokenReader,
        find_secrets: SecretFinder,
        chat: ChatModel | None = None,
        options: PipelineOptions | None = None,
        make_extractors: MakeExtractors = four_extractors,
    ) -> None:
        self._reader = reader
        self._find_secrets = find_secrets
        self._chat = chat
        self._options = options or PipelineOptions()
        self._make_extractors = make_extractors

    @property
    def reader(self) -> SpokenReader:
        """What understands the messages."""
        return self._reader

    @property
    def find_secrets(self) -> SecretFinder:
        """What finds the credentials in them."""
        return self._find_secrets

    def asking(self) -> Asking | None:
        """Return the talk with the model for one session; None where there is no model."""
        return None if self._chat is None else Asking(self._chat, self._options.budget_s)

    async def extract_candidates(
        self,
        ctx: MemoryContext,
        archive: SessionArchive,
        messages: Sequence[Message],
        known: Recalled,
        asking: Asking | None = None,
    ) -> Extracted:
        """Return what these messages, each named by its `message_id`, say that is worth remembering.

        What KnowHub said, and what is in `known`, is not remembered again. An extractor that fails, or is late, costs
        its own candidates alone (CE-078).
        """
        own = await asyncio.to_thread(self._heard, messages, known)
        extractors = self._make_extractors(self._reader, self._find_secrets, asking)
        done = await asyncio.gather(*(self._run(one, own, archive, ctx) for one in extractors))
        found = [candidate for candidates, _ in done for candidate in candidates]
        reports = {one.name: report for one, (_, report) in zip(extractors, done, strict=True)}
        kept, dropped = await asyncio.to_thread(self._normalised, found, known)
        return Extracted(kept, reports, dropped)

    def normalize_candidates(
        self,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-136 has it
        candidates: Sequence[CandidateMemory],
    ) -> list[CandidateMemory]:
        """Trim and bound them, and drop what is empty, said twice or holds a credential (CE-136)."""
        return self._normalised(candidates, Recalled(frozenset(), ()))[0]

    def _heard(self, messages: Sequence[Message], known: Recalled) -> list[Message]:
        """Return the messages without what KnowHub said, every credential covered: a sentence may hold a part of it."""
        safe = [replace(one, content=shown.covered(one.content, self._find_secrets)) for one in messages]
        return without_recalled(safe, self._reader, known)

    async def _run(
        self, extractor: CandidateExtractor, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> tuple[Sequence[CandidateMemory], Mapping[str, Any]]:
        try:
            async with asyncio.timeout(self._options.extractor_s):
                found = list(await extractor.extract(messages, archive, ctx))
        except TimeoutError:
            return (), {"candidates": 0, "failed": f"not done within {self._options.extractor_s:g} s"}
        except Exception as failed:  # noqa: BLE001 -- whatever one raises is its own failure (CE-078)
            # What it says may quote the session, and this is kept where no erasing looks.
            return (), {"candidates": 0, "failed": f"it raised {type(failed).__name__}"}
        return found, {"candidates": len(found), "failed": None}

    def _normalised(
        self, candidates: Sequence[CandidateMemory], known: Recalled
    ) -> tuple[list[CandidateMemory], dict[str, int]]:
        kept: dict[tuple[str, str, str], CandidateMemory] = {}
        dropped: Counter[str] = Counter()
        for candidate in (self._without_secret_notes(_bounded(one)) for one in candidates):
            problem = self._problem(candidate, known)
            identity = (candidate.category.value, candidate.routing_key.casefold(), _identity(candidate))
            if problem:
                dropped[problem] += 1
            elif identity in kept:
                kept[identity] = _merged(kept[identity], candidate)
                dropped["duplicate"] += 1
            elif len(kept) == MAX_CANDIDATES:
                dropped["too_many"] += 1
            else:
                kept[identity] = candidate
        return list(kept.values()), dict(dropped)

    def _without_secret_notes(self, candidate: CandidateMemory) -> CandidateMemory:
        """Leave out notes in which a credential stands; the calls count."""
        uses = [
            {**use, "note": ""} if use.get("note") and shown.holds_secret(str(use["note"]), self._find_secrets) else use
            for use in candidate.facts.get("uses", ())
        ]
        return replace(candidate, facts={**candidate.facts, "uses": uses}) if uses else candidate

    def _problem(self, candidate: CandidateMemory, known: Recalled) -> str:
        """Return why a candidate is dropped; empty where it is not."""
        if not candidate.routing_key or not candidate.abstract or not candidate.content:
            return "empty"
        text = f"{candidate.routing_key}\n{candidate.abstract}\n{candidate.overview}\n{candidate.content}"
        if shown.COVER in text or shown.holds_secret(text, self._find_secrets):
            return "secret"
        return "recalled" if known.is_said_in(candidate.abstract) or known.is_said_in(candidate.content) else ""


def _bounded(candidate: CandidateMemory) -> CandidateMemory:
    return replace(
        candidate,
        routing_key=one_line(candidate.routing_key)[:_MAX_KEY].strip(),
        abstract=shortened(one_line(candidate.abstract), _MAX_ABSTRACT),
        overview=shortened(candidate.overview.strip(), _MAX_OVERVIEW) or one_line(candidate.abstract),
        content=shortened(candidate.content.strip(), _MAX_CONTENT),
        confidence=min(max(candidate.confidence, 0.0), 1.0),
        source_refs=list(dict.fromkeys(candidate.source_refs))[-_MAX_SOURCES:],
    )


def _identity(candidate: CandidateMemory) -> str:
    # The calls of one tool add up, whatever the text about them says.
    return "" if candidate.category in _COUNTED else plain(candidate.content)


def _merged(first: CandidateMemory, again: CandidateMemory) -> CandidateMemory:
    sources = list(dict.fromkeys((*first.source_refs, *again.source_refs)))[-_MAX_SOURCES:]
    facts = dict(first.facts)
    if "uses" in facts or "uses" in again.facts:
        facts["uses"] = [*facts.get("uses", ()), *again.facts.get("uses", ())]
    return replace(first, source_refs=sources, confidence=max(first.confidence, again.confidence), facts=facts)


def failed_calls(calls: Sequence[Row]) -> bool:
    """Tell whether a model that was asked gave no usable answer at least once."""
    return any(call["failure"] is not None for call in calls)
