"""Requests and answers of extraction."""

from typing import Annotated

from pydantic import Field

from knowhub.conversations.messages import Message
from knowhub.knowledge.extract.model import ExtractionRequest, Trigger
from knowhub.web.schemas.knowledge_answers import KnowledgeRecord
from knowhub.web.schemas.parts import (
    Answer,
    Body,
    DroppedAnswer,
    Label,
    Moment,
    NonEmptyLabel,
    OperationAnswer,
    Part,
    Text,
)

MAX_MESSAGES = 10_000


class SpokenMessage(Part):
    """One message of a conversation."""

    role: NonEmptyLabel = Field(description="`user`, `assistant`, `tool` or `system`; other roles are ignored.")
    content: Text | None = Field(description="null, as in a message that only calls tools, is an empty text.")
    name: Label | None = Field(default=None, description="The tool of a tool's answer. Tools of KnowHub are ignored.")
    message_id: Label | None = Field(
        default=None, description="Records refer to it. A message with a known id is not counted again."
    )
    timestamp: Moment | None = None

    def to_message(self) -> Message:
        """Return the parsed message."""
        return Message(self.role, self.content or "", self.name or "", self.message_id or None, self.timestamp)


class ExtractBody(Body):
    """A conversation, oldest message first."""

    messages: Annotated[list[SpokenMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    trigger: Trigger = Field(
        default=Trigger.COMPACTION, strict=False, description="The occasion. The same is looked for on each."
    )
    trace_id: Label | None = None
    dry_run: bool = Field(default=False, description="Return what would be saved, and write nothing.")

    def to_extraction(self) -> ExtractionRequest:
        """Return the parsed request."""
        return ExtractionRequest([message.to_message() for message in self.messages], self.trace_id, self.dry_run)


class CandidateAnswer(Answer):
    """Something that may be worth keeping, and what became of it."""

    status: str = Field(examples=["new", "merged", "changed", "ended", "known", "recalled", "contradicted", "failed"])
    knowledge_id: str | None = Field(description="The new record, or the record that it matches.")
    reason: str
    category: str
    types: list[str]
    tags: dict[str, str]
    task: str
    content: str
    messages: list[int] = Field(description="The positions, from 0, of the messages that say so.")
    by: str = Field(examples=["rules", "llm"])


class ResourceOfferAnswer(Answer):
    """A text that belongs into a resource. The answer does not contain it."""

    content_type: str = Field(examples=["credential", "cookie", "code"])
    suggested_id: str
    title: str
    message: int
    message_id: str | None
    shown: str


class RejectedAnswer(Answer):
    """An item of a model's answer that is no candidate."""

    index: int
    reason: str


class ExtractAnswer(OperationAnswer):
    """What was found in a conversation, and what was saved of it."""

    candidates: list[CandidateAnswer]
    saved: list[KnowledgeRecord]
    count: int = Field(description="How many records were saved.")
    resources: list[ResourceOfferAnswer]
    rejected: list[RejectedAnswer]
    degraded: list[str]
    dropped: list[DroppedAnswer]
    messages_read: int = Field(description="The number of messages that were read, the newest ones.")
    dry_run: bool
