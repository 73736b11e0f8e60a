"""The parts that every request and answer is made of; the edge at which input is parsed, once."""

import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from knowhub.core import clock, scopes
from knowhub.core.cursors import CURSOR_PATTERN
from knowhub.core.errors import InvalidInput
from knowhub.core.recall import TimeRange, tag_facets
from knowhub.core.request_context import CONTEXT_IDS, DEFAULT_ACCOUNT, RequestContext, caller_context, local_context
from knowhub.resources.decisions import MAX_ID_CHARS, find_id_problem

MAX_LIST = 50
MAX_LABEL_CHARS = 200
# Writing a longer text as JSON, or looking through it once, would hold up other requests.
MAX_TEXT_CHARS = 2 * 1024 * 1024

# What the validators below check, in the words of the OpenAPI document.
_PRINTED = r"[^\x00-\x1f\x7f-\x9f]"
_ID_SCHEMA = {"type": "string", "pattern": f"^{_PRINTED}+$", "maxLength": scopes.MAX_ID_CHARS}
_SCOPE_SCHEMA = {
    "type": "string",
    "pattern": f"^({scopes.PUBLIC}|(user|project|agent|team|org):{_PRINTED}+)$",
    "maxLength": 200,
}
_OWNER_SCHEMA = {
    "type": "string",
    "pattern": f"^((user|agent):{_PRINTED}+|[^:\\x00-\\x1f\\x7f-\\x9f]+)$",
    "maxLength": 206,
}
_RESOURCE_SCHEMA = {
    "type": "string",
    "pattern": r"^[^/%\\\x00-\x1f\x7f-\x9f]+(/[^/%\\\x00-\x1f\x7f-\x9f]+)*$",
    "maxLength": MAX_ID_CHARS,
}
# One format: for two, generators of clients make no type.
_MOMENT_SCHEMA = {
    "type": "string",
    "format": "date-time",
    "description": "A time in ISO 8601. A date alone is taken too.",
    "examples": ["2026-03-05T12:00:00Z"],
}


_SURROGATES = re.compile("[\ud800-\udfff]")


class Dataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


RowT = TypeVar("RowT")
FilledT = TypeVar("FilledT", bound=Dataclass)


def clean(text: str) -> str:
    """Return text that is text. Raises ValueError when it could not be stored as it is."""
    if "\0" in text or not (text.isascii() or _SURROGATES.search(text) is None):
        raise ValueError("must not hold a NUL character or half a surrogate pair")
    return text


def _refuse(find_problem: Callable[[str], str | None]) -> AfterValidator:
    """Return a validator that refuses a text with the problem that is found."""

    def check(text: str) -> str:
        problem = find_problem(text)
        if problem:
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def refuse_blank(problem: str) -> AfterValidator:
    """Return a validator that refuses a text of white space alone."""
    return _refuse(lambda text: None if text.strip() else problem)


def _normalize_owner(text: str) -> str:
    # A bare name or e-mail address is a user.
    owner = text if ":" in text else f"user:{text}"
    problem = scopes.owner_problem(owner)
    if problem:
        raise ValueError(problem)
    return owner


def normalize_moment(text: str) -> str:
    """Return a time in the form of answers. Raises ValueError that says which forms are taken."""
    try:
        return clock.normalize_iso(text)
    except ValueError:
        raise ValueError("must be a date or time in ISO 8601, such as 2026-03-05T12:00:00Z or 2026-03-05") from None


def _split_commas(value: Any) -> Any:  # noqa: ANN401 -- whatever came in the query
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return [name for part in value for name in _split_commas(part)]
    return value


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS), AfterValidator(clean)]
Label = Annotated[str, StringConstraints(max_length=MAX_LABEL_CHARS), AfterValidator(clean)]
NonEmptyLabel = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_CHARS), AfterValidator(clean)]
Cursor = Annotated[str, StringConstraints(pattern=CURSOR_PATTERN)]
EntityId = Annotated[str, _refuse(scopes.entity_id_problem), WithJsonSchema(_ID_SCHEMA)]
ResourceId = Annotated[
    Text,
    StringConstraints(max_length=MAX_ID_CHARS),
    _refuse(find_id_problem),
    WithJsonSchema(_RESOURCE_SCHEMA),
]
Scope = Annotated[
    str, StringConstraints(max_length=MAX_LABEL_CHARS), _refuse(scopes.scope_problem), WithJsonSchema(_SCOPE_SCHEMA)
]
# Its limit is that of its id: whoever may call may own.
Owner = Annotated[str, AfterValidator(_normalize_owner), WithJsonSchema(_OWNER_SCHEMA)]
Moment = Annotated[str, AfterValidator(normalize_moment), WithJsonSchema(_MOMENT_SCHEMA)]
Version = Annotated[int, Field(ge=1)]
_TAG = "tag."
# In an address, `?user=li` is shorter than `?user_id=li`.
_SHORT_NAMES = {name.removesuffix("_id"): name for name in CONTEXT_IDS}
CommaSeparated = BeforeValidator(_split_commas)


