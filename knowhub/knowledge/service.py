"""The verbs on knowledge records (seeds 003, 004): save, read, list, edit, delete, give evidence, find."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from knowhub.core import permissions, scopes
from knowhub.core.errors import Forbidden, InvalidInput, NotFound
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import (
    Change,
    Committed,
    Decide,
    Draft,
    IdempotencyKey,
    Operation,
    Row,
    Unchanged,
    next_version,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.row_paths import differences
from knowhub.knowledge import decisions, heads
from knowhub.knowledge.access import access_of
from knowhub.knowledge.model import (
    COLLECTION,
    HISTORY_PAGE,
    Feedback,
    HistoryPage,
    ListQuery,
    NewKnowledge,
    Page,
    Saved,
    SavedBatch,
    Stored,
    VersionEntry,
    Vote,
)
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView
from knowhub.knowledge.shown import shown_json, shown_row
from knowhub.knowledge.standing import check_not_merged, readable_head, readable_row, standing_head, standing_row
from knowhub.knowledge.votes import Ballot


class KnowledgeService:
    """Knowledge records over a store that makes every decision durable before it is acknowledged."""

    def __init__(self, store: KnowledgeStore, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def save(self, ctx: RequestContext, new: NewKnowledge, key: IdempotencyKey | None = None) -> Saved:
        """Save a record, or return the one that says the same already (KM-067, `dedup`).

        Raises InvalidInput, and Forbidden for a reader, for scopes that are not the caller's, and when the owner or the
        superseded record is somebody else's.
        """
        permissions.check_may_write(ctx)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            row, duplicate = self._new_or_duplicate(view, ctx, new, {})
            return Unchanged(duplicate) if row is None else Draft("save_knowledge", [decisions.write(row)])

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            stands = shown_row(self._store.view(ctx.account), ctx, outcome.answer)
            return Saved(stands, None, duplicate_of=stands["id"])
        return Saved(outcome.operation.changes[0].after, outcome.operation.operation_id)

    async def save_batch(
        self, ctx: RequestContext, items: Sequence[NewKnowledge], key: IdempotencyKey | None = None
    ) -> SavedBatch:
        """Save all records in one operation, or none; duplicates are answered in their places.

        Raises InvalidInput naming `items.<index>` for the first one that cannot be saved, Forbidden as `save` does.
        """
        permissions.check_may_write(ctx)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            rows: dict[str, Row] = {}
            duplicates: dict[str, Row] = {}
            order: list[str] = []
            for index, new in enumerate(items):
                row, duplicate = self._item(view, ctx, new, rows, index)
                target, found = (rows, row) if row is not None else (duplicates, duplicate)
                if found["id"] not in rows:
                    target[found["id"]] = found
                order.append(found["id"])
            reply = {"ids": order, "duplicates": duplicates}
            if not rows:
                return Unchanged(reply)
            return Draft("save_knowledge_batch", [decisions.write(row) for row in rows.values()], reply=reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return self._saved_batch(ctx, outcome.answer, (), None)
        operation = outcome.operation
        return self._saved_batch(ctx, operation.reply or {}, operation.changes, operation.operation_id)

    async def get(self, ctx: RequestContext, knowledge_id: str) -> Stored:
        """Return one record as it is stored, one that was merged into another too. Raises NotFound."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        head = readable_head(view, ctx, knowledge_id)
        return Stored(shown_json(view, ctx, head), head.version)

    async def access(self, ctx: RequestContext, knowledge_id: str) -> Mapping[str, Any]:
        """Return who can see a record, why the caller does, and what they may do with it. Raises NotFound."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        head = readable_head(view, ctx, knowledge_id)
        row = view.get(COLLECTION, knowledge_id) or {}
        return access_of(ctx, head, row["visibility"])

    async def page(self, ctx: RequestContext, query: ListQuery) -> Page:
        """Return the newest records that pass every filter and that the caller sees (KM-079)."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        filters = list(query.filters)
        if ctx.visible is not None:
            filters.append(heads.audience_facets(ctx.visible))
        found = view.page(replace(query, filters=filters, limit=query.limit + 1))
        shown = found[: query.limit]
        more = len(found) > query.limit
        return Page([shown_json(view, ctx, head) for head in shown], shown[-1].ordinal if more else None)

    async def patch(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Saved:
        """Change fields of a record. Raises NotFound, Forbidden, VersionConflict, InvalidInput.

        Raises Conflict for a record that was merged into another.
        """
        permissions.check_may_write(ctx)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            row = _editable(view, ctx, knowledge_id, expected)
            check_not_merged(row)
            permissions.check_scopes(ctx, patch.get("scopes", ()), standing=row["scopes"])
            after = decisions.patched(row, patch, view.now)
            return Unchanged(row) if after is None else Draft("edit_knowledge", [decisions.write(after)])

        return await self._change(ctx, decide, key)

    async def delete(
        self, ctx: RequestContext, knowledge_id: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete a record and return the operation, which can be undone. Raises NotFound, Forbidden."""
        permissions.check_may_write(ctx)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            row = _editable(view, ctx, knowledge_id, expected)
            return Draft("delete_knowledge", [decisions.write(decisions.deleted(row, view.now))])

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            raise NotFound.of("knowledge", knowledge_id)
        return outcome.operation.operation_id

    async def give_feedback(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Saved:
        """Add evidence to a record that the caller sees; only its owner sets its score (KM-069, C-41).

        Evidence on a record that was merged into another goes to that one, which is answered.
        """
        if feedback.score is not None:
            permissions.check_may_write(ctx)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            row = standing_row(view, ctx, knowledge_id, expected)
            if feedback.score is not None and not ctx.may_edit(row["owner"]):
                raise Forbidden("only the owner of a record sets its score; add a helpful or harmful case instead")
            ballot = Ballot(view, ctx)
            after = ballot.give(row, feedback)
            writes = [decisions.write(after), *ballot.writes()]
            return Unchanged(row) if after is row else Draft("update_knowledge", writes)

        return await self._change(ctx, decide, key)

    async def give_feedback_batch(
        self, ctx: RequestContext, votes: Sequence[Vote], key: IdempotencyKey | None = None
    ) -> tuple[Sequence[str], str | None]:
        """Add evidence to many records in one operation; return each vote's status and the operation (KM-077)."""

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            rows: dict[str, Row] = {}
            ballot = Ballot(view, ctx)
            statuses = [_apply_vote(view, ctx, vote, rows, ballot) for vote in votes]
            writes = [*map(decisions.write, rows.values()), *ballot.writes()]
            reply = {"statuses": statuses}
            return Draft("batch_update_knowledge", writes, reply=reply) if writes else Unchanged(reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return outcome.answer["statuses"], None
        return (outcome.operation.reply or {})["statuses"], outcome.operation.operation_id

    async def history(
        self, ctx: RequestContext, knowledge_id: str, limit: int = HISTORY_PAGE, before: int | None = None
    ) -> HistoryPage:
        """Return the versions of a record below `before`, newest first, a deleted one's too. Raises NotFound.

        A caller who sees the record now is not told of what it was while they did not.
        """
        await self._store.refresh()
        head = self._store.view(ctx.account).head(knowledge_id)
        if head is None or not ctx.sees(head.audience):
            raise NotFound.of("knowledge", knowledge_id)
        operations = self._store.operations_on(ctx.account, COLLECTION, knowledge_id)
        view = self._store.view(ctx.account)
        entries: list[VersionEntry] = []
        async for operation in operations:
            change = _change_of(operation, knowledge_id)
            if (before is not None and change.after["version"] >= before) or not _saw(ctx, change):
                continue
            if len(entries) == limit:
                return HistoryPage(entries, entries[-1].version)
            entries.append(_version_entry(view, ctx, operation, change))
        return HistoryPage(entries, None)

    def _item(
        self, view: KnowledgeView, ctx: RequestContext, new: NewKnowledge, pending: Mapping[str, Row], index: int
    ) -> tuple[Row | None, Any]:
        try:
            return self._new_or_duplicate(view, ctx, new, pending)
        except InvalidInput as problem:
            first = problem.errors[0]
            raise InvalidInput.of(f"items.{index}.{first.field}", first.message) from problem

    def _new_or_duplicate(
        self, view: KnowledgeView, ctx: RequestContext, new: NewKnowledge, pending: Mapping[str, Row]
    ) -> tuple[Row | None, Any]:
        def taken(candidate: str) -> bool:
            return candidate in pending or view.raw(COLLECTION, candidate) is not None

        row = decisions.new_row(new, knowledge_id(view.now, self._ids, taken), view.now, ctx)
        if new.supersedes is not None:
            row["supersedes"] = superseded_id(view, ctx, new.supersedes)
        duplicate = _duplicate_of(view, ctx, row, pending) if new.dedup else None
        return (row, None) if duplicate is None else (None, duplicate)

    def _saved_batch(
        self, ctx: RequestContext, reply: Mapping[str, Any], changes: Sequence[Change], operation_id: str | None
    ) -> SavedBatch:
        view = self._store.view(ctx.account)
        written = {change.id: change.after for change in changes}
        seen: set[str] = set()
        saved = []
        for row_id in reply["ids"]:
            if row_id in written and row_id not in seen:
                saved.append(Saved(written[row_id], operation_id))
            else:
                row = shown_row(view, ctx, written.get(row_id) or reply["duplicates"][row_id])
                saved.append(Saved(row, None, duplicate_of=row_id))
            seen.add(row_id)
        return SavedBatch(saved, operation_id)

    async def _change(self, ctx: RequestContext, decide: Decide[KnowledgeView], key: IdempotencyKey | None) -> Saved:
        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        view = self._store.view(ctx.account)
        if isinstance(outcome, Committed):
            operation = outcome.operation
            return Saved(shown_row(view, ctx, operation.changes[0].after), operation.operation_id)
        return Saved(shown_row(view, ctx, outcome.answer), None)


def superseded_id(view: KnowledgeView, ctx: RequestContext, knowledge_id: str) -> str:
    """Return the id of the record that is superseded: the one named, or the one that it was merged into.

    Raises InvalidInput when it is not there to be superseded, Forbidden when it is somebody else's.
    """
    named, head = view.head(knowledge_id), standing_head(view, knowledge_id)
    if named is None or head is None or not ctx.sees(named.audience) or not ctx.sees(head.audience):
        raise InvalidInput.of("supersedes", f"no knowledge with id {knowledge_id!r}")
    if not ctx.may_edit(head.owner):
        raise Forbidden("only the owner of a record may supersede it")
    return head.id


def _duplicate_of(view: KnowledgeView, ctx: RequestContext, row: Row, pending: Mapping[str, Row]) -> Row | None:
    key = heads.duplicate_key(row)
    for head in view.duplicates(key):
        if ctx.sees(head.audience):
            return view.get(COLLECTION, head.id)
    return next((other for other in pending.values() if heads.duplicate_key(other) == key), None)


def _editable(view: KnowledgeView, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    head = readable_head(view, ctx, knowledge_id)
    if not ctx.may_edit(head.owner):
        raise Forbidden("only the owner of a record may change or delete it")
    return readable_row(view, ctx, knowledge_id, expected)


def _apply_vote(view: KnowledgeView, ctx: RequestContext, vote: Vote, rows: dict[str, Row], ballot: Ballot) -> str:
    try:
        original = standing_row(view, ctx, vote.knowledge_id, None)
    except NotFound:
        return "unknown"
    case = Feedback(helpful_case=vote.case) if vote.is_helpful else Feedback(harmful_case=vote.case)
    row_id = original["id"]
    after = ballot.give(rows.get(row_id, original), case)
    # Several votes on one record are one change of its row: its version rises once.
    rows[row_id] = {**after, "version": next_version(original)}
    return "applied"


def _change_of(operation: Operation, knowledge_id: str) -> Change:
    return next(change for change in operation.changes if change.id == knowledge_id)


def _saw(ctx: RequestContext, change: Change) -> bool:
    rows = (row for row in (change.before, change.after) if row is not None)
    return all(ctx.sees(scopes.audience(row["scopes"], row["owner"])) for row in rows)


def _version_entry(view: KnowledgeView, ctx: RequestContext, operation: Operation, change: Change) -> VersionEntry:
    before = None if change.before is None else shown_row(view, ctx, change.before)
    return VersionEntry(
        version=change.after["version"],
        operation_id=operation.operation_id,
        op=operation.op,
        actor=operation.actor,
        timestamp=operation.timestamp,
        changes=differences(before, shown_row(view, ctx, change.after)),
    )
