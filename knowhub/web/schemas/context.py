"""Requests on layered memories and on recall."""

import math
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from knowhub.context import uri
from knowhub.context.commit import commit_checks
from knowhub.context.commit_model import CommitOptions, SessionCommit, UsedTool
from knowhub.context.current_memories import DEFAULT_TOKENS
from knowhub.context.model import Level, MemoryCategory
from knowhub.context.search_model import MemoryLimits
from knowhub.context.service import MAX_DEPTH
from knowhub.conversations.messages import Message
from knowhub.usecases.recall import RecallQuery as RecallQuestion
from knowhub.usecases.recall import RecallSource
from knowhub.web.schemas.knowledge import Question, Tags, TypeName
from knowhub.web.schemas.parts import (
    Body,
    CallerIds,
    Changes,
    CommaSeparated,
    DeleteBody,
    DeleteParams,
    EntityId,
    Label,
    NonEmptyLabel,
    Part,
    Text,
    TimeAndTagFilters,
    clean,
    normalize_moment,
)

MAX_RELATIONS: Final = 1_000
MAX_TOOL_SECONDS: Final = 1_000_000_000.0
_URI_SCHEMA = {
    "type": "string",
    "pattern": "^ctx://[^/]+(/[^/]+)*$",
    "maxLength": uri.MAX_URI_CHARS,
    "examples": ["ctx://default/users/li/memories/profile"],
}
_LEVEL_SCHEMA = {"type": "string", "enum": ["L0", "L1", "L2", "0", "1", "2"]}


def _check_timestamp(text: str) -> str:
    normalize_moment(text)
    # A transcript is stored word for word.
    return text


def _check_name(text: str) -> str:
    # Of a name that no URI could hold nothing could be kept.
    uri.encode_segment(text)
    return text


def _normalize_level(value: object) -> object:
    if not isinstance(value, str):
        return value
    return f"L{value}" if value.isdecimal() else value.upper()


def _check_count(messages: object) -> object:
    # The schema has the limit as well; it cannot say what to do.
    if isinstance(messages, list) and len(messages) > commit_checks.MAX_MESSAGES:
        raise ValueError(commit_checks.TOO_MANY)
    return messages


def _check_finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError("must be a number of seconds")
    return seconds


