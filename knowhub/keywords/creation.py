"""Making keywords: where they hang, whether they are there already, and many at once (seed 001 §5.2)."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from knowhub.core import permissions
from knowhub.core.errors import Conflict, Forbidden, InvalidInput
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Decide, Draft, IdempotencyKey, Operation, Outcome, Row, Unchanged, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, edits, fields, rendering, tree
from knowhub.keywords.agent import DedupAction, DedupDecision, KeywordAgent, Placement
from knowhub.keywords.model import ROOT_ID, NewKeyword, Options, Written, WrittenBatch
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView

MAX_ITEMS = 1_000
_PLACINGS = 2
_ITEMS_A_TURN = 25


class KeywordCreation:
    """Makes keywords. A model is asked before a decision, which then checks that what it chose is still there.

    What it was asked is kept with the operation, and by the agent where none comes of it.
    """

    def __init__(self, store: KeywordStore, text: KeywordText, ids: Ids, agent: KeywordAgent, options: Options) -> None:
        self._store = store
        self._text = text
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
    ) -> Written:
        """Make a keyword below `parent_id`; without one the model may choose the parent (KT-219…222).

        A parent that is named is taken as it is (KT-174). With `dedup_check` the model may decide that a keyword of
        that name is the same one: then that one is changed and answered, and `decided` says so. A model that fails
        stops nothing: the answer is `degraded`. Raises InvalidInput, Forbidden and Conflict.
        """
        permissions.check_may_write(ctx)
        await self._store.refresh()
        view = self._store.view(ctx.account)
        fresh = self._fresh(new, ctx, view.now)
        told = _Told(time.monotonic() + self._options.write_budget_s)
        auto_place = auto_place and new.parent_id is None
        if dedup_check or (auto_place and self._agent.available):
            # A retry costs no second question, and is not held against the keyword that the first request made.
            before = await self._store.replayed(ctx.account, key)
            if before is not None:
                return self._written(ctx, before.operation)
            # What will be refused is refused before a model is asked.
            self._check(view, ctx, fresh, new.parent_id or ROOT_ID)
        with self._keeping_calls(ctx, told):
            if dedup_check and await self._is_another(ctx, fresh, told):
                outcome = await self._store.commit(ctx.account, ctx.actor, self._flowing(ctx, fresh, told), key)
                if not isinstance(outcome, Unchanged):
                    return self._written(ctx, outcome.operation)
                told.decided = {"dedup": DedupAction.CREATE_NEW.value}
            if auto_place:
                return await self._create_placed(ctx, fresh, told, key)
            return await self._create_below(ctx, fresh, new.parent_id or ROOT_ID, told, key)

    async def create_batch(
        self, ctx: RequestContext, items: Sequence[NewKeyword], key: IdempotencyKey | None = None
    ) -> WrittenBatch:
        """Make up to 1,000 keywords in one operation, or none; `parent_ref` is the `ref` of an earlier one.

        No model is asked: who names no parent hangs below the root. Raises InvalidInput naming
        `items.<index>.<field>` for the first one that cannot be made, Conflict and Forbidden with its index.
        """
        permissions.check_may_write(ctx)
        if not 1 <= len(items) <= MAX_ITEMS:
            raise InvalidInput.of("items", f"must have between 1 and {MAX_ITEMS} entries")
        await self._store.refresh()
        freshes = await self._fresh_items(ctx, items)
        parents = _parents(items, freshes)
        _check_aliases_within(freshes)
        own_ids = {fresh.id for fresh in freshes}

        def decide(view: KeywordView) -> Draft:
            writes = []
            for index, (fresh, parent_id) in enumerate(zip(freshes, parents, strict=True)):
                with naming_item(index):
                    self._check(view, ctx, fresh, ROOT_ID if parent_id in own_ids else parent_id)
                writes.append(decisions.write_keyword(decisions.placed(fresh.row, parent_id, view.now)))
            return Draft("batch_create_keywords", writes)

        outcome = await commit_with_root(self._store, ctx, decide, key)
        if isinstance(outcome, Unchanged):
            return WrittenBatch([], None)
        view = self._store.view(ctx.account)
        levels: dict[str, int] = {}
        rows = []
        for row in (change.after for change in outcome.operation.changes):
            # Of a chain of a thousand each stands one below the one before it.
            above = levels.get(row["parent_id"])
            levels[row["id"]] = rendering.level_of(view, ctx, row["id"]) if above is None else above + 1
            rows.append(rendering.keyword_answer(view, ctx, row, level=levels[row["id"]]))
        return WrittenBatch(rows, outcome.operation.operation_id)

    @contextmanager
    def _keeping_calls(self, ctx: RequestContext, told: "_Told") -> Iterator[None]:
        """Keep the calls of a creation that is refused or broken off, or is a retry of one that came in meanwhile."""
        try:
            yield
        finally:
            if not told.is_drafted:
                self._agent.note(ctx, told.calls)

    async def _is_another(self, ctx: RequestContext, fresh: "_Fresh", told: "_Told") -> bool:
        """Ask whether the keyword is one of those that have its name already (KT-219, KT-220)."""
        view = self._store.view(ctx.account)
        found = {node.id: node for token in fresh.name_tokens for node in view.by_token(token)}
        namesakes = [node for node in found.values() if ctx.sees(node.audience)]
        if not namesakes:
            return False
        if not self._agent.available:
            told.decided["dedup"] = DedupAction.CREATE_NEW.value
            told.is_degraded = True
            return False
        decision = await self._agent.dedup_check(ctx, view, fresh.new, namesakes, told.left_s())
        told.note(decision)
        told.decided = {"dedup": decision.action.value, "into": decision.node_id}
        if decision.node_id is None:
            told.decided = {"dedup": DedupAction.CREATE_NEW.value}
        return decision.node_id is not None

    def _flowing(self, ctx: RequestContext, fresh: "_Fresh", told: "_Told") -> Decide[KeywordView]:
        """Give what is new to the keyword that is the same one; nothing when that is gone or not the caller's."""
        into, action = told.decided["into"], told.decided["dedup"]

        def decide(view: KeywordView) -> Draft | Unchanged:
            node = rendering.seen_node(view, ctx, into)
            if node is None or not ctx.may_edit(node.owner):
                return Unchanged()
            row = rendering.keyword_row(view, into)
            if action == DedupAction.ALIAS_OF:
                after = decisions.with_alias(row, fresh.row["name"], self._text, view.now)
            else:
                after = decisions.absorbed(row, fresh.row, self._text, view.now)
            if after is None:
                # It says all of that already; what the model was asked is kept all the same.
                return told.draft("agent_decision", [], into)
            return told.draft("update_keyword", [decisions.write_keyword(after)], into)

        return decide

    async def _create_placed(
        self, ctx: RequestContext, fresh: "_Fresh", told: "_Told", key: IdempotencyKey | None
    ) -> Written:
        for _ in range(_PLACINGS if self._agent.available else 0):
            placement = await self._agent.suggest_parent(
                ctx, lambda: self._store.view(ctx.account), fresh.row["name"], told.left_s()
            )
            told.note(placement)
            told.decided |= {"placed": "root", "parent_id": ROOT_ID, "reason": placement.reason}
            if placement.parent_id == ROOT_ID:
                break
            # Where the model failed on its way, this is how far it had come (KT-133, KT-155).
            told.decided |= {"placed": "suggested", "parent_id": placement.parent_id}
            try:
                return await self._create_below(ctx, fresh, placement.parent_id, told, key)
            except _NoParent:
                # It was taken away while the model thought; the next answer is given on the tree as it is then.
                told.decided |= {"placed": "root", "parent_id": ROOT_ID, "reason": "the suggested parent is gone"}
                if placement.failure is not None:
                    break
        return await self._create_below(ctx, fresh, None, told, key)

    async def _create_below(
        self,
        ctx: RequestContext,
        fresh: "_Fresh",
        parent_id: str | None,
        told: "_Told",
        key: IdempotencyKey | None,
    ) -> Written:
        # `parent_id` is None where nothing suitable was found.
        def decide(view: KeywordView) -> Draft:
            self._check(view, ctx, fresh, parent_id or ROOT_ID)
            writes: list[Write] = []
            home = parent_id
            if home is None:
                home, writes = self._unplaced_home(view, ctx, fresh)
                if home != ROOT_ID:
                    told.decided |= {"placed": "uncategorized", "parent_id": home}
            writes.append(decisions.write_keyword(decisions.placed(fresh.row, home, view.now)))
            return told.draft("create_keyword", writes, fresh.id)

        outcome = await commit_with_root(self._store, ctx, decide, key)
        return self._written(ctx, committed(outcome))

    def _unplaced_home(self, view: KeywordView, ctx: RequestContext, fresh: "_Fresh") -> tuple[str, list[Write]]:
        """Return where a keyword without a suitable parent hangs, and the row of that when it is new (C-30)."""
        name = self._options.uncategorized_name
        tokens = self._text.tokens(name) if name else []
        if name is None or not tokens or not set(tokens).isdisjoint(fresh.name_tokens):
            return ROOT_ID, []
        for node in (node for token in tokens for node in view.by_token(token)):
            is_it = node.parent_id == ROOT_ID and not set(tokens).isdisjoint(self._text.tokens(node.name))
            if is_it and ctx.sees(node.audience):
                return node.id, []
        ids = (uuid4_id(self._ids), ROOT_ID)
        row = decisions.new_keyword_row(NewKeyword(name), ids, ctx, self._text, view.now)
        return row["id"], [decisions.write_keyword(row)]

    async def _fresh_items(self, ctx: RequestContext, items: Sequence[NewKeyword]) -> list["_Fresh"]:
        now = self._store.view(ctx.account).now
        freshes = []
        for index, new in enumerate(items):
            with naming_item(index):
                freshes.append(self._fresh(new, ctx, now))
            if index % _ITEMS_A_TURN == _ITEMS_A_TURN - 1:
                # Reading a thousand names takes a while; others take their turns.
                await asyncio.sleep(0)
        return freshes

    def _fresh(self, new: NewKeyword, ctx: RequestContext, now: float) -> "_Fresh":
        for name in ("parent_id", "ref", "parent_ref"):
            if getattr(new, name) is not None:
                fields.row_id(name, getattr(new, name))
        ids = (uuid4_id(self._ids), ROOT_ID)
        row = decisions.new_keyword_row(new, ids, ctx, self._text, now)
        forms = {alias: self._text.tokens(alias) for alias in row["aliases"]}
        return _Fresh(new, row, self._text.tokens(row["name"]), forms)

    def _check(self, view: KeywordView, ctx: RequestContext, fresh: "_Fresh", parent_id: str) -> None:
        if rendering.seen_node(view, ctx, parent_id) is None:
            raise _NoParent.of("parent_id", f"no keyword with id {parent_id!r}")
        edits.check_aliases_free(view, ctx, self._text, fresh.alias_tokens, fresh.id)

    def _written(self, ctx: RequestContext, operation: Operation) -> Written:
        view = self._store.view(ctx.account)
        reply = operation.reply or {}
        row_id = reply.get("id") or operation.changes[-1].id
        rows = [change.after for change in operation.changes if change.id == row_id]
        shown = rendering.keyword_answer(view, ctx, rows[0] if rows else rendering.keyword_row(view, row_id))
        # An operation without changes holds only what a model was asked.
        operation_id = operation.operation_id if operation.changes else None
        return Written(shown, operation_id, reply.get("degraded", ()), reply.get("decided", {}))


