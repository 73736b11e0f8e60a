"""The four extractors: each asks a model where there is one, and works by rules where there is none."""

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
    tool_uses,
)
from knowhub.context.extraction.candidates import CandidateFactory, MessageReader
from knowhub.context.model import MemoryCategory, MemoryContext
from knowhub.context.ports import CandidateExtractor, SpokenReader
from knowhub.conversations.messages import Message
from knowhub.core.language_models import ChatFailed
from knowhub.core.model_calls import ModelConversation

_MAX_CANDIDATES: Final = 400


@dataclass(frozen=True, slots=True)
class ExtractionInput:
    """What an extractor works with: what is heard of the session, and, where there is a model, the talk with it."""

    hearing: MessageReader
    conversation: ModelConversation | None

    async def find_candidates(
        self,
        categories: Sequence[MemoryCategory],
        telling: CandidateFactory,
        by_rules: Callable[[], list[CandidateMemory]],
    ) -> list[CandidateMemory]:
        """Return what a model finds, or, where there is none or it fails, what the rules do.

        What it said of some parts is not mixed with what rules find in all: one thing would be remembered twice.
        """
        asked = None if self.conversation is None else await self._ask_model(self.conversation, categories, telling)
        return (asked if asked is not None else await asyncio.to_thread(by_rules))[:_MAX_CANDIDATES]

    async def _ask_model(
        self, conversation: ModelConversation, categories: Sequence[MemoryCategory], telling: CandidateFactory
    ) -> list[CandidateMemory] | None:
        """Return what a model finds; None where it fails, which `conversation.calls` tells the pipeline of."""
        safe = await asyncio.to_thread(answers.without_secrets, telling.messages)
        found: list[CandidateMemory] = []
        try:
            for part in answers.parts(safe):
                read = partial(answers.read, shown=dict(part), categories=categories, telling=telling)
                found += await conversation.ask(prompts.extract(part, categories), {}, read)
        except ChatFailed:
            return None
        return found


@dataclass(frozen=True, slots=True)
class ProfileExtractor:
    """Identity, long-term background, stable profile."""

    means: ExtractionInput
    name: str = "profile"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
    ) -> Sequence[CandidateMemory]:
        """Return who the users say that they are."""
        telling = CandidateFactory(messages, archive)
        return await self.means.find_candidates(
            (MemoryCategory.PROFILE,),
            telling,
            lambda: profile_rules.find_profile(telling, self.means.hearing.statements(messages)),
        )


@dataclass(frozen=True, slots=True)
class PreferenceExtractor:
    """Preferences, constraints, taboos, style."""

    means: ExtractionInput
    name: str = "preferences"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
    ) -> Sequence[CandidateMemory]:
        """Return what the users like, keep to and do not want."""
        telling = CandidateFactory(messages, archive)
        return await self.means.find_candidates(
            (MemoryCategory.PREFERENCES,),
            telling,
            lambda: preference_rules.find_preferences(telling, self.means.hearing.statements(messages)),
        )


@dataclass(frozen=True, slots=True)
class EntityEventExtractor:
    """Entities, projects, people, discrete events."""

    means: ExtractionInput
    name: str = "entities_events"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
    ) -> Sequence[CandidateMemory]:
        """Return who and what is introduced, and what took place when."""
        telling = CandidateFactory(messages, archive)

        def by_rules() -> list[CandidateMemory]:
            said = self.means.hearing.statements(messages)
            return [*entity_rules.find_entities(telling, said), *event_rules.find_events(telling, said)]

        return await self.means.find_candidates((MemoryCategory.ENTITIES, MemoryCategory.EVENTS), telling, by_rules)


@dataclass(frozen=True, slots=True)
class ProcedureExtractor:
    """Cases, patterns, and the use of skills and tools, which nobody needs a model to count."""

    means: ExtractionInput
    name: str = "procedures"

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
    ) -> Sequence[CandidateMemory]:
        """Return what was tried and what came of it, what is always done when, and which tools were called."""
        telling = CandidateFactory(messages, archive)

        def by_rules() -> list[CandidateMemory]:
            hearing = self.means.hearing
            return procedure_rules.find_procedures(telling, hearing.statements(messages), hearing.episodes(messages))

        told = await self.means.find_candidates((MemoryCategory.CASES, MemoryCategory.PATTERNS), telling, by_rules)
        return [*told, *tool_uses.find_tool_uses(telling)]


def make_extractors(
    reader: SpokenReader, conversation: ModelConversation | None = None
) -> Sequence[CandidateExtractor]:
    """Make the extractors for one session."""
    means = ExtractionInput(MessageReader(reader), conversation)
    return [
        ProfileExtractor(means),
        PreferenceExtractor(means),
        EntityEventExtractor(means),
        ProcedureExtractor(means),
    ]
