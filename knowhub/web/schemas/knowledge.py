"""Requests on knowledge records (seeds 003, 004)."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from knowhub.core import clock
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.knowledge.model import (
    DEFAULT_SCORE,
    HISTORY_SHOWN,
    Feedback,
    ImportedKnowledge,
    KnowledgeType,
    NewKnowledge,
    OnConflict,
    Order,
    SearchQuery,
    Vote,
)
from knowhub.knowledge.outcome import Outcome
from knowhub.knowledge.showings import Shown
from knowhub.web.schemas.parts import (
    MAX_LIST,
    Body,
    CallerIds,
    CommaSeparated,
    Cursor,
    EntityId,
    Label,
    Moment,
    Owner,
    Part,
    ResourceId,
    Scope,
    Text,
    clean,
)

MAX_ITEMS = 1000
MAX_IMPORT_LINES = 10_000
_WORDS = frozenset({"search", "batch", "batch_update", "export", "extract", "import", "outcome", "profile", "slim"})
MAX_CASE_CHARS = 4096
# Enough for every honest count; above it, figures would leave what JSON readers agree on.
MAX_COUNT = 1_000_000_000

Score = Annotated[int, Field(ge=1, le=5, strict=True)]
# A row shows fifty cases and stands in the log with each vote: what they say is kept short.
CaseText = Annotated[str, StringConstraints(max_length=MAX_CASE_CHARS), AfterValidator(clean)]
TypeName = Annotated[Literal["user_profile", "strategy", "tool", "usecase", "definition", "plan"], Field()]
TagName = Annotated[Label, StringConstraints(min_length=1)]
Tags = Annotated[dict[TagName, Label | Annotated[list[Label], Field(max_length=MAX_LIST)]], Field(max_length=MAX_LIST)]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=MAX_LIST)]
Types = Annotated[list[TypeName], Field(min_length=1, max_length=len(KnowledgeType))]
ResourceIds = Annotated[list[ResourceId], Field(max_length=MAX_LIST)]


def _question(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; ask for something")
    return clean(text)


Question = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARS), AfterValidator(_question)]


class Source(Part):
    """Where a record comes from (seed 003 `source`)."""

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


class _Fields(Part):
    """What a caller may say of a record."""

    task: Text = Field(default="", description="In what situation, to what end. Weighs most in search.")
    content: Text = Field(default="", description="What is known. Task and content must not both be blank.")
    types: Types | None = None
    type: TypeName | None = Field(default=None, description="One type, in place of `types`.")
    tags: Tags = Field(default_factory=dict)
    scopes: Scopes | None = Field(default=None, description="Who sees it. Default `user:owner`: its owner.")
    owner: Owner | None = None
    visibility: Literal["private", "shared", "org", "public"] | None = None
    resource_ids: ResourceIds = Field(default_factory=list)
    resource_id: ResourceId | None = Field(default=None, description="Folded into `resource_ids`.")
    secure_resource_id: ResourceId | None = Field(default=None, description="Folded into `resource_ids`.")
    message_id: Label | None = None
    source: Source = Field(default_factory=Source)
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    supersedes: EntityId | None = Field(default=None, description="The record that this one replaces in search.")

    def new_knowledge(self, score: int = DEFAULT_SCORE, *, dedup: bool = True) -> NewKnowledge:
        """Return the parsed record."""
        folded = [self.resource_id, self.secure_resource_id]
        types = self.types or ([self.type] if self.type else [KnowledgeType.STRATEGY.value])
        return NewKnowledge(
            task=self.task,
            content=self.content,
            types=types,
            tags=self.tags,
            scopes=self.scopes,
            owner=self.owner,
            visibility=self.visibility,
            resource_ids=[*self.resource_ids, *(one for one in folded if one)],
            message_id=self.message_id,
            source=self.source.model_dump() if self.source.model_fields_set else {},
            score=score,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            supersedes=self.supersedes,
            dedup=dedup,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.types and self.type and self.type not in self.types:
            raise ValueError("`type` must be one of `types`, or be left out")
        return self


class Item(_Fields):
    """A record to be saved."""

    score: Score = DEFAULT_SCORE
    dedup: bool = Field(default=True, description="Answer with the record that says the same already, if there is one.")

    def to_new(self) -> NewKnowledge:
        """Return the parsed record with its score."""
        return self.new_knowledge(self.score, dedup=self.dedup)


class SaveBody(Item, Body):
    """One record to be saved."""


class BatchBody(Body):
    """Records to be saved in one operation, all or none."""

    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class PatchBody(Body):
    """Fields to be changed; what is left out stays, and only what may be absent can be null."""

    task: Text = Field(default_factory=str)
    content: Text = Field(default_factory=str)
    types: Types = Field(default_factory=list)
    type: TypeName | None = Field(default=None, description="One type, in place of `types`.")
    tags: Tags = Field(default_factory=dict)
    scopes: Scopes = Field(default_factory=list)
    resource_ids: ResourceIds = Field(default_factory=list)
    source: Source = Field(default_factory=Source, description="Changed field by field; null brings a default back.")
    valid_from: Moment | None = Field(default=None, description="null takes it away.")
    valid_to: Moment | None = Field(default=None, description="null takes it away.")
    version: Annotated[int, Field(ge=1)] | None = Field(default=None, description="The version that you read.")

    _AS_SENT = ("task", "content", "tags", "valid_from", "valid_to")
    _LISTS = ("types", "scopes", "resource_ids")

    def patch(self) -> dict[str, Any]:
        """Return the fields that were sent, as a record holds them."""
        sent = self.model_fields_set
        fields = {name: getattr(self, name) for name in self._AS_SENT if name in sent}
        fields |= {name: list(dict.fromkeys(getattr(self, name))) for name in self._LISTS if name in sent}
        if self.type and "types" not in sent:
            fields["types"] = [self.type]
        if "source" in sent:
            fields["source"] = self.source.model_dump(exclude_unset=True)
        return fields

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.types and self.type and self.type not in self.types:
            raise ValueError("`type` must be one of `types`, or be left out")
        return self


class Case(Part):
    """How a record was used and what came of it; every field may be left out (C-11)."""

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


class FeedbackBody(Body):
    """Evidence on a record; the parts combine (KM-069)."""

    add_helpful_case: Case | None = None
    add_harmful_case: Case | None = None
    update_score: Score | None = None
    evolve_feedback: Question | None = Field(
        default=None, description="What was learnt, in words; a model writes the content anew. Its owner's to say."
    )
    version: Annotated[int, Field(ge=1)] | None = None

    def feedback(self) -> Feedback:
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

    def votes(self) -> list[Vote]:
        """Return the parsed votes in order."""
        return [Vote(one.knowledge_id, one.is_helpful, one.case.to_case()) for one in self.feedback_list]


class OutcomeBody(Body):
    """How it went with a goal, or with a whole session."""

    session_id: EntityId | None = None
    goal_id: EntityId | None = None
    is_helpful: bool
    case: Case = Field(default_factory=Case)

    def outcome(self) -> Outcome:
        """Return the parsed outcome."""
        return Outcome(Shown(self.session_id, self.goal_id), self.is_helpful, self.case.to_case())

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.session_id is None and self.goal_id is None:
            raise ValueError("needs session_id or goal_id: the outcome of what?")
        return self


class ProfileParams(CallerIds):
    """Whose profile, and how much of it."""

    limit: int = Field(default=20, ge=1, le=1000)


class SearchParams(CallerIds):
    """The query of a search (KM-057)."""

    q: Question
    top_k: int = Field(default=5, ge=1, le=100)
    min_score: int = Field(default=3, ge=1, le=5)
    types: Annotated[list[TypeName], CommaSeparated] = Field(default_factory=list)
    scopes: Annotated[list[Scope], CommaSeparated] = Field(default_factory=list)
    as_of: Moment | None = Field(default=None, description="Search what was valid at this time.")
    order: Order = Order.AUTO
    explain: bool = Field(default=False, description="Say why each result is there, and what was left out.")
    budget_tokens: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="At most so many tokens of task and content in all, by estimate."
    )
    session_id: EntityId | None = Field(default=None, description="Each result says whether it was `shown` there.")
    goal_id: EntityId | None = Field(default=None, description="Likewise, for this goal alone.")
    unseen: bool = Field(default=False, description="Leave out what was shown there before.")

    @field_validator("unseen")
    @classmethod
    def _check(cls, unseen: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 -- pydantic calls it so
        if unseen and info.data.get("session_id") is None and info.data.get("goal_id") is None:
            raise ValueError("needs session_id or goal_id: unseen by whom?")
        return unseen

    def query(self) -> SearchQuery:
        """Return the parsed search."""
        return SearchQuery(
            text=self.q,
            top_k=self.top_k,
            min_score=self.min_score,
            types=frozenset(self.types),
            scopes=frozenset(self.scopes),
            as_of=None if self.as_of is None else clock.parse_iso(self.as_of),
            order=self.order,
            explain=self.explain,
            budget_tokens=self.budget_tokens,
            session_id=self.session_id,
            goal_id=self.goal_id,
            unseen=self.unseen,
        )


class ListParams(CallerIds):
    """The filters of a list; any `tag.<name>=value` too."""

    model_config = ConfigDict(extra="allow")

    limit: int = Field(default=10, ge=1, le=1000)
    types: Annotated[list[TypeName], CommaSeparated] = Field(default_factory=list)
    scopes: Annotated[list[Scope], CommaSeparated] = Field(default_factory=list)
    owner: Owner | None = None
    cursor: Cursor | None = Field(default=None, description="`next_cursor` of the page before.")


class ImportParams(CallerIds):
    """How an import treats ids that are taken."""

    on_conflict: OnConflict = OnConflict.FAIL


class ExportParams(CallerIds):
    """Which form an export has."""

    layout: Literal["jsonl", "workspace"] = "jsonl"


Count = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]


class Evaluation(Part):
    """The evidence of an imported record; what is left out is as for a fresh one."""

    model_config = ConfigDict(extra="forbid", strict=False)

    score: Score | None = None
    helpful: Count | None = None
    harmful: Count | None = None
    effective: Annotated[dict[Literal["helpful", "harmful"], Count], Field(min_length=2)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    helpful_history: list[Case] | None = None
    harmful_history: list[Case] | None = None

    def evidence(self) -> dict[str, Any]:
        """Return what was given, in the form of a record's `eval`."""
        given = self.model_dump(exclude_none=True)
        for name in ("helpful_history", "harmful_history"):
            if name in given:
                given[name] = [case.to_case() for case in getattr(self, name)][-HISTORY_SHOWN:]
        return given


def _record_id(text: str) -> str:
    if text in _WORDS:
        raise ValueError(f"{text!r} is a word of the API, so a record of that id could not be read")
    return text


RecordId = Annotated[EntityId, AfterValidator(_record_id)]


class ImportLine(_Fields):
    """A line of an import: a record as an export writes it, or as the seeds show one (KS-058)."""

    id: RecordId | None = None
    eval: Evaluation = Field(default_factory=Evaluation)
    score: Score | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = Field(default=None, description="Set anew.")
    version: int | None = Field(default=None, description="Starts anew.")

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if not self.task.strip() and not self.content.strip():
            raise ValueError("task and content are both blank; one of them must say something")
        return self

    def to_imported(self) -> ImportedKnowledge:
        """Return the parsed line."""
        score = self.eval.score or self.score or DEFAULT_SCORE
        return ImportedKnowledge(
            self.id, self.new_knowledge(score), {**self.eval.evidence(), "score": score}, self.created_at
        )
