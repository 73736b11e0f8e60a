"""The rules of curation without a model.

A rule proposes only what aliases and texts defend. Two keywords of one name may mean different things. Of names alone
it reads grammar: the plural of a phrase, and a Chinese phrase that begins with the name of a keyword.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from knowhub.core import scopes
from knowhub.keywords import rendering, tree
from knowhub.keywords.curate.plan import NodeRef, SplitGroup, Step, StepKind
from knowhub.keywords.mentions import find_names
from knowhub.keywords.model import INFOS, ROOT_ID, InfoQuery, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.tree import BY_KEYWORD, BY_PARENT, list_infos_of_keyword

WIDE = 50
MIN_GROUP = 5
_MAX_RUNS = 12
_MAX_TEXTS = 5
_MAX_SHARED = 200
_MIN_PREFIX = 2
# Two Chinese characters and one word are often a name of their own, such as 中国人寿.
_MIN_CHINESE_PREFIX = 3
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f"
_RUN = re.compile(rf"([{_CHINESE}]+)|[^\s{_CHINESE}、，。；：·/|,;:()（）\[\]【】《》“”\"]+")


@dataclass(frozen=True, slots=True)
class TreeSurvey:
    """A part of the tree as a caller sees it: the keyword `top` and its descendants, level by level."""

    visible_tree: VisibleTree
    text: KeywordText
    top: Node
    nodes: Sequence[Node]

    def can_edit(self, node: Node) -> bool:
        """Return whether the caller may move, merge or describe a keyword; never for the root."""
        return node.id != ROOT_ID and self.visible_tree.ctx.can_edit(node.owner)

    def list_children(self, node: Node) -> list[Node]:
        """Return the children of a keyword that the caller sees."""
        return rendering.list_visible_children(self.visible_tree.view, self.visible_tree.ctx, node.id)

    def is_bare(self, node: Node) -> bool:
        """Return whether a keyword has only a name: no description, alias, info or child."""
        view = self.visible_tree.view
        has_more = node.is_described or len(node.name_keys) > 1
        return not has_more and not view.count(BY_PARENT, node.id) and not view.count(BY_KEYWORD, node.id)

    def index_names(self) -> Iterator[dict[str, list[Node]] | None]:
        """Yield None where the caller may pause, and last the keywords by the normal forms of names and aliases."""
        by_name: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            yield None
            for name_key in node.name_keys:
                by_name[name_key].append(node)
        yield by_name


def iter_descendants(visible_tree: VisibleTree, keyword_id: str) -> Iterator[Node | None]:
    """Yield the descendants of a keyword, level by level; None for hidden ones."""
    walked = tree.walk(visible_tree.view, [keyword_id])
    return (node if visible_tree.is_visible(node) else None for _, node in walked)


def list_merge_steps(
    survey: TreeSurvey, parents: Sequence[str], by_name: Mapping[str, Sequence[Node]]
) -> Iterator[Step | None]:
    """Yield merges of keywords that mean the same. All rules yield None where the caller may pause.

    - A bare child of `parents`, which are the keywords whose children are not placed yet: into the only other keyword
      that has its name as name or alias, or, if it is a phrase in the English plural, its singular. It has no
      description, info or child that could mean something else.
    - Keywords of one name that have the same description, an alias or an info in common. The target is the one with a
      description, then with children, then the oldest.
    """
    for node in survey.nodes:
        yield None
        if node.parent_id in parents and survey.is_bare(node):
            target = _find_only_other(survey, node, by_name) or _find_singular(survey, node, by_name)
            if target is not None and can_merge(survey, node, target):
                yield make_step(StepKind.MERGE, node, target, f"only a name, which {target.name!r} has too")
    for name_key, found in by_name.items():
        yield None
        named = [node for node in found if name_key in survey.text.name_keys(node.name)]
        if 1 < len(named) <= _MAX_SHARED:
            target, *others = sorted(named, key=lambda node: _rank(survey, node))
            for node in others:
                reason = _find_shared(survey, node, target)
                if reason is not None and can_merge(survey, node, target):
                    yield make_step(StepKind.MERGE, node, target, reason)


def list_move_steps(
    survey: TreeSurvey, parents: Sequence[str], by_name: Mapping[str, Sequence[Node]]
) -> Iterator[Step | None]:
    """Yield moves of the children of `parents` whose name begins with another keyword's name.

    `Python 装饰器` goes under `Python`, if only one keyword has that name. A keyword with texts of its own moves only
    if they name the target, its parent or a child of it. One without texts moves only if the rest of its name has
    Chinese: English words after a first one make another name, such as `New York`.
    """
    for node in survey.nodes:
        yield None
        if node.parent_id in parents and survey.can_edit(node):
            target, rest = _find_prefix(survey, node, by_name)
            if target is not None and _keeps_visibility(target, node) and _is_supported(survey, node, target, rest):
                yield make_step(StepKind.MOVE, node, target, f"its name begins with {target.name!r}")


def list_split_steps(survey: TreeSurvey) -> Iterator[Step | None]:
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


def make_ref(node: Node) -> NodeRef:
    """Return the reference of a keyword without its path."""
    return NodeRef(node.id, node.version, node.name)


def make_step(kind: StepKind, node: Node, target: Node, reason: str) -> Step:
    """Return a merge or a move."""
    return Step(kind, [make_ref(node), make_ref(target)], reason)


def _find_only_other(survey: TreeSurvey, node: Node, by_name: Mapping[str, Sequence[Node]]) -> Node | None:
    """Return the only other keyword that has the name of a bare one. Of two bare ones the older is kept."""
    others = {
        other.id: other for name_key in node.name_keys for other in by_name.get(name_key, ()) if other.id != node.id
    }
    target = next(iter(others.values())) if len(others) == 1 else None
    if target is None or (survey.is_bare(target) and _rank(survey, node) < _rank(survey, target)):
        return None
    return target


def _find_singular(survey: TreeSurvey, node: Node, by_name: Mapping[str, Sequence[Node]]) -> Node | None:
    """Return the only keyword that is called by the singular of a phrase: `Large Language Model` of that in the plural.

    Phrases in the plural are names of kinds, and one kind has one name. A single word may mean something else in the
    plural, such as `Goods`.
    """
    words = node.name.split()
    if len(words) == 1 or not (words[-1].isascii() and words[-1].isalpha()) or words[-1].endswith("ss"):
        return None
    singulars = [f"{node.name[:-3]}y"] if node.name.endswith("ies") else [node.name[:-1]] * node.name.endswith("s")
    name_keys = (name_key for singular in singulars for name_key in survey.text.name_keys(singular))
    found = {other.id: other for name_key in name_keys for other in by_name.get(name_key, ())}
    return next(iter(found.values())) if len(found) == 1 else None


def _find_shared(survey: TreeSurvey, node: Node, other: Node) -> str | None:
    """Return what two keywords of one name have in common besides it; None if nothing."""
    names = {*survey.text.name_keys(node.name), *survey.text.name_keys(other.name)}
    if (set(node.name_keys) & set(other.name_keys)) - names:
        return "the same name and alias"
    view = survey.visible_tree.view
    if node.is_described and other.is_described:
        rows = (rendering.get_keyword_row(view, item.id) for item in (node, other))
        is_same = len({" ".join(row["description"].split()) for row in rows}) == 1
        # Two descriptions tell a language from a snake, whatever else the two have in common.
        return "the same name and description" if is_same else None
    infos = [{link.info_id for link in view.lookup(BY_KEYWORD, item.id)[:_MAX_SHARED]} for item in (node, other)]
    return "the same name, and an info of both" if infos[0] & infos[1] else None


def _rank(survey: TreeSurvey, node: Node) -> tuple[bool, bool, int]:
    return not node.is_described, not survey.list_children(node), node.ordinal


def can_merge(survey: TreeSurvey, source: Node, into: Node) -> bool:
    """Return whether the caller may merge two keywords, and nobody gets to see a hidden name by it."""
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


def _find_prefix(survey: TreeSurvey, node: Node, by_name: Mapping[str, Sequence[Node]]) -> tuple[Node | None, str]:
    """Return the only keyword that is named by the longest possible beginning of a name, and the rest of the name."""
    for end in _list_prefix_ends(survey.text, node.name):
        name_keys = survey.text.name_keys(node.name[:end])
        found = {item.id: item for name_key in name_keys for item in by_name.get(name_key, ()) if item.id != node.id}
        if found:
            target = next(iter(found.values()))
            is_target = len(found) == 1 and target.id != node.parent_id
            return (target if is_target else None), node.name[end:]
    return None, ""


def _list_prefix_ends(text: KeywordText, name: str) -> list[int]:
    """Return where the beginnings of a name end that end where a word does, the longest first."""
    runs = list(islice(_RUN.finditer(name), _MAX_RUNS))
    ends = {run.end() for run in runs[:-1]}
    for number, run in enumerate(runs):
        lengths = list(accumulate(map(len, text.words(run[0])))) if run[1] is not None else []
        for index, length in enumerate(lengths[:-1]):
            if number or length >= _MIN_CHINESE_PREFIX or len(lengths) - index > _MIN_PREFIX:
                ends.add(run.start() + length)
    return sorted((end for end in ends if end >= _MIN_PREFIX), reverse=True)


def _is_supported(survey: TreeSurvey, node: Node, target: Node, rest: str) -> bool:
    """Return whether a keyword's texts speak for a place below `target`; without texts, the `rest` of its name."""
    view = survey.visible_tree.view
    texts = [str(rendering.get_keyword_row(view, node.id)["description"])] if node.is_described else []
    for summary in islice(list_infos_of_keyword(view, node.id, InfoQuery()), _MAX_TEXTS):
        info = view.get(INFOS, summary.id)
        texts.append(str(info["content"]) if info is not None else "")
    if not texts:
        return any(run[1] for run in _RUN.finditer(rest)) and not survey.list_children(node)
    near = [target, *survey.list_children(target)]
    parent = survey.visible_tree.get_node(target.parent_id) if target.parent_id not in {None, ROOT_ID} else None
    known = {name_key for item in (near if parent is None else [*near, parent]) for name_key in item.name_keys}
    # The keyword's own name in a text says nothing new.
    return any(
        find_names(text.replace(node.name, "\n"), survey.text.name_keys, known.__contains__, limit=1) for text in texts
    )