async def commit_with_root(
    store: KeywordStore, ctx: RequestContext, decide: Decide[KeywordView], key: IdempotencyKey | None = None
) -> Outcome:
    """Commit a decision in an account that has a root afterwards: the first one makes it (KT-074, KT-075).

    What is refused makes none, and neither does what changes nothing.
    """
    if store.view(ctx.account).node(ROOT_ID) is None:
        # Another process may have made it, and what this decision needs.
        await store.refresh()
    view = store.view(ctx.account)
    if view.node(ROOT_ID) is None:
        if isinstance(outcome := decide(view), Unchanged):
            return outcome
        await make_root(store, ctx)
    return await store.commit(ctx.account, ctx.actor, decide, key)


def committed(outcome: Outcome) -> Operation:
    """Return what became of a decision that always writes."""
    if isinstance(outcome, Unchanged):
        # Only a store that breaks its contract comes here.
        raise TypeError("a decision that writes was answered with nothing written")
    return outcome.operation


async def make_root(store: KeywordStore, ctx: RequestContext) -> None:
    """Make the root of the caller's account where there is none."""
    if store.view(ctx.account).node(ROOT_ID) is None:
        await store.commit(ctx.account, ctx.actor, _root_once)


@contextmanager
def naming_item(index: int) -> Iterator[None]:
    """Name the item of a batch in what is refused because of it."""
    try:
        yield
    except InvalidInput as problem:
        first = problem.errors[0]
        raise InvalidInput.of(f"items.{index}.{first.field}", first.message) from problem
    except (Conflict, Forbidden) as problem:
        raise type(problem)(f"items.{index}: {problem.detail}", {**problem.extra, "item": index}) from problem


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A keyword that is about to be made: its row, parent and times left open, and the normal forms of its names."""

    new: NewKeyword
    row: dict[str, Any]
    name_tokens: Sequence[str]
    alias_tokens: Mapping[str, Sequence[str]]

    @property
    def id(self) -> str:
        return str(self.row["id"])


@dataclass(slots=True)
class _Told:
    """What a model said on the way to one keyword; `deadline` by the monotonic clock."""

    deadline: float
    calls: list[Row] = field(default_factory=list)
    decided: dict[str, Any] = field(default_factory=dict)
    is_degraded: bool = False
    is_drafted: bool = False

    def left_s(self) -> float:
        """Return the seconds that are left for questions."""
        return max(self.deadline - time.monotonic(), 0.0)

    def note(self, outcome: Placement | DedupDecision) -> None:
        """Take in the calls of an outcome, and whether it is a failure's."""
        self.calls += outcome.calls
        self.is_degraded = self.is_degraded or outcome.failure is not None

    def draft(self, op: str, writes: Sequence[Write], row_id: str) -> Draft:
        """Return a draft that keeps what an answer, and the answer to a retry, says of the model."""
        self.is_drafted = True
        degraded = ["llm"] if self.is_degraded else []
        reply = {"id": row_id, "degraded": degraded, "decided": dict(self.decided)}
        return Draft(op, writes, reply=reply if degraded or self.decided else None, agent_io=self.calls or None)


