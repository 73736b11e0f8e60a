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
class Extractor:
    """One of the four: what it looks for, which rules find that without a model, and what needs none in any case."""

    means: Means
    name: str
    categories: Sequence[Category]
    by_rules: Callable[[Telling, Hearing], list[CandidateMemory]]
    counted: Callable[[Telling], Sequence[CandidateMemory]] = lambda _telling: ()

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- CE-145 has it
    ) -> Sequence[CandidateMemory]:
        """Return what these messages say of its categories."""
        telling = Telling(messages, archive)
        by_rules = partial(self.by_rules, telling, self.means.hearing)
        told = await self.means.found(self.categories, telling, by_rules)
        return [*told, *self.counted(telling)]


def four_extractors(
    reader: SpokenReader, find_secrets: SecretFinder, asking: Asking | None = None
) -> Sequence[CandidateExtractor]:
    """Make the extractors for one session."""
    means = Means(Hearing(reader), asking, find_secrets)
    return [
        # Identity, long-term background, stable profile (CE-070).
        Extractor(means, "profile", (Category.PROFILE,), _profile),
        # Preferences, constraints, taboos, style (CE-071).
        Extractor(means, "preferences", (Category.PREFERENCES,), _preferences),
        # Entities, projects, people, discrete events (CE-072).
        Extractor(means, "entities_events", (Category.ENTITIES, Category.EVENTS), _entities_and_events),
        # Cases, patterns, and the use of skills and tools, which nobody needs a model to count (CE-073).
        Extractor(means, "procedures", (Category.CASES, Category.PATTERNS), _procedures, tool_uses.found),
    ]


def _profile(telling: Telling, hearing: Hearing) -> list[CandidateMemory]:
    return profile_rules.found(telling, hearing.statements(telling.messages))


def _preferences(telling: Telling, hearing: Hearing) -> list[CandidateMemory]:
    return preference_rules.found(telling, hearing.statements(telling.messages))


def _entities_and_events(telling: Telling, hearing: Hearing) -> list[CandidateMemory]:
    said = hearing.statements(telling.messages)
    return [*entity_rules.found(telling, said), *event_rules.found(telling, said)]


def _procedures(telling: Telling, hearing: Hearing) -> list[CandidateMemory]:
    messages = telling.messages
    return procedure_rules.found(telling, hearing.statements(messages), hearing.episodes(messages))
