"""What a committed session taught becomes knowledge: its patterns, cases, skills, tools, preferences and profile."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from knowhub.context import uri
from knowhub.context.model import NODES, ContextSummary, MemoryCategory
from knowhub.context.queries import find_memory, list_memories_in
from knowhub.context.sessions import find_session
from knowhub.core import permissions
from knowhub.core.operation import Committed, HistoryStore, IdempotencyKey, Row, View
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import (
    KNOWLEDGE,
    KnowledgeType,
    ListQuery,
    NewKnowledge,
)
from knowhub.knowledge.service import KnowledgeService
from knowhub.knowledge.table import facet

TYPES: Final[Mapping[MemoryCategory, KnowledgeType]] = {
    MemoryCategory.PATTERNS: KnowledgeType.STRATEGY,
    MemoryCategory.CASES: KnowledgeType.USECASE,
    MemoryCategory.SKILLS: KnowledgeType.TOOL,
    MemoryCategory.TOOLS: KnowledgeType.TOOL,
    MemoryCategory.PREFERENCES: KnowledgeType.USER_PROFILE,
    MemoryCategory.PROFILE: KnowledgeType.USER_PROFILE,
}
"""What each category becomes; entities and events are no knowledge, they stay memory."""

MEMORY, VERSION = "memory", "memory_version"
"""The tags by which a record names the memory that it was made of, and that one's version."""

MAX_DISTILLED = 1_000
_MAX_TAG_CHARS = 200
# Earlier versions kept cases and patterns for all users of an agent.
_OWNER_SCOPES: Final[Mapping[MemoryCategory, Sequence[str]]] = {
    MemoryCategory.PREFERENCES: ("user",),
    MemoryCategory.PROFILE: ("user",),
    MemoryCategory.SKILLS: ("agent",),
    MemoryCategory.TOOLS: ("agent",),
}
_DELETED = "delete_knowledge"
_LEFT_ALONE = frozenset({"known", "forgotten"})


@dataclass(frozen=True, slots=True)
class DistilledMemory:
    """What became of one memory: `new`, `changed` where an older record of it is superseded, `known` or `forgotten`.

    `forgotten`: the owner deleted the record made of this version of the memory. A newer version is saved again.
    """

    uri: str
    category: str
    types: Sequence[str]
    status: str
    knowledge_id: str | None
    task: str
    content: str


@dataclass(frozen=True, slots=True)
class DistillationResult:
    """What a session gave. `operation_id` is None where nothing was saved."""

    session_uri: str
    results: Sequence[DistilledMemory]
    saved: Sequence[Mapping[str, Any]]
    operation_id: str | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _PlannedRecord:
    """The record to make of a memory, and the one that was made of it before; it `is_forgotten` if that was deleted."""

    row: Row
    new: NewKnowledge
    before: Mapping[str, Any] | None
    is_forgotten: bool = False

    @property
    def status(self) -> str:
        if self.before is not None and _is_of_version(self.before, self.row):
            return "known"
        if self.is_forgotten:
            return "forgotten"
        return "new" if self.before is None else "changed"


