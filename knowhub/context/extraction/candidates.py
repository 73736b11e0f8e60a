"""Candidates of memories, as every extractor makes them, and those that the statements of a session are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction.wording import one_line, shorten
from knowhub.context.model import MemoryCategory
from knowhub.conversations import dates
from knowhub.conversations.messages import Message
from knowhub.conversations.statements import Statement, StatementKind

MAX_ABSTRACT: Final = 300
# Users of one agent see nothing of each other's sessions; only counts of calls are shared.
AGENT_CATEGORIES: Final = (MemoryCategory.SKILLS, MemoryCategory.TOOLS)


@dataclass(frozen=True, slots=True)
class CandidateFactory:
    """Makes candidates from the messages of one session, whose parts are named by their message ids."""

    messages: Sequence[Message]
    archive: SessionArchive

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
        told = one_line(text)
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
        return {"said_at": dates.moment_of(self.messages[number].timestamp), **facts}


_TITLE_CHARS: Final = 60
_PREFERENCE_SLOTS: Final = frozenset({"called", "reply language"})
_CATEGORIES: Final[Mapping[StatementKind, MemoryCategory]] = {
    StatementKind.INTRODUCTION: MemoryCategory.PROFILE,
    StatementKind.PREFERENCE: MemoryCategory.PREFERENCES,
    StatementKind.INSTRUCTION: MemoryCategory.PREFERENCES,
    StatementKind.REQUEST: MemoryCategory.PREFERENCES,
    StatementKind.PLAN: MemoryCategory.EVENTS,
    StatementKind.LESSON: MemoryCategory.CASES,
}


def make_statement_candidate(factory: CandidateFactory, statement: Statement) -> CandidateMemory:
    """Make the candidate of a statement: what has a single value belongs to the profile, what has a day is an event.

    If several people speak as users, the speaker's name is added: they need not be the account holder.
    """
    category = _find_category(statement)
    prefix = f"{statement.speaker}: " if statement.speaker else ""
    text = prefix + one_line(statement.text)
    if category is MemoryCategory.PROFILE:
        topic = statement.kind.value if statement.kind is not StatementKind.INTRODUCTION else _get_topic(statement)
        owner = f"{statement.speaker} " if statement.speaker else ""
        values = {f"{owner}{slot}": value for slot, value in statement.values}
        ended = {f"{owner}{slot}": value for slot, value in statement.ended}
        facts: dict[str, Any] = {"topic": f"{owner}{topic}", "values": values}
        if ended and not values:
            facts["ended"] = ended
        return factory.candidate(category, f"{owner}{topic}", text, statement.numbers, **facts)
    if category is MemoryCategory.EVENTS and statement.day is not None:
        day = statement.day.isoformat()
        dated = text if day in text else f"{text} ({day})"
        facts = {
            "date": day,
            "is_change": statement.is_change,
            "told_at": dates.moment_of(factory.messages[statement.numbers[-1]].timestamp),
        }
        return factory.candidate(category, text, dated, statement.numbers, said_at=f"{day}T00:00:00Z", **facts)
    if category is MemoryCategory.CASES:
        key = uri.stable_hash(one_line(statement.task))
        return factory.candidate(category, key, statement.text, statement.numbers, content=statement.text)
    # Single-valued facts: the newest statement wins.
    slot = next((f"{prefix}{slot}" for slot, _ in statement.values), "")
    key = slot or shorten(text, _TITLE_CHARS)
    return factory.candidate(category, key, text, statement.numbers, kind=statement.kind.value, is_single=bool(slot))


def _find_category(statement: Statement) -> MemoryCategory:
    slots = {slot for slot, _ in statement.values}
    if slots:
        return MemoryCategory.PREFERENCES if slots <= _PREFERENCE_SLOTS else MemoryCategory.PROFILE
    return MemoryCategory.EVENTS if statement.day is not None else _CATEGORIES[statement.kind]


def _get_topic(statement: Statement) -> str:
    return next((slot for slot, _ in (*statement.values, *statement.ended)), statement.kind.value)
