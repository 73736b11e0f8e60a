"""Requests on keywords and infos."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from knowhub.keywords.info_rules import MAX_CREATOR_CHARS, MAX_KEYWORD_IDS, MAX_SOURCE_CHARS
from knowhub.keywords.keyword_rules import MAX_ALIASES, MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS
from knowhub.keywords.model import (
    PAGE_SIZE,
    InfoPolicy,
    InfoQuery,
    InfoSort,
    NewInfo,
    NewKeyword,
    RelationType,
    TreeFormat,
)
from knowhub.keywords.service import MAX_DEPTH
from knowhub.web.schemas.knowledge import MAX_ITEMS, Question, Scopes
from knowhub.web.schemas.parts import (
    MAX_TEXT_CHARS,
    Body,
    CallerIds,
    Changes,
    DeleteParams,
    NonEmptyLabel,
    Owner,
    PageParams,
    Part,
    Text,
    Version,
    VersionedBody,
    clean,
    fill,
    refuse_blank,
)

MAX_LINKS = MAX_KEYWORD_IDS
MAX_PAGE = 1_000_000_000


Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(clean)]
Aliases = Annotated[list[Name], Field(max_length=MAX_ALIASES)]
Description = Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION_CHARS), AfterValidator(clean)]
Metadata = dict[str, Any]
Content = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS),
    refuse_blank("is blank; it must say something"),
    AfterValidator(clean),
]
InfoSource = Annotated[str, StringConstraints(max_length=MAX_SOURCE_CHARS), AfterValidator(clean)]
RowId = NonEmptyLabel
Maker = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CREATOR_CHARS), AfterValidator(clean)]
# Strict models take no text for an enumeration, and JSON has nothing else.
Relation = Annotated[RelationType, Field(strict=False)]


DEFAULT_SCOPES = (
    "Who may see it. Default: `public`, which is everyone in the account; if the server asks for keys, its owner."
)


class _KeywordFields(Part):
    """What a caller may say of a keyword."""

    name: Name
    parent_id: RowId | None = Field(default=None, description="Its parent. Default: `root`.")
    aliases: Aliases = Field(default_factory=list)
    description: Description = ""
    metadata: Metadata = Field(default_factory=dict)
    scopes: Scopes | None = Field(default=None, description=DEFAULT_SCOPES)
    owner: Owner | None = None
    allow_duplicate: bool = Field(
        default=False, description="Create it although its parent has a keyword of this name; otherwise that is 409."
    )

    def to_new(self) -> NewKeyword:
        """Return the parsed keyword."""
        return fill(NewKeyword, self)


class KeywordBody(_KeywordFields, Body):
    """One keyword to be created."""

    llm_auto_place: bool = Field(default=True, description="Without `parent_id` the model chooses the parent.")
    llm_dedup_check: bool = Field(
        default=False, description="If a keyword has this name, the model decides whether it is the same."
    )


class KeywordItem(_KeywordFields):
    """One keyword of a batch; nothing is asked of a model."""

    ref: RowId | None = Field(
        default=None, description="A name for this keyword, for the `parent_ref` of later keywords."
    )
    parent_ref: RowId | None = Field(
        default=None, description="The `ref` of an earlier keyword, instead of `parent_id`."
    )


class KeywordBatchBody(Body):
    """Keywords to be created in one operation, all or none."""

    items: Annotated[list[KeywordItem], Field(min_length=1, max_length=MAX_ITEMS)]


_ALLOW_DUPLICATE = "Do it although the parent has another keyword of this name; otherwise that is 409."


class KeywordPatchBody(Changes):
    """Fields of a keyword to be changed; what is left out stays, and nothing can be null."""

    name: Name = Field(default_factory=str)
    aliases: Aliases = Field(default_factory=list, description="Replaces all of them.")
    description: Description = Field(default_factory=str)
    metadata: Metadata = Field(default_factory=dict, description="Replaces the old value.")
    scopes: Scopes = Field(default_factory=list)
    allow_duplicate: bool = Field(default=False, description=_ALLOW_DUPLICATE)


class MoveBody(VersionedBody):
    """The new parent of a keyword."""

    new_parent_id: RowId
    allow_duplicate: bool = Field(default=False, description=_ALLOW_DUPLICATE)


class MergeBody(Body):
    """The keyword to merge into."""

    into: RowId
    version: Version | None = Field(default=None, description="The version of the keyword that is merged away.")


class AliasBody(VersionedBody):
    """Another name of a keyword."""

    alias: Name


class KeywordDeleteParams(DeleteParams):
    """How a keyword is deleted."""

    cascade: bool = Field(default=False, description="Delete everything below it too; otherwise children are 409.")
    info_policy: InfoPolicy = Field(
        default=InfoPolicy.REATTACH,
        strict=False,
        description="Its infos: give them to the nearest ancestor, refuse the deletion, or only unlink them.",
    )
    erase: bool = Field(default=False, description="Remove the content of a deleted keyword for good.")


class KeywordDeleteBody(KeywordDeleteParams, VersionedBody):
    """The same, for who sends a body with a DELETE."""


class KeywordSearchParams(CallerIds):
    """The query of a keyword search."""

    q: Question
    llm_expand_query: bool = Field(
        default=True, description="If no keyword has the name `q`, the model searches the tree."
    )
    llm_disambiguate: bool = Field(
        default=False, description="If several keywords have the name `q`, the model chooses."
    )
    expand: bool = Field(default=False, description="Each candidate also has its five newest infos.")


class KeywordListParams(PageParams):
    """A page of the list of keywords."""

    prefix: Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)] = Field(
        default="",
        description="Only keywords whose name or alias begins so. Case, width and Chinese variants are equal; pinyin "
        "is accepted too.",
    )


class TreeExportParams(CallerIds):
    """The form of an export."""

    format: TreeFormat = Field(
        default=TreeFormat.JSONL,
        description="`jsonl` has everything; `skos` (RDF/XML), `outline` (indented) and `csv` have keywords alone, "
        "without metadata, scopes and owners; `outline` has no descriptions.",
    )


class TreeImportParams(CallerIds):
    """The form of an import."""

    format: TreeFormat | None = Field(default=None, description="As for an export. Default: as the content type says.")


class MissedAcceptBody(Body):
    """The missed query to be made a keyword."""

    id: RowId
    name: Name | None = Field(default=None, description="Default: the suggested name. The query becomes an alias.")
    parent_id: RowId | None = Field(default=None, description="Default: the suggested parent.")


class MissedDismissParams(CallerIds):
    """The missed query to be dismissed."""

    id: RowId = Field(description="The id of a missed query.")


class ChildrenParams(PageParams):
    """A page of the children of a keyword."""

    limit: int = Field(default=1000, ge=1, le=1000)


class SubtreeParams(CallerIds):
    """How much of a subtree is shown."""

    depth: int = Field(default=MAX_DEPTH, ge=0, le=MAX_DEPTH, description="How many levels below the keyword.")


class KeywordInfosParams(CallerIds):
    """A page of a keyword's infos."""

    relation: RelationType | None = Field(default=None, description="Only infos with this relation.")
    page: int = Field(default=0, ge=0, le=MAX_PAGE, description="Counts from 0. A page after the last is empty.")
    size: int = Field(default=PAGE_SIZE, ge=1, le=1000)
    sort: InfoSort = Field(
        default=InfoSort.TIME,
        description="`time`: newest first. `relevance`: PRIMARY, EXAMPLE, SOURCE, RELATED, each newest first.",
    )
    descendants: bool = Field(default=False, description="Also the infos of all keywords below it, each once.")

    def to_query(self) -> InfoQuery:
        """Return the parsed page."""
        return fill(InfoQuery, self)


