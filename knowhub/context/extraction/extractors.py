"""The four extractors (CE-070…073): each asks a model where there is one, and works by rules where there is none."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from knowhub.context import prompts
from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction import (
    answers,
    entity_rules,
    event_rules,
    preference_rules,
    procedure_rules,
    profile_rules,
    shown,
    tool_uses,
)
from knowhub.context.extraction.hearing import Hearing
from knowhub.context.extraction.telling import Telling
from knowhub.context.model import Category, MemoryContext
from knowhub.context.ports import CandidateExtractor, SecretFinder, SpokenReader
from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed
from knowhub.core.messages import Message

_MAX_CANDIDATES: Final = 400


@dataclass(frozen=True, slots=True)
class Means:
    """What an extractor works with: what is heard of the session, and, where there is a model, the talk with it."""

    hearing: Hearing
    asking: Asking | None
    find_secrets: SecretFinder

    async def found(
        self, categories: Sequence[Category], telling: Telling, by_rules: Callable[[], list[CandidateMemory]]
    ) -> list[CandidateMemory]:
        """Return what a model finds, or, where there is none or it fails, what the rules do.

        What it said of some parts is not mixed with what rules find in all: one thing would be remembered twice.
        """
        asked = None if self.asking is None else await self._asked(self.asking, categories, telling)
        return (asked if asked is not None else await asyncio.to_thread(by_rules))[:_MAX_CANDIDATES]

    async def _asked(
        self, asking: Asking, categories: Sequence[Category], telling: Telling
    ) -> list[CandidateMemory] | None:
        """Return what a model finds; None where it fails, which `asking.calls` tells the pipeline of."""
        safe = await asyncio.to_thread(shown.without_secrets, telling.messages, self.find_secrets)
        found: list[CandidateMemory] = []
        try:
            for part in shown.parts(safe):
                read = partial(answers.read, shown=dict(part), categories=categories, telling=telling)
                found += await asking.ask(prompts.extract(part, categories), {}, read)
        except ChatFailed:
            return None
        return found


@dataclass(frozen=True, slots=True)
class ProfileExtractor:
    """Identity, long-term background, stable profile (CE-070)."""

    means: Means
    name: str = "profile"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-145 has it
    ) -> Sequence[CandidateMemory]:
        """Return who the users say that they are."""
        telling = Telling(messages, archive)
        return await self.means.found(
            (Category.PROFILE,),
            telling,
            lambda: profile_rules.found(telling, self.means.hearing.statements(messages)),
        )


@dataclass(frozen=True, slots=True)
class PreferenceExtractor:
    """Preferences, constraints, taboos, style (CE-071)."""

    means: Means
    name: str = "preferences"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-145 has it
    ) -> Sequence[CandidateMemory]:
        """Return what the users like, keep to and do not want."""
        telling = Telling(messages, archive)
        return await self.means.found(
            (Category.PREFERENCES,),
            telling,
            lambda: preference_rules.found(telling, self.means.hearing.statements(messages)),
        )


@dataclass(frozen=True, slots=True)
class EntityEventExtractor:
    """Entities, projects, people, discrete events (CE-072)."""

    means: Means
    name: str = "entities_events"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-145 has it
    ) -> Sequence[CandidateMemory]:
        """Return who and what is introduced, and what took place when."""
        telling = Telling(messages, archive)

        def by_rules() -> list[CandidateMemory]:
            said = self.means.hearing.statements(messages)
            return [*entity_rules.found(telling, said), *event_rules.found(telling, said)]

        return await self.means.found((Category.ENTITIES, Category.EVENTS), telling, by_rules)


@dataclass(frozen=True, slots=True)
class ProcedureExtractor:
    """Cases, patterns, and the use of skills and tools, which nobody needs a model to count (CE-073)."""

    means: Means
    name: str = "procedures"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-145 has it
    ) -> Sequence[CandidateMemory]:
        """Return what was tried and what came of it, what is always done when, and which tools were called."""
        telling = Telling(messages, archive)

        def by_rules() -> list[CandidateMemory]:
            hearing = self.means.hearing
            return procedure_rules.found(telling, hearing.statements(messages), hearing.episodes(messages))

        told = await self.means.found((Category.CASES, Category.PATTERNS), telling, by_rules)
        return [*told, *tool_uses.found(telling)]


def four_extractors(
    reader: SpokenReader, find_secrets: SecretFinder, asking: Asking | None = None
) -> Sequence[CandidateExtractor]:
    """Make the extractors for one session."""
    means = Means(Hearing(reader), asking, find_secrets)
    return [
        ProfileExtractor(means),
        PreferenceExtractor(means),
        EntityEventExtractor(means),
        ProcedureExtractor(means),
    ]
