"""The four extractors: each asks a model where there is one, and else takes the statements of the session."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from knowhub.context import prompts
from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction import answers, tool_uses
from knowhub.context.extraction.candidates import CandidateFactory, make_statement_candidate
from knowhub.context.model import MemoryCategory, MemoryContext
from knowhub.context.ports import CandidateExtractor
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold
from knowhub.conversations.statements import Statement, read_statements
from knowhub.core.language_models import ChatFailed
from knowhub.core.model_calls import ModelConversation

_MAX_CANDIDATES: Final = 400
_EXTRACTORS: Final = (
    ("profile", (MemoryCategory.PROFILE,)),
    ("preferences", (MemoryCategory.PREFERENCES,)),
    ("entities_events", (MemoryCategory.ENTITIES, MemoryCategory.EVENTS)),
    ("procedures", (MemoryCategory.CASES, MemoryCategory.PATTERNS)),
)


@dataclass(frozen=True, slots=True)
class StatementReader:
    """Reads the statements of a session once, whichever extractors ask for them."""

    fold: Fold = str
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _read: list[tuple[Sequence[Message], list[Statement]]] = field(default_factory=list)

    async def read(self, messages: Sequence[Message]) -> list[Statement]:
        """Return the statements of these messages, in a thread."""
        async with self._turn:
            if not self._read or self._read[0][0] is not messages:
                self._read[:] = [(messages, await asyncio.to_thread(read_statements, messages, self.fold))]
            return self._read[0][1]


@dataclass(frozen=True, slots=True)
class MemoryExtractor:
    """Finds the memories of its categories; that of procedures also counts the uses of tools and skills."""

    name: str
    categories: Sequence[MemoryCategory]
    statements: StatementReader
    conversation: ModelConversation | None

    async def extract(
        self,
        messages: Sequence[Message],
        archive: SessionArchive,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
    ) -> Sequence[CandidateMemory]:
        """Return what a model finds, or, where there is none or it fails, the statements.

        What it said of some parts is not mixed with the statements in all: a fact would be remembered twice.
        """
        factory = CandidateFactory(messages, archive)
        asked = None if self.conversation is None else await self._ask_model(self.conversation, factory)
        if asked is None:
            made = (make_statement_candidate(factory, item) for item in await self.statements.read(messages))
            asked = [candidate for candidate in made if candidate.category in self.categories]
        uses = tool_uses.find_tool_uses(factory) if MemoryCategory.CASES in self.categories else []
        return [*asked[:_MAX_CANDIDATES], *uses]

    async def _ask_model(
        self, conversation: ModelConversation, factory: CandidateFactory
    ) -> list[CandidateMemory] | None:
        """Return what a model finds; None where it fails, which `conversation.calls` tells the pipeline of."""
        safe = await asyncio.to_thread(answers.without_secrets, factory.messages)
        found: list[CandidateMemory] = []
        try:
            for part in answers.parts(safe):
                read = partial(answers.read, shown=dict(part), categories=self.categories, telling=factory)
                found += await conversation.ask(prompts.extract(part, self.categories), {}, read)
        except ChatFailed:
            return None
        return found


def make_extractors(fold: Fold = str, conversation: ModelConversation | None = None) -> Sequence[CandidateExtractor]:
    """Make the extractors for one session."""
    statements = StatementReader(fold)
    return [MemoryExtractor(name, categories, statements, conversation) for name, categories in _EXTRACTORS]
