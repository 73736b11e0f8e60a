"""Applying a plan to the tree, all of it or nothing: steps in, the rows of one operation out."""

from collections.abc import Sequence
from typing import Any

from knowhub.core import permissions, scopes
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, View, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, keyword_rules, rendering
from knowhub.keywords.curate.plan import SplitGroup, Step, StepKind
from knowhub.keywords.edits import PendingRows
from knowhub.keywords.fields import prefix_errors
from knowhub.keywords.model import NewKeyword, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.tree import find_keyword

_COUNTS = {StepKind.MOVE: "moved", StepKind.MERGE: "merged", StepKind.DESCRIBE: "described", StepKind.SPLIT: "split"}


def apply_steps(
    view: View, ctx: RequestContext, steps: Sequence[Step], text: KeywordText, ids: Ids
) -> tuple[list[Write], Row]:
    """Apply the steps in order, each on the result of the steps before it; return the writes and the answer.

    Raises Conflict with `stale`, the keywords that are no longer at the version of the plan (`current_version` is
    None for a hidden one). Other errors name the step: Conflict for an impossible step (a cycle, the root, a wrong
    child), Forbidden for somebody else's keyword, InvalidInput naming `plan.steps.<index>.…`.
    """
    _check_versions(view, ctx, steps)
    plan = _PlanExecution(view, ctx, text, ids)
    for index, step in enumerate(steps):
        with prefix_errors(f"plan.steps.{index}", step=index):
            try:
                plan.apply(step)
            except NotFound as problem:
                # Every keyword existed before the plan: a missing one was merged by an earlier step.
                raise Conflict(problem.detail, problem.extra) from problem
    return plan.pending.list_writes(), plan.result


def _check_versions(view: View, ctx: RequestContext, steps: Sequence[Step]) -> None:
    stale: dict[tuple[str, int], int | None] = {}
    for ref in (ref for step in steps for ref in step.list_refs()):
        node = rendering.get_visible_node(view, ctx, ref.id)
        current = None if node is None else node.version
        if current != ref.version:
            stale[ref.id, ref.version] = current
    if stale:
        raise Conflict(
            "keywords were changed after this plan was made, they are named in `stale`; make a new plan",
            {"stale": [{"id": item, "version": was, "current_version": now} for (item, was), now in stale.items()]},
        )


class _PlanExecution:
    """The tree after the steps that are applied so far; `result` counts them, and lists new and merged keywords."""

    def __init__(self, view: View, ctx: RequestContext, text: KeywordText, ids: Ids) -> None:
        self.pending = PendingRows(view)
        self.result: dict[str, Any] = {**dict.fromkeys(_COUNTS.values(), 0), "created": [], "merges": []}
        self._view = self.pending.view
        self._ctx = ctx
        self._text = text
        self._ids = ids

    def apply(self, step: Step) -> None:
        first, last = step.nodes[0].id, step.nodes[-1].id
        match step.kind:
            case StepKind.MOVE:
                self._move(first, last)
            case StepKind.MERGE:
                rendering.require_node(self._view, self._ctx, last)
                merge = edits.merge_keywords(self._view, self._ctx, first, last, self._text)
                self.pending.put(merge.writes)
                # Without the count of links, which would count hidden infos.
                self.result["merges"].append(
                    {name: (merge.reply or {})[name] for name in ("source", "into", "children")}
                )
            case StepKind.DESCRIBE:
                edits.check_not_root(first, "described by a plan")
                row = edits.get_editable_row(self._view, self._ctx, first)
                self._put(keyword_rules.apply_patch(row, {"description": step.description}, self._text, self._view.now))
            case StepKind.SPLIT:
                for index, group in enumerate(step.groups):
                    self._apply_group(first, group, f"groups.{index}")
        self.result[_COUNTS[step.kind]] += 1

    def _put(self, row: Row | None) -> None:
        if row is not None:
            self.pending.put([keyword_rules.write_keyword(row)])

    def _move(self, keyword_id: str, parent_id: str) -> None:
        rendering.require_node(self._view, self._ctx, parent_id)
        self._put(edits.move_keyword(self._view, self._ctx, keyword_id, parent_id))

    def _apply_group(self, keyword_id: str, group: SplitGroup, at: str) -> None:
        above = rendering.require_node(self._view, self._ctx, keyword_id)
        children = [rendering.require_node(self._view, self._ctx, child.id) for child in group.children]
        misplaced = [child.id for child in children if child.parent_id != above.id]
        if misplaced:
            detail = f"not all that shall go under {group.name!r} hang directly below {keyword_id!r}, or some twice"
            raise Conflict(detail, {"ids": misplaced[: edits.MAX_NAMED]})
        new = NewKeyword(group.name, scopes=_join_scopes(children, self._ctx))
        row_ids = uuid4_id(self._ids), above.id
        with prefix_errors(at):
            row = keyword_rules.make_keyword_row(new, row_ids, self._ctx, self._text, self._view.now)
        self._put(row)
        self.result["created"].append(row["id"])
        for child in children:
            if find_keyword(self._view, child.id) != child:
                raise Conflict(f"{child.id!r} is named twice in one group", {"ids": [child.id]})
            self._move(child.id, row["id"])


def _join_scopes(children: Sequence[Node], ctx: RequestContext) -> list[str]:
    """Return scopes that show a group to the readers of its children, as far as the caller may grant them."""
    audience = frozenset[str]().union(*(child.audience for child in children))
    if scopes.PUBLIC in audience:
        return [scopes.PUBLIC]
    return permissions.filter_grantable(ctx, sorted(audience - {ctx.default_owner})) or [scopes.OWNER]
