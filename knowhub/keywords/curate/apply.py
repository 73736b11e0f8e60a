"""Applying a plan to the tree, all of it or nothing: steps in, the rows of one operation out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from knowhub.core import permissions, scopes
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, View, Write, is_live, next_version
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, keyword_rules, rendering
from knowhub.keywords.curate.plan import DescribeStep, MergeStep, MoveStep, SplitGroup, SplitStep, Step, list_refs
from knowhub.keywords.model import NewKeyword, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.tree import find_keyword

_BOOKKEEPING = ("version", "updated_at")


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The writes of a plan, and its answer."""

    writes: Sequence[Write]
    reply: Row


def apply_steps(view: View, ctx: RequestContext, steps: Sequence[Step], text: KeywordText, ids: Ids) -> PlanOutcome:
    """Apply the steps in order, each on the result of the steps before it.

    Raises Conflict with `stale`, the keywords that are no longer at the version of the plan (`current_version` is
    None for a hidden one). Other errors name the step: Conflict for an impossible step (a cycle, the root, a wrong
    child), Forbidden for somebody else's keyword, InvalidInput naming `plan.steps.<index>.…`.
    """
    _check_versions(view, ctx, steps)
    carrying_out = _PlanExecution(PendingRows(view), ctx, text, ids)
    for index, step in enumerate(steps):
        try:
            carrying_out.apply(step)
        except InvalidInput as problem:
            first = problem.errors[0]
            raise InvalidInput.of(f"plan.steps.{index}.{first.field}", first.message) from problem
        except Forbidden as problem:
            raise Forbidden(f"step {index}: {problem.detail}", {**problem.extra, "step": index}) from problem
        except (Conflict, NotFound) as problem:
            # Every keyword existed before the plan: a missing one was merged by an earlier step.
            raise Conflict(f"step {index}: {problem.detail}", {**problem.extra, "step": index}) from problem
    return PlanOutcome(carrying_out.planned.list_writes(), carrying_out.make_result())


def _check_versions(view: View, ctx: RequestContext, steps: Sequence[Step]) -> None:
    stale: dict[tuple[str, int], int | None] = {}
    for ref in (ref for step in steps for ref in list_refs(step)):
        node = rendering.get_visible_node(view, ctx, ref.id)
        current = None if node is None else node.version
        if current != ref.version:
            stale[ref.id, ref.version] = current
    if stale:
        raise Conflict(
            "keywords were changed after this plan was made, they are named in `stale`; make a new plan",
            {"stale": [{"id": item, "version": was, "current_version": now} for (item, was), now in stale.items()]},
        )


class PendingRows:
    """Pending changes over a view; `view` shows them. Each row is written once, so its version rises once."""

    def __init__(self, below: View) -> None:
        self.view = below.plan()
        self._below = below
        self._rows: dict[tuple[str, str], Row] = {}

    def put(self, writes: Iterable[Write]) -> None:
        """Add writes."""
        for write in writes:
            version = next_version(self._below.get(write.collection, write.id))
            row = self._rows[write.collection, write.id] = {**write.after, "version": version}
            self.view.put(write.collection, write.id, row)

    def list_writes(self) -> list[Write]:
        """Return the changed rows, new rows first and deleted rows last: undo goes backwards."""
        found = [
            (before, Write(collection, row_id, row))
            for (collection, row_id), row in self._rows.items()
            if _is_change(before := self._below.get(collection, row_id), row)
        ]
        found.sort(key=lambda item: (not is_live(item[1].after), is_live(item[0])))
        return [write for _, write in found]


@dataclass(slots=True)
class _PlanExecution:
    planned: PendingRows
    ctx: RequestContext
    text: KeywordText
    ids: Ids
    taken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("moved", "merged", "described", "split"), 0))
    created: list[str] = field(default_factory=list)
    merges: list[Row] = field(default_factory=list)

    def apply(self, step: Step) -> None:
        match step:
            case MoveStep(node=node, to=to):
                self._move(node.id, to.id)
                self.taken["moved"] += 1
            case MergeStep(source=source, into=into):
                rendering.require_node(self.planned.view, self.ctx, into.id)
                merge = edits.merge_keywords(self.planned.view, self.ctx, source.id, into.id, self.text)
                self.planned.put(merge.writes)
                # Without the count of links, which would count hidden infos.
                self.merges.append({name: merge.reply[name] for name in ("source", "into", "children")})
                self.taken["merged"] += 1
            case DescribeStep(node=node, description=description):
                self._describe(node.id, description)
                self.taken["described"] += 1
            case SplitStep(node=node, groups=groups):
                for index, group in enumerate(groups):
                    self._apply_group(node.id, group, f"groups.{index}")
                self.taken["split"] += 1

    def make_result(self) -> Row:
        return {**self.taken, "created": self.created, "merges": self.merges}

    def _move(self, keyword_id: str, parent_id: str) -> None:
        rendering.require_node(self.planned.view, self.ctx, parent_id)
        row = edits.move_keyword(self.planned.view, self.ctx, keyword_id, parent_id)
        if row is not None:
            self.planned.put([keyword_rules.write_keyword(row)])

    def _describe(self, keyword_id: str, description: str) -> None:
        edits.check_not_root(keyword_id, "described by a plan")
        row = edits.get_editable_row(self.planned.view, self.ctx, keyword_id)
        after = keyword_rules.apply_patch(row, {"description": description}, self.text, self.planned.view.now)
        if after is not None:
            self.planned.put([keyword_rules.write_keyword(after)])

    def _apply_group(self, keyword_id: str, group: SplitGroup, at: str) -> None:
        above = rendering.require_node(self.planned.view, self.ctx, keyword_id)
        children = [rendering.require_node(self.planned.view, self.ctx, child.id) for child in group.children]
        strays = [child.id for child in children if child.parent_id != above.id]
        if strays:
            detail = f"not all that shall go under {group.name!r} hang directly below {keyword_id!r}, or some twice"
            raise Conflict(detail, {"ids": strays[: edits.MAX_NAMED]})
        new = NewKeyword(group.name, scopes=_join_scopes(children, self.ctx))
        row_ids = uuid4_id(self.ids), above.id
        try:
            row = keyword_rules.new_keyword_row(new, row_ids, self.ctx, self.text, self.planned.view.now)
        except InvalidInput as problem:
            raise InvalidInput.of(f"{at}.{problem.errors[0].field}", problem.errors[0].message) from problem
        self.planned.put([keyword_rules.write_keyword(row)])
        self.created.append(row["id"])
        for child in children:
            if find_keyword(self.planned.view, child.id) == child:
                self._move(child.id, row["id"])
            else:
                raise Conflict(f"{child.id!r} is named twice in one group", {"ids": [child.id]})


def _join_scopes(children: Sequence[Node], ctx: RequestContext) -> list[str]:
    """Return scopes that show a group to the readers of its children, as far as the caller may grant them."""
    audience = frozenset[str]().union(*(child.audience for child in children))
    if scopes.PUBLIC in audience:
        return [scopes.PUBLIC]
    return permissions.filter_grantable(ctx, sorted(audience - {ctx.default_owner})) or [scopes.OWNER]


def _is_change(before: Row | None, after: Row) -> bool:
    if before is None or not (is_live(before) or is_live(after)):
        return is_live(after)
    old, new = ({name: value for name, value in row.items() if name not in _BOOKKEEPING} for row in (before, after))
    return old != new
