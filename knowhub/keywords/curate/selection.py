"""The selection of steps that are possible together."""

from collections.abc import Sequence

from knowhub.keywords.curate.plan import DescribeStep, MergeStep, MoveStep, NodeRef, SplitGroup, SplitStep, Step
from knowhub.keywords.curate.rules import TreeSurvey, can_merge, make_ref
from knowhub.keywords.model import Node
from knowhub.keywords.tree import find_keyword


def select_compatible(survey: TreeSurvey, steps: Sequence[Step], most: tuple[int, int]) -> list[Step]:
    """Return the steps that can be applied one after another on the current tree.

    The first of two conflicting steps wins: a keyword is moved, merged or grouped once, and never into a keyword that
    is merged. `most` limits the steps, and the children in their splits.
    """
    outline = _PlanState(survey)
    steps_left, children_left = most
    chosen: list[Step] = []
    for step in steps:
        if len(chosen) == steps_left:
            break
        taken = outline.try_step(step, children_left)
        if taken is None:
            continue
        if isinstance(taken, SplitStep):
            children_left -= sum(len(group.children) for group in taken.groups)
        chosen.append(taken)
    return chosen


class _PlanState:
    """The tree after the steps that are selected so far."""

    def __init__(self, survey: TreeSurvey) -> None:
        self._survey = survey
        self._tree = survey.visible_tree
        self._parents: dict[str, str] = {}
        self._heirs: dict[str, str] = {}
        self._settled: set[str] = set()
        self._needed: set[str] = set()
        self._described: set[str] = set()

    def try_step(self, step: Step, children_left: int) -> Step | None:
        """Add a step and return it with current versions; None if it is impossible."""
        match step:
            case MoveStep(node=node, to=to):
                return self._try_move(self._get_movable(node.id), self._get_node(to.id), step.reason)
            case MergeStep(source=source, into=into):
                return self._try_merge(self._get_movable(source.id), self._get_node(into.id), step.reason)
            case DescribeStep(node=node):
                return self._with_description(self._get_node(node.id), step)
            case SplitStep():
                return self._split_up(step, children_left)

    def _try_move(self, node: Node | None, to: Node | None, reason: str) -> Step | None:
        if node is None or to is None or node.parent_id == to.id or self._is_within(to.id, node.id):
            return None
        self._settled.add(node.id)
        self._needed.add(to.id)
        self._parents[node.id] = to.id
        return MoveStep(self._ref(node), self._ref(to), reason)

    def _try_merge(self, source: Node | None, into: Node | None, reason: str) -> Step | None:
        if source is None or into is None or source.id in self._needed | self._described:
            return None
        if self._is_within(into.id, source.id) or not can_merge(self._survey, source, into):
            return None
        self._settled.add(source.id)
        self._needed.add(into.id)
        self._heirs[source.id] = into.id
        return MergeStep(self._ref(source), self._ref(into), reason)

    def _with_description(self, node: Node | None, step: DescribeStep) -> Step | None:
        if node is None or node.is_described or node.id in self._described or not self._survey.can_edit(node):
            return None
        self._described.add(node.id)
        return DescribeStep(self._ref(node), step.description, step.reason)

    def _split_up(self, step: SplitStep, children_left: int) -> Step | None:
        above = self._get_node(step.node.id)
        if above is None:
            return None
        groups = []
        for group in step.groups:
            named = dict.fromkeys(child.id for child in group.children)
            children = [self._get_movable(child_id) for child_id in named]
            members = [child for child in children if child is not None and child.parent_id == above.id]
            members = members[: max(children_left, 0)]
            if members and self._survey.text.tokens(group.name):
                children_left -= len(members)
                self._settled.update(child.id for child in members)
                groups.append(SplitGroup(group.name, [make_ref(child) for child in members]))
        if not groups:
            return None
        self._needed.add(above.id)
        return SplitStep(self._ref(above), groups, step.reason)

    def _get_movable(self, keyword_id: str) -> Node | None:
        node = self._get_node(keyword_id)
        return node if node is not None and node.id not in self._settled and self._survey.can_edit(node) else None

    def _get_node(self, keyword_id: str) -> Node | None:
        return None if keyword_id in self._heirs else self._tree.get_node(keyword_id)

    def _is_within(self, keyword_id: str, above_id: str) -> bool:
        passed: set[str] = set()
        above: str | None = keyword_id
        while above is not None and above not in passed:
            if above == above_id:
                return True
            passed.add(above)
            node = find_keyword(self._tree.view, above)
            above = self._heirs.get(above) or self._parents.get(above) or (node.parent_id if node else None)
        return False

    def _ref(self, node: Node) -> NodeRef:
        path = " / ".join(above.name for above in self._tree.list_path(node.id))
        return NodeRef(node.id, node.version, node.name, path)
