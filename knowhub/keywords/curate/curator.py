"""The verbs on the whole tree: reorganize, apply a plan, metrics."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from knowhub.core import clock, permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import Draft, IdempotencyKey, Row, Store, Unchanged, View
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate import plan, rules
from knowhub.keywords.curate.apply import apply_steps
from knowhub.keywords.curate.metrics import TreeMetrics
from knowhub.keywords.curate.plan import (
    CurationPlan,
    DescribeStep,
    MergeStep,
    MoveStep,
    NodeRef,
    SplitStep,
    Step,
    parse_steps,
    render_plan,
)
from knowhub.keywords.curate.proposals import propose, review
from knowhub.keywords.curate.rules import TreeSurvey
from knowhub.keywords.curate.selection import select_compatible
from knowhub.keywords.model import ROOT_ID, Node, TreeOptions
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import find_by_token

OP = "reorganize_keywords"
SHOWN_A_CALL = 200
MAX_CALLS = 10
_RULES_FIRST = plan.MAX_STEPS * 3 // 4

ItemT = TypeVar("ItemT")


class Curator:
    """Makes plans, applies them, and measures the tree; without a model the plan follows rules alone.

    A large tree is read in slices, so that other requests can run.
    """

    def __init__(
        self,
        store: Store,
        text: KeywordText,
        ids: Ids,
        agent: KeywordAgent,
        options: TreeOptions,
    ) -> None:
        self._store = store
        self._text = text
        self._ids = ids
        self._agent = agent
        self._options = options

    async def metrics(self, ctx: RequestContext) -> dict[str, Any]:
        """Return figures of the tree as the caller sees it."""
        await self._store.refresh(ctx.account)
        metrics = TreeMetrics(self._store.view(ctx.account), ctx)
        await _gather(metrics.count())
        return metrics.get_result()

    async def reorganize(
        self, ctx: RequestContext, scope_id: str | None = None, budget_s: float | None = None
    ) -> dict[str, Any]:
        """Return a plan for the descendants of `scope_id`, the root by default; nothing is changed.

        `budget_s` is for all calls of the model together, `write_budget_s` by default. If the model fails, the plan
        has the steps of the rules, and `degraded` is `["llm"]`. Raises InvalidInput for an unknown scope, and
        Forbidden for a reader, as a plan costs calls of the model.
        """
        permissions.check_can_write(ctx)
        await self._store.refresh(ctx.account)
        top_id = scope_id or ROOT_ID
        survey = await self._read_tree(ctx, top_id)
        by_rule = await self._list_rule_steps(survey)
        budget_s = self._options.write_budget_s if budget_s is None else budget_s
        calls: list[Row] = []
        try:
            asked = _ModelProposals()
            if self._agent.available and survey.nodes:
                deadline = time.monotonic() + budget_s
                by_rule, is_reviewed = await self._review(survey, by_rule, budget_s, calls)
                asked = await self._query_model(survey, deadline, calls)
                asked.degraded |= not is_reviewed
        finally:
            # Also if the request is cancelled.
            self._agent.note(ctx, calls)
        # The tree may have changed meanwhile: select the steps on the current tree.
        view = self._store.view(ctx.account)
        now = TreeSurvey(VisibleTree(view, ctx), ctx, self._text, self._get_top(view, ctx, top_id), survey.nodes)
        wanted = [*by_rule[:_RULES_FIRST], *asked.steps, *by_rule[_RULES_FIRST:]]
        steps = select_compatible(now, wanted, (plan.MAX_STEPS, plan.MAX_CHILDREN))
        return render_plan(
            _make_plan(now, steps, asked, len({*map(_name_step, wanted)}.difference(map(_name_step, steps))))
        )

    async def apply(
        self, ctx: RequestContext, planned: Mapping[str, Any], key: IdempotencyKey | None = None
    ) -> SavedRow:
        """Apply a plan in one operation, all or nothing. The row says what was done.

        Raises InvalidInput for an invalid plan, and the errors of `apply_steps`.
        """
        permissions.check_can_write(ctx)
        steps = parse_steps(planned)

        def decide(view: View) -> Draft | Unchanged:
            done = apply_steps(view, ctx, steps, self._text, self._ids)
            return Draft(OP, done.writes, reply=done.reply) if done.writes else Unchanged(done.reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return SavedRow(outcome.answer, None)
        return SavedRow(outcome.operation.reply or {}, outcome.operation.operation_id)

    async def _read_tree(self, ctx: RequestContext, top_id: str) -> TreeSurvey:
        view = self._store.view(ctx.account)
        visible_tree = VisibleTree(view, ctx)
        nodes = await _gather(rules.iter_descendants(visible_tree, top_id))
        return TreeSurvey(visible_tree, ctx, self._text, self._get_top(view, ctx, top_id), nodes)

    def _get_top(self, view: View, ctx: RequestContext, top_id: str) -> Node:
        top = VisibleTree(view, ctx).get_node(top_id)
        if top is None:
            raise InvalidInput.of("scope_id", f"no keyword with id {top_id!r}")
        return top

    async def _list_rule_steps(self, survey: TreeSurvey) -> list[Step]:
        unplaced = self._list_default_parents(survey)
        (bearers,) = await _gather(survey.index_names())
        merges: list[Step] = await _gather(rules.find_merges(survey, unplaced, bearers))
        moves: list[Step] = await _gather(rules.find_moves(survey, unplaced, bearers))
        splits: list[Step] = await _gather(rules.find_splits(survey))
        return merges + moves + splits

    def _list_default_parents(self, survey: TreeSurvey) -> list[str]:
        """Return the keywords whose children have not been placed yet."""
        name = self._options.uncategorized_name
        named = [
            node for token in self._text.tokens(name or "") for node in find_by_token(survey.visible_tree.view, token)
        ]
        return [ROOT_ID, *(node.id for node in named if node.parent_id == ROOT_ID)]

    async def _review(
        self, survey: TreeSurvey, steps: list[Step], budget_s: float, calls: list[Row]
    ) -> tuple[list[Step], bool]:
        """Return the steps that the model does not refuse, and whether it answered."""
        judged = [step for step in steps if isinstance(step, MergeStep | MoveStep)][: plan.MAX_STEPS]
        if not judged:
            return steps, True
        view = self._store.view(survey.ctx.account)
        reviewed = await review(self._agent, survey.ctx, view, judged, budget_s)
        calls += reviewed.calls
        refused = {id(judged[place]) for place in reviewed.refused}
        return [step for step in steps if id(step) not in refused], reviewed.failure is None

    async def _query_model(self, survey: TreeSurvey, deadline: float, calls: list[Row]) -> "_ModelProposals":
        # `calls` is filled also if this is cancelled.
        asked = _ModelProposals()
        # The top is shown each time: its children are moved or grouped.
        size = SHOWN_A_CALL - 1
        for begin in range(0, min(len(survey.nodes), MAX_CALLS * size), size):
            shown = survey.nodes[begin : begin + size]
            left = deadline - time.monotonic()
            if left <= 0:
                asked.degraded = True
                break
            view = self._store.view(survey.ctx.account)
            proposals = await propose(self._agent, survey.ctx, view, [survey.top, *shown], left)
            calls += proposals.calls
            if proposals.failure is not None:
                asked.degraded = True
                break
            asked.steps += proposals.steps
            asked.shown += len(shown)
            asked.unclear += proposals.unclear
        return asked


@dataclass(slots=True)
class _ModelProposals:
    """The steps of a model, how many keywords it was shown, what it proposed in vain, and whether it failed."""

    steps: list[Step] = field(default_factory=list)
    shown: int = 0
    unclear: int = 0
    degraded: bool = False


def _name_step(step: Step) -> tuple[str, ...]:
    # Two rules may propose the same, with reasons of their own.
    named = 2 if isinstance(step, MoveStep | MergeStep) else 1
    return type(step).__name__, *(ref.id for ref in plan.list_refs(step)[:named])


def _make_plan(survey: TreeSurvey, steps: Sequence[Step], asked: _ModelProposals, unused: int) -> CurationPlan:
    planned = {step.node.id for step in steps if isinstance(step, DescribeStep)}
    missing = [node for node in survey.nodes if not node.is_described and node.id not in planned]
    listed = [
        NodeRef(
            node.id, node.version, node.name, " / ".join(above.name for above in survey.visible_tree.list_path(node.id))
        )
        for node in missing[: plan.MAX_UNDESCRIBED]
        if survey.visible_tree.get_node(node.id) is not None
    ]
    return CurationPlan(
        scope_id=survey.top.id,
        scope_name=survey.top.name,
        created_at=clock.iso(survey.visible_tree.view.now),
        steps=steps,
        undescribed=listed,
        undescribed_count=len(missing),
        degraded=["llm"] if asked.degraded else [],
        dropped=asked.unclear + unused,
        summary=_make_summary(len(survey.nodes), steps, asked.shown),
    )


def _make_summary(keywords: int, steps: Sequence[Step], shown: int) -> str:
    counts = Counter(type(step) for step in steps)
    kinds = ((MergeStep, "merges"), (MoveStep, "moves"), (SplitStep, "splits"), (DescribeStep, "descriptions"))
    parts = ", ".join(f"{counts[kind]} {word}" for kind, word in kinds if counts[kind])
    seen = f"; the model was shown {shown} of them" if shown else ""
    return f"{len(steps)} steps{f': {parts}' if parts else ''}; {keywords} keywords were gone through{seen}"


async def _gather(items: Iterable[ItemT | None]) -> list[ItemT]:
    """Collect the items of an iterator that yields None where it may pause."""
    found: list[ItemT] = []
    pause = CooperativePause()
    for item in items:
        if item is not None:
            found.append(item)
        await pause.pause()
    return found