class CallerIds(BaseModel):
    """Who is calling: query parameters of a GET or DELETE, top-level fields of any body."""

    # Else NaN would be refused as if it were too large.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    account: EntityId = Field(
        default=DEFAULT_ACCOUNT, description="The account. Accounts are separate: a caller never sees another account."
    )
    user_id: EntityId | None = Field(
        default=None, description="Act as this user: see `user:ID`, own records and `public`."
    )
    agent_id: EntityId | None = Field(default=None, description="Act as this agent.")
    project_id: EntityId | None = Field(default=None, description="See `project:ID` too.")
    team_id: EntityId | None = Field(default=None, description="See `team:ID` too.")
    org_id: EntityId | None = Field(default=None, description="See `org:ID` too.")

    def to_context(self, default_owner: str) -> RequestContext:
        """Return the caller; with no id at all it is the local principal, who may do everything."""
        ids = self.get_ids()
        return caller_context(ids, default_owner, self.account) if ids else local_context(default_owner, self.account)

    def get_ids(self) -> dict[str, str]:
        """Return the context ids that are given."""
        if self.model_fields_set.isdisjoint(CONTEXT_IDS):
            return {}
        return {name: value for name in CONTEXT_IDS if (value := getattr(self, name)) is not None}


class AddressedCallerIds(CallerIds):
    """Who calls: `user`, `agent`, `project`, `team` and `org` are short for the names with `_id`."""

    @model_validator(mode="before")
    @classmethod
    def _lengthen(cls, given: dict[str, Any]) -> dict[str, Any]:
        both = sorted(name for name in _SHORT_NAMES if name in given and _SHORT_NAMES[name] in given)
        if both:
            raise ValueError(f"{both[0]} and {_SHORT_NAMES[both[0]]} mean the same; send one of them")
        return {_SHORT_NAMES.get(name, name): value for name, value in given.items()}


class PageParams(CallerIds):
    """A page of a list."""

    limit: int = Field(default=50, ge=1, le=1000)
    cursor: Cursor | None = None


class TimeAndTagFilters(CallerIds):
    """The caller, a range of time, and any `tag.<name>=value`."""

    model_config = ConfigDict(extra="allow")

    since: Moment | None = Field(
        default=None,
        description="Only what was created at this time or later. Of memories: what was said or took place then, else "
        "what was last changed then.",
    )
    until: Moment | None = Field(default=None, description="The same, before this time.")

    def to_time_range(self) -> TimeRange:
        """Return the parsed range of time."""
        since, until = (None if moment is None else clock.parse_iso(moment) for moment in (self.since, self.until))
        return TimeRange(since, until)

    def to_tag_filters(self) -> list[frozenset[str]]:
        """Return the facets of each tag that is asked for. Raises InvalidInput for an unknown parameter."""
        filters = []
        for name, value in (self.model_extra or {}).items():
            tag = name.removeprefix(_TAG)
            if tag == name:
                raise InvalidInput.of(name, "there is no such parameter; a tag is asked for by tag.<name>=value")
            filters.append(frozenset(tag_facets({tag: value})))
        return filters


class Body(CallerIds):
    """A JSON body: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Part(BaseModel):
    """An object inside a body."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class VersionedBody(Body):
    """A body that names the version of the row that the caller has read."""

    version: Version | None = Field(default=None, description="The version that you read.")


class Changes(VersionedBody):
    """Fields to be changed. Fields that are left out stay. A field can be null only if a subclass allows it."""

    def to_patch(self) -> dict[str, Any]:
        """Return the fields that were sent, as a row holds them."""
        sent = self.model_fields_set - _NO_CHANGES
        return {name: getattr(self, name) for name in type(self).model_fields if name in sent}


_NO_CHANGES = {*CallerIds.model_fields, "version", "uri", "allow_duplicate"}


