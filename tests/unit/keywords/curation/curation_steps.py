"""Snapshots of a tree, steps that change it, and steps described by the names of their keywords."""

from collections.abc import Callable, Iterator
from typing import Any

from knowhub.core.operation import Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.curate import rules, selection
from knowhub.keywords.curate.apply import PlanOutcome, apply_steps
from knowhub.keywords.curate.plan import (
    MAX_CHILDREN,
    MAX_STEPS,
    DescribeStep,
    MergeStep,
    MoveStep,
    SplitGroup,
    SplitStep,
    Step,
)
from knowhub.keywords.curate.rules import TreeSurvey
from knowhub.keywords.model import KEYWORDS, ROOT_ID
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import find_keyword
from tests.builders import CountedIds, caller, local
from tests.fakes.keyword_view import FakeKeywordView
from tests.fakes.plain_text import PlainText

ANN = caller(user_id="ann")
ANN_OF_WEB = caller(user_id="ann", team_id="web", project_id="x")
HIDDEN: dict[str, Any] = {"owner": "user:bob", "scopes": ("user:bob",)}
TEXT = PlainText()


def snapshot_tree(view: FakeKeywordView, ctx: RequestContext | None = None, top_id: str = ROOT_ID) -> TreeSurvey:
    ctx = ctx or local()
    visible_tree = VisibleTree(view, ctx)
    top = visible_tree.get_node(top_id)
    assert top is not None
    return TreeSurvey(
        visible_tree,
        ctx,
        TEXT,
        top,
        [node for node in rules.iter_descendants(visible_tree, top_id) if node is not None],
    )


def describe_steps(view: FakeKeywordView, steps: list[Step]) -> list[tuple[Any, ...]]:
    """Return steps by the names of their keywords."""

    def name(keyword_id: str) -> str:
        node = tree.get_live_node(view, keyword_id)
        return node.name if node is not None else "?"

    def first(step: Step) -> tuple[Any, ...]:
        match step:
            case MoveStep():
                return "move", name(step.node.id), name(step.to.id)
            case MergeStep():
                return "merge", step.source.id, step.into.id
            case DescribeStep():
                return "describe", name(step.node.id), step.description
            case SplitStep():
                groups = {group.name: [name(child.id) for child in group.children] for group in step.groups}
                return "split", name(step.node.id), groups

    return [first(step) for step in steps]


def find_merges(survey: TreeSurvey) -> Iterator[Step | None]:
    *_, bearers = survey.index_names()
    return rules.find_merges(survey, [ROOT_ID], bearers or {})


def find_moves(survey: TreeSurvey) -> Iterator[Step | None]:
    *_, bearers = survey.index_names()
    return rules.find_moves(survey, [ROOT_ID], bearers or {})


def describe_found(view: FakeKeywordView, items: Iterator[Step | None]) -> list[tuple[Any, ...]]:
    return describe_steps(view, [step for step in items if step is not None])


def select_steps(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> list[tuple[Any, ...]]:
    return describe_steps(view, selection.select_compatible(snapshot_tree(view, ctx), steps, (MAX_STEPS, MAX_CHILDREN)))


def carry_out(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> PlanOutcome:
    return apply_steps(view, ctx or local(), steps, TEXT, CountedIds())


def step_builder(view: FakeKeywordView) -> Callable[..., Step]:
    """Return a maker of steps from names or ids: `step("move", "Python", "语言")`."""

    def ref(named: str) -> Any:  # noqa: ANN401 -- a NodeRef
        try:
            node = tree.get_live_node(view, named) or find_keyword(view, view.id_of(named))
        except StopIteration:
            node = find_keyword(view, named)
        assert node is not None
        return rules.make_ref(node)

    def step(kind: str, first: str, second: object) -> Step:
        match kind:
            case "move":
                return MoveStep(ref(first), ref(str(second)))
            case "merge":
                return MergeStep(ref(first), ref(str(second)))
            case "describe":
                return DescribeStep(ref(first), str(second))
        assert isinstance(second, dict)
        return SplitStep(
            ref(first), [SplitGroup(name, [ref(item) for item in names]) for name, names in second.items()]
        )

    return step


def parents_by_id(writes: list[Write] | Any) -> dict[str, str]:  # noqa: ANN401 -- a sequence of writes
    return {write.id: write.after["parent_id"] for write in writes if write.collection == KEYWORDS}
