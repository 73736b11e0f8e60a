"""The verbs that look after the whole tree: reorganize, apply, metrics (KT-185, KT-186, KT-245, KT-246)."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from knowhub.core import clock, permissions
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import Draft, IdempotencyKey, Row, Unchanged
from knowhub.core.request_context import RequestContext
from knowhub.keywords import curation, plan
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.applied_plan import applied
from knowhub.keywords.audit import DecisionLog
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.curation import Survey
from knowhub.keywords.model import ROOT_ID, Node, Options, Written
from knowhub.keywords.plan import (
    DescribeStep,
    MergeStep,
    MoveStep,
    NodeRef,
    Plan,
    SplitGroup,
    SplitStep,
    Step,
    Undescribed,
    parsed_steps,
    plan_json,
)
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView
from knowhub.keywords.proposals import Proposals
from knowhub.keywords.tree_metrics import TreeMetrics

OP = "reorganize_keywords"
SHOWN_A_CALL = 200
MAX_CALLS = 10
_SLICE = 500
_SLICE_S = 0.005
_RULES_FIRST = plan.MAX_STEPS * 3 // 4
_BY_MODEL = "proposed by the model"

ItemT = TypeVar("ItemT")


class Curator:
    """Plans, carries out plans, and measures; with an agent that has no model, by rules alone.

    A large tree is gone through in slices, between which others are served.
    """

    def __init__(
        self,
        store: KeywordStore,
        text: KeywordText,
        ids: Ids,
        agent: KeywordAgent,
        options: Options,
        decision_log: DecisionLog | None = None,
    ) -> None:
        self._store = store
        self._text = text
        self._ids = ids
        self._agent = agent
        self._options = options
        self._decision_log = decision_log

    async def metrics(self, ctx: RequestContext) -> dict[str, Any]:
        """Return the health of the tree as the caller sees it (KT-246)."""
        await self._store.refresh()
        metrics = TreeMetrics(self._store.view(ctx.account), ctx)
        turn = _Turn()
        for work in metrics.counting():
            if turn.is_over(work):
                await asyncio.sleep(0)
        return metrics.result()

    async def reorganize(
        self, ctx: RequestContext, scope_id: str | None = None, budget_s: float | None = None
    ) -> dict[str, Any]:
        """Return a plan for what is below `scope_id`, the whole tree by default; nothing is changed (KT-245).

        `budget_s` is for all calls of the model together, `write_budget_s` by default. When it fails, the part of
        the plan that needs none stands, and `degraded` is `["llm"]`. Raises InvalidInput for an unknown scope,
        and Forbidden for a reader: a plan costs questions to the model.
        """
        permissions.check_may_write(ctx)
        await self._store.refresh()
        top_id = scope_id or ROOT_ID
        survey = await self._survey(ctx, top_id)
        by_rule = await self._by_rule(survey)
        budget_s = self._options.write_budget_s if budget_s is None else budget_s
        calls: list[Row] = []
        try:
            asked = await self._ask(survey, budget_s, calls) if self._agent.available and survey.nodes else _Asked()
        finally:
            # Also where the plan is broken off.
            if self._decision_log is not None:
                self._decision_log.note(ctx, calls)
        # The tree may have moved in the meantime: what is planned is checked on the tree of now, at once.
        view = self._store.view(ctx.account)
        now = Survey(Eyes(view, ctx), ctx, self._text, self._top(view, ctx, top_id), survey.nodes)
        wanted = [*by_rule[:_RULES_FIRST], *asked.steps, *by_rule[_RULES_FIRST:]]
        steps = curation.fitting(now, wanted, (plan.MAX_STEPS, plan.MAX_CHILDREN))
        return plan_json(_plan(now, steps, asked))

    async def apply(
        self, ctx: RequestContext, planned: Mapping[str, Any], key: IdempotencyKey | None = None
    ) -> Written:
        """Carry out a plan in one operation, all of it or nothing (KT-185). The row tells what was done.

        Raises InvalidInput for what is no plan, and Conflict, Forbidden as `applied` does: Conflict with `stale`
        when somebody changed a keyword after the plan was made.
        """
        permissions.check_may_write(ctx)
        steps = parsed_steps(planned)

        def decide(view: KeywordView) -> Draft | Unchanged:
            done = applied(view, ctx, steps, self._text, self._ids)
            return Draft(OP, done.writes, reply=done.reply) if done.writes else Unchanged(done.reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return Written(outcome.answer, None)
        return Written(outcome.operation.reply or {}, outcome.operation.operation_id)

    async def _survey(self, ctx: RequestContext, top_id: str) -> Survey:
        view = self._store.view(ctx.account)
        eyes = Eyes(view, ctx)
        nodes = await _gathered(curation.below(eyes, top_id))
        return Survey(eyes, ctx, self._text, self._top(view, ctx, top_id), nodes)

    def _top(self, view: KeywordView, ctx: RequestContext, top_id: str) -> Node:
        top = Eyes(view, ctx).node(top_id)
        if top is None:
            raise InvalidInput.of("scope_id", f"no keyword with id {top_id!r}")
        return top

    async def _by_rule(self, survey: Survey) -> list[Step]:
        unplaced = self._unplaced(survey)
        merges: list[Step] = await _gathered(curation.duplicates(survey))
        moves: list[Step] = await _gathered(curation.misplaced(survey, unplaced))
        splits: list[Step] = await _gathered(curation.wide(survey))
        return merges + moves + splits

    def _unplaced(self, survey: Survey) -> list[str]:
        """Return under which keywords there lies what has no place yet (C-30)."""
        name = self._options.uncategorized_name
        named = [node for token in self._text.tokens(name or "") for node in survey.eyes.view.by_token(token)]
        return [ROOT_ID, *(node.id for node in named if node.parent_id == ROOT_ID)]

    async def _ask(self, survey: Survey, budget_s: float, calls: list[Row]) -> "_Asked":
        # `calls` gets what the model was asked, also where this is broken off.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + budget_s
        asked = _Asked()
        # The top is shown each time: it is what lies directly under it that is moved up or sorted into groups.
        size = SHOWN_A_CALL - 1
        for begin in range(0, min(len(survey.nodes), MAX_CALLS * size), size):
            shown = survey.nodes[begin : begin + size]
            left = deadline - loop.time()
            if left <= 0:
                return asked.failed()
            view = self._store.view(survey.ctx.account)
            proposals = await self._agent.propose(survey.ctx, view, [survey.top, *shown], left)
            calls += proposals.calls
            asked = asked.with_answer(proposals, len(shown))
            if proposals.failure is not None:
                return asked.failed()
        return asked


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a model proposed, how many keywords it was shown, and whether it failed on the way."""

    steps: Sequence[Step] = ()
    shown: int = 0
    degraded: bool = False

    def with_answer(self, proposals: Proposals, shown: int) -> "_Asked":
        seen = shown if proposals.failure is None else 0
        return _Asked([*self.steps, *_proposed(proposals)], self.shown + seen, self.degraded)

    def failed(self) -> "_Asked":
        return _Asked(self.steps, self.shown, degraded=True)


