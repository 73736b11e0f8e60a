"""Slimming (瘦身): records that say the same are merged without loss, in one group of operations that can be undone."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from knowhub.core import permissions
from knowhub.core.background_writes import NoteCalls, discard_calls
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.language_models import ChatModel
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    Group,
    HistoryStore,
    IdempotencyKey,
    Operation,
    Outcome,
    Row,
    Unchanged,
    View,
    next_version,
)
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import record_rules
from knowhub.knowledge.evolve.merge_advisor import MergeAdvisor, make_skipped
from knowhub.knowledge.evolve.merging import merge_rows
from knowhub.knowledge.evolve.slim_plan import (
    Merge,
    MergeCandidates,
    MergeReason,
    RecordRef,
    can_merge,
    find_unchanged,
    split_into_parts,
)
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.ports import FindSimilar, KnowledgeIndex

OP = "slim_knowledge"
MAX_REPORTED = 500
# One slimming holds these in memory; committing them takes 30 ms.
MAX_SOURCES = 2_500
_ROWS_PER_OPERATION = 100
_CHANGED = "one of these was changed meanwhile"

ChatFor: TypeAlias = Callable[[str | None], AbstractAsyncContextManager[ChatModel | None]]
"""Opens the model with a name, or the configured model for None; it may be None."""
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SlimResult:
    """The report on the merges. `slim_id` names the operations, which are undone together."""

    report: Mapping[str, Any]
    slim_id: str | None = None
    operation_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SlimOptions:
    """What slimming needs beside the records. `budget_s` is for one question to the model.

    `record_calls(ctx, calls)` records the calls that led to no merge; it must not raise. `find_similar`
    finds records by meaning; None without an embedder.
    """

    ids: Ids
    chat_for: ChatFor
    budget_s: float
    record_calls: NoteCalls = discard_calls
    find_similar: FindSimilar | None = None


@dataclass(slots=True)
class MergeReport:
    """What was read and found, and the merges that are written, with the rows that result.

    Each decision works on a copy. With `has_more` another slimming would find more.
    """

    records: int
    characters: int
    skipped: list[dict[str, Any]]
    degraded: Sequence[str]
    families_asked: int
    has_more: bool
    merged: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[MergeReason] = field(default_factory=Counter)
    survivors: dict[str, Row] = field(default_factory=dict)
    removed_characters: int = 0

    def copy(self) -> "MergeReport":
        """Return an independent copy."""
        return replace(
            self,
            skipped=list(self.skipped),
            merged=list(self.merged),
            counts=Counter(self.counts),
            survivors=dict(self.survivors),
        )

    def apply(self, view: View, merge: Merge) -> list[Row]:
        """Return the rows that a merge writes; none if it cannot be written."""
        if not all(self._is_current(view, ref) for ref in (merge.into, *merge.sources)):
            self.skipped.append(make_skipped(merge.ids, _CHANGED))
            return []
        into = self.survivors.get(merge.into.id) or view.get(KNOWLEDGE, merge.into.id) or {}
        sources = [view.get(KNOWLEDGE, source.id) or {} for source in merge.sources]
        try:
            rows = merge_rows(into, sources, merge.text, view.now)
        except InvalidInput as problem:
            self.skipped.append(make_skipped(merge.ids, f"the merged record is not valid: {problem}"))
            return []
        self._add(merge, into, rows)
        return rows

    def as_answer(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Return the first 500 merges and the first 500 skipped groups, with the counts of all."""
        return {
            "dry_run": dry_run,
            "records_before": self.records,
            "records_after": self.records - self.counts.total(),
            "characters_before": self.characters,
            "characters_after": self.characters - self.removed_characters,
            "merged": self.merged[:MAX_REPORTED],
            "merged_count": len(self.merged),
            "sources_by": {reason.value: self.counts[reason] for reason in MergeReason},
            "skipped": self.skipped[:MAX_REPORTED],
            "skipped_count": len(self.skipped),
            "families_asked": self.families_asked,
            "has_more": self.has_more,
            "degraded": list(self.degraded),
        }

    def _is_current(self, view: View, ref: RecordRef) -> bool:
        if ref.id in self.survivors:
            # Nothing is written between two decisions of one group.
            return True
        summary = find_unchanged(view, ref.id, ref.version)
        return summary is not None and can_merge(view, summary)

    def _add(self, merge: Merge, into: Row, rows: Sequence[Row]) -> None:
        survivor, *sources = rows
        self.survivors[merge.into.id] = survivor
        self.counts[merge.reason] += len(sources)
        self.removed_characters += _count_characters(into, *sources) - _count_characters(survivor)
        entry: dict[str, Any] = {"into": merge.into.id, "sources": merge.ids[1:], "how": merge.reason.value}
        if merge.similarity is not None:
            entry["similarity"] = merge.similarity
        if (survivor["task"], survivor["content"]) != (into["task"], into["content"]):
            entry |= {"task": survivor["task"], "content": survivor["content"]}
        self.merged.append(entry)


