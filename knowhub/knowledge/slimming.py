"""Slimming (瘦身): records that say the same become one, without loss, undone as one (KM-081, KM-082)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from knowhub.core import permissions
from knowhub.core.chat import ChatModel
from knowhub.core.errors import Conflict
from knowhub.core.ids import Ids
from knowhub.core.operation import Committed, IdempotencyKey, Operation, Outcome, Row
from knowhub.core.pace import Pace
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeStore
from knowhub.knowledge.slim_asking import Asker
from knowhub.knowledge.slim_plan import Merge, Survey
from knowhub.knowledge.slim_writing import Moved, Plan, Tally, bounded, decides, parted

_ROUNDS = 3

ChatFor: TypeAlias = Callable[[str | None], AbstractAsyncContextManager[ChatModel | None]]
"""Opens the model of a name, None for the one of the settings; there may be none."""
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Slimmed:
    """What was merged into what, or would be. `slim_id` names the operations, which are undone together."""

    report: Mapping[str, Any]
    slim_id: str | None = None
    operation_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SlimMeans:
    """What slimming needs beside records. `budget_s` is for one question to the model.

    `note(ctx, calls)` keeps what a model was asked where no merge came of it; it must not fail.
    """

    ids: Ids
    chat_for: ChatFor
    budget_s: float
    note: Callable[[RequestContext, Sequence[Row]], None] = lambda _ctx, _calls: None


class Slimming:
    """Merges copies and near copies by rule, and what says the same in other words where a model finds it so."""

    def __init__(self, store: KnowledgeStore, index: KnowledgeIndex, means: SlimMeans) -> None:
        self._store = store
        self._index = index
        self._means = means
        # Each needs memory for every record of its account: those of one account wait for each other. One that nobody
        # holds or waits for is forgotten.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def slim(
        self,
        ctx: RequestContext,
        model: str | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = lambda _done, _total: None,
        key: IdempotencyKey | None = None,
    ) -> Slimmed:
        """Merge what the caller owns and sees; with `dry_run` only tell what would be merged (KM-081).

        Nothing is written before all is decided: until then it can be cancelled, and nothing was done. What was changed
        meanwhile is left out and named. A model that fails leaves those records apart that it was asked about. Raises
        Forbidden for a reader, of a preview too: it costs questions to the model.
        """
        permissions.check_may_write(ctx)
        async with self._turns.setdefault(ctx.account, asyncio.Lock()):
            # In its turn: what has waited for the request that it repeats gets the answer to that one.
            done = await self._store.replayed(ctx.account, key)
            if done is not None:
                return await self._answer(ctx, done.operation)
            await self._store.refresh()
            survey = Survey(self._store.view(ctx.account), ctx)
            await survey.read(progress)
            merges = await survey.merges()
            asker = await self._asked(survey, model, progress)
            plan = _plan(survey, merges, asker)
            is_written = bool(plan.merges) and not dry_run
            slimmed = await (self._write(ctx, plan, key) if is_written else self._preview(ctx, plan, dry_run=dry_run))
            # What led to a merge stands with it; that a model kept records apart is a decision, too.
            told = {id(call) for merge in plan.merges for call in merge.calls} if is_written else set()
            self._means.note(ctx, [call for call in (asker.calls if asker else ()) if id(call) not in told])
            return slimmed

    async def _asked(self, survey: Survey, model: str | None, progress: Progress) -> Asker | None:
        async with self._means.chat_for(model) as chat:
            if chat is None:
                return None
            asker = Asker(chat, self._means.budget_s)
            count = 0
            async for family in survey.families(self._index):
                count += 1
                progress(count, len(survey))
                if family:
                    await asker.ask([(ref, survey.row(ref)) for ref in family])
                if asker.is_done:
                    break
            return asker

    async def _preview(self, ctx: RequestContext, plan: Plan, *, dry_run: bool) -> Slimmed:
        view, tally, pace = self._store.view(ctx.account), Tally(plan), Pace()
        for merge in plan.merges:
            tally.take(view, merge)
            await pace.pause()
        return Slimmed(tally.report(dry_run=dry_run))

    async def _write(self, ctx: RequestContext, plan: Plan, key: IdempotencyKey | None) -> Slimmed:
        slim_id = f"slim-{self._means.ids.hex(32)}"
        tally = Tally(plan)
        for _ in range(_ROUNDS):
            apart = {id(merge) for merge, _ in tally.left_out}
            wanted = [merge for merge in plan.merges if id(merge) not in apart]
            tally = Tally(plan, tally.left_out)
            if not wanted:
                return Slimmed(tally.report(dry_run=False))
            commit = self._store.commit_group(ctx.account, ctx.actor, decides(slim_id, parted(wanted), tally), key)
            try:
                outcomes = await _to_its_end(commit)
            except Moved:
                continue
            return _slimmed([outcome.operation for outcome in outcomes if isinstance(outcome, Committed)])
        raise Conflict("the records change faster than they can be merged; nothing was written, try again")

    async def _answer(self, ctx: RequestContext, operation: Operation) -> Slimmed:
        if operation.group is None:
            raise TypeError("a slimming was answered with an operation of no group")
        return _slimmed(await self._store.group(ctx.account, operation.group.id))


def _slimmed(operations: Sequence[Operation]) -> Slimmed:
    """Return the answer that the operations of a slimming hold: the last one bears the report."""
    last = operations[-1]
    slim_id = None if last.group is None else last.group.id
    return Slimmed(last.reply or {}, slim_id, [one.operation_id for one in operations])


def _plan(survey: Survey, merges: Sequence[Merge], asker: Asker | None) -> Plan:
    found = [*merges, *(asker.merges if asker is not None else ())]
    chosen = bounded(found)
    return Plan(
        chosen,
        survey.records,
        survey.characters,
        asker.skipped if asker is not None else (),
        ["llm"] if asker is not None and asker.has_failed else (),
        asker.families if asker is not None else 0,
        has_more=len(chosen) < len(found) or (asker is not None and asker.is_done),
    )


async def _to_its_end(commit: Awaitable[Sequence[Outcome]]) -> Sequence[Outcome]:
    """Wait for what is being written even where it is cancelled: it cannot be called back, and is told as done."""
    writing = asyncio.ensure_future(commit)
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        if writing.cancelled():
            raise
        return await writing
