"""Requests on knowledge records."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from knowhub.core import clock
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.knowledge.impressions import ImpressionScope
from knowhub.knowledge.model import (
    DEFAULT_SCORE,
    Feedback,
    KnowledgeType,
    NewKnowledge,
    Order,
    SearchQuery,
    Vote,
)
from knowhub.knowledge.outcomes import GoalOutcome, OutcomeKind
from knowhub.knowledge.table import FACETS, make_filters
from knowhub.settings import DEFAULT_MODEL
from knowhub.web.schemas.parts import (
    MAX_LABEL_CHARS,
    MAX_LIST,
    Body,
    CallerIds,
    Changes,
    CommaSeparated,
    EntityId,
    Label,
    Moment,
    NonEmptyLabel,
    Owner,
    PageParams,
    Part,
    ResourceId,
    Scope,
    Text,
    TimeAndTagFilters,
    VersionedBody,
    clean,
    fill,
    refuse_blank,
)

MAX_ITEMS = 1000
MAX_IMPORT_LINES = 50_000
RESERVED_WORDS = frozenset(
    {"search", "batch", "batch_update", "export", "extract", "import", "outcome", "profile", "slim"}
)
MAX_CASE_CHARS = 4096
# Enough for every honest count; above it, figures would leave what JSON readers agree on.
MAX_COUNT = 1_000_000_000

Score = Annotated[int, Field(ge=1, le=5, strict=True)]
# A row holds fifty cases and is logged with each vote, so that their texts are limited.
CaseText = Annotated[str, StringConstraints(max_length=MAX_CASE_CHARS), AfterValidator(clean)]
TypeName = Literal["user_profile", "strategy", "tool", "usecase", "definition", "plan"]
TagName = NonEmptyLabel
Tags = Annotated[dict[TagName, Label | Annotated[list[Label], Field(max_length=MAX_LIST)]], Field(max_length=MAX_LIST)]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=MAX_LIST)]
Types = Annotated[list[TypeName], Field(min_length=1, max_length=len(KnowledgeType))]
ResourceIds = Annotated[list[ResourceId], Field(max_length=MAX_LIST)]
Question = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_QUERY_CHARS),
    refuse_blank("is empty; ask for something"),
    AfterValidator(clean),
]


class Source(Part):
    """Where a record comes from."""

    name: Text | None = None
    category: Label | None = Field(default=None, description="paper, exp (the default), skill, book, or your own word.")
    urls: Annotated[list[Text], Field(max_length=MAX_LIST)] | None = Field(
        default=None, description="Kept, never fetched."
    )
    agent_id: Label | None = None
    submitted_by: Label | None = None
    timestamp: Moment | None = None
    message_id: Label | None = None
    trace_id: Label | None = None


class RecordFields(Part):
    """What a caller may say of a record."""

    task: Text = Field(default="", description="The situation and the goal. It weighs most in search.")
    content: Text = Field(default="", description="The knowledge itself. Task and content must not both be blank.")
    types: Types | None = None
    type: TypeName | None = Field(default=None, description="One type, in place of `types`.")
    tags: Tags = Field(default_factory=dict)
    scopes: Scopes | None = Field(default=None, description="Who may see it. Default `user:owner`: its owner.")
    owner: Owner | None = None
    visibility: Literal["private", "shared", "org", "public"] | None = None
    resource_ids: ResourceIds = Field(default_factory=list)
    resource_id: ResourceId | None = Field(default=None, description="Folded into `resource_ids`.")
    secure_resource_id: ResourceId | None = Field(default=None, description="Folded into `resource_ids`.")
    message_id: Label | None = None
    source: Source = Field(default_factory=Source)
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    supersedes: EntityId | None = Field(default=None, description="The record that this record replaces in search.")

    def to_new(self, **others: int) -> NewKnowledge:
        """Return the parsed record, with `others` in place of its own fields."""
        folded = [item for item in (self.resource_id, self.secure_resource_id) if item]
        types = self.types or ([self.type] if self.type else [KnowledgeType.STRATEGY.value])
        return fill(
            NewKnowledge,
            self,
            types=types,
            resource_ids=[*self.resource_ids, *folded],
            source=self.source.model_dump() if self.source.model_fields_set else {},
            **others,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_type(self.type, self.types)
        return self


def _check_type(kind: TypeName | None, kinds: Types | None) -> None:
    if kinds and kind and kind not in kinds:
        raise ValueError("`type` must be one of `types`, or be left out")


class Item(RecordFields):
    """A record to be saved."""

    score: Score = DEFAULT_SCORE
    dedup: bool = Field(default=True, description="If an equal record exists, answer with it and save nothing.")


class SaveBody(Item, Body):
    """One record to be saved."""


class BatchBody(Body):
    """Records to be saved in one operation, all or none."""

    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class PatchBody(Changes):
    """Fields to be changed; what is left out stays, and only what may be absent can be null."""

    task: Text = Field(default_factory=str)
    content: Text = Field(default_factory=str)
    types: Types = Field(default_factory=list)
    type: TypeName | None = Field(default=None, description="One type, in place of `types`.")
    tags: Tags = Field(default_factory=dict)
    scopes: Scopes = Field(default_factory=list)
    resource_ids: ResourceIds = Field(default_factory=list)
    source: Source = Field(default_factory=Source, description="Changed field by field; null restores a default.")
    valid_from: Moment | None = Field(default=None, description="null removes it.")
    valid_to: Moment | None = Field(default=None, description="null removes it.")

    def to_patch(self) -> dict[str, Any]:
        """Return the fields that were sent, as a record holds them."""
        sent = super().to_patch()
        fields = {
            name: list(dict.fromkeys(value)) if isinstance(value, list) else value for name, value in sent.items()
        }
        kind = fields.pop("type", None)
        if kind:
            fields.setdefault("types", [kind])
        if "source" in fields:
            fields["source"] = self.source.model_dump(exclude_unset=True)
        return fields

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_type(self.type, self.types)
        return self


class Case(Part):
    """How a record was used and what came of it; every field may be left out."""

    task: CaseText | None = None
    outcome: CaseText | None = None
    reason: CaseText | None = None
    timestamp: Moment | None = Field(default=None, description="Set by the server when left out.")
    query: CaseText | None = None
    message_id: Label | None = None
    trace_id: Label | None = None

    def to_case(self) -> dict[str, Any]:
        """Return the fields that were given."""
        return self.model_dump(exclude_none=True)


class FeedbackBody(VersionedBody):
    """Evidence on a record; the parts combine."""

    add_helpful_case: Case | None = None
    add_harmful_case: Case | None = None
    update_score: Score | None = None
    evolve_feedback: Question | None = Field(
        default=None,
        description="What was learned, in words. A model rewrites the content. Only the owner may send it.",
    )

    def to_feedback(self) -> Feedback:
        """Return the parsed evidence."""
        return Feedback(
            self.add_helpful_case.to_case() if self.add_helpful_case else None,
            self.add_harmful_case.to_case() if self.add_harmful_case else None,
            self.update_score,
            self.evolve_feedback,
        )


class FeedbackItem(Part):
    """One vote."""

    knowledge_id: Text
    is_helpful: bool
    case: Case = Field(default_factory=Case)


class BatchFeedbackBody(Body):
    """Evidence on many records, in one operation."""

    feedback_list: Annotated[list[FeedbackItem], Field(min_length=1, max_length=MAX_ITEMS)]

    def to_votes(self) -> list[Vote]:
        """Return the parsed votes in order."""
        return [
            Vote(feedback_item.knowledge_id, feedback_item.is_helpful, feedback_item.case.to_case())
            for feedback_item in self.feedback_list
        ]


# A tag, or the id of a record.
Named = Annotated[list[Label], Field(max_length=MAX_LIST)]


class OutcomeBody(Body):
    """How it went with a goal, or with a whole session, and which records helped."""

    session_id: EntityId | None = None
    goal_id: EntityId | None = None
    outcome: Literal["success", "failure", "external"] | None = Field(
        default=None,
        description="`external`: a failure that is not about knowledge, such as the network: no evidence.",
    )
    is_helpful: bool | None = Field(default=None, description="In place of `outcome`: true is success, false failure.")
    case: Case = Field(default_factory=Case)
    used: Named | None = Field(
        default=None,
        description=(
            "What helped: ids, or the tags of the search. `[]`: nothing helped. Left out: nothing is said, and what was"
            " said before for this goal stays."
        ),
    )
    not_helpful: Named | None = Field(default=None, description="What was tried and did not help: ids or tags.")
    wrong: Named | None = Field(
        default=None,
        description="What is wrong: ids or tags. With both left out, what was said before for this goal stays.",
    )
    reason: CaseText | None = Field(default=None, description="Why it went so. It is added to the case.")

    def to_outcome(self) -> GoalOutcome:
        """Return the parsed outcome."""
        kind = OutcomeKind(self.outcome or ("success" if self.is_helpful else "failure"))
        case = self.case.to_case() | ({} if self.reason is None else {"reason": self.reason})
        scope = ImpressionScope(self.session_id, self.goal_id)
        return GoalOutcome(scope, kind, case, self.used, self.not_helpful, self.wrong)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.session_id is None and self.goal_id is None:
            raise ValueError("needs session_id or goal_id")
        if self.outcome is None and self.is_helpful is None:
            raise ValueError("needs outcome or is_helpful")
        if None not in (self.outcome, self.is_helpful) and (self.outcome == "success") != self.is_helpful:
            raise ValueError("outcome and is_helpful contradict each other; send one of them")
        both = {*(self.used or ())} & {*(self.not_helpful or ()), *(self.wrong or ())}
        if both:
            raise ValueError(f"{min(both)!r} is in `used` and among what did not help; name it once")
        return self


class ProfileParams(CallerIds):
    """Whose profile, and how much of it."""

    limit: int = Field(default=20, ge=1, le=1000)


class RecordFilters(TimeAndTagFilters):
    """The filters of search and lists. A record needs one of the values of each."""

    types: Annotated[list[TypeName], CommaSeparated] = Field(default_factory=list)
    scopes: Annotated[list[Scope], CommaSeparated] = Field(default_factory=list)
    owner: Owner | None = None

    def to_filters(self) -> list[frozenset[str]]:
        """Return the parsed filters. Raises InvalidInput for an unknown parameter."""
        values = {name: getattr(self, name) for name in FACETS if name in type(self).model_fields}
        # A field with a single value filters by that.
        filters = make_filters(
            {name: [value] if isinstance(value, str) else value or () for name, value in values.items()}
        )
        return [*filters, *self.to_tag_filters()]


class KnowledgeSearchParams(RecordFilters):
    """The query of a search."""

    q: Question
    top_k: int = Field(default=5, ge=1, le=100)
    min_score: int = Field(default=3, ge=1, le=5)
    as_of: Moment | None = Field(default=None, description="Search the records that were valid at this time.")
    order: Order = Order.AUTO
    min_relevance: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The least relevance of a result, in place of the server's floor. 0: none.",
    )
    explain: bool = Field(default=False, description="Explain why each result is there and what was left out.")
    budget_tokens: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="At most this many tokens of task and content in all (estimated)."
    )
    session_id: EntityId | None = Field(
        default=None, description="Each result says whether this session was `shown` it before."
    )
    goal_id: EntityId | None = Field(default=None, description="The same for this goal.")
    unseen: bool = Field(default=False, description="Leave out what the session or goal was shown before.")

    @field_validator("unseen")
    @classmethod
    def _check(cls, unseen: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 -- pydantic calls it so
        if unseen and info.data.get("session_id") is None and info.data.get("goal_id") is None:
            raise ValueError("needs session_id or goal_id")
        return unseen

    def to_query(self) -> SearchQuery:
        """Return the parsed search."""
        return fill(
            SearchQuery,
            self,
            text=self.q,
            filters=self.to_filters(),
            as_of=None if self.as_of is None else clock.parse_iso(self.as_of),
            created=self.to_time_range(),
        )


class ListParams(PageParams, RecordFilters):
    """A page of a list."""

    limit: int = Field(default=10, ge=1, le=1000)


ModelName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_LABEL_CHARS, strip_whitespace=True), AfterValidator(clean)
]


class SlimBody(Body):
    """How to slim."""

    model: ModelName = Field(
        default=DEFAULT_MODEL, description="The model to ask. The default means the model of the settings."
    )
    dry_run: bool = Field(default=False, description="Return what would be merged, and write nothing.")
