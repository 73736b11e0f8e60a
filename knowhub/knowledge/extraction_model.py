"""What extraction takes in and what it hands out: messages, candidates, and what became of each (seed 004)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from knowhub.core.messages import Message
from knowhub.core.operation import Row


class Trigger(StrEnum):
    """When an extraction is asked for (KS-040…043)."""

    USER_EXPRESSION = "user_expression"
    TASK_COMPLETION = "task_completion"
    COMPACTION = "compaction"
    USER_FEEDBACK = "user_feedback"


class Category(StrEnum):
    """What a candidate is; the first four are those of a user profile (KS-055)."""

    PREFERENCE = "preference"
    HABIT = "habit"
    BACKGROUND = "background"
    CONSTRAINT = "constraint"
    CORRECTION = "correction"
    DEFINITION = "definition"
    PITFALL = "pitfall"
    OUTCOME = "outcome"
    PLAN = "plan"


PROFILE_CATEGORIES = (Category.PREFERENCE, Category.HABIT, Category.BACKGROUND, Category.CONSTRAINT)


class Status(StrEnum):
    """What became of a candidate.

    NEW was saved. MERGED is further evidence for a record, which was completed. CHANGED replaces the record that it
    contradicts. KNOWN adds nothing: its message was counted before, or an agent only repeats what is stored. RECALLED
    is KnowHub's own words come back. CONTRADICTED is an inference against what the user said. FAILED cannot be saved.
    """

    NEW = "new"
    MERGED = "merged"
    CHANGED = "changed"
    KNOWN = "known"
    RECALLED = "recalled"
    CONTRADICTED = "contradicted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be worth keeping; `cited` are the numbers of the messages that say it.

    `expressed` says that the user said so in so many words: only then does it weigh against what is stored.
    `same_as` and `against` are ids of records that a model pointed at.
    """

    category: Category
    task: str
    content: str
    cited: tuple[int, ...]
    types: tuple[str, ...]
    expressed: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    by: str = "rules"
    same_as: str | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A candidate as it would stand, what became of it, and the record that it became or met."""

    candidate: Candidate
    status: Status
    knowledge_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """Something in a message that belongs into a resource and not into a record; it does not hold it (RS-016)."""

    content_type: str
    suggested_id: str
    title: str
    message: int
    message_id: str | None
    shown: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate of a model that is none, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What is asked: the messages of one conversation, oldest first, and why."""

    messages: Sequence[Message]
    trigger: Trigger = Trigger.COMPACTION
    trace_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Extracted:
    """The answer: every candidate with its fate, the records that were written, and what else was noticed."""

    results: Sequence[Mapping[str, Any]]
    saved: Sequence[Row]
    operation_id: str | None
    resources: Sequence[ResourceOffer] = ()
    rejected: Sequence[Rejected] = ()
    degraded: Sequence[str] = ()
    messages_read: int = 0
    dry_run: bool = False


class FoundSecret(Protocol):
    """A credential in a text: which kind, where, and what of it may be shown."""

    @property
    def pattern(self) -> str:
        """What kind of credential it is."""

    @property
    def start(self) -> int:
        """Where it begins."""

    @property
    def end(self) -> int:
        """Where it ends."""

    @property
    def redacted(self) -> str:
        """What of it may be shown."""


SecretFinder: TypeAlias = Callable[[str], Sequence[FoundSecret]]
"""Finds the credentials in a text of at most some thousand characters, in their order, none inside another."""

Fold: TypeAlias = Callable[[str], str]
"""Brings variants of characters to one, such as traditional to simplified Chinese, character by character."""
