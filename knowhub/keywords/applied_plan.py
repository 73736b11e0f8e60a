"""Carrying out a plan for the tree, all of it or nothing: steps in, the rows of one operation out (KT-185, KT-245)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from knowhub.core import permissions, scopes
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, edits, rendering
from knowhub.keywords.model import NewKeyword, Node
from knowhub.keywords.plan import DescribeStep, MergeStep, MoveStep, SplitGroup, SplitStep, Step, refs_of
from knowhub.keywords.planned_view import PlannedView
from knowhub.keywords.ports import KeywordText, KeywordView


@dataclass(frozen=True, slots=True)
class Applied:
    """The rows that a plan comes to, and what its answer tells of them."""

    writes: Sequence[Write]
    reply: Row


def applied(view: KeywordView, ctx: RequestContext, steps: Sequence[Step], text: KeywordText, ids: Ids) -> Applied:
    """Carry out the steps in their order, each on what those before it left.

    Raises Conflict whose `stale` names every keyword that is no longer at the version on which the plan rests, with
    `current_version` None for one that the caller does not see; else, with `step` in what they add, Conflict for a
    step that cannot be taken (a cycle, the root, a child that is none), Forbidden for somebody else's keyword, and
    InvalidInput naming `plan.steps.<index>.…`.
    """
    _check_versions(view, ctx, steps)
    carrying_out = _CarryingOut(PlannedView(view), ctx, text, ids)
    for index, step in enumerate(steps):
        try:
            carrying_out.take(step)
        except InvalidInput as problem:
            first = problem.errors[0]
            raise InvalidInput.of(f"plan.steps.{index}.{first.field}", first.message) from problem
        except Forbidden as problem:
            raise Forbidden(f"step {index}: {problem.detail}", {**problem.extra, "step": index}) from problem
        except (Conflict, NotFound) as problem:
            # Every keyword was there when the plan began, so what is missing was merged away by an earlier step.
            raise Conflict(f"step {index}: {problem.detail}", {**problem.extra, "step": index}) from problem
    return Applied(carrying_out.planned.writes(), carrying_out.reply())


def _check_versions(view: KeywordView, ctx: RequestContext, steps: Sequence[Step]) -> None:
    stale: dict[tuple[str, int], int | None] = {}
    for ref in (ref for step in steps for ref in refs_of(step)):
        node = rendering.seen_node(view, ctx, ref.id)
        current = None if node is None else node.version
        if current != ref.version:
            stale[ref.id, ref.version] = current
    if stale:
        raise Conflict(
            "keywords were changed after this plan was made, they are named in `stale`; make a new plan",
            {"stale": [{"id": one, "version": was, "current_version": now} for (one, was), now in stale.items()]},
        )


@dataclass(slots=True)
class _CarryingOut:
    planned: PlannedView
    ctx: RequestContext
    text: KeywordText
    ids: Ids
    taken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("moved", "merged", "described", "split"), 0))
    created: list[str] = field(default_factory=list)
    merges: list[Row] = field(default_factory=list)

    def take(self, step: Step) -> None:
        match step:
            case MoveStep(node=node, to=to):
                self._move(node.id, to.id)
                self.taken["moved"] += 1
            case MergeStep(source=source, into=into):
                rendering.visible_node(self.planned, self.ctx, into.id)
                merge = edits.merged(self.planned, self.ctx, source.id, into.id, self.text)
                self.planned.put(merge.writes)
                # Not how many links went over: the caller does not see every info.
                self.merges.append({name: merge.reply[name] for name in ("source", "into", "children")})
                self.taken["merged"] += 1
            case DescribeStep(node=node, description=description):
                self._describe(node.id, description)
                self.taken["described"] += 1
            case SplitStep(node=node, groups=groups):
                for index, group in enumerate(groups):
                    self._split_off(node.id, group, f"groups.{index}")
                self.taken["split"] += 1

    def reply(self) -> Row:
        return {**self.taken, "created": self.created, "merges": self.merges}

    def _move(self, keyword_id: str, parent_id: str) -> None:
        rendering.visible_node(self.planned, self.ctx, parent_id)
        row = edits.moved(self.planned, self.ctx, keyword_id, parent_id)
        if row is not None:
            self.planned.put([decisions.write_keyword(row)])

    def _describe(self, keyword_id: str, description: str) -> None:
        edits.refuse_root(keyword_id, "described by a plan")
        row = edits.editable_row(self.planned, self.ctx, keyword_id)
        after = decisions.patched_keyword(row, {"description": description}, self.text, self.planned.now)
        if after is not None:
            self.planned.put([decisions.write_keyword(after)])

    def _split_off(self, keyword_id: str, group: SplitGroup, at: str) -> None:
        above = rendering.visible_node(self.planned, self.ctx, keyword_id)
        children = [rendering.visible_node(self.planned, self.ctx, child.id) for child in group.children]
        strays = [child.id for child in children if child.parent_id != above.id]
        if strays:
            detail = f"not all that shall go under {group.name!r} hang directly below {keyword_id!r}, or some twice"
            raise Conflict(detail, {"ids": strays[: edits.MAX_NAMED]})
        new = NewKeyword(group.name, scopes=_scopes_over(children, self.ctx))
        row_ids = uuid4_id(self.ids), above.id
        try:
            row = decisions.new_keyword_row(new, row_ids, self.ctx, self.text, self.planned.now)
        except InvalidInput as problem:
            raise InvalidInput.of(f"{at}.{problem.errors[0].field}", problem.errors[0].message) from problem
        self.planned.put([decisions.write_keyword(row)])
        self.created.append(row["id"])
        for child in children:
            if self.planned.node(child.id) == child:
                self._move(child.id, row["id"])
            else:
                raise Conflict(f"{child.id!r} is named twice in one group", {"ids": [child.id]})


def _scopes_over(children: Sequence[Node], ctx: RequestContext) -> list[str]:
    """Return scopes that show a group to whoever sees one of its children, as far as they are the caller's to give."""
    audience = frozenset[str]().union(*(child.audience for child in children))
    if scopes.PUBLIC in audience:
        return [scopes.PUBLIC]
    return permissions.granted(ctx, sorted(audience - {ctx.default_owner})) or [scopes.OWNER]
