"""Answers on keywords and infos."""

from typing import Annotated, Any, Literal

from pydantic import Field

from knowhub.web.schemas.parts import Answer, DroppedAnswer, OperationAnswer, OwnedRowAnswer, Page

# In examples; the test that executes them replaces these ids by real ones.
KEYWORD_ID, OTHER_KEYWORD_ID = "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0aa", "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0ab"

MISSED_ID = "missed-8e1f0c2ab34d5e6f70819203"


class ShortKeyword(OwnedRowAnswer):
    """A keyword without the list of its children, as paths and candidates show it."""

    id: str = Field(examples=[KEYWORD_ID, "root"])
    name: str
    aliases: list[str]
    normalized: list[str] = Field(description="The normal forms of its name and aliases, by which it is looked up.")
    pinyin: list[str] = Field(description="Their pinyin, in full and as initials, used if no normal form matches.")
    terms: list[str] = Field(description="The words that make it a candidate.")
    parent_id: str | None = Field(description="null for `root`, and if the caller may not see the parent.")
    description: str
    metadata: dict[str, Any]
    level: int = Field(description="The number of keywords above it that the caller may see.")
    child_count: int


class CandidateKeyword(ShortKeyword):
    """A keyword of several to choose from."""

    path: str = Field(examples=["目的地/Java"], description="The names that lead to it. Requests take it for an id.")
    children_count: int
    infos_count: int = Field(description="Callers who do not see everything are told of at most 1,000.")
    infos: list["InfoRecord"] | None = Field(default=None, description="With `expand`: its five newest infos.")


class KeywordRecord(ShortKeyword):
    """A keyword, whole."""

    children: list[str] = Field(description="The ids of the children that the caller may see, oldest first.")


class SavedKeyword(KeywordRecord, OperationAnswer):
    """A keyword after a write."""


class _DecidedAnswer(Answer):
    """What a model had to do with a new row."""

    degraded: list[str] = Field(description="`llm` if the model was needed and failed.")
    decided: dict[str, Any] | None = Field(default=None, description="What the model decided, if it was asked.")


class CreatedKeyword(SavedKeyword, _DecidedAnswer):
    pass


class CreatedKeywords(OperationAnswer):
    results: list[KeywordRecord]
    count: int
    degraded: list[str]


class KeywordList(Page[KeywordRecord]):
    pass


class KeywordPath(Page[ShortKeyword]):
    """The keywords from the root to the requested one."""


class Subtree(KeywordRecord):
    children_nodes: list["Subtree"] = Field(description="Empty at the requested depth, where `children` is not.")


class InfoRecord(OwnedRowAnswer):
    """An info, whole."""

    id: str = Field(examples=["0d9c3f5e-2f1b-4b7a-a1d2-93f0c8e7b6a5"])
    content: str
    source: str
    metadata: dict[str, Any]


class SavedInfo(InfoRecord, OperationAnswer):
    """An info after a write."""


class CreatedInfo(SavedInfo, _DecidedAnswer):
    duplicate_of: str | None = Field(default=None, description="The equal info that is stored, and answered.")
    dropped: list[DroppedAnswer] | None = Field(
        default=None, description="The links of the model to keywords that it was not shown."
    )


class BatchedInfo(InfoRecord):
    """An info of a batch; `duplicate_of` if an equal info is stored."""

    duplicate_of: str | None = None
    decided: dict[str, int] | None = Field(
        default=None,
        examples=[{"unread_characters": 1808}],
        description="So many characters at the end of its text `auto_link` did not read.",
    )


class CreatedInfos(OperationAnswer):
    results: list[BatchedInfo]
    count: int
    degraded: list[str]


class InfoList(Page[InfoRecord]):
    pass


class _LinkAnswer(Answer):
    """How an info belongs to a keyword."""

    relation: str = Field(examples=["PRIMARY", "EXAMPLE", "SOURCE", "RELATED"])
    created_by: str


class LinkedInfo(InfoRecord, _LinkAnswer):
    """An info beside how it belongs to the keyword that was asked for."""

    keyword_id: str | None = Field(default=None, description="With `descendants`: the keyword that it is on.")


class LinkedInfoList(Page[LinkedInfo]):
    pass


class LinkedKeyword(ShortKeyword, _LinkAnswer):
    """A keyword beside how the info that was asked for belongs to it."""


class LinkedKeywordList(Page[LinkedKeyword]):
    pass


class SavedLink(OperationAnswer, _LinkAnswer):
    info_id: str
    keyword_id: str
    version: int
    created_at: str
    updated_at: str