class DeleteParams(CallerIds):
    """Who deletes, and whether to erase the content."""

    erase: bool = Field(
        default=False,
        description="Remove the content for good, everywhere. This cannot be undone. A deleted row can be erased too.",
    )
    wait: bool = Field(default=True, description="With false an erase answers with a job id, at once.")


class DeleteBody(DeleteParams, VersionedBody):
    """The same, for who sends a body with a DELETE, and the version to be deleted."""


def fill(kind: type[FilledT], model: BaseModel, **others: Any) -> FilledT:  # noqa: ANN401 -- fields of any type
    """Return a dataclass whose fields have the values of the model's fields of the same names, and `others`."""
    values = model.__dict__
    return kind(**{name: values[name] for name in _list_shared_fields(kind, type(model))} | others)


# Asking pydantic for the fields of a model costs more than filling a row.
@cache
def _list_shared_fields(kind: type[Dataclass], model: type[BaseModel]) -> list[str]:
    return [name for name in kind.__dataclass_fields__ if name in model.model_fields]


class FieldProblem(BaseModel):
    """One wrong field of a request."""

    field: str = Field(examples=["items.3.content"])
    message: str


class Problem(BaseModel):
    """Every error, as RFC 9457 `application/problem+json`."""

    type: str = Field(examples=["urn:knowhub:problem:invalid-input"])
    title: str = Field(examples=["Unprocessable Content"])
    status: int = Field(examples=[422])
    detail: str
    instance: str = Field(examples=["/api/knowledge"])
    errors: list[FieldProblem] | None = Field(default=None, description="With 422: the wrong fields.")
    current_version: int | None = Field(default=None, description="With 409 on a version: the current version.")
    blocked_by: list[str] | None = Field(
        default=None, description="With 409 on an undo: the ids of the operations in the way that the caller may see."
    )
    blocked_by_hidden: int | None = Field(
        default=None, description="With 409 on an undo: how many operations are in the way that the caller may not see."
    )


class Answer(BaseModel):
    """A successful answer, or a part of one: no field is undeclared."""

    # Built when the document is: a start, and a command, need none of them.
    model_config = ConfigDict(extra="forbid", defer_build=True)


class Page(Answer, Generic[RowT]):
    """A page of a list."""

    results: list[RowT]
    count: int
    next_cursor: str | None


class OwnedRowAnswer(Answer):
    """What every row with an owner has."""

    id: str
    scopes: list[str]
    owner: str
    version: int
    created_at: str
    updated_at: str


class DroppedAnswer(Answer):
    """What was left out, and why."""

    what: str = Field(examples=["messages"])
    why: str = Field(
        description="Messages are `not_read` whole (they are longer, or more, than is read), `cut` (their beginning "
        "was read), or in a part with an `unusable_answer`. Candidates are `empty`, `secret`, `recalled` into the "
        "session, `duplicate`, or `too_many`. Changes that a model asked for are refused by a check, such as "
        "`name_not_said`, or change nothing. Proposals of a plan are `not_possible`: they name what was not shown, "
        "change nothing, contradict another one, or are beyond 200 steps. Of a file, a property has `no_place` in a "
        "keyword, a concept is `not_in_file`, rows of one path or text are a `duplicate`, a row `differs` from what is "
        "there and stays, and keywords of others are `not_yours`. Links of `auto_link` were to what the model was "
        "`not_shown`.",
        examples=["not_read", "secret", "too_many"],
    )
    count: int


class SecretWarning(Answer):
    """A text that looks as if it had a secret in it, and what to do."""

    field: str = Field(examples=["content"])
    message: str


class WarningsAnswer(BaseModel):
    """What a save warns of; left out if there is nothing."""

    warnings: list[SecretWarning] | None = Field(default=None, description="What looks like a secret, at most 20.")


class OperationAnswer(BaseModel):
    """The operation that a write made; null when it changed nothing."""

    model_config = ConfigDict(defer_build=True)

    operation_id: str | None


class DeletionAnswer(OperationAnswer):
    """The result of a deletion. All fields but `operation_id` only after an erase."""

    erased: bool | None = Field(default=None, description="True if the content was removed for good.")
    other_rows: list[str] | None = Field(
        default=None,
        description="Ids of live rows with the same text or merged with it, if the caller may see them.",
    )
    snapshots: list[str] | None = Field(
        default=None, description="Snapshots that still hold the content; they can be deleted."
    )
    pending: list[str] | None = Field(
        default=None, description="Indexes and files that another process has yet to rebuild."
    )
