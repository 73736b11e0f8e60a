"""Requests and answers on resources."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from knowhub.resources.decisions import MAX_ID_CHARS
from knowhub.resources.model import DEFAULT_CONTENT_TYPE, DEFAULT_LIMIT, NewResource, ResourceQuery
from knowhub.web.schemas.keywords import Metadata
from knowhub.web.schemas.knowledge import Scopes
from knowhub.web.schemas.parts import (
    Body,
    CallerIds,
    Changes,
    Label,
    Moment,
    NonEmptyLabel,
    OperationAnswer,
    OwnedRowAnswer,
    Owner,
    Page,
    ResourceId,
    Text,
    WarningsAnswer,
    clean,
    fill,
    refuse_blank,
)

MAX_TITLE_CHARS = 1_000
_SEALED = "The secret text. It is encrypted before it is stored; only the answer to `reveal` has it."
Title = Annotated[str, StringConstraints(max_length=MAX_TITLE_CHARS), AfterValidator(clean)]
ContentType = Annotated[
    NonEmptyLabel, refuse_blank("is blank; name what it is, such as code, credential, cookie or text")
]
Prefix = Annotated[str, StringConstraints(max_length=MAX_ID_CHARS), AfterValidator(clean)]


class ResourceBody(Body):
    """A resource to be saved."""

    id: ResourceId = Field(description="A path of your own choosing.", examples=["code/selenium/login"])
    title: Title = ""
    body: Text = Field(default="", description="The public text.")
    secure_body: Text | None = Field(default=None, repr=False, description=_SEALED)
    content_type: ContentType = Field(
        default=DEFAULT_CONTENT_TYPE, description="What it is: `code`, `credential`, `cookie`, `text` or another word."
    )
    metadata: Metadata = Field(default_factory=dict, description="`expires_at` in it counts as `expires_at`.")
    scopes: Scopes | None = Field(default=None, description="Who may see it. Default: its owner.")
    owner: Owner | None = None
    expires_at: Moment | None = Field(default=None, description="It is marked as `expired` from this time on.")

    def to_new(self) -> NewResource:
        """Return what the service saves."""
        return fill(NewResource, self)


class ResourceSaveParams(BaseModel):
    """What is done with an id that is taken. Who calls is named in the body."""

    model_config = ConfigDict(extra="forbid")

    upsert: bool = Field(default=False, description="Save a new version if the resource exists.")


class ResourcePatchBody(Changes):
    """Fields to be changed; what is left out stays. null removes `secure_body` and `expires_at`."""

    title: Title = ""
    body: Text = ""
    secure_body: Text | None = Field(default=None, repr=False, description=_SEALED)
    content_type: ContentType = DEFAULT_CONTENT_TYPE
    metadata: Metadata = Field(default_factory=dict, description="Replaces the old value.")
    scopes: Scopes = Field(default_factory=list)
    expires_at: Moment | None = None


class ResourceParams(CallerIds):
    """How a resource is read."""

    reveal: bool = Field(default=False, description="Answer with `secure_body`. The log records who read it.")


class ResourceListParams(CallerIds):
    """The filters of the list of resources."""

    prefix: Prefix = Field(
        default="", description="Only resources whose id begins with this text, such as `credentials/`."
    )
    content_type: Label | None = None
    expired: bool | None = Field(default=None, description="Only resources that have expired, or only the others.")
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=1000)
    cursor: Prefix | None = None

    def to_query(self) -> ResourceQuery:
        """Return what the service looks for."""
        return fill(ResourceQuery, self, after=self.cursor)


class ResourceRecord(OwnedRowAnswer):
    """A resource without its sealed text."""

    id: str = Field(examples=["code/selenium/login"])
    title: str
    body: str
    content_type: str
    metadata: dict[str, Any]
    expires_at: str | None
    has_secure_body: bool = Field(description="Whether it has a sealed text.")
    expired: bool


class ReadResource(ResourceRecord):
    """A resource, read by its id; the last two only with `reveal`."""

    secure_body: str | None = Field(default=None, description="The sealed text; null if it has none.")
    operation_id: str | None = Field(default=None, description="The operation in the log that records who read it.")


class SavedResourceRecord(ResourceRecord, WarningsAnswer, OperationAnswer):
    """A resource after a write."""


class ResourceList(Page[ResourceRecord]):
    pass
