"""Candidates of memories, as every extractor makes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction import wording
from knowhub.context.extraction.wording import one_line, shorten
from knowhub.context.extraction_model import Episode, SpokenStatement
from knowhub.context.model import MemoryCategory
from knowhub.context.ports import SpokenReader
from knowhub.conversations.messages import Message

MAX_ABSTRACT: Final = 300
AGENT_CATEGORIES: Final = (MemoryCategory.CASES, MemoryCategory.PATTERNS, MemoryCategory.SKILLS, MemoryCategory.TOOLS)


@dataclass(frozen=True, slots=True)
class CandidateFactory:
    """Makes candidates from the messages of one session, whose parts are named by their message ids.

    If several people speak as users, their names are added: the statements are not those of the account holder.
    """

    messages: Sequence[Message]
    archive: SessionArchive
    has_many_speakers: bool = field(init=False)

    def __post_init__(self) -> None:
        """Look once whether several people speak as users: it is asked for every statement."""
        object.__setattr__(
            self, "has_many_speakers", len({message.name for message in self.messages if message.is_user}) > 1
        )

    def speaker(self, number: int) -> str:
        """Return who says a message, where that needs to be told."""
        return self.messages[number].name if self.has_many_speakers else ""

    def key(self, number: int, key: str) -> str:
        """Return a routing key that keeps apart what different people say of themselves."""
        speaker = self.speaker(number)
        return f"{speaker} {key}" if speaker else key

    def candidate(
        self,
        category: MemoryCategory,
        key: str,
        text: str,
        numbers: Sequence[int],
        **facts: Any,  # noqa: ANN401 -- any JSON
    ) -> CandidateMemory:
        """Make a candidate of a text from these messages, the decisive message last.

        `overview`, `content`, `confidence` and `by` may be given beside facts.
        """
        by, confidence = str(facts.pop("by", "rules")), float(facts.pop("confidence", 0.9))
        # A model was asked to say whose it is; a sentence as it was said does not.
        said_by = self.speaker(numbers[-1]) if by == "rules" else ""
        told = f"{said_by}: {one_line(text)}" if said_by else one_line(text)
        overview, content = str(facts.pop("overview", told)), str(facts.pop("content", told))
        return CandidateMemory(
            category=category,
            owner_scope="agent" if category in AGENT_CATEGORIES else "user",
            routing_key=key,
            abstract=shorten(told, MAX_ABSTRACT),
            overview=overview,
            content=content,
            confidence=confidence,
            source_refs=[self.part(number) for number in dict.fromkeys(numbers)],
            by=by,
            facts=self._facts(numbers[-1], facts),
        )

    def part(self, number: int) -> str:
        """Return the URI of the part that a message is."""
        return uri.part_uri(self.archive.archive_uri, self.messages[number].message_id or f"m-{number}")

    def _facts(self, number: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"said_at": wording.moment_of(self.messages[number].timestamp), **facts}


class MessageReader:
    """Remembers what was heard in the messages that it was last asked for; extractors ask from threads of their own."""

    def __init__(self, reader: SpokenReader) -> None:
        self._reader = reader
        self._lock = Lock()
        self._messages: Sequence[Message] | None = None
        self._statements: Sequence[SpokenStatement] = ()

    def statements(self, messages: Sequence[Message]) -> Sequence[SpokenStatement]:
        """Return what the users among these say."""
        with self._lock:
            if self._messages is not messages:
                self._statements = self._reader.statements(messages)
                self._messages = messages
            return self._statements

    def episodes(self, messages: Sequence[Message]) -> Sequence[Episode]:
        """Return what happened in these."""
        return self._reader.episodes(messages)