Uri = Annotated[
    str,
    StringConstraints(min_length=1, max_length=uri.MAX_URI_CHARS),
    AfterValidator(clean),
    WithJsonSchema(_URI_SCHEMA),
]
SpokenAt = Annotated[
    str,
    StringConstraints(max_length=commit_checks.MAX_TIMESTAMP_CHARS),
    AfterValidator(_check_timestamp),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
SessionId = Annotated[EntityId, AfterValidator(_check_name)]
MessageId = Annotated[NonEmptyLabel, AfterValidator(_check_name)]
Role = Annotated[str, StringConstraints(min_length=1, max_length=commit_checks.MAX_ROLE_CHARS), AfterValidator(clean)]
Note = Annotated[str, StringConstraints(max_length=commit_checks.MAX_NOTE_CHARS), AfterValidator(clean)]
ToolName = Annotated[NonEmptyLabel, AfterValidator(_check_name)]
LevelName = Annotated[Literal["L0", "L1", "L2"], BeforeValidator(_normalize_level), WithJsonSchema(_LEVEL_SCHEMA)]


class SessionMessage(Part):
    """One message of a session."""

    role: Role = Field(description="`user`, `assistant`, `tool`, `system` or another, in any case.")
    content: Text | None = Field(
        description="Stored word for word. null, as in a message that only calls tools, becomes an empty text."
    )
    name: Label | None = Field(default=None, description="Who spoke, or which tool answered.")
    message_id: MessageId | None = Field(
        default=None, description="Memories refer to it. A message with a known id is not stored again."
    )
    timestamp: SpokenAt | None = Field(
        default=None,
        description="When it was said; stored as it was sent. Memories take more than a day ahead for now.",
    )

    def to_message(self) -> Message:
        """Return the parsed message."""
        return Message(self.role, self.content or "", self.name or "", self.message_id, self.timestamp)


class UsedToolPart(Part):
    """A call of a tool or a skill."""

    name: ToolName
    kind: Literal["tool", "skill"] = "tool"
    ok: bool | None = Field(default=None, description="Whether it worked. Default true.")
    success: bool | None = Field(default=None, description="Another name of `ok`.")
    seconds: Annotated[float, Field(ge=0, le=MAX_TOOL_SECONDS), AfterValidator(_check_finite)] | None = None
    note: Note = ""
    call_id: Label | None = Field(default=None, description="A call with a known id is not counted again.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ok is not None and self.success is not None and self.ok != self.success:
            raise ValueError("ok and success say different things; send one of them")
        return self

    def to_used_tool(self) -> UsedTool:
        """Return the parsed call."""
        worked = self.ok if self.ok is not None else self.success is not False
        return UsedTool(self.name, self.kind, worked, self.seconds, self.note, self.call_id)


class CommitOptionsPart(Part):
    """How a session is committed."""

    dry_run: bool = Field(default=False, description="Show the plan, and write nothing.")
    extract: bool = Field(default=True, description="Also look for memories, not only store the transcript.")


class CommitBody(Body):
    """A session, oldest message first."""

    session_id: SessionId
    messages: Annotated[
        list[SessionMessage],
        Field(min_length=1, max_length=commit_checks.MAX_MESSAGES),
        BeforeValidator(_check_count),
    ]
    used_contexts: Annotated[list[Text], Field(max_length=commit_checks.MAX_USED)] = Field(
        default_factory=list,
        description="URIs or texts that were recalled into the session. They are not learned again.",
    )
    used_tools: Annotated[list[UsedToolPart | ToolName], Field(max_length=commit_checks.MAX_USED)] = Field(
        default_factory=list
    )
    options: CommitOptionsPart = Field(default_factory=CommitOptionsPart)
    trace_id: Label | None = None
    wait: bool = Field(default=False, description="Answer only when the language model has read it.")

    def to_commit(self) -> SessionCommit:
        """Return the parsed request."""
        return SessionCommit(
            session_id=self.session_id,
            messages=[message.to_message() for message in self.messages],
            used_contexts=self.used_contexts,
            used_tools=[
                UsedTool(used_tool) if isinstance(used_tool, str) else used_tool.to_used_tool()
                for used_tool in self.used_tools
            ],
            options=CommitOptions(self.options.dry_run, self.options.extract),
            wait=self.wait,
        )


class MemorySearchParams(TimeAndTagFilters):
    """The query of a search among memories."""

    q: Question
    target_uri: Uri | None = Field(default=None, description="Only at and below this URI.")
    categories: Annotated[list[MemoryCategory], CommaSeparated] = Field(
        default_factory=list, description="Only of these; default all, `sessions` (parts of transcripts) included."
    )
    top_k: int = Field(default=10, ge=1, le=100)
    min_relevance: float = Field(default=0.0, ge=0, le=1, description="The least relevance of a result.")
    explain: bool = Field(default=False, description="Say of each block why it is there.")

    def to_limits(self) -> MemoryLimits:
        """Return what a result must have beside the words. Raises InvalidInput for an unknown parameter."""
        return MemoryLimits(
            self.to_time_range(),
            self.to_tag_filters(),
            self.min_relevance,
            self.explain,
        )

    def to_categories(self) -> list[str] | None:
        """Return the categories that are asked for, None for all."""
        return [category.value for category in self.categories] or None


class ReadParams(CallerIds):
    """Parameters of reading one layer of a memory."""

    uri: Uri
    level: LevelName = "L1"
    expand_relations: bool = Field(default=False, description="Include its relations.")
    max_relations: int = Field(
        default=0, ge=0, le=MAX_RELATIONS, description="At most this many relations; 0 means all."
    )

    def to_level(self) -> Level:
        """Return the layer."""
        return Level[self.level]


class NodeParams(CallerIds):
    """Which memory."""

    uri: Uri


class NodeUriParams(Part):
    """The memory, where a body names the caller. The body may name the URI too."""

    uri: Uri | None = None


class NodePatchBody(Changes):
    """Layers to be corrected; what is left out stays."""

    abstract: Annotated[Text, StringConstraints(max_length=4_096)] = ""
    overview: Text = ""
    content: Text = ""
    tags: Tags = Field(default_factory=dict)
    uri: Uri | None = Field(default=None, description="Which memory, where the query does not name it.")


class NodeDeleteParams(NodeParams, DeleteParams):
    """Which memory is deleted, and whether for good."""


class NodeDeleteBody(NodeUriParams, DeleteBody):
    """Which memory is deleted, and by whom, where that is not said in the query."""


class MemoryChildrenParams(CallerIds):
    """Below which URI to look, and how far down."""

    uri: Uri | None = Field(default=None, description="Default: everything that the caller sees of the account.")
    recursive: bool = Field(default=False, description="List all levels.")
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH)


class MemoryProfileParams(CallerIds):
    """How much is wanted."""

    max_tokens: int = Field(default=DEFAULT_TOKENS, ge=1, le=100_000, description="A token is counted as three bytes.")


class SessionsParams(CallerIds):
    """Which sessions."""

    limit: int = Field(default=100, ge=1, le=1_000)
    cursor: Uri | None = None


class DistillBody(Body):
    """Who distils, and whether to write."""

    dry_run: bool = Field(default=False, description="Return what would be saved, and write nothing.")


class RecallParams(TimeAndTagFilters):
    """One question to everything, within a time and with tags, which keywords do not have."""

    q: Question
    top_k: int = Field(
        default=10, ge=1, le=100, description="The number of items in all, taken from the sources in turn."
    )
    sources: Annotated[list[RecallSource], CommaSeparated] = Field(default_factory=list, description="Default all.")
    types: Annotated[list[TypeName], CommaSeparated] = Field(default_factory=list, description="Of knowledge.")
    categories: Annotated[list[MemoryCategory], CommaSeparated] = Field(default_factory=list, description="Of memory.")
    llm_expand_query: bool = Field(
        default=False, description="If the question names no keyword, a model searches the tree. This is slow."
    )
    min_relevance: float | None = Field(
        default=None, ge=0, le=1, description="The least relevance of an item, in place of each source's own floor."
    )

    def to_query(self) -> RecallQuestion:
        """Return the parsed question."""
        return RecallQuestion(
            self.q,
            self.top_k,
            frozenset(self.sources) or frozenset(RecallSource),
            frozenset(self.types),
            [category.value for category in self.categories],
            self.llm_expand_query,
            self.to_time_range(),
            self.to_tag_filters(),
            self.min_relevance,
        )
