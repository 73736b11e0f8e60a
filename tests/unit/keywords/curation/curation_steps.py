"""Snapshots of a tree, steps that change it, and steps described by the names of their keywords."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from knowhub.core.operation import Row, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.curate import rules
from knowhub.keywords.curate.apply import apply_steps
from knowhub.keywords.curate.curator import select_compatible
from knowhub.keywords.curate.plan import SplitGroup, Step, StepKind
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
        nodes = [ref.id for ref in step.nodes] if step.kind is StepKind.MERGE else [name(ref.id) for ref in step.nodes]
        groups = {group.name: [name(child.id) for child in group.children] for group in step.groups}
        own = {StepKind.DESCRIBE: (step.description,), StepKind.SPLIT: (groups,)}
        return step.kind.value, *nodes, *own.get(step.kind, ())

    return [first(step) for step in steps]


def list_merge_steps(survey: TreeSurvey) -> Iterator[Step | None]:
    *_, bearers = survey.index_names()
    return rules.list_merge_steps(survey, [ROOT_ID], bearers or {})


def list_move_steps(survey: TreeSurvey) -> Iterator[Step | None]:
    *_, bearers = survey.index_names()
    return rules.list_move_steps(survey, [ROOT_ID], bearers or {})


def describe_found(view: FakeKeywordView, items: Iterator[Step | None]) -> list[tuple[Any, ...]]:
    return describe_steps(view, [step for step in items if step is not None])


def select_steps(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> list[tuple[Any, ...]]:
    return describe_steps(view, select_compatible(snapshot_tree(view, ctx), steps))


class CarriedOut(NamedTuple):
    writes: list[Write]
    reply: Row


def carry_out(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> CarriedOut:
    return CarriedOut(*apply_steps(view, ctx or local(), steps, TEXT, CountedIds()))


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
        if isinstance(second, dict):
            groups = [SplitGroup(name, [ref(item) for item in names]) for name, names in second.items()]
            return Step(StepKind.SPLIT, [ref(first)], groups=groups)
        if kind == "describe":
            return Step(StepKind.DESCRIBE, [ref(first)], description=str(second))
        return Step(StepKind(kind), [ref(first), ref(str(second))])

    return step


def parents_by_id(writes: list[Write] | Any) -> dict[str, str]:  # noqa: ANN401 -- a sequence of writes
    return {write.id: write.after["parent_id"] for write in writes if write.collection == KEYWORDS}
