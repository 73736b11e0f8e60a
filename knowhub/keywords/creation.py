"""Creation of keywords: placement, duplicate check, and batches."""

import asyncio
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from knowhub.core import permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import (
    Decide,
    Draft,
    IdempotencyKey,
    LongDecision,
    Operation,
    Outcome,
    Row,
    Store,
    Unchanged,
    View,
    Write,
    get_operation,
)
from knowhub.core.owned_rows import SavedBatch, SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, fields, keyword_rules, rendering, tree
from knowhub.keywords.edits import PendingRows
from knowhub.keywords.fields import prefix_errors
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Dropped, NewKeyword, TreeOptions
from knowhub.keywords.new_keywords import (
    CreationAnswers,
    NewKeywordRow,
    check_aliases_within,
    count_dropped,
    find_stored,
    set_parents,
)
from knowhub.keywords.search.agent import DedupAction, KeywordAgent
from knowhub.keywords.search.prompts import Goal, Intent
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.tree import find_keyword

MAX_ITEMS = 1_000
_MAX_PLACEMENTS = 2


class KeywordCreation:
    """Creates keywords. A model is asked before the decision, which checks that the choice still exists.

    The calls of the model are recorded with the operation, or by the agent if there is none.
    """

    def __init__(self, store: Store, near: NearKeywords, ids: Ids, agent: KeywordAgent, options: TreeOptions) -> None:
        self._store = store
        self._near = near
        self._text = near.rules
        self._ids = ids
        self._agent = agent
        self._options = options

    async def create(
        self,
        ctx: RequestContext,
        new: NewKeyword,
        key: IdempotencyKey | None = None,
        *,
        auto_place: bool = True,
        dedup_check: bool = False,
    ) -> SavedRow:
        """Create a keyword below `parent_id`; without one the model may choose the parent.

        With `dedup_check` the model may decide that the keyword exists already. Then the existing keyword is changed
        and returned, and `decided` says so. If the model fails, the keyword is created and the answer is `degraded`.
        Raises InvalidInput, Forbidden and Conflict.
        """
        permissions.check_can_write(ctx)
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        # With `dedup_check` the model decides about twins.
        new_row = self._make_new_row(replace(new, allow_duplicate=new.allow_duplicate or dedup_check), ctx, view.now)
        answers = CreationAnswers(time.monotonic() + self._options.write_budget_s)
        auto_place = auto_place and new.parent_id is None
        if dedup_check or (auto_place and self._agent.available):
            # A retry asks no second question, and does not conflict with the keyword of the first request.
            before = await self._store.find_replay(ctx.account, key)
            if before is not None:
                return self._make_written(ctx, before.operation)
            # Invalid input is refused before a model is asked.
            self._check(view, ctx, new_row, new_row.parent_id)
        try:
            if dedup_check and await self._find_duplicate(ctx, new_row, answers):
                outcome = await self._store.commit(
                    ctx.account, ctx.actor, self._merge_into_duplicate(ctx, new_row, answers), key
                )
                answers.set_written(outcome)
                if not isinstance(outcome, Unchanged):
                    return self._make_written(ctx, outcome.operation)
                answers.decided = {"dedup": DedupAction.CREATE_NEW.value}
            if auto_place:
                return await self._create_with_model(ctx, new_row, answers, key)
            return await self._create_under(ctx, new_row, new_row.parent_id, answers, key)
        finally:
            if not answers.is_written:
                # The keyword was refused or cancelled, or is a retry of a concurrent request.
                self._agent.record_calls(ctx, answers.calls)

    async def create_batch(
        self, ctx: RequestContext, items: Sequence[NewKeyword], key: IdempotencyKey | None = None
    ) -> SavedBatch:
        """Create up to 1,000 keywords in one operation, all or none; `parent_ref` is the `ref` of an earlier item.

        An item whose parent has a keyword of its name is that keyword: it gets the aliases, the description and the
        metadata that it lacks. So the same batch twice changes nothing. No model is asked: the default parent is the
        root. Raises InvalidInput naming `items.<index>.<field>` for the first invalid item, Conflict and Forbidden
        with its index.
        """
        permissions.check_can_write(ctx)
        if not 1 <= len(items) <= MAX_ITEMS:
            raise InvalidInput.of("items", f"must have between 1 and {MAX_ITEMS} entries")
        new_rows = await self.prepare(ctx, items)

        def decide(view: View) -> Draft | Unchanged:
            ids: dict[str, str] = {}
            writes, _ = self.make_batch_writes(view, ctx, new_rows, ids)
            found = [ids[new_row.id] for new_row in new_rows]
            if not writes:
                return Unchanged({"ids": found})
            reply = None if found == [write.id for write in writes] else {"ids": found}
            return Draft("batch_create_keywords", writes, reply=reply)

        outcome = await commit_with_root(self._store, ctx, LongDecision(decide), key)
        view = self._store.view(ctx.account)
        if isinstance(outcome, Unchanged):
            return self._make_batch(view, ctx, outcome.answer["ids"], {}, None)
        written = {change.id: change.after for change in outcome.operation.changes}
        ids = (outcome.operation.reply or {}).get("ids") or list(written)
        return self._make_batch(view, ctx, ids, written, outcome.operation.operation_id)

    async def prepare(
        self, ctx: RequestContext, items: Sequence[NewKeyword], group: str = "items"
    ) -> list[NewKeywordRow]:
        """Make the rows of new keywords. Raises as `create_batch`, naming the group."""
        await self._store.refresh(ctx.account)
        now = self._store.view(ctx.account).now
        new_rows, pause = [], CooperativePause()
        for index, new in enumerate(items):
            with prefix_errors(f"{group}.{index}", item=index):
                new_rows.append(self._make_new_row(new, ctx, now))
            await pause.pause()
        await asyncio.to_thread(set_parents, new_rows, group)
        await asyncio.to_thread(check_aliases_within, new_rows, group)
        return new_rows

    def make_batch_writes(
        self,
        view: View,
        ctx: RequestContext,
        new_rows: Sequence[NewKeywordRow],
        ids: MutableMapping[str, str],
        position: tuple[str, int] = ("items", 0),
        refs: Mapping[str | None, Sequence[str]] | None = None,
    ) -> tuple[list[Write], Dropped]:
        """Return the writes of prepared keywords, and what of them is not kept.

        `ids` is filled: it maps the id of each row to that of the stored or new keyword that the row becomes, and that
        id to itself. Parents of earlier calls may be in it. `position` is for errors: the group of the items, and the
        index of the first. `refs` is for `find_stored`.
        """
        (group, start), pending, dropped = position, PendingRows(view), Dropped()
        for index, new_row in enumerate(new_rows, start):
            with prefix_errors(f"{group}.{index}", item=index):
                parent_id, plan = ids.get(new_row.parent_id, new_row.parent_id), pending.view
                twin = find_stored(plan, ctx, self._text, new_row, ids, refs)
                own_id = new_row.id if twin is None else twin.id
                dropped[KEYWORDS, "duplicate"] += twin is not None and twin.id in ids
                ids[new_row.id] = ids[own_id] = own_id
                self._check(plan, ctx, new_row, parent_id, own_id=own_id)
                stored = None if twin is None else rendering.get_keyword_row(plan, own_id)
                row: Row = keyword_rules.set_parent(new_row.row, parent_id, view.now)
                if stored is not None:
                    can_add = ctx.can_edit(stored["owner"])
                    merged = keyword_rules.merge_rows(stored, new_row.row, self._text, view.now) if can_add else None
                    row = merged or stored
                if row is not stored:
                    pending.put([keyword_rules.write_keyword(row)])
                count_dropped(ctx, new_row, row, dropped)
        return pending.list_writes(), dropped

    def _make_batch(
        self,
        view: View,
        ctx: RequestContext,
        ids: Sequence[str],
        written: Mapping[str, Row],
        operation_id: str | None,
    ) -> SavedBatch:
        levels, rows = dict[str, int](), []
        for keyword_id in ids:
            row = written.get(keyword_id) or rendering.get_keyword_row(view, keyword_id)
            # Without this map a chain of a thousand keywords would take a thousand walks to the root.
            above = levels.get(row["parent_id"])
            levels[row["id"]] = rendering.get_level(view, ctx, row["parent_id"]) if above is None else above + 1
            shown = rendering.add_tree_fields(view, ctx, row, level=levels[row["id"]])
            rows.append(SavedRow(shown, operation_id))
        return SavedBatch(rows, operation_id)

    async def _find_duplicate(self, ctx: RequestContext, new_row: NewKeywordRow, answers: CreationAnswers) -> bool:
        """Ask the model whether a keyword of this name is the same; keep what it decides in `answers`."""
        view = self._store.view(ctx.account)
        namesakes = list(dict.fromkeys(rendering.find_by_name_keys(view, ctx, new_row.name_keys)))
        if not namesakes:
            return False
        if not self._agent.available:
            answers.decided["dedup"] = DedupAction.CREATE_NEW.value
            answers.is_degraded = True
            return False
        decision = await self._agent.dedup_check(ctx, view, new_row.new, namesakes, answers.get_remaining_s())
        answers.add(decision)
        answers.decided = {"dedup": decision.action.value, "into": decision.node_id}
        if decision.node_id is None:
            answers.decided = {"dedup": DedupAction.CREATE_NEW.value}
        return decision.node_id is not None

    def _merge_into_duplicate(
        self, ctx: RequestContext, new_row: NewKeywordRow, answers: CreationAnswers
    ) -> Decide[View]:
        """Return the decision that merges a new keyword into its duplicate, if the caller still may change that."""
        into, action = answers.decided["into"], answers.decided["dedup"]

        def decide(view: View) -> Draft | Unchanged:
            node = rendering.get_visible_node(view, ctx, into)
            if node is None or not ctx.can_edit(node.owner):
                return Unchanged()
            row = rendering.get_keyword_row(view, into)
            if action == DedupAction.ALIAS_OF:
                after = keyword_rules.add_alias(row, new_row.row["name"], self._text, view.now)
            else:
                after = keyword_rules.merge_rows(row, new_row.row, self._text, view.now)
            if after is None:
                # Nothing changes, but the calls of the model are recorded.
                return answers.make_draft("agent_decision", [], into)
            return answers.make_draft("update_keyword", [keyword_rules.write_keyword(after)], into)

        return decide

    async def _create_with_model(
        self, ctx: RequestContext, new_row: NewKeywordRow, answers: CreationAnswers, key: IdempotencyKey | None
    ) -> SavedRow:
        is_unsorted = False
        for _ in range(_MAX_PLACEMENTS if self._agent.available else 0):
            goal = await self._make_goal(ctx, new_row)
            placement = await self._agent.descend(
                ctx, lambda: self._store.view(ctx.account), goal, answers.get_remaining_s()
            )
            answers.add(placement)
            answers.decided |= {"placed": "root", "parent_id": ROOT_ID, "reason": placement.reason}
            if placement.parent_id == ROOT_ID:
                is_unsorted = placement.outcome != "matched" and placement.failure is None
                break
            # After a failure this is the last keyword that the model reached.
            answers.decided |= {"placed": "suggested", "parent_id": placement.parent_id}
            try:
                return await self._create_under(ctx, new_row, placement.parent_id, answers, key)
            except _NoParent:
                # The parent was deleted while the model was asked: ask again on the current tree.
                answers.decided |= {"placed": "root", "parent_id": ROOT_ID, "reason": "the suggested parent is gone"}
                if placement.failure is not None:
                    break
        return await self._create_under(ctx, new_row, None if is_unsorted else ROOT_ID, answers, key)

    async def _make_goal(self, ctx: RequestContext, new_row: NewKeywordRow) -> Goal:
        row = new_row.row
        words = " ".join((row["name"], *row["aliases"], row["description"]))
        near = await self._near.find(self._store.view(ctx.account), ctx, words)
        return Goal(
            row["name"],
            Intent.SUGGEST_PARENT,
            aliases=tuple(row["aliases"]),
            description=row["description"],
            near=near,
        )

    async def _create_under(
        self,
        ctx: RequestContext,
        new_row: NewKeywordRow,
        parent_id: str | None,
        answers: CreationAnswers,
        key: IdempotencyKey | None,
    ) -> SavedRow:
        # `parent_id` is None if a model was asked and found no suitable parent.
        def decide(view: View) -> Draft:
            self._check(view, ctx, new_row, parent_id or ROOT_ID)
            writes: list[Write] = []
            chosen_id, placed = parent_id, dict[str, Any]()
            if chosen_id is None:
                chosen_id, writes = self._find_default_parent(view, ctx, new_row)
                if chosen_id != ROOT_ID:
                    placed = {"placed": "uncategorized", "parent_id": chosen_id}
            row = keyword_rules.set_parent(new_row.row, chosen_id, view.now)
            if not new_row.new.allow_duplicate:
                edits.check_no_twin(view, ctx, self._text, row)
            writes.append(keyword_rules.write_keyword(row))
            return answers.make_draft("create_keyword", writes, new_row.id, placed)

        outcome = await commit_with_root(self._store, ctx, decide, key)
        answers.set_written(outcome)
        return self._make_written(ctx, get_operation(outcome))

    def _find_default_parent(self, view: View, ctx: RequestContext, new_row: NewKeywordRow) -> tuple[str, list[Write]]:
        """Return the parent of keywords that a model could not place, and its write if it is new."""
        name = self._options.uncategorized_name
        name_keys = self._text.name_keys(name) if name else []
        if name is None or not name_keys or not set(name_keys).isdisjoint(new_row.name_keys):
            return ROOT_ID, []
        twin = next(edits.iter_twins(view, ctx, self._text, name_keys, ROOT_ID), None)
        if twin is not None:
            return twin.id, []
        ids = (uuid4_id(self._ids), ROOT_ID)
        row = keyword_rules.make_keyword_row(NewKeyword(name), ids, ctx, self._text, view.now)
        return row["id"], [keyword_rules.write_keyword(row)]

    def _make_new_row(self, new: NewKeyword, ctx: RequestContext, now: float) -> NewKeywordRow:
        for name in ("parent_id", "ref", "parent_ref"):
            if getattr(new, name) is not None:
                fields.parse_row_id(name, getattr(new, name))
        ids = (uuid4_id(self._ids), ROOT_ID)
        row = keyword_rules.make_keyword_row(new, ids, ctx, self._text, now)
        alias_keys = {alias: self._text.name_keys(alias) for alias in row["aliases"]}
        return NewKeywordRow(new, row, self._text.name_keys(row["name"]), alias_keys, new.parent_id or ROOT_ID)

    def _check(
        self, view: View, ctx: RequestContext, new_row: NewKeywordRow, parent_id: str, own_id: str | None = None
    ) -> None:
        if rendering.get_visible_node(view, ctx, parent_id) is None:
            raise _NoParent.of("parent_id", f"no keyword with id {parent_id!r}")
        edits.check_aliases_free(view, ctx, self._text, new_row.alias_keys, own_id or new_row.id)

    def _make_written(self, ctx: RequestContext, operation: Operation, changed_id: str | None = None) -> SavedRow:
        """Return the keyword that an operation made, found as a duplicate, or changed."""
        view = self._store.view(ctx.account)
        reply = operation.reply or {}
        row_id = changed_id or reply.get("id") or operation.changes[-1].id
        rows = [change.after for change in operation.changes if change.id == row_id]
        shown = rendering.add_tree_fields(view, ctx, rows[0] if rows else rendering.get_keyword_row(view, row_id))
        # An operation without changes only records the calls of the model.
        operation_id = operation.operation_id if operation.changes else None
        return SavedRow(shown, operation_id, degraded=reply.get("degraded", ()), decided=reply.get("decided", {}))


