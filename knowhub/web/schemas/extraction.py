"""Requests and answers of extraction (seed 004, 知识提取机制)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from knowhub.core.messages import Message
from knowhub.knowledge.extraction_model import Extraction, Trigger
from knowhub.web.schemas.answers import Answer, KnowledgeRecord
from knowhub.web.schemas.parts import Body, Label, Moment, OperationAnswer, Part, Text

MAX_MESSAGES = 10_000

Role = Annotated[Label, StringConstraints(min_length=1)]


class SpokenMessage(Part):
    """One message of a conversation."""

    role: Role = Field(description="`user`, `assistant`, `tool` or `system`; other roles are not listened to.")
    content: Text | None = Field(description="null, as of a message that only calls tools, says nothing.")
    name: Label | None = Field(default=None, description="Of a tool's answer: the tool. KnowHub's own are left out.")
    message_id: Label | None = Field(
        default=None, description="What was learnt names it, and the same message never counts twice."
    )
    timestamp: Moment | None = None

    def to_message(self) -> Message:
        """Return the parsed message."""
        return Message(self.role, self.content or "", self.name or "", self.message_id or None, self.timestamp)


class ExtractBody(Body):
    """A conversation, oldest message first."""

    messages: Annotated[list[SpokenMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    trigger: Trigger = Field(
        default=Trigger.COMPACTION, strict=False, description="Why now; decides what is looked for."
    )
    trace_id: Label | None = None
    dry_run: bool = Field(default=False, description="Tell what would be saved, and write nothing.")

    def to_extraction(self) -> Extraction:
        """Return the parsed request."""
        return Extraction([one.to_message() for one in self.messages], self.trigger, self.trace_id, self.dry_run)


class CandidateAnswer(Answer):
    """Something that may be worth keeping, and what became of it."""

    status: str = Field(examples=["new", "merged", "changed", "known", "recalled", "contradicted", "failed"])
    knowledge_id: str | None = Field(description="The record that it became, or that it met.")
    reason: str
    category: str
    types: list[str]
    tags: dict[str, str]
    task: str
    content: str
    messages: list[int] = Field(description="The places, from 0, of the messages that say so, among those read.")
    by: str = Field(examples=["rules", "llm"])


class ResourceOfferAnswer(Answer):
    """Something that belongs into a resource; the answer does not hold it."""

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
    messages_read: int = Field(description="The newest ones; so many of them are read.")
    dry_run: bool