class Slimming:
    """Merges copies and near copies by rule, and records that say the same in other words if a model finds them."""

    def __init__(self, store: HistoryStore, index: KnowledgeIndex, options: SlimOptions) -> None:
        self._store = store
        self._index = index
        self._options = options
        # A slimming reads every record of its account, so only one runs per account. Unused locks are collected.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def slim(
        self,
        ctx: RequestContext,
        model: str | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = lambda _done, _total: None,
        key: IdempotencyKey | None = None,
    ) -> SlimResult:
        """Merge the records that the caller owns and sees; with `dry_run` only report what would be merged.

        Nothing is written before the whole plan is made; until then it can be cancelled. Records that change meanwhile
        are skipped and reported, as are groups for which the model fails. Raises Forbidden for a caller who may only
        read, even with `dry_run`, because questions to a model cost money.
        """
        permissions.check_can_write(ctx)
        async with self._locks.setdefault(ctx.account, asyncio.Lock()):
            # Inside the lock: a retry that waited for its first request gets the answer of that request.
            done = await self._store.find_replay(ctx.account, key)
            if done is not None:
                if done.operation.group is None:
                    raise TypeError("the operation of a slimming has no group")
                return _read_result(await self._store.group(ctx.account, done.operation.group.id))
            await self._store.refresh(ctx.account)
            candidates = MergeCandidates(self._store.view(ctx.account), ctx)
            await candidates.read(progress)
            copies = await candidates.find_copies()
            async with self._options.chat_for(model) as chat:
                advisor = MergeAdvisor(chat, self._options.budget_s)
                await self._ask_groups(advisor, candidates, progress)
            found = [*copies, *advisor.merges]
            sources = accumulate(len(merge.sources) for merge in found)
            merges = [merge for merge, total in zip(found, sources, strict=True) if total <= MAX_SOURCES]
            report = MergeReport(
                candidates.records,
                candidates.characters,
                advisor.skipped,
                ["llm"] if advisor.has_failed else (),
                advisor.groups,
                has_more=len(merges) < len(found) or advisor.is_done,
            )
            is_written = bool(merges) and not dry_run
            if is_written:
                result = await self._write(ctx, merges, report, key)
            else:
                view, pace = self._store.view(ctx.account), CooperativePause()
                for merge in merges:
                    report.apply(view, merge)
                    await pace.pause()
                result = SlimResult(report.as_answer(dry_run=dry_run))
            # The calls of a written merge are in its operation.
            logged = {id(call) for merge in merges for call in merge.calls} if is_written else set()
            self._options.record_calls(ctx, [call for call in advisor.calls if id(call) not in logged])
            return result

    async def _ask_groups(self, advisor: MergeAdvisor, candidates: MergeCandidates, progress: Progress) -> None:
        if advisor.chat is None:
            advisor.skipped += [make_skipped(ids, reason) for ids, reason in candidates.left_to_model]
            return
        count = 0
        async for group in candidates.find_groups(self._index, self._options.find_similar):
            count += 1
            progress(count, len(candidates))
            if group:
                await advisor.ask(advisor.chat, [(ref, candidates.get_row(ref)) for ref in group])
            if advisor.is_done:
                break

    async def _write(
        self, ctx: RequestContext, merges: Sequence[Merge], start: MergeReport, key: IdempotencyKey | None
    ) -> SlimResult:
        # One operation is decided at once, without a pause for other requests.
        batches = split_into_parts(merges, _ROWS_PER_OPERATION, lambda merge: (len(merge.ids), merge.characters))
        slim_id = f"slim-{self._options.ids.hex(32)}"
        decides = [_decide_batch(part, Group(slim_id, i, len(batches)), start) for i, part in enumerate(batches)]
        outcomes = await _finish(self._store.commit_group(ctx.account, ctx.actor, decides, key))
        operations = [outcome.operation for outcome in outcomes if isinstance(outcome, Committed)]
        if operations:
            return _read_result(operations)
        # Every record was changed meanwhile.
        return SlimResult([outcome.answer for outcome in outcomes if isinstance(outcome, Unchanged)][-1].as_answer())


def _decide_batch(batch: Sequence[Merge], group: Group, start: MergeReport) -> Decide[View]:
    """Return the decision on one operation. The last operation carries the report."""
    is_last = group.index == group.of - 1

    def decide(view: View) -> Draft | Unchanged:
        rows: dict[str, Row] = {}
        calls: list[Row] = []
        report = (view.earlier_notes[-1] if view.earlier_notes else start).copy()
        for merge in batch:
            written = report.apply(view, merge)
            rows |= {row["id"]: row for row in written}
            calls += merge.calls if written else ()
        # The last operation carries the report, so it is written even without rows.
        if not rows and not (is_last and report.merged):
            return Unchanged(report)
        # Several merges into one record are one change of its row, so its version rises once.
        versions = {row_id: next_version(view.get(KNOWLEDGE, row_id)) for row_id in rows}
        writes = [record_rules.write({**row, "version": versions[row_id]}) for row_id, row in rows.items()]
        reply = report.as_answer() if is_last else None
        return Draft(OP, writes, reply, group=group, agent_io=calls or None, note=report)

    return decide


async def _finish(commit: Awaitable[Sequence[Outcome]]) -> Sequence[Outcome]:
    """Wait for the write even if the task is cancelled: a started write is reported as done."""
    writing = asyncio.ensure_future(commit)
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        if writing.cancelled():
            raise
        return await writing


def _read_result(operations: Sequence[Operation]) -> SlimResult:
    last = operations[-1]
    slim_id = None if last.group is None else last.group.id
    return SlimResult(last.reply or {}, slim_id, [operation.operation_id for operation in operations])


def _count_characters(*rows: Row) -> int:
    return sum(len(row["task"]) + len(row["content"]) for row in rows)