class Distillation:
    """Makes knowledge of sessions; nothing of it asks a model, for the memories are written already."""

    def __init__(self, memories: HistoryStore, knowledge: KnowledgeService) -> None:
        self._memories = memories
        self._knowledge = knowledge
        # Two at once would both find that a memory has changed, and both supersede its record. So only one runs per
        # account. Unused locks are collected.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def distill(
        self, ctx: RequestContext, session_id: str, key: IdempotencyKey | None = None, *, dry_run: bool = False
    ) -> DistillationResult:
        """Save what a session of the caller taught, in one operation; again, only what has changed since.

        Raises Forbidden for a reader, NotFound for a session that the caller does not see, and as `save_batch`.
        """
        permissions.check_can_write(ctx)
        async with self._locks.setdefault(ctx.account, asyncio.Lock()):
            return await self._distill(ctx, session_id, key, dry_run=dry_run)

    async def _distill(
        self, ctx: RequestContext, session_id: str, key: IdempotencyKey | None, *, dry_run: bool
    ) -> DistillationResult:
        await self._memories.refresh(ctx.account)
        view = self._memories.view(ctx.account)
        session_uri = find_session(view, ctx, session_id).uri
        rows = list(_list_session_memories(view, ctx, session_uri, session_id))[:MAX_DISTILLED]
        done = None if dry_run else await self._memories.find_replay(ctx.account, key)
        if done is not None:
            return await self._rebuild_answer(ctx, session_uri, rows, done)
        planned = await self._plan_records(ctx, session_uri, rows)
        wanted = [item for item in planned if item.status not in _LEFT_ALONE]
        if dry_run or not wanted:
            return DistillationResult(session_uri, [_format_plan(item) for item in planned], [], None, dry_run)
        saved = await self._knowledge.save_batch(ctx, [item.new for item in wanted], key)
        made = {item.row["id"]: record for item, record in zip(wanted, saved.records, strict=True)}
        results = [_format_plan(item, made.get(item.row["id"])) for item in planned]
        records = [item.record for item in saved.records if item.duplicate_of is None]
        return DistillationResult(session_uri, results, records, saved.operation_id)

    async def _plan_records(self, ctx: RequestContext, session_uri: str, rows: Sequence[Row]) -> list[_PlannedRecord]:
        """Return a record for each memory, with the record made of it before."""
        if not rows:
            return []
        existing = await self._list_records_of(ctx, rows, ListQuery())
        merged = await self._list_records_of(ctx, rows, ListQuery(is_merged=True))
        deleted = await self._list_records_of(ctx, rows, ListQuery(is_deleted=True))
        before = {
            row["id"]: _find_earlier_record(row, existing.get(row["id"], ()), merged.get(row["id"], ())) for row in rows
        }
        speaker = uri.memory_context(ctx).owner
        return [
            _plan_record(
                ctx,
                session_uri if row["owner"] == speaker else None,
                row,
                before[row["id"]],
                is_forgotten=await self._is_forgotten(ctx, row, deleted),
            )
            for row in rows
        ]

    async def _list_records_of(
        self, ctx: RequestContext, rows: Sequence[Row], query: ListQuery
    ) -> Mapping[str, list[Mapping[str, Any]]]:
        """Return the records that were made of memories, by URI, the newest first.

        Anybody may put any tag on a record of their own: only a memory's owner has a say in what was made of it.
        """
        by_tag = {_make_memory_tag(row["id"]): row for row in rows}
        filters = [
            frozenset(facet(f"tag.{MEMORY}", tag) for tag in by_tag),
            frozenset(facet("owner", row["owner"]) for row in rows),
        ]
        page = await self._knowledge.page(ctx, replace(query, filters=filters, limit=MAX_DISTILLED * 2))
        made: dict[str, list[Mapping[str, Any]]] = {}
        for record in map(json.loads, page.records):
            row = by_tag.get(_get_tag_values(record, MEMORY)[0])
            if row is not None and record["owner"] == row["owner"] and row["id"] in record["source"]["urls"]:
                made.setdefault(row["id"], []).append(record)
        return made

    async def _is_forgotten(
        self, ctx: RequestContext, row: Row, deleted: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> bool:
        """Return whether its owner deleted what was made of this version of a memory; an undo is no deletion."""
        for record in deleted.get(row["id"], ()):
            if not _is_of_version(record, row):
                continue
            async for newest in self._memories.operations_on(ctx.account, KNOWLEDGE, record["id"]):
                if newest.op == _DELETED:
                    return True
                break
            else:
                # What happened to it so long ago is not known any more: it stays gone.
                return True
        return False

    async def _rebuild_answer(
        self, ctx: RequestContext, session_uri: str, rows: Sequence[Row], done: Committed
    ) -> DistillationResult:
        """Return the answer of a request that was answered before, from what it wrote."""
        written = {change.after["tags"][MEMORY]: change.after for change in done.operation.changes}
        results = []
        for planned in await self._plan_records(ctx, session_uri, rows):
            made = written.get(_make_memory_tag(planned.row["id"]))
            if made is None:
                results.append(_format_plan(planned))
                continue
            status = "changed" if made["supersedes"] else "new"
            kind = str(planned.row["category"])
            named = (status, made["id"], made["task"], made["content"])
            results.append(DistilledMemory(planned.row["id"], kind, made["types"], *named))
        return DistillationResult(session_uri, results, list(written.values()), done.operation.operation_id)


def _list_session_memories(view: View, ctx: RequestContext, session_uri: str, session_id: str) -> Iterator[Row]:
    """Yield the memories that a session gave or changed, by category and name."""
    whose = uri.memory_context(ctx, session_id)
    for category in TYPES:
        summaries: list[ContextSummary | None] = []
        for owner_scope in _OWNER_SCOPES.get(category, ("user", "agent")):
            below = uri.node_uri(ctx.account, uri.space_of(whose, owner_scope), category, "any")
            is_profile = category is MemoryCategory.PROFILE
            summaries += [find_memory(view, below)] if is_profile else list_memories_in(view, uri.parent_of(below))
        for summary in summaries:
            if summary is None or not summary.live or not ctx.can_edit(summary.owner):
                continue
            row = view.get(NODES, summary.uri)
            # A memory that a person emptied gives no record.
            says = row is not None and any(row[layer].strip() for layer in ("abstract", "overview", "content"))
            if row is not None and says and _is_from(row, session_uri, session_id):
                yield row


def _is_from(row: Row, session_uri: str, session_id: str) -> bool:
    """Return whether a memory came from this session; ids of sessions are shared by users whom one agent serves."""
    refs = [ref for ref in row["metadata"].get("source_refs", ()) if isinstance(ref, str)]
    if refs:
        return any(ref == session_uri or ref.startswith(f"{session_uri}/") for ref in refs)
    return session_id in row["metadata"].get("sessions", ())


def _plan_record(
    ctx: RequestContext, session_uri: str | None, row: Row, before: Mapping[str, Any] | None, *, is_forgotten: bool
) -> _PlannedRecord:
    """Plan the record of a memory. Its source omits the session if readers of the record may not see it."""
    category = MemoryCategory(row["category"])
    source: dict[str, Any] = {"name": f"memory of {row['owner']}", "category": "exp", "urls": [row["id"]]}
    if session_uri is not None:
        source |= {"name": f"session {session_uri.rpartition('/')[2]}", "urls": [session_uri, row["id"]]}
        source["message_id"] = next(iter(row["metadata"].get("message_ids", ())), None)
    new = NewKnowledge(
        task=row["abstract"],
        content=row["content"] or row["overview"],
        types=(TYPES[category].value,),
        tags={"category": category.value, MEMORY: _make_memory_tag(row["id"]), VERSION: str(row["version"])},
        owner=row["owner"] if ctx.can_edit(row["owner"]) else None,
        source=source,
        supersedes=before["id"] if before is not None else None,
        # One memory is one record, whatever another says.
        dedup=before is None,
    )
    return _PlannedRecord(row, new, before, is_forgotten)


def _find_earlier_record(
    row: Row, existing: Sequence[Mapping[str, Any]], merged: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the record that was made of a memory, also if it was merged into another since.

    A record of several memories is not superseded by a new version of one of them.
    """
    known = (item for item in (*existing, *merged) if _is_of_version(item, row))
    alone = (item for item in existing if len(_get_tag_values(item, MEMORY)) == 1)
    return next(known, None) or next(alone, None)


def _get_tag_values(record: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the values of a tag, the record's own before those that a merge added."""
    value = record["tags"].get(name) or ""
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _is_of_version(record: Mapping[str, Any], row: Row) -> bool:
    return _get_tag_values(record, VERSION)[0] == str(row["version"])


def _make_memory_tag(address: str) -> str:
    return address if len(address) <= _MAX_TAG_CHARS else uri.stable_hash(address)


def _format_plan(planned: _PlannedRecord, made: SavedRow | None = None) -> DistilledMemory:
    # What says the same already, though it was saved by somebody's hand, is as well known.
    status = "known" if made is not None and made.duplicate_of is not None else planned.status
    record = made.record if made is not None else planned.before if status == "known" else None
    # What was merged into another is read there.
    new, knowledge_id = planned.new, None if record is None else record.get("merged_into") or record["id"]
    kind, types = str(planned.row["category"]), list(new.types)
    return DistilledMemory(planned.row["id"], kind, types, status, knowledge_id, new.task, new.content)
