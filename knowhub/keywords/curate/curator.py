"""The verbs on the whole tree: reorganize, apply a plan, metrics."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from knowhub.core import clock, permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import Draft, IdempotencyKey, Row, Store, Unchanged, View
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering
from knowhub.keywords.curate import plan, rules
from knowhub.keywords.curate.apply import apply_steps
from knowhub.keywords.curate.metrics import measure_tree
from knowhub.keywords.curate.plan import SplitGroup, Step, StepKind, parse_steps, render_step
from knowhub.keywords.curate.proposals import propose, review
from knowhub.keywords.curate.rules import TreeSurvey, can_merge, make_ref
from knowhub.keywords.model import ROOT_ID, Node, TreeOptions
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import find_keyword

OP = "reorganize_keywords"
NODES_PER_CALL = 200
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
        (figures,) = await _gather(measure_tree(self._store.view(ctx.account), ctx))
        return figures

    async def reorganize(self, ctx: RequestContext, scope_id: str | None = None) -> dict[str, Any]:
        """Return a plan for the descendants of `scope_id`, the root by default; nothing is changed.

        All calls of the model together have `write_budget_s`. If the model fails, the plan has the steps of the rules,
        and `degraded` is `["llm"]`. Raises InvalidInput for an unknown scope, and Forbidden for a reader, as a plan
        costs calls of the model.
        """
        permissions.check_can_write(ctx)
        await self._store.refresh(ctx.account)
        top_id = scope_id or ROOT_ID
        visible_tree = VisibleTree(self._store.view(ctx.account), ctx)
        survey = self._make_survey(ctx, top_id, await _gather(rules.iter_descendants(visible_tree, top_id)))
        by_rule = await self._list_rule_steps(survey)
        budget_s = self._options.write_budget_s
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
            self._agent.record_calls(ctx, calls)
        # The tree may have changed meanwhile: select the steps on the current tree.
        now = self._make_survey(ctx, top_id, survey.nodes)
        wanted = [*by_rule[:_RULES_FIRST], *asked.steps, *by_rule[_RULES_FIRST:]]
        return _make_plan(now, wanted, select_compatible(now, wanted), asked)

    async def apply(
        self, ctx: RequestContext, planned: Mapping[str, Any], key: IdempotencyKey | None = None
    ) -> SavedRow:
        """Apply a plan in one operation, all or nothing. The row says what was done.

        Raises InvalidInput for an invalid plan, and the errors of `apply_steps`.
        """
        permissions.check_can_write(ctx)
        steps = parse_steps(planned)

        def decide(view: View) -> Draft | Unchanged:
            writes, reply = apply_steps(view, ctx, steps, self._text, self._ids)
            return Draft(OP, writes, reply=reply) if writes else Unchanged(reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            return SavedRow(outcome.answer, None)
        return SavedRow(outcome.operation.reply or {}, outcome.operation.operation_id)

    def _make_survey(self, ctx: RequestContext, top_id: str, nodes: Sequence[Node]) -> TreeSurvey:
        visible_tree = VisibleTree(self._store.view(ctx.account), ctx)
        top = visible_tree.get_node(top_id)
        if top is None:
            raise InvalidInput.of("scope_id", f"no keyword with id {top_id!r}")
        return TreeSurvey(visible_tree, self._text, top, nodes)

    async def _list_rule_steps(self, survey: TreeSurvey) -> list[Step]:
        unplaced = self._list_default_parents(survey)
        (by_name,) = await _gather(survey.index_names())
        merges: list[Step] = await _gather(rules.list_merge_steps(survey, unplaced, by_name))
        moves: list[Step] = await _gather(rules.list_move_steps(survey, unplaced, by_name))
        splits: list[Step] = await _gather(rules.list_split_steps(survey))
        return merges + moves + splits

    def _list_default_parents(self, survey: TreeSurvey) -> list[str]:
        """Return the keywords whose children have not been placed yet."""
        name_keys = self._text.name_keys(self._options.uncategorized_name or "")
        named = rendering.find_by_name_keys(survey.visible_tree.view, survey.visible_tree.ctx, name_keys)
        return [ROOT_ID, *(node.id for node in named if node.parent_id == ROOT_ID)]

    async def _review(
        self, survey: TreeSurvey, steps: list[Step], budget_s: float, calls: list[Row]
    ) -> tuple[list[Step], bool]:
        """Return the steps that the model does not refuse, and whether it answered."""
        judged = [step for step in steps if len(step.nodes) > 1][: plan.MAX_STEPS]
        if not judged:
            return steps, True
        ctx = survey.visible_tree.ctx
        reviewed = await review(self._agent, ctx, self._store.view(ctx.account), judged, budget_s)
        calls += reviewed.calls
        refused = {id(judged[index]) for index in reviewed.refused}
        return [step for step in steps if id(step) not in refused], reviewed.failure is None

    async def _query_model(self, survey: TreeSurvey, deadline: float, calls: list[Row]) -> "_ModelProposals":
        # `calls` is filled also if this is cancelled.
        asked = _ModelProposals()
        # The top is shown each time: its children are moved or grouped.
        size = NODES_PER_CALL - 1
        for begin in range(0, min(len(survey.nodes), MAX_CALLS * size), size):
            shown = survey.nodes[begin : begin + size]
            left = deadline - time.monotonic()
            if left <= 0:
                asked.degraded = True
                break
            ctx = survey.visible_tree.ctx
            proposals = await propose(self._agent, ctx, self._store.view(ctx.account), [survey.top, *shown], left)
            calls += proposals.calls
            if proposals.failure is not None:
                asked.degraded = True
                break
            asked.steps += proposals.steps
            asked.shown += len(shown)
            asked.unusable += proposals.unusable
        return asked


@dataclass(slots=True)
class _ModelProposals:
    """The steps of a model, how many keywords it was shown, what it proposed in vain, and whether it failed."""

    steps: list[Step] = field(default_factory=list)
    shown: int = 0
    unusable: int = 0
    degraded: bool = False


def _make_plan(
    survey: TreeSurvey, wanted: Sequence[Step], steps: Sequence[Step], asked: _ModelProposals
) -> dict[str, Any]:
    planned = {step.nodes[0].id for step in steps if step.kind is StepKind.DESCRIBE}
    missing = [node for node in survey.nodes if not node.is_described and node.id not in planned]
    get_node = survey.visible_tree.get_node
    # Two rules may propose the same, with reasons of their own.
    names, used = ({(step.kind, *(ref.id for ref in step.nodes)) for step in some} for some in (wanted, steps))
    # Proposals that are not possible together, or too many.
    dropped = asked.unusable + len(names - used)
    return {
        "scope_id": survey.top.id,
        "scope_name": survey.top.name,
        "created_at": clock.iso(survey.visible_tree.view.now),
        "summary": _make_summary(len(survey.nodes), steps, asked.shown),
        "steps": [render_step(step) for step in steps],
        "missing_descriptions": [
            {"id": node.id, "name": node.name, "path": _format_path(survey, node)}
            for node in missing[: plan.MAX_UNDESCRIBED]
            if get_node(node.id) is not None
        ],
        "missing_description_count": len(missing),
        "degraded": ["llm"] if asked.degraded else [],
        "dropped": [{"what": "proposals", "why": "not_possible", "count": dropped}] if dropped else [],
    }


def _format_path(survey: TreeSurvey, node: Node) -> str:
    return " / ".join(above.name for above in survey.visible_tree.list_path(node.id))


def _make_summary(keywords: int, steps: Sequence[Step], shown: int) -> str:
    counts = Counter(step.kind for step in steps)
    kinds = (
        (StepKind.MERGE, "merges"),
        (StepKind.MOVE, "moves"),
        (StepKind.SPLIT, "splits"),
        (StepKind.DESCRIBE, "descriptions"),
    )
    parts = ", ".join(f"{counts[kind]} {word}" for kind, word in kinds if counts[kind])
    seen = f"; the model was shown {shown} of them" if shown else ""
    return f"{len(steps)} steps{f': {parts}' if parts else ''}; {keywords} keywords were gone through{seen}"


def select_compatible(survey: TreeSurvey, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that can be applied one after another on the current tree, with current versions.

    The first of two conflicting steps wins: a keyword is moved, merged or grouped once, and never into a keyword that
    is merged.
    """
    selection = _StepSelection(survey)
    return list(islice(filter(None, map(selection.add, steps)), plan.MAX_STEPS))