class _NoParent(InvalidInput):
    """The parent is not there, or not for this caller."""


def _root_once(view: KeywordView) -> Draft | Unchanged:
    if view.node(ROOT_ID) is not None:
        return Unchanged()
    return Draft("create_root", [decisions.write_keyword(tree.root_row(view.now))])


def _parents(items: Sequence[NewKeyword], freshes: Sequence[_Fresh]) -> list[str]:
    """Return the id of each item's parent, whether it is there already or an earlier item."""
    by_ref: dict[str, str] = {}
    parents = []
    for index, (new, fresh) in enumerate(zip(items, freshes, strict=True)):
        with naming_item(index):
            if new.parent_ref is not None and new.parent_id is not None:
                raise InvalidInput.of("parent_ref", "names a parent beside `parent_id`; send one of them")
            if new.parent_ref is not None and new.parent_ref not in by_ref:
                raise InvalidInput.of("parent_ref", f"no earlier item has the ref {new.parent_ref!r}")
            if new.ref is not None and new.ref in by_ref:
                raise InvalidInput.of("ref", f"an earlier item has the ref {new.ref!r} already")
        parents.append(by_ref[new.parent_ref] if new.parent_ref is not None else new.parent_id or ROOT_ID)
        if new.ref is not None:
            by_ref[new.ref] = fresh.id
    return parents


def _check_aliases_within(freshes: Sequence[_Fresh]) -> None:
    """Raise Conflict when an alias of one item is the name of another one."""
    named: dict[str, list[int]] = {}
    for index, fresh in enumerate(freshes):
        for token in fresh.name_tokens:
            named.setdefault(token, []).append(index)
    for index, fresh in enumerate(freshes):
        for alias, tokens in fresh.alias_tokens.items():
            for other in (other for token in tokens for other in named.get(token, ()) if other != index):
                detail = f"items.{index}.aliases: {alias!r} is the name of items.{other}; choose another alias"
                raise Conflict(detail, {"item": index, "alias": alias})
