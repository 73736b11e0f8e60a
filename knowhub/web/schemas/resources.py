"""Requests and answers on resources (seed 003, Resource 引用机制)."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from knowhub.resources.ids import MAX_ID_CHARS
from knowhub.resources.model import DEFAULT_CONTENT_TYPE, DEFAULT_LIMIT, NewResource, ResourceQuery
from knowhub.web.schemas.answers import Answer
from knowhub.web.schemas.keywords import Metadata, Version
from knowhub.web.schemas.knowledge import Scopes
from knowhub.web.schemas.parts import Body, CallerIds, Label, Moment, OperationAnswer, Owner, ResourceId, Text, clean

MAX_TITLE_CHARS = 1_000
_SEALED = "Sealed before it is kept: no answer, list, log or export holds it, but that to `reveal`."


def _named(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; name what it is, such as code, credential, cookie or text")
    return text


Title = Annotated[str, StringConstraints(max_length=MAX_TITLE_CHARS), AfterValidator(clean)]
ContentType = Annotated[Label, StringConstraints(min_length=1), AfterValidator(_named)]
Prefix = Annotated[str, StringConstraints(max_length=MAX_ID_CHARS), AfterValidator(clean)]


class ResourceBody(Body):
    """A resource to be saved."""

    id: ResourceId = Field(description="A path of your own choosing.", examples=["code/selenium/login"])
    title: Title = ""
    body: Text = Field(default="", description="What everybody may read who sees it.")
    secure_body: Text | None = Field(default=None, repr=False, description=_SEALED)
    content_type: ContentType = Field(
        default=DEFAULT_CONTENT_TYPE, description="What it is: `code`, `credential`, `cookie`, `text` or another word."
    )
    metadata: Metadata = Field(default_factory=dict, description="`expires_at` in it counts as `expires_at`.")
    scopes: Scopes | None = Field(default=None, description="Who sees it. Default: its owner.")
    owner: Owner | None = None
    expires_at: Moment | None = Field(default=None, description="From then on it is shown as `expired`.")

    def to_new(self) -> NewResource:
        """Return what the service saves."""
        return NewResource(
            id=self.id,
            title=self.title,
            body=self.body,
            secure_body=self.secure_body,
            content_type=self.content_type,
            metadata=self.metadata,
            scopes=self.scopes,
            owner=self.owner,
            expires_at=self.expires_at,
        )


class ResourceSaveParams(BaseModel):
    """What is done with an id that is taken. Who calls is named in the body."""

    model_config = ConfigDict(extra="forbid")

    upsert: bool = Field(default=False, description="Save a new version of a resource that stands there already.")


class ResourcePatchBody(Body):
    """Fields to be changed; what is left out stays. `secure_body` and `expires_at` are taken away by null."""

    title: Title = ""
    body: Text = ""
    secure_body: Text | None = Field(default=None, repr=False, description=_SEALED)
    content_type: ContentType = DEFAULT_CONTENT_TYPE
    metadata: Metadata = Field(default_factory=dict, description="Replaced whole.")
    scopes: Scopes = Field(default_factory=list)
    expires_at: Moment | None = None
    version: Version | None = Field(default=None, description="The version that you read.")

    _FIELDS = ("title", "body", "secure_body", "content_type", "metadata", "scopes", "expires_at")

    def patch(self) -> dict[str, Any]:
        """Return the fields that were sent."""
        return {name: getattr(self, name) for name in self._FIELDS if name in self.model_fields_set}


class ResourceParams(CallerIds):
    """How a resource is read."""

    reveal: bool = Field(default=False, description="With `secure_body`. Who was shown it stands in the log before.")


class ResourceListParams(CallerIds):
    """The filters of the list of resources."""

    prefix: Prefix = Field(default="", description="Only those whose id begins so, such as `credentials/`.")
    content_type: Label | None = None
    expired: bool | None = Field(default=None, description="Only those that have expired, or only the others.")
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=1000)
    cursor: Prefix | None = Field(default=None, description="`next_cursor` of the page before.")

    def query(self) -> ResourceQuery:
        """Return what the service looks for."""
        return ResourceQuery(self.prefix, self.content_type, self.expired, self.limit, self.cursor)


class ResourceRecord(Answer):
    """A resource, whole but for what is sealed of it."""

    id: str = Field(examples=["code/selenium/login"])
    title: str
    body: str
    content_type: str
    metadata: dict[str, Any]
    scopes: list[str]
    owner: str
    expires_at: str | None
    version: int
    created_at: str
    updated_at: str
    has_secure_body: bool = Field(description="Whether something of it is sealed.")
    expired: bool


class ReadResource(ResourceRecord):
    """A resource, read by its id; the last two only with `reveal`."""

    secure_body: str | None = Field(default=None, description="What is sealed of it; null where nothing is.")
    operation_id: str | None = Field(default=None, description="The line in the log that says who was shown it.")


class SavedResourceRecord(ResourceRecord, OperationAnswer):
    """A resource after a write."""


class ResourceList(Answer):
    results: list[ResourceRecord]
    count: int
    next_cursor: str | None
