"""Answers on layered memories and on recall."""

from typing import Any

from pydantic import Field

from knowhub.web.schemas.knowledge_answers import KnowledgeRecord
from knowhub.web.schemas.parts import Answer, DroppedAnswer, OperationAnswer, Page

_URI = "ctx://default/users/li/memories/preferences/language"


class RelationAnswer(Answer):
    """An edge from one memory to another."""

    from_uri: str
    to_uri: str
    relation_type: str
    reason: str
    weight: float


class ArchivedMessage(Answer):
    role: str
    content: str
    name: str
    message_id: str | None
    timestamp: str | None


class ArchiveAnswer(Answer):
    """A session as it is kept."""

    session_id: str
    archive_uri: str = Field(description="The URI of the session. The URIs of its messages begin with it.")
    summary: str
    recent_messages: list[ArchivedMessage]
    stats: dict[str, Any]


class WritePlanAnswer(Answer):
    """What will be written to a memory, and why."""

    action: str = Field(examples=["create", "merge", "append", "skip"])
    target_uri: str
    node_patch: dict[str, Any]
    relation_ops: list[RelationAnswer]
    outbox_events: list[str]
    reason: str


class WriteAnswer(Answer):
    """The result for one memory."""

    uri: str
    action: str = Field(examples=["create", "merge", "append", "skip"])
    node_version: int
    created: bool
    updated: bool
    reason: str


class EventAnswer(Answer):
    """A task to bring the index of vectors."""

    event_id: str
    event_type: str = Field(examples=["UPSERT_CONTEXT"])
    uri: str
    payload: dict[str, Any]
    status: str = Field(examples=["pending", "claimed", "done", "failed", "dead"])
    retry_count: int
    created_at: str
    error: str


class CommitAnswer(OperationAnswer):
    """What committing a session did."""

    status: str = Field(examples=["committed", "unchanged", "dry_run"])
    archive: ArchiveAnswer
    write_results: list[WriteAnswer]
    plans: list[WritePlanAnswer] = Field(description="The decision on each candidate; also stored with the operation.")
    outbox_events: list[EventAnswer]
    stats: dict[str, Any]
    dropped: list[DroppedAnswer]
    degraded: list[str] = Field(description="The configured parts that were needed and failed.")


class CurrentStatementAnswer(Answer):
    """A statement that holds."""

    text: str
    category: str
    uri: str = Field(examples=[_URI])
    said_at: str | None = Field(description="When it was said; the day of an event.")
    by: str = Field(examples=["rules", "llm", "person"])
    message_ids: list[str] = Field(description="The messages that say so.")


class CurrentMemoriesAnswer(Answer):
    """What a user's memories state now."""

    text: str = Field(description="One line for each statement, with its day.")
    lines: list[CurrentStatementAnswer]
    left_out: int = Field(description="How many statements `max_tokens` leaves no room for.")


class SessionAnswer(Answer):
    """A session, and how many of its messages were read by what."""

    session_id: str
    uri: str
    message_count: int
    first_at: str | None
    last_at: str | None
    by_model: int = Field(description="Messages that the language model has read.")
    by_rules: int = Field(description="Messages that were read by rules alone.")
    not_asked: int = Field(description="Messages that were committed with `extract: false`.")
    waiting: int = Field(description="Messages that wait for the language model.")
    waits_since: str | None
    dropped: list[DroppedAnswer]


class SessionsAnswer(Page[SessionAnswer]):
    """Sessions, newest first."""


class TypedQueryAnswer(Answer):
    """A query as it was understood."""

    text: str
    context_type: str
    categories: list[str]
    target_uri: str | None
    top_k: int
    filters: dict[str, Any]
    hints: dict[str, Any]


class SeedHitAnswer(Answer):
    """What the first round found."""

    uri: str
    score: float = Field(description="It compares within one search.")
    relevance: float = Field(description="From 0 to 1. It compares between searches and sources.")
    category: str
    owner_space: str
    abstract: str
    has_overview: bool
    has_content: bool