def _proposed(proposals: Proposals) -> Iterator[Step]:
    reason = proposals.reason or _BY_MODEL
    for source_id, into_id in proposals.merges:
        yield MergeStep(_ref(source_id), _ref(into_id), reason)
    for keyword_id, parent_id in proposals.moves:
        yield MoveStep(_ref(keyword_id), _ref(parent_id), reason)
    for keyword_id, groups in proposals.splits:
        split = [SplitGroup(name, [_ref(child_id) for child_id in children]) for name, children in groups]
        yield SplitStep(_ref(keyword_id), split, reason)
    for keyword_id, description in proposals.descriptions:
        yield DescribeStep(_ref(keyword_id), description, _BY_MODEL)


def _ref(keyword_id: str) -> NodeRef:
    # Its version is that of the moment when the plan is put together.
    return NodeRef(keyword_id, 0)


def _plan(survey: Survey, steps: Sequence[Step], asked: _Asked) -> Plan:
    planned = {step.node.id for step in steps if isinstance(step, DescribeStep)}
    missing = [node for node in curation.undescribed(survey) if node.id not in planned]
    listed = [
        Undescribed(node.id, node.name, " / ".join(above.name for above in survey.eyes.path(node.id)))
        for node in missing[: plan.MAX_UNDESCRIBED]
        if survey.eyes.node(node.id) is not None
    ]
    return Plan(
        scope_id=survey.top.id,
        scope_name=survey.top.name,
        created_at=clock.iso(survey.eyes.view.now),
        steps=steps,
        undescribed=listed,
        undescribed_count=len(missing),
        degraded=["llm"] if asked.degraded else [],
        summary=_summary(len(survey.nodes), steps, asked.shown),
    )


def _summary(keywords: int, steps: Sequence[Step], shown: int) -> str:
    counts = Counter(type(step) for step in steps)
    kinds = ((MergeStep, "merges"), (MoveStep, "moves"), (SplitStep, "splits"), (DescribeStep, "descriptions"))
    parts = ", ".join(f"{counts[kind]} {word}" for kind, word in kinds if counts[kind])
    seen = f"; the model was shown {shown} of them" if shown else ""
    return f"{len(steps)} steps{f': {parts}' if parts else ''}; {keywords} keywords were gone through{seen}"


async def _gathered(items: Iterable[ItemT | None]) -> list[ItemT]:
    """Go through work that yields None where it may pause, and return what it found."""
    found: list[ItemT] = []
    turn = _Turn()
    for item in items:
        if item is not None:
            found.append(item)
        if turn.is_over(1):
            await asyncio.sleep(0)
    return found


class _Turn:
    """Says when it is time for others: after _SLICE pieces of work, or sooner where they take long."""

    def __init__(self) -> None:
        self._begin()

    def is_over(self, work: int) -> bool:
        self._work += work
        if self._work < _SLICE and time.monotonic() < self._end:
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        self._work = 0
        self._end = time.monotonic() + _SLICE_S