class ReorganizeBody(Body):
    """The part of the tree to reorganize."""

    scope_id: RowId | None = Field(
        default=None, description="Only this keyword and everything below it. Default: the whole tree."
    )


class ApplyBody(Body):
    """A plan to apply: all of its steps, or some of them."""

    plan: dict[str, Any]


class NewLink(Part):
    """A keyword that a new info belongs to."""

    keyword_id: RowId
    relation: Relation = RelationType.PRIMARY


class InfoFields(Part):
    """What a caller may say of an info, less its other links."""

    content: Content
    source: InfoSource = Field(default="", description="Its origin: an address, a title or a name.")
    metadata: Metadata = Field(default_factory=dict)
    keyword_ids: Annotated[list[RowId], Field(max_length=MAX_LINKS)] = Field(
        default_factory=list, description="Keywords to link with the relation PRIMARY."
    )
    scopes: Scopes | None = Field(default=None, description=DEFAULT_SCOPES)
    owner: Owner | None = None
    auto_link: bool = Field(default=False, description="Also link the keywords that the content names.")
    created_by: Maker = Field(default="user", description="Who made the links: `user`, `agent`, or a source's id.")
    dedup: bool = Field(default=True, description="If an equal info exists, link that, and save nothing else.")

    def to_new(self) -> NewInfo:
        """Return the parsed info."""
        return fill(NewInfo, self)


class InfoItem(InfoFields):
    """One info of a batch."""

    links: Annotated[list[NewLink], Field(max_length=MAX_LINKS)] = Field(
        default_factory=list, description="Keywords to link with another relation."
    )

    def to_new(self) -> NewInfo:
        """Return the parsed info."""
        return fill(NewInfo, self, links=[(link.keyword_id, link.relation) for link in self.links])


class InfoBody(InfoItem, Body):
    """One info to be created."""


class InfoBatchBody(Body):
    """Infos to be created in one operation, all or none."""

    items: Annotated[list[InfoItem], Field(min_length=1, max_length=MAX_ITEMS)]


class InfoPatchBody(Changes):
    """Fields of an info to be changed; what is left out stays, and nothing can be null."""

    content: Content = Field(default_factory=str)
    source: InfoSource = Field(default_factory=str)
    metadata: Metadata = Field(default_factory=dict, description="Replaces the old value.")
    scopes: Scopes = Field(default_factory=list)


class InfoListParams(PageParams):
    """The filters of the list of infos."""

    keyword_id: Text | None = Field(default=None, description="Only those that are linked to this keyword.")


class LinkBody(Body):
    """How an info belongs to a keyword."""

    relation: Relation = RelationType.PRIMARY
    created_by: Maker = Field(default="user", description="Who made the link: `user`, `agent`, or a source's id.")
    version: Version | None = Field(default=None, description="The version of the link that you read.")
