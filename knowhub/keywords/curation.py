"""What is to be improved in a tree: rules that need no model, and the choice of steps that fit together (KT-245)."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from knowhub.core import scopes
from knowhub.core.request_context import RequestContext
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.plan import DescribeStep, MergeStep, MoveStep, NodeRef, SplitGroup, SplitStep, Step
from knowhub.keywords.ports import KeywordText

WIDE = 50
MIN_GROUP = 5
_MAX_RUNS = 12
_MAX_JOINED = 5
_MIN_CHINESE = 2
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f"
_RUN = re.compile(rf"([{_CHINESE}]+)|[^\s{_CHINESE}、，。；：·/|,;:()（）\[\]【】《》“”\"]+")


@dataclass(frozen=True, slots=True)
class Survey:
    """A part of the tree as a caller sees it: the keyword `top` and what is below it, level by level."""

    eyes: Eyes
    ctx: RequestContext
    text: KeywordText
    top: Node
    nodes: Sequence[Node]

    def may_edit(self, node: Node) -> bool:
        """Tell whether the caller may move, merge or describe a keyword; nobody does that to the root."""
        return node.id != ROOT_ID and self.ctx.may_edit(node.owner)

    def children(self, node: Node) -> list[Node]:
        """Return the children of a keyword that the caller sees."""
        return [child for child in self.eyes.view.children(node.id) if self.eyes.sees(child)]


def below(eyes: Eyes, keyword_id: str) -> Iterator[Node | None]:
    """Yield what the caller sees below a keyword, level by level, and None for what they do not."""
    walked = {keyword_id}
    level = [keyword_id]
    while level:
        passed: list[str] = []
        for above in level:
            for node in eyes.view.children(above):
                if node.id not in walked:
                    walked.add(node.id)
                    passed.append(node.id)
                    yield node if eyes.sees(node) else None
        level = passed


def duplicates(survey: Survey) -> Iterator[Step | None]:
    """Yield merges of keywords of one normal form: those under one parent, and bare ones that exist elsewhere.

    The best described is kept, then the one with children, then the oldest. All rules here yield None now and then,
    where a caller may let others run.
    """
    bearers: dict[str, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        for token in node.tokens:
            bearers[token].append(node)
    for token, found in bearers.items():
        yield None
        if len(found) > 1:
            # Two that share an alias need not mean the same; two of the same name do.
            yield from _doubles(survey, [node for node in found if token in survey.text.tokens(node.name)])


def misplaced(survey: Survey, parents: Sequence[str]) -> Iterator[Step | None]:
    """Yield moves of children of `parents`, where things lie unplaced, whose name begins or ends with another's.

    `Python 装饰器` goes under `Python`, and `Docker 网络` under `Docker`; under the longest of several such names,
    and nowhere where two keywords bear it.
    """
    bearers: dict[str, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        for token in survey.text.tokens(node.name):
            bearers[token].append(node)
    for node in survey.nodes:
        yield None
        if node.parent_id in parents and survey.may_edit(node):
            target = _named_within(survey, node, bearers)
            if target is not None and _reaches(target, node):
                yield MoveStep(at(node), at(target), f"its name has {target.name!r} in it")


def wide(survey: Survey) -> Iterator[Step | None]:
    """Yield splits of keywords with more than WIDE children into groups of a shared first word, of MIN_GROUP or more.

    Where a child bears that word as its whole name, the others move under it instead.
    """
    children: dict[str | None, list[Node]] = defaultdict(list)
    for node in survey.nodes:
        yield None
        children[node.parent_id].append(node)
    for node in (survey.top, *survey.nodes):
        yield None
        if len(children.get(node.id, ())) > WIDE:
            yield from _split(survey, node, children[node.id])


def undescribed(survey: Survey) -> list[Node]:
    """Return the keywords without a description, as `survey` has them."""
    return [node for node in survey.nodes if not node.is_described]


def fitting(survey: Survey, steps: Sequence[Step], most: tuple[int, int]) -> list[Step]:
    """Return the steps that can be taken one after another on the tree as it stands now, at the versions of now.

    The first of two that contradict each other stays: a keyword is moved, merged, or sorted into a group once, and
    nothing goes where nothing will be. `most` bounds the steps, and the children in their splits.
    """
    outline = _Outline(survey)
    steps_left, children_left = most
    chosen: list[Step] = []
    for step in steps:
        if len(chosen) == steps_left:
            break
        taken = outline.taken(step, children_left)
        if taken is None:
            continue
        if isinstance(taken, SplitStep):
            children_left -= sum(len(group.children) for group in taken.groups)
        chosen.append(taken)
    return chosen


def at(node: Node) -> NodeRef:
    """Name a keyword at its version; `fitting` adds the path."""
    return NodeRef(node.id, node.version, node.name)


def _doubles(survey: Survey, bearers: Sequence[Node]) -> Iterator[Step | None]:
    if not bearers:
        return
    merged: set[str] = set()
    siblings: dict[str | None, list[Node]] = defaultdict(list)
    for node in bearers:
        siblings[node.parent_id].append(node)
    for group in siblings.values():
        kept, *others = sorted(group, key=lambda node: _worth(survey, node))
        for node in others:
            if _mergeable(survey, node, kept):
                merged.add(node.id)
                yield MergeStep(at(node), at(kept), f"{node.name!r} stands twice under one keyword")
    kept, *others = sorted((node for node in bearers if node.id not in merged), key=lambda node: _worth(survey, node))
    for node in others:
        is_bare = not node.is_described and not survey.children(node)
        if is_bare and _mergeable(survey, node, kept):
            yield MergeStep(at(node), at(kept), "the same name elsewhere; this one has no description and no children")


def _worth(survey: Survey, node: Node) -> tuple[bool, bool, int]:
    return not node.is_described, not survey.children(node), node.ordinal


def _mergeable(survey: Survey, source: Node, into: Node) -> bool:
    # The one's names become the other's aliases: they must not come before other eyes than they were written for.
    is_public = scopes.PUBLIC in source.scopes and scopes.PUBLIC in into.scopes
    return (
        (is_public or source.audience == into.audience)
        and all(map(survey.may_edit, (source, into)))
        and all(map(survey.may_edit, survey.children(source)))
    )


def _reaches(target: Node, node: Node) -> bool:
    """Tell whether all who see `node` see `target`, so that nobody loses the path to it."""
    return scopes.PUBLIC in target.scopes or node.audience <= target.audience


def _named_within(survey: Survey, node: Node, bearers: Mapping[str, Sequence[Node]]) -> Node | None:
    own = set(survey.text.tokens(node.name))
    for part in _parts(node):
        tokens = [token for token in survey.text.tokens(part) if token not in own]
        found = {one.id: one for token in tokens for one in bearers.get(token, ()) if one.id != node.id}
        if found:
            target = next(iter(found.values()))
            return target if len(found) == 1 and target.id != node.parent_id else None
    return None


def _parts(node: Node) -> list[str]:
    """Return what stands in a name as whole words, the longest first, the name itself left out."""
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
    # Chinese is written without spaces; its words are among the node's terms.
    for term in node.terms:
        found = _RUN.fullmatch(term)
        if found is not None and found[1] is not None and len(term) >= _MIN_CHINESE and term in node.name:
            yield term


def _split(survey: Survey, node: Node, children: Sequence[Node]) -> Iterator[Step | None]:
    bearers: dict[str, list[Node]] = defaultdict(list)
    whole_names: dict[str, frozenset[str]] = {}
    for child in children:
        yield None
        whole_names[child.id] = frozenset(survey.text.tokens(child.name))
        for word in _first_words(child):
            bearers[word].append(child)
    settled: set[str] = set()
    groups: list[SplitGroup] = []
    shared = [one for one in bearers.items() if len(one[1]) >= MIN_GROUP]
    for word, found in sorted(shared, key=lambda one: (-len(one[1]), -len(one[0]), one[0])):
        yield None
        tokens = survey.text.tokens(word)
        whole = [child for child in found if not whole_names[child.id].isdisjoint(tokens)]
        passed = settled | {child.id for child in whole}
        members = [child for child in found if child.id not in passed and survey.may_edit(child)]
        if whole:
            members = [child for child in members if _reaches(whole[0], child)]
            for child in members:
                yield MoveStep(at(child), at(whole[0]), f"its name begins with {whole[0].name!r}")
        elif MIN_GROUP <= len(members) < len(children) and not _is_taken(survey, tokens):
            groups.append(SplitGroup(_spelt(members, word), [at(child) for child in members]))
        else:
            continue
        settled.update(child.id for child in members)
    if groups:
        yield SplitStep(at(node), groups, f"{len(children)} keywords hang directly under it")


def _first_words(node: Node) -> list[str]:
    run = _RUN.search(node.name)
    if run is None:
        return []
    if run[1] is None:
        return [run[0].casefold()]
    words = dict.fromkeys([run[1], *(word for word in _chinese_words(node) if run[1].startswith(word))])
    return [word for word in words if len(word) >= _MIN_CHINESE]


def _is_taken(survey: Survey, tokens: Sequence[str]) -> bool:
    """Tell whether a group of these normal forms would be a double of a keyword that the caller sees."""
    view = survey.eyes.view
    return not tokens or any(survey.eyes.sees(node) for token in tokens for node in view.by_token(token))


def _spelt(members: Sequence[Node], word: str) -> str:
    """Return the word as most of its bearers write it: Docker, not docker."""
    spellings = Counter(child.name[: len(word)] for child in members if child.name.casefold().startswith(word))
    return spellings.most_common(1)[0][0] if spellings else word


class _Outline:
    """Who would hang where after the steps that are taken so far."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._eyes = survey.eyes
        self._parents: dict[str, str] = {}
        self._heirs: dict[str, str] = {}
        self._settled: set[str] = set()
        self._needed: set[str] = set()
        self._described: set[str] = set()

    def taken(self, step: Step, children_left: int) -> Step | None:
        """Take a step and return it as of now; None when it cannot be taken."""
        match step:
            case MoveStep(node=node, to=to):
                return self._moved(self._settleable(node.id), self._there(to.id), step.reason)
            case MergeStep(source=source, into=into):
                return self._merged(self._settleable(source.id), self._there(into.id), step.reason)
            case DescribeStep(node=node):
                return self._with_description(self._there(node.id), step)
            case SplitStep():
                return self._split_up(step, children_left)

    def _moved(self, node: Node | None, to: Node | None, reason: str) -> Step | None:
        if node is None or to is None or node.parent_id == to.id or self._is_within(to.id, node.id):
            return None
        self._settled.add(node.id)
        self._needed.add(to.id)
        self._parents[node.id] = to.id
        return MoveStep(self._ref(node), self._ref(to), reason)

    def _merged(self, source: Node | None, into: Node | None, reason: str) -> Step | None:
        if source is None or into is None or source.id in self._needed | self._described:
            return None
        if self._is_within(into.id, source.id) or not _mergeable(self._survey, source, into):
            return None
        self._settled.add(source.id)
        self._needed.add(into.id)
        self._heirs[source.id] = into.id
        return MergeStep(self._ref(source), self._ref(into), reason)

    def _with_description(self, node: Node | None, step: DescribeStep) -> Step | None:
        if node is None or node.is_described or node.id in self._described or not self._survey.may_edit(node):
            return None
        self._described.add(node.id)
        return DescribeStep(self._ref(node), step.description, step.reason)

    def _split_up(self, step: SplitStep, children_left: int) -> Step | None:
        above = self._there(step.node.id)
        if above is None:
            return None
        groups = []
        for group in step.groups:
            named = dict.fromkeys(child.id for child in group.children)
            children = [self._settleable(child_id) for child_id in named]
            members = [child for child in children if child is not None and child.parent_id == above.id]
            members = members[: max(children_left, 0)]
            if members and self._survey.text.tokens(group.name):
                children_left -= len(members)
                self._settled.update(child.id for child in members)
                groups.append(SplitGroup(group.name, [at(child) for child in members]))
        if not groups:
            return None
        self._needed.add(above.id)
        return SplitStep(self._ref(above), groups, step.reason)

    def _settleable(self, keyword_id: str) -> Node | None:
        node = self._there(keyword_id)
        return node if node is not None and node.id not in self._settled and self._survey.may_edit(node) else None

    def _there(self, keyword_id: str) -> Node | None:
        return None if keyword_id in self._heirs else self._eyes.node(keyword_id)

    def _is_within(self, keyword_id: str, above_id: str) -> bool:
        passed: set[str] = set()
        above: str | None = keyword_id
        while above is not None and above not in passed:
            if above == above_id:
                return True
            passed.add(above)
            node = self._eyes.view.node(above)
            above = self._heirs.get(above) or self._parents.get(above) or (node.parent_id if node else None)
        return False

    def _ref(self, node: Node) -> NodeRef:
        path = " / ".join(above.name for above in self._eyes.path(node.id))
        return NodeRef(node.id, node.version, node.name, path)