class FoundBlock(Answer):
    """A memory, or a part of a transcript, that answers the query; what it says at length is read by its URI."""

    uri: str = Field(examples=[_URI])
    category: str
    level_hit: str = Field(examples=["L0"])
    abstract: str
    overview: str | None = Field(description="Null in a search, which opens none.")
    content_excerpt: str | None = Field(description="Null in a search, which opens none.")
    relations: list[RelationAnswer]
    score: float = Field(description="It orders the blocks of one search.")
    relevance: float = Field(description="How well it fits the question: 0 to 1, comparable between questions.")
    match_reason: str
    message_ids: list[str] = Field(description="The messages that say so, best first.")
    said_at: str | None = Field(description="When it was said, or took place, as far as that is known.")
    standing: bool = Field(description="An instruction or preference that is shown whatever was asked.")
    why: dict[str, Any] | None = Field(
        default=None,
        description="With `explain=true`: the `stages` that found it, and the `rules` that moved it.",
    )


class MemorySearchAnswer(Answer):
    """Memories that answer a query, best first."""

    query_plan: list[TypedQueryAnswer]
    seed_hits: list[SeedHitAnswer]
    blocks: list[FoundBlock]
    total: int
    degraded: list[str]
    index_lag: int


class ReadBlock(FoundBlock):
    """One layer of a memory."""

    content: str | None = Field(description="With `level=L2`: the whole text.")


class NodeRecord(Answer):
    """A memory, whole."""

    uri: str = Field(examples=[_URI])
    parent_uri: str
    context_type: str = Field(examples=["memory", "skill", "session"])
    category: str
    owner_space: str = Field(examples=["users/li"])
    abstract: str
    overview: str
    content: str
    metadata: dict[str, Any]
    relations: list[RelationAnswer]
    tags: dict[str, Any]
    version: int
    created_at: str
    updated_at: str


class SavedNode(NodeRecord, OperationAnswer):
    """A memory after a correction."""


class NodeSummaryAnswer(Answer):
    """A line of a listing."""

    uri: str
    name: str
    is_dir: bool
    has_children: bool
    category: str = Field(description="Empty for a folder that is no memory.")
    updated_at: str | None


class ChildrenAnswer(Page[NodeSummaryAnswer]):
    truncated: bool = Field(description="The list is not complete: list a level below.")


class OutboxAnswer(Answer):
    """The events that wait for the vector index."""

    pending: int
    claimed: int
    failed: int = Field(description="Events that failed and will be tried again.")
    dead: int = Field(description="Events that failed too often, or for good.")
    lag_s: float = Field(description="The age of the oldest waiting event in seconds.")
    dead_letters: list[EventAnswer]


class RetriedEvent(OperationAnswer):
    """An event that is tried again. This writes no operation."""

    event_id: str
    status: str = Field(examples=["pending"])


class DistilledAnswer(Answer):
    """The result for one memory of a session."""

    uri: str
    category: str
    types: list[str]
    status: str = Field(examples=["new", "changed", "known", "forgotten"])
    knowledge_id: str | None
    task: str
    content: str


class DistillAnswer(OperationAnswer):
    """What a session taught, and what was saved of it."""

    session_uri: str
    results: list[DistilledAnswer]
    saved: list[KnowledgeRecord]
    count: int = Field(description="How many records were saved.")
    dry_run: bool


class RecalledItem(Answer):
    """Something that answers the question, and where to read on."""

    source: str = Field(examples=["knowledge", "keywords", "memory"])
    kind: str = Field(examples=["record", "keyword", "info", "sessions", "preferences"])
    id: str = Field(description="An id, or a URI of a memory.")
    title: str
    text: str
    read: str = Field(description="The address at which to read on.", examples=["/api/infos/7f1c2b9e"])
    relevance: float = Field(description="How well it fits the question: 0 to 1, comparable between sources.")
    scope: str = Field(
        examples=["user:li", "project:atlas"], description="The widest scope by which the caller sees it."
    )
    score: float | None = Field(description="Comparable within one source only.")
    why: str
    message_ids: list[str]
    path: str | None = Field(
        examples=["目的地/Java"], description="Of a keyword: the names that lead to it. Requests take it for an id."
    )


class RecallAnswer(Answer):
    results: list[RecalledItem]
    count: int
    degraded: list[str] = Field(description="Sources and parts of sources that failed.")
    index_lag: int
