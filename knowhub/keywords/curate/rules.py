"""The rules of curation without a model, and the selection of steps that are possible together."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from knowhub.core import scopes
from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate.plan import DescribeStep, MergeStep, MoveStep, NodeRef, SplitGroup, SplitStep, Step
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import find_by_token, find_keyword, list_children

WIDE = 50
MIN_GROUP = 5
_MAX_RUNS = 12
_MAX_JOINED = 5
_MIN_CHINESE = 2
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f"
_RUN = re.compile(rf"([{_CHINESE}]+)|[^\s{_CHINESE}、，。；：·/|,;:()（）\[\]【】《》“”\"]+")


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """A part of the tree as a caller sees it: the keyword `top` and its descendants, level by level."""

    visible_tree: VisibleTree
    ctx: RequestContext
    text: KeywordText
    top: Node
    nodes: Sequence[Node]

    def can_edit(self, node: Node) -> bool:
        """Return whether the caller may move, merge or describe a keyword; never for the root."""
        return node.id != ROOT_ID and self.ctx.can_edit(node.owner)

    def list_children(self, node: Node) -> list[Node]:
        """Return the children of a keyword that the caller sees."""
        return [
            child for child in list_children(self.visible_tree.view, node.id) if self.visible_tree.is_visible(child)
        ]


def iter_descendants(visible_tree: VisibleTree, keyword_id: str) -> Iterator[Node | None]:
    """Yield the descendants of a keyword, level by level; None for hidden ones."""
    walked = {keyword_id}
    level = [keyword_id]
    while level:
        passed: list[str] = []
        for above in level:
            for node in list_children(visible_tree.view, above):
                if node.id not in walked:
                    walked.add(node.id)
                    passed.append(node.id)
                    yield node if visible_tree.is_visible(node) else None
        level = passed


def find_duplicates(survey: TreeSnapshot) -> Iterator[Step | None]:
    """Yield merges of keywords of one name: siblings, and keywords without description and children elsewhere.

    The target is the one with a description, then with children, then the oldest. All rules yield None where the
    caller may pause.
    """
    bearers: dict[str, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        for token in node.tokens:
            bearers[token].append(node)
    for token, found in bearers.items():
        yield None
        if len(found) > 1:
            # Keywords that only share an alias may mean different things.
            yield from _merge_same_name(survey, [node for node in found if token in survey.text.tokens(node.name)])


def find_moves(survey: TreeSnapshot, parents: Sequence[str]) -> Iterator[Step | None]:
    """Yield moves of the children of `parents` whose name contains another keyword's name.

    `Python 装饰器` goes under `Python`. The longest name wins; a name of two keywords is ignored.
    """
    bearers: dict[str, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        for token in survey.text.tokens(node.name):
            bearers[token].append(node)
    for node in survey.nodes:
        yield None
        if node.parent_id in parents and survey.can_edit(node):
            target = _find_named_within(survey, node, bearers)
            if target is not None and _keeps_visibility(target, node):
                yield MoveStep(make_ref(node), make_ref(target), f"its name has {target.name!r} in it")


def find_splits(survey: TreeSnapshot) -> Iterator[Step | None]:
    """Yield splits of keywords with more than WIDE children into groups of at least MIN_GROUP with the same first word.

    If a child has that word as its name, the others move under it instead.
    """
    children: dict[str | None, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        children[node.parent_id].append(node)
    for node in (survey.top, *survey.nodes):
        yield None
        if len(children.get(node.id, ())) > WIDE:
            yield from _split(survey, node, children[node.id])


def list_without_description(survey: TreeSnapshot) -> list[Node]:
    """Return the keywords without a description."""
    return [node for node in survey.nodes if not node.is_described]


def select_compatible(survey: TreeSnapshot, steps: Sequence[Step], most: tuple[int, int]) -> list[Step]:
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


def make_ref(node: Node) -> NodeRef:
    """Return the reference of a keyword without its path."""
    return NodeRef(node.id, node.version, node.name)


def _merge_same_name(survey: TreeSnapshot, bearers: Sequence[Node]) -> Iterator[Step | None]:
    if not bearers:
        return
    merged: set[str] = set()
    siblings: dict[str | None, list[Node]] = defaultdict(list)
    for node in bearers:
        siblings[node.parent_id].append(node)
    for group in siblings.values():
        kept, *others = sorted(group, key=lambda node: _rank(survey, node))
        for node in others:
            if _can_merge(survey, node, kept):
                merged.add(node.id)
                yield MergeStep(make_ref(node), make_ref(kept), f"{node.name!r} stands twice under one keyword")
    kept, *others = sorted((node for node in bearers if node.id not in merged), key=lambda node: _rank(survey, node))
    for node in others:
        is_bare = not node.is_described and not survey.list_children(node)
        if is_bare and _can_merge(survey, node, kept):
            yield MergeStep(
                make_ref(node), make_ref(kept), "the same name elsewhere; this one has no description and no children"
            )


def _rank(survey: TreeSnapshot, node: Node) -> tuple[bool, bool, int]:
    return not node.is_described, not survey.list_children(node), node.ordinal


def _can_merge(survey: TreeSnapshot, source: Node, into: Node) -> bool:
    # The names of the source become visible to the readers of the target.
    is_public = scopes.PUBLIC in source.scopes and scopes.PUBLIC in into.scopes
    return (
        (is_public or source.audience == into.audience)
        and all(map(survey.can_edit, (source, into)))
        and all(map(survey.can_edit, survey.list_children(source)))
    )


def _keeps_visibility(target: Node, node: Node) -> bool:
    """Return whether all readers of `node` see `target`, so that nobody loses the path to it."""
    return scopes.PUBLIC in target.scopes or node.audience <= target.audience


def _find_named_within(survey: TreeSnapshot, node: Node, bearers: Mapping[str, Sequence[Node]]) -> Node | None:
    own = set(survey.text.tokens(node.name))
    for part in _parts(node):
        tokens = [token for token in survey.text.tokens(part) if token not in own]
        found = {item.id: item for token in tokens for item in bearers.get(token, ()) if item.id != node.id}
        if found:
            target = next(iter(found.values()))
            return target if len(found) == 1 and target.id != node.parent_id else None
    return None


def _parts(node: Node) -> list[str]:
    """Return the phrases of whole words in a name, the longest first."""
    runs = list(islice(_RUN.finditer(node.name), _MAX_RUNS))
    spans = (
        (first.start(), last.end())
        for index, first in enumerate(runs)
        for last in runs[index : index + _MAX_JOINED]
        if last is not first or first[1] is None or len(first[1]) >= _MIN_CHINESE
    )
    parts = {node.name[start:end]: None for start, end in spans}
    parts.update(dict.fromkeys(_chinese_words(node)))
    return sorted((part for part in parts if part != node.name), key=len, reverse=True)


def _chinese_words(node: Node) -> Iterator[str]:
    # Chinese has no spaces; its words are among the terms of the node.
    for term in node.terms:
        found = _RUN.fullmatch(term)
        if found is not None and found[1] is not None and len(term) >= _MIN_CHINESE and term in node.name:
            yield term


def _split(survey: TreeSnapshot, node: Node, children: Sequence[Node]) -> Iterator[Step | None]:
    bearers: dict[str, list[Node]] = defaultdict(list)
    whole_names: dict[str, frozenset[str]] = {}
    for child in children:
        yield None
        whole_names[child.id] = frozenset(survey.text.tokens(child.name))
        for word in _first_words(child):
            bearers[word].append(child)
    settled: set[str] = set()
    groups: list[SplitGroup] = []
    shared = [bearer for bearer in bearers.items() if len(bearer[1]) >= MIN_GROUP]
    for word, found in sorted(shared, key=lambda item: (-len(item[1]), -len(item[0]), item[0])):
        yield None
        tokens = survey.text.tokens(word)
        whole = [child for child in found if not whole_names[child.id].isdisjoint(tokens)]
        passed = settled | {child.id for child in whole}
        members = [child for child in found if child.id not in passed and survey.can_edit(child)]
        if whole:
            members = [child for child in members if _keeps_visibility(whole[0], child)]
            for child in members:
                yield MoveStep(make_ref(child), make_ref(whole[0]), f"its name begins with {whole[0].name!r}")
        elif MIN_GROUP <= len(members) < len(children) and not _is_taken(survey, tokens):
            groups.append(SplitGroup(_get_commonest_spelling(members, word), [make_ref(child) for child in members]))
        else:
            continue
        settled.update(child.id for child in members)
    if groups:
        yield SplitStep(make_ref(node), groups, f"{len(children)} keywords hang directly under it")


def _first_words(node: Node) -> list[str]:
    run = _RUN.search(node.name)
    if run is None:
        return []
    if run[1] is None:
        return [run[0].casefold()]
    words = dict.fromkeys([run[1], *(word for word in _chinese_words(node) if run[1].startswith(word))])
    return [word for word in words if len(word) >= _MIN_CHINESE]


def _is_taken(survey: TreeSnapshot, tokens: Sequence[str]) -> bool:
    """Return whether a visible keyword has one of these normal forms."""
    view = survey.visible_tree.view
    return not tokens or any(
        survey.visible_tree.is_visible(node) for token in tokens for node in find_by_token(view, token)
    )


def _get_commonest_spelling(members: Sequence[Node], word: str) -> str:
    """Return the commonest spelling of a word: Docker, not docker."""
    spellings = Counter(child.name[: len(word)] for child in members if child.name.casefold().startswith(word))
    return spellings.most_common(1)[0][0] if spellings else word


class _PlanState:
    """The tree after the steps that are selected so far."""

    def __init__(self, survey: TreeSnapshot) -> None:
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
        if self._is_within(into.id, source.id) or not _can_merge(self._survey, source, into):
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