async def commit_with_root(
    store: Store, ctx: RequestContext, decide: Decide[View], key: IdempotencyKey | None = None
) -> Outcome:
    """Commit a decision. The first write to a tree creates its root before, in an operation of its own.

    A decision that is refused or changes nothing creates no root.
    """
    if find_keyword(store.view(ctx.account), ROOT_ID) is not None:
        return await store.commit(ctx.account, ctx.actor, decide, key)

    def create_root(view: View) -> Draft | Unchanged:
        root = _create_root(view)
        return root if isinstance(root, Unchanged) or not isinstance(decide(view), Unchanged) else Unchanged()

    return (await store.commit_group(ctx.account, ctx.actor, [LongDecision(create_root), decide], key))[-1]


async def make_root(store: Store, ctx: RequestContext) -> None:
    """Create the root of the caller's account if there is none."""
    if find_keyword(store.view(ctx.account), ROOT_ID) is None:
        await store.commit(ctx.account, ctx.actor, _create_root)


def _create_root(view: View) -> Draft | Unchanged:
    if find_keyword(view, ROOT_ID) is not None:
        return Unchanged()
    return Draft("create_root", [keyword_rules.write_keyword(tree.make_root_row(view.now))])


class _NoParent(InvalidInput):
    """The parent does not exist, or is hidden from the caller."""
