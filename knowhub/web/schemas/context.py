"""Requests on layered memories and on recall (seed 002)."""

import math
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from knowhub.context import uri
from knowhub.context.commit import checks
from knowhub.context.commit_model import CommitOptions, SessionCommit, UsedTool
from knowhub.context.listing import MAX_DEPTH
from knowhub.context.model import Category, Level
from knowhub.core import clock
from knowhub.core.messages import Message
from knowhub.usecases.recall import Question as RecallQuestion
from knowhub.usecases.recall import Source
from knowhub.web.schemas.keywords import Version
from knowhub.web.schemas.knowledge import Question, TypeName
from knowhub.web.schemas.parts import (
    Body,
    CallerIds,
    CommaSeparated,
    DeleteParams,
    EntityId,
    EraseBody,
    Label,
    Part,
    Text,
    clean,
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


def _spoken_at(text: str) -> str:
    try:
        clock.normalised_iso(text)
    except (ValueError, OverflowError):
        raise ValueError("must be a date or time in ISO 8601, such as 2026-03-05T12:00:00Z or 2026-03-05") from None
    # Kept as it was sent: a transcript is kept word for word.
    return text


def _named(text: str) -> str:
    # Of a name that no URI could hold nothing could be kept.
    uri.segment(text)
    return text


def _level(value: object) -> object:
    if not isinstance(value, str):
        return value
    return f"L{value}" if value.isdecimal() else value.upper()


def _not_too_many(messages: object) -> object:
    # The schema has the limit as well; it cannot say what to do.
    if isinstance(messages, list) and len(messages) > checks.MAX_MESSAGES:
        raise ValueError(checks.TOO_MANY)
    return messages


def _finite(seconds: float) -> float:
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
    StringConstraints(max_length=checks.MAX_TIMESTAMP_CHARS),
    AfterValidator(_spoken_at),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
SessionId = Annotated[EntityId, AfterValidator(_named)]
MessageId = Annotated[Label, StringConstraints(min_length=1), AfterValidator(_named)]
Role = Annotated[str, StringConstraints(min_length=1, max_length=checks.MAX_ROLE_CHARS), AfterValidator(clean)]
Note = Annotated[str, StringConstraints(max_length=checks.MAX_NOTE_CHARS), AfterValidator(clean)]
ToolName = Annotated[Label, StringConstraints(min_length=1), AfterValidator(_named)]
LevelName = Annotated[Literal["L0", "L1", "L2"], BeforeValidator(_level), WithJsonSchema(_LEVEL_SCHEMA)]


class SessionMessage(Part):
    """One message of a session."""

    role: Role = Field(description="`user`, `assistant`, `tool`, `system` or another, in any case.")
    content: Text | None = Field(description="Kept word for word; null, as of a message that only calls tools, is ''.")
    name: Label | None = Field(default=None, description="Who spoke, or which tool answered.")
    message_id: MessageId | None = Field(default=None, description="What is learnt names it; it is never kept twice.")
    timestamp: SpokenAt | None = Field(default=None, description="When it was said; kept as it is sent.")

    def to_message(self) -> Message:
        """Return the parsed message."""
        return Message(self.role, self.content or "", self.name or "", self.message_id, self.timestamp)


class UsedToolPart(Part):
    """A call of a tool or a skill."""

    name: ToolName
    kind: Literal["tool", "skill"] = "tool"
    ok: bool | None = Field(default=None, description="Whether it worked. Default true.")
    success: bool | None = Field(default=None, description="The same, as others call it.")
    seconds: Annotated[float, Field(ge=0, le=MAX_TOOL_SECONDS), AfterValidator(_finite)] | None = None
    note: Note = ""
    call_id: Label | None = Field(default=None, description="A call that was counted before counts no more.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ok is not None and self.success is not None and self.ok != self.success:
            raise ValueError("ok and success say different things; send one of them")
        return self

    def to_used(self) -> UsedTool:
        """Return the parsed call."""
        worked = self.ok if self.ok is not None else self.success is not False
        return UsedTool(self.name, self.kind, worked, self.seconds, self.note, self.call_id)


class CommitOptionsPart(Part):
    """How a session is committed."""

    dry_run: bool = Field(default=False, description="Show the plan, and write nothing.")
    extract: bool = Field(default=True, description="Look for what is worth remembering, beside the transcript.")


class CommitBody(Body):
    """A session, oldest message first."""

    session_id: SessionId
    messages: Annotated[
        list[SessionMessage],
        Field(min_length=1, max_length=checks.MAX_MESSAGES),
        BeforeValidator(_not_too_many),
    ]
    used_contexts: Annotated[list[Text], Field(max_length=checks.MAX_USED)] = Field(
        default_factory=list, description="URIs or texts of what was recalled into the session: not learnt again."
    )
    used_tools: Annotated[list[UsedToolPart | ToolName], Field(max_length=checks.MAX_USED)] = Field(
        default_factory=list
    )
    options: CommitOptionsPart = Field(default_factory=CommitOptionsPart)
    trace_id: Label | None = None

    def to_commit(self) -> SessionCommit:
        """Return the parsed request."""
        return SessionCommit(
            session_id=self.session_id,
            messages=[one.to_message() for one in self.messages],
            used_contexts=self.used_contexts,
            used_tools=[UsedTool(one) if isinstance(one, str) else one.to_used() for one in self.used_tools],
            options=CommitOptions(self.options.dry_run, self.options.extract),
            trace_id=self.trace_id or "",
        )


class MemorySearchParams(CallerIds):
    """The query of a search among memories."""

    q: Question
    target_uri: Uri | None = Field(default=None, description="Only at and below this URI.")
    categories: Annotated[list[Category], CommaSeparated] = Field(
        default_factory=list, description="Only of these; default all, `sessions` (parts of transcripts) included."
    )
    top_k: int = Field(default=10, ge=1, le=100)

    def wanted(self) -> list[str] | None:
        """Return the categories that are asked for, None for all."""
        return [one.value for one in self.categories] or None


class ReadParams(CallerIds):
    """Which layer of which memory is read."""

    uri: Uri
    level: LevelName = "L1"
    expand_relations: bool = Field(default=False, description="With its edges.")
    max_relations: int = Field(default=0, ge=0, le=MAX_RELATIONS, description="At most so many; 0 is no bound.")

    def to_level(self) -> Level:
        """Return the layer."""
        return Level[self.level]


class NodeParams(CallerIds):
    """Which memory."""

    uri: Uri


class NodePlaceParams(Part):
    """Which memory; who calls is named in the body, where the URI may stand as well."""

    uri: Uri | None = None


class NodePatchBody(Body):
    """Layers to be corrected; what is left out stays."""

    abstract: Annotated[Text, StringConstraints(max_length=4_096)] = ""
    overview: Text = ""
    content: Text = ""
    uri: Uri | None = Field(default=None, description="Which memory, where the query does not name it.")
    version: Version | None = Field(default=None, description="The version that you read.")

    _FIELDS = ("abstract", "overview", "content")

    def patch(self) -> dict[str, Any]:
        """Return the fields that were sent."""
        return {name: getattr(self, name) for name in self._FIELDS if name in self.model_fields_set}


class NodeDeleteParams(DeleteParams):
    """Which memory is deleted, and whether for good."""

    uri: Uri


class NodeEraseBody(EraseBody):
    """Which memory is deleted, and by whom, where that is not said in the query."""

    uri: Uri | None = None


class ChildrenParams(CallerIds):
    """Below which URI to look, and how far down."""

    uri: Uri | None = Field(default=None, description="Default: everything that the caller sees of the account.")
    recursive: bool = Field(default=False, description="All the way down.")
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH)


class DistillBody(Body):
    """Who distils, and whether to write."""

    dry_run: bool = Field(default=False, description="Tell what would be saved, and write nothing.")


class RecallParams(CallerIds):
    """One question to everything."""

    q: Question
    top_k: int = Field(default=10, ge=1, le=100, description="How many items in all, taken from the sources in turn.")
    sources: Annotated[list[Source], CommaSeparated] = Field(default_factory=list, description="Default all.")
    types: Annotated[list[TypeName], CommaSeparated] = Field(default_factory=list, description="Of knowledge.")
    categories: Annotated[list[Category], CommaSeparated] = Field(default_factory=list, description="Of memory.")
    llm_expand_query: bool = Field(
        default=False, description="Where no keyword is named, let a model walk the tree, which takes its time."
    )

    def question(self) -> RecallQuestion:
        """Return the parsed question."""
        return RecallQuestion(
            self.q,
            self.top_k,
            frozenset(self.sources) or frozenset(Source),
            frozenset(self.types),
            [one.value for one in self.categories],
            self.llm_expand_query,
        )
