"""Requests and answers on memories that are written by hand."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from knowhub.context.authoring import NewMemory
from knowhub.context.grep import MAX_LINES
from knowhub.context.model import MemoryCategory, RelationEdge
from knowhub.context.retrieval.blocks import MAX_READ
from knowhub.web.schemas.context import LevelName, Uri
from knowhub.web.schemas.context_answers import NodeRecord, ReadBlock, RelationAnswer
from knowhub.web.schemas.knowledge import Question, Tags
from knowhub.web.schemas.parts import (
    Answer,
    Body,
    CallerIds,
    Label,
    NonEmptyLabel,
    OperationAnswer,
    Page,
    Text,
    VersionedBody,
    WarningsAnswer,
)


class NewNodeBody(Body):
    """A memory to create in the caller's own space."""

    category: Literal["profile", "preferences", "entities", "events", "cases", "patterns"]
    content: Text = Field(description="The whole text, not blank.")
    name: Label = Field(default="", description="How its URI ends. Default: a hash of the text. A profile has none.")
    abstract: Annotated[Text, StringConstraints(max_length=4_096)] | None = Field(
        default=None, description="Default: made of the content, as is the overview."
    )
    overview: Text | None = None
    tags: Tags = Field(default_factory=dict)

    def to_memory(self) -> NewMemory:
        """Return the parsed memory."""
        layers = {"abstract": self.abstract, "overview": self.overview}
        given = {name: text for name, text in layers.items() if text is not None}
        return NewMemory(MemoryCategory(self.category), self.content, self.name, given, self.tags)


class CreatedNode(NodeRecord, WarningsAnswer, OperationAnswer):
    """A memory that was created or moved."""


class MoveNodeBody(VersionedBody):
    """Which memory gets which URI."""

    uri: Uri
    to: Uri = Field(description="The new URI, in the same space.")


class RelationBody(Body):
    """An edge from one memory to another."""

    from_uri: Uri
    to_uri: Uri
    relation_type: NonEmptyLabel = "related"
    reason: Label = ""
    weight: float = Field(default=1.0, ge=0, le=1)

    def to_edge(self) -> RelationEdge:
        """Return the parsed edge."""
        return RelationEdge(self.from_uri, self.to_uri, self.relation_type, self.reason, self.weight)


class UnlinkParams(CallerIds):
    """Which edges are removed."""

    from_uri: Uri = Field(description="The memory whose edges are removed.")
    to_uri: Uri = Field(description="The memory that they lead to.")
    relation_type: NonEmptyLabel | None = Field(default=None, description="Only those of this type. Default: all.")


class UnlinkBody(UnlinkParams, Body):
    """The same, for who sends a body with a DELETE."""


class LinksAnswer(OperationAnswer):
    """The edges of a memory after a change."""

    uri: str
    relations: list[RelationAnswer]


class ReadBatchBody(Body):
    """Several memories to read."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=MAX_READ)]
    level: LevelName = "L1"


class ReadBatchAnswer(Page[ReadBlock]):
    """What was read, in the order of the URIs."""

    missing: list[str] = Field(description="The URIs of no memory that the caller sees.")


class GrepParams(CallerIds):
    """A text to look for, word for word."""

    q: Question
    uri: Uri | None = Field(default=None, description="Only at and below this URI.")
    limit: int = Field(default=100, ge=1, le=MAX_LINES)


class FoundLineAnswer(Answer):
    """A line that contains the text."""

    uri: str
    category: str
    line: int = Field(description="Counted from 1 within the memory or message.")
    text: str = Field(description="At most 500 characters of the line.")


class GrepAnswer(Page[FoundLineAnswer]):
    """Lines in the order in which the memories were created."""

    truncated: bool = Field(description="Whether there are more.")