def _split(survey: TreeSurvey, node: Node, children: Sequence[Node]) -> Iterator[Step | None]:
    view, ctx = survey.visible_tree.view, survey.visible_tree.ctx
    by_first_word: dict[str, list[Node]] = defaultdict(list)
    for child in children:
        yield None
        run = _RUN.search(child.name)
        is_word = run is not None and (run[1] is None or len(run[1]) >= _MIN_PREFIX)
        for word_key in survey.text.name_keys(run[0]) if run is not None and is_word else ():
            by_first_word[word_key].append(child)
    groups: list[SplitGroup] = []
    for word_key, found in sorted(by_first_word.items(), key=lambda item: (-len(item[1]), item[0])):
        yield None
        whole = next((child for child in found if word_key in survey.text.name_keys(child.name)), None)
        members = [child for child in found if child is not whole and survey.can_edit(child)]
        if len(members) < MIN_GROUP:
            continue
        if whole is not None:
            for child in members:
                rest = _RUN.sub("", child.name, count=1)
                if _keeps_visibility(whole, child) and _is_supported(survey, child, whole, rest):
                    yield make_step(StepKind.MOVE, child, whole, f"its name begins with {whole.name!r}")
        elif len(members) < len(children) and not any(rendering.find_by_name_keys(view, ctx, [word_key])):
            groups.append(SplitGroup(_get_most_common_word(members), [make_ref(child) for child in members]))
    if groups:
        reason = f"{len(children)} keywords are directly under it"
        yield Step(StepKind.SPLIT, [make_ref(node)], reason, groups=groups)


def _get_most_common_word(members: Sequence[Node]) -> str:
    """Return the commonest spelling of their first word: Docker, not docker."""
    words = (_RUN.search(child.name) for child in members)
    return Counter(word[0] for word in words if word is not None).most_common(1)[0][0]