class _StepSelection:
    """The tree after the steps that are selected so far."""

    def __init__(self, survey: TreeSurvey) -> None:
        self._survey = survey
        self._children_left = plan.MAX_CHILDREN
        self._parents: dict[str, str] = {}
        self._merged_into: dict[str, str] = {}
        self._settled: set[str] = set()
        self._needed: set[str] = set()
        self._described: set[str] = set()

    def add(self, step: Step) -> Step | None:
        """Add a step and return it with current versions; None if it is impossible."""
        node, target = self._get_node(step.nodes[0].id), self._get_node(step.nodes[-1].id)
        if node is None or target is None:
            return None
        groups = self._select_groups(step.groups, node)
        if not (groups if step.kind is StepKind.SPLIT else self._is_possible(step.kind, node, target)):
            return None
        if step.kind is StepKind.DESCRIBE:
            self._described.add(node.id)
        else:
            self._needed.add(target.id)
        if step.kind in {StepKind.MOVE, StepKind.MERGE}:
            self._settled.add(node.id)
            (self._parents if step.kind is StepKind.MOVE else self._merged_into)[node.id] = target.id
        named = (node, target)[: len(step.nodes)]
        nodes = [replace(make_ref(item), path=_format_path(self._survey, item)) for item in named]
        return replace(step, nodes=nodes, groups=groups)

    def _is_possible(self, kind: StepKind, node: Node, target: Node) -> bool:
        if kind is StepKind.DESCRIBE:
            return not node.is_described and node.id not in self._described and self._survey.can_edit(node)
        if not self._is_movable(node) or self._is_within(target.id, node.id):
            return False
        if kind is StepKind.MOVE:
            return node.parent_id != target.id
        return node.id not in self._needed | self._described and can_merge(self._survey, node, target)

    def _select_groups(self, groups: Sequence[SplitGroup], above: Node) -> list[SplitGroup]:
        selected = []
        for group in groups:
            named = dict.fromkeys(child.id for child in group.children)
            children = [child for child in map(self._get_node, named) if child is not None]
            members = [child for child in children if child.parent_id == above.id and self._is_movable(child)]
            members = members[: self._children_left]
            if members and self._survey.text.name_keys(group.name):
                self._children_left -= len(members)
                self._settled.update(child.id for child in members)
                selected.append(SplitGroup(group.name, [make_ref(child) for child in members]))
        return selected

    def _is_movable(self, node: Node) -> bool:
        return node.id not in self._settled and self._survey.can_edit(node)

    def _get_node(self, keyword_id: str) -> Node | None:
        return None if keyword_id in self._merged_into else self._survey.visible_tree.get_node(keyword_id)

    def _is_within(self, keyword_id: str, above_id: str) -> bool:
        passed: set[str] = set()
        above: str | None = keyword_id
        while above is not None and above not in passed:
            if above == above_id:
                return True
            passed.add(above)
            node = find_keyword(self._survey.visible_tree.view, above)
            above = self._merged_into.get(above) or self._parents.get(above) or (node.parent_id if node else None)
        return False


async def _gather(items: Iterable[ItemT | None]) -> list[ItemT]:
    """Collect the items of an iterator that yields None where it may pause."""
    found: list[ItemT] = []
    pause = CooperativePause()
    for item in items:
        if item is not None:
            found.append(item)
        await pause.pause()
    return found