class KeywordSearchAnswer(Answer):
    """What a search found. `ambiguous` and `not_found` are answers, no errors."""

    status: str = Field(examples=["matched", "ambiguous", "not_found"])
    node: KeywordRecord | None = Field(description="With `matched`: the keyword.")
    path: list[ShortKeyword] = Field(description="With `matched`: from the root to it.")
    infos: list[InfoRecord] = Field(description="With `matched`: its first 50 infos, newest first.")
    candidates: list[CandidateKeyword] = Field(description="The keywords to choose from, or the nearest keywords.")
    suggested_parent_id: str | None = Field(description="With `not_found`: the parent for a new keyword.")
    suggested_name: str | None = Field(description="With `not_found`: the name that the model suggests.")
    reason: str = Field(
        examples=["exact", "id", "path", "pinyin", "exact_miss_llm_disabled", "exact_miss_no_llm", "agent_failure"]
    )
    degraded: list[str] = Field(description="`llm` if the model was needed and failed.")


class MissedRow(OwnedRowAnswer):
    """A query that no keyword answers."""

    query: str
    count: int = Field(description="How often a model looked for it.")
    suggested_parent_id: str
    suggested_name: str
    reason: str


class MissedList(Page[MissedRow]):
    pass


class TreeImportAnswer(OperationAnswer):
    """What an import created; what was there already does not count."""

    keywords: int
    changed: int = Field(description="Keywords that were there and got an alias, a description or metadata.")
    infos: int
    links: int
    import_id: str | None = Field(description="Undo this to undo the whole import.")
    operation_ids: list[str]
    dropped: list[DroppedAnswer] = Field(description="At most 20 properties, the most frequent first; then rows.")


class PlanRef(Answer):
    """A keyword as a plan names it; `version` is that on which the step rests."""

    id: str
    name: str
    path: str
    version: int


class PlanChild(Answer):
    id: str
    name: str
    version: int


class PlanGroup(Answer):
    """A new keyword below the split keyword, and the children that move below it."""

    name: str
    children: list[PlanChild]


class PlanMove(Answer):
    kind: Literal["move"]
    node: PlanRef
    to: PlanRef
    reason: str


class PlanMerge(Answer):
    kind: Literal["merge"]
    source: PlanRef
    into: PlanRef
    reason: str


class PlanDescribe(Answer):
    kind: Literal["describe"]
    node: PlanRef
    description: str
    reason: str


class PlanSplit(Answer):
    kind: Literal["split"]
    node: PlanRef
    groups: list[PlanGroup]
    reason: str


class PlanMissing(Answer):
    id: str
    name: str
    path: str


class PlanAnswer(Answer):
    """A plan that is not applied yet."""

    scope_id: str
    scope_name: str
    created_at: str
    summary: str
    steps: list[Annotated[PlanMove | PlanMerge | PlanDescribe | PlanSplit, Field(discriminator="kind")]]
    missing_descriptions: list[PlanMissing] = Field(description="Up to 200 keywords without a description.")
    missing_description_count: int
    degraded: list[str] = Field(description="`llm` if the model was needed and failed.")
    dropped: list[DroppedAnswer]


class AppliedMerge(Answer):
    source: str
    into: str
    children: list[str]


class AppliedPlan(OperationAnswer):
    """The number of applied steps of each kind, and the ids of the keywords that splits created."""

    moved: int
    merged: int
    described: int
    split: int
    created: list[str]
    merges: list[AppliedMerge]


class MissingDescriptions(Answer):
    count: int
    rate: float = Field(description="Of all keywords, from 0 to 1.")


class WideKeyword(Answer):
    id: str
    name: str
    children: int


class FanOut(Answer):
    """How many children those keywords have that have any."""

    mean: float
    max: int
    p50: int
    p95: int
    widest: list[WideKeyword]


class DeepKeyword(Answer):
    id: str
    name: str
    level: int


class SharedName(Answer):
    """A form by which several keywords are found."""

    token: str
    ids: list[str]


class TreeMetrics(Answer):
    """How healthy the tree is, as far as the caller sees it; `root` is not counted among `nodes`."""

    nodes: int
    links: int
    leaves: int
    max_depth: int
    depths: dict[str, int] = Field(description="The number of keywords at each level.")
    orphan_count: int = Field(description="Keywords and infos that lead to nothing: the two numbers below.")
    orphan_keyword_count: int = Field(description="Keywords with nothing below them and no info on them.")
    orphan_info_count: int = Field(description="Infos on no keyword.")
    orphans: list[str] = Field(description="Up to 100 ids of them, keywords first.")
    missing_descriptions: MissingDescriptions
    fan_out: FanOut
    deep_count: int
    deep: list[DeepKeyword] = Field(description="Up to 100 keywords below level 6, the deepest first.")
    duplicate_count: int
    duplicates: list[SharedName] = Field(description="Up to 50, those with the most keywords first.")
