"""Save, read, list, change and delete knowledge records, and add evidence to them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from knowhub.core import permissions
from knowhub.core.errors import Forbidden, InvalidInput, NotFound
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import (
    Change,
    Committed,
    Draft,
    HistoryStore,
    IdempotencyKey,
    LongDecision,
    Row,
    Unchanged,
    View,
    next_version,
)
from knowhub.core.owned_rows import OwnedRows, RowText, RowTextPage, SavedBatch, SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import evidence, record_rules, table
from knowhub.knowledge.collections import KNOWLEDGE_COLLECTION
from knowhub.knowledge.evidence import DOWNVOTED_WARNING, VoteKind, Voter, is_downvoted, sum_votes, weigh_votes
from knowhub.knowledge.model import KNOWLEDGE, Feedback, KnowledgeSummary, ListQuery, NewKnowledge, Vote
from knowhub.knowledge.table import find_record, list_next_records
from knowhub.knowledge.visibility import (
    check_not_merged,
    describe_access,
    find_readable,
    follow_merges,
    get_current_row,
    get_readable_row,
    list_visible_duplicates,
    redact_row,
    render_record_json,
)

RESTORE_OP = "restore_knowledge"
_SUMMARIES_PER_TURN: Final = 10_000


class KnowledgeService(OwnedRows):
    """The operations on knowledge records."""

    def __init__(self, store: HistoryStore, ids: Ids) -> None:
        super().__init__(store, KNOWLEDGE_COLLECTION)
        self._ids = ids

    def find(self, view: View, ctx: RequestContext, row_id: str) -> Row:
        """Return a record that the caller sees, even if it was merged. Raises NotFound."""
        return get_readable_row(view, ctx, row_id, None)

    def show(self, view: View, ctx: RequestContext, row: Row) -> Row:
        """Return a record without the ids of records that the caller does not see."""
        return redact_row(view, ctx, row)

    def edit(self, view: View, row: Row, patch: Mapping[str, Any]) -> Row | None:
        """Return the next version of a record. Raises InvalidInput, and Conflict for a merged one."""
        check_not_merged(row)
        return record_rules.apply_patch(row, patch, view.now)

    async def save(self, ctx: RequestContext, new: NewKnowledge, key: IdempotencyKey | None = None) -> SavedRow:
        """Save a record, or return its duplicate (`dedup`), restored in an operation if the evidence spoke against it.

        Raises InvalidInput. Raises Forbidden for a caller who may only read, for scopes that are not the caller's, and
        for another user's record as owner or superseded record.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            batch = _NewRecords(view, ctx, self._ids)
            row = batch.add(new)
            op = RESTORE_OP if batch.restored else "save_knowledge"
            # `make_row` has checked the record.
            return Draft(op, [record_rules.write(row)], is_checked=True) if batch.rows else Unchanged(row)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Committed) and not outcome.replayed and outcome.operation.changes[0].before is None:
            # The caller sees what the record names: they have just named it.
            return SavedRow(outcome.operation.changes[0].after, outcome.operation.operation_id, is_new=True)
        saved = self.make_saved(ctx, outcome)
        if saved.is_new:
            return saved
        return _mark_duplicate(saved, self._store.view(ctx.account).now)

    async def save_batch(
        self, ctx: RequestContext, items: Sequence[NewKnowledge], key: IdempotencyKey | None = None
    ) -> SavedBatch:
        """Save all records in one operation, or none. A duplicate is returned in the place of its item.

        Raises InvalidInput that names `items.<index>` of the first invalid item, and Forbidden as `save` does.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            batch = _NewRecords(view, ctx, self._ids)
            duplicates: dict[str, Row] = {}
            order: list[str] = []
            for index, new in enumerate(items):
                try:
                    row = batch.add(new)
                except InvalidInput as problem:
                    first = problem.errors[0]
                    raise InvalidInput.of(f"items.{index}.{first.field}", first.message) from problem
                if row["id"] not in batch.rows:
                    duplicates[row["id"]] = row
                order.append(row["id"])
            reply = {"ids": order, "duplicates": duplicates, "restored": sorted(batch.restored)}
            if not batch.rows:
                return Unchanged(reply)
            return Draft("save_knowledge_batch", [record_rules.write(row) for row in batch.rows.values()], reply=reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, LongDecision(decide), key)
        if isinstance(outcome, Unchanged):
            return self._make_batch_result(ctx, outcome.answer, (), None)
        operation = outcome.operation
        return self._make_batch_result(ctx, operation.reply or {}, operation.changes, operation.operation_id)

    async def get(self, ctx: RequestContext, knowledge_id: str) -> RowText:
        """Return a record as it is stored, even if it was merged. Raises NotFound."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        summary = find_readable(view, ctx, knowledge_id)
        return RowText(render_record_json(view, ctx, summary), summary.version)

    async def access(self, ctx: RequestContext, knowledge_id: str) -> Mapping[str, Any]:
        """Return who can see a record, why the caller sees it, and what the caller may do with it. Raises NotFound."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        summary = find_readable(view, ctx, knowledge_id)
        row = view.get(KNOWLEDGE, knowledge_id) or {}
        return describe_access(ctx, summary, row["visibility"])

    async def page(self, ctx: RequestContext, query: ListQuery) -> RowTextPage:
        """Return the newest records that the caller sees and that pass every filter."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        found: list[KnowledgeSummary] = []
        rest = replace(query, filters=table.limit_to_visible(query.filters, ctx), limit=query.limit + 1)
        while True:
            some, before = list_next_records(view, rest, _SUMMARIES_PER_TURN)
            found += some
            if before is None:
                break
            rest = replace(rest, before=before, limit=query.limit + 1 - len(found))
            await asyncio.sleep(0)
        page = found[: query.limit]
        more = len(found) > query.limit
        return RowTextPage(
            [render_record_json(view, ctx, summary) for summary in page], page[-1].ordinal if more else None
        )

    async def give_feedback(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Add evidence to a record that the caller sees. Only the owner may set the score.

        Evidence on a merged record goes to the survivor, which is returned.
        """
        if feedback.score is not None:
            permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            row = get_current_row(view, ctx, knowledge_id, expected)
            if feedback.score is not None and not ctx.can_edit(row["owner"]):
                raise Forbidden("only the owner of a record sets its score; add a helpful or harmful case instead")
            after = evidence.with_feedback(row, feedback, view.now, Voter(ctx.actor))
            return Unchanged(row) if after is row else Draft("update_knowledge", [record_rules.write(after)])

        return self.make_saved(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key))

    async def give_feedback_batch(
        self, ctx: RequestContext, votes: Sequence[Vote], key: IdempotencyKey | None = None
    ) -> tuple[Sequence[str], str | None]:
        """Add evidence to many records in one operation; return the status of each vote, and the operation."""

        def decide(view: View) -> Draft | Unchanged:
            rows: dict[str, Row] = {}
            statuses = [_apply_vote(view, ctx, vote, rows) for vote in votes]
            writes = [record_rules.write(row) for row in rows.values()]
            reply = {"statuses": statuses}
            return Draft("batch_update_knowledge", writes, reply=reply) if writes else Unchanged(reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return outcome.answer["statuses"], None
        return (outcome.operation.reply or {})["statuses"], outcome.operation.operation_id

    def _make_batch_result(
        self, ctx: RequestContext, reply: Mapping[str, Any], changes: Sequence[Change], operation_id: str | None
    ) -> SavedBatch:
        view = self._store.view(ctx.account)
        written = {change.id: change.after for change in changes}
        restored = reply.get("restored", ())
        new = written.keys() - set(restored)
        saved = []
        for row_id in reply["ids"]:
            row = written.get(row_id) or reply["duplicates"][row_id]
            if row_id in new:
                saved.append(SavedRow(row, operation_id))
                # A second item with this text is a duplicate of the first.
                new.discard(row_id)
            else:
                shown, operation = redact_row(view, ctx, row), operation_id if row_id in restored else None
                saved.append(_mark_duplicate(SavedRow(shown, operation), view.now))
        return SavedBatch(saved, operation_id)


@dataclass(slots=True)
class _NewRecords:
    """The records that one decision adds."""

    _view: View
    _ctx: RequestContext
    _ids: Ids
    _by_key: dict[bytes, Row] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)

    def add(self, new: NewKnowledge) -> Row:
        """Add a record and return its row, or return its duplicate. A duplicate is in `rows` only if it is restored."""
        view, ctx = self._view, self._ctx

        def is_used(candidate: str) -> bool:
            return candidate in self.rows or view.raw(KNOWLEDGE, candidate) is not None

        row = record_rules.make_row(new, knowledge_id(view.now, self._ids, is_used), view.now, ctx)
        if new.supersedes is not None:
            row["supersedes"] = resolve_superseded_id(view, ctx, new.supersedes)
        key = table.make_dedup_key(row)
        if new.dedup:
            stored = list_visible_duplicates(view, ctx, key)
            duplicate = view.get(KNOWLEDGE, stored[0].id) if stored else self._by_key.get(key)
            if duplicate is not None:
                return self._restore(duplicate)
        self.rows[row["id"]] = row
        self._by_key.setdefault(key, row)
        return row

    def _restore(self, row: Row) -> Row:
        """Return a duplicate. If the evidence is negative, the earlier votes of this caller no longer count.

        Who saves it again has changed their mind. Votes of other callers still count: they tried the record.
        """
        now = self._view.now
        if row["id"] in self.rows:
            return self.rows[row["id"]]
        votes = weigh_votes(row["eval"])
        if not is_downvoted(row["eval"]["score"], sum_votes(votes, now)):
            return row
        restored = evidence.with_vote(row, VoteKind.RESTORED, now, Voter(self._ctx.actor))
        if weigh_votes(restored["eval"]) == votes:
            return row
        self.restored.add(row["id"])
        self.rows[row["id"]] = restored
        return restored


def _mark_duplicate(saved: SavedRow, now: float) -> SavedRow:
    """Return a stored record as the answer to an equal save, with a warning if evidence speaks against it."""
    record, is_restored = saved.record, saved.operation_id is not None
    if is_downvoted(record["eval"]["score"], sum_votes(weigh_votes(record["eval"]), now)):
        record = {**record, "warning": DOWNVOTED_WARNING}
    return replace(saved, record=record, duplicate_of=record["id"], is_restored=is_restored)


def resolve_superseded_id(view: View, ctx: RequestContext, knowledge_id: str) -> str:
    """Return the id of the record to supersede: the named one, or its survivor if it was merged.

    Raises InvalidInput if there is no such record for the caller, and Forbidden if the caller may not edit it.
    """
    named, summary = find_record(view, knowledge_id), follow_merges(view, knowledge_id)
    if named is None or summary is None or not ctx.sees(named.audience) or not ctx.sees(summary.audience):
        raise InvalidInput.of("supersedes", f"no knowledge with id {knowledge_id!r}")
    if not ctx.can_edit(summary.owner):
        raise Forbidden("only the owner of a record may supersede it")
    return summary.id


def _apply_vote(view: View, ctx: RequestContext, vote: Vote, rows: dict[str, Row]) -> str:
    try:
        original = get_current_row(view, ctx, vote.knowledge_id, None)
    except NotFound:
        return "unknown"
    case = Feedback(helpful_case=vote.case) if vote.is_helpful else Feedback(harmful_case=vote.case)
    row_id = original["id"]
    after = evidence.with_feedback(rows.get(row_id, original), case, view.now, Voter(ctx.actor))
    # Several votes on one record are one change of its row, so its version rises once.
    rows[row_id] = {**after, "version": next_version(original)}
    return "applied"
