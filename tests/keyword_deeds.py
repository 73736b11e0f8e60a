"""Changes of a keyword tree for stateful tests: each is a call, and its effect on the model."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from knowhub.bootstrap import Hub
from knowhub.core.owned_rows import SavedBatch, SavedRow
from knowhub.keywords.model import (
    ROOT_ID,
    InfoPolicy,
    LinkRequest,
    NewInfo,
    NewKeyword,
    RelationType,
)
from knowhub.keywords.service import DeleteOptions
from tests.builders import local
from tests.keyword_model import TreeModel

Call: TypeAlias = Callable[[Hub], Coroutine[Any, Any, object]]
Expect: TypeAlias = Callable[[TreeModel, Any], None]
Deed: TypeAlias = tuple[Call, Expect]
Given: TypeAlias = tuple[Any, ...]

SPELLINGS: Final = ("Python", "python", "Python 3", "Go", "Go web", "web", "中文", "算法", "C++", "!!")
_NOBODY: Final = "nobody"
_ONE_IN: Final = 16

PICK = st.integers(0, 10_000)
NAMES = st.sampled_from(SPELLINGS)
_ALIASES = st.lists(NAMES, max_size=2)
_METADATA = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 2), max_size=2)
_SCOPES = st.sampled_from([None, None, ["user:ann"], ["user:li"]])
_CONTENTS = st.sampled_from(["wait", "click 点击", 'Go \\ "quoted"', " "])
_DESCRIPTIONS = st.sampled_from(["", "said", "said more"])
_PATCH = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES,
        "aliases": _ALIASES,
        "description": _DESCRIPTIONS,
        "metadata": _METADATA,
        "scopes": st.sampled_from([["public"], ["user:ann"], ["user:li"]]),
    },
)
_INFO_PATCH = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["wait", "type", "a longer one " * 20]),
        "source": st.sampled_from(["", "book"]),
        "metadata": _METADATA,
        "scopes": st.sampled_from([["public"], ["user:ann"], ["user:li"]]),
    },
)
_NEW = st.tuples(NAMES, PICK, _ALIASES, _DESCRIPTIONS, _METADATA, _SCOPES)
_NEW_INFO = st.tuples(_CONTENTS, st.lists(PICK, max_size=3), _SCOPES)


def _verb(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Given]:
    return st.tuples(st.just(name), *arguments)


DEEDS: Final[Mapping[str, st.SearchStrategy[Given]]] = {
    "grow": st.one_of(
        _verb("create", _NEW),
        _verb("create_batch", st.lists(st.tuples(_NEW, st.none() | PICK), min_size=1, max_size=4)),
        _verb("create_info", _NEW_INFO),
        _verb("create_infos", st.lists(_NEW_INFO, min_size=1, max_size=3)),
    ),
    "change": st.one_of(
        _verb("update", PICK, _PATCH),
        _verb("move", PICK, PICK),
        _verb("add_alias", PICK, NAMES),
        _verb("remove_alias", PICK, NAMES),
        _verb("update_info", PICK, _INFO_PATCH),
    ),
    "link": st.one_of(
        _verb("link", PICK, PICK, st.sampled_from(RelationType), st.sampled_from(["user", "agent"])),
        _verb("link_near", PICK, st.sampled_from(RelationType)),
        _verb("unlink", PICK),
    ),
    "shrink": st.one_of(
        _verb("merge", PICK, PICK),
        _verb("delete", PICK, st.sampled_from(InfoPolicy), st.booleans()),
        _verb("delete_info", PICK),
    ),
}
# A tree to begin with, as what is drawn later seldom grows one: four levels, two of one name, infos on two keywords.
_NAMED: Final = (
    ("Python", None),
    ("Go", None),
    ("web", 0),
    ("Go web", 1),
    ("C++", 2),
    ("web", 1),
    ("中文", 4),
    ("算法", 4),
)
_ON: Final = ((0, 2), (2, 4), (4, 6), (1, 3), (0, 4))
TREE: Final[list[Given]] = [
    ("create_batch", [((name, 0, [], "", {}, None), above) for name, above in _NAMED]),
    # On a keyword and one below it; -1 is the oldest keyword.
    *(("create_info", ("wait", [-1 - above, -1 - under], None)) for above, under in _ON),
]
GROWN: Final[st.SearchStrategy[list[Given]]] = st.sampled_from([[], TREE])


@dataclass(frozen=True, slots=True)
class TreeChanges:
    """Turns drawn values into changes. Numbers pick live rows, now and then a row that does not exist."""

    model: TreeModel

    def create(self, new: Given) -> Deed:
        wanted = self._new(new)
        parent_id = wanted.parent_id or ROOT_ID

        def expect(model: TreeModel, answer: object) -> None:
            row_id = answer.record["id"] if isinstance(answer, SavedRow) else "refused"
            model.create(row_id, wanted, parent_id)

        return lambda hub: hub.keywords.tree.create(local(), wanted), expect

    def create_batch(self, drawn: Sequence[tuple[Given, int | None]]) -> Deed:
        items = []
        for index, (new, above) in enumerate(drawn):
            first = self._new(new)
            # A parent from earlier in the batch; now and then a later one, or the keyword itself.
            parent_ref = None if above is None else f"ref-{above % (index + 1)}"
            parent_id = first.parent_id if parent_ref is None else None
            items.append(_with(first, parent_id=parent_id, parent_ref=parent_ref, ref=f"ref-{index}"))

        def expect(model: TreeModel, answer: object) -> None:
            refused = [f"refused-{index}" for index in range(len(items))]
            row_ids = [saved.record["id"] for saved in answer.records] if isinstance(answer, SavedBatch) else refused
            model.create_batch(row_ids, items)

        return lambda hub: hub.keywords.tree.create_batch(local(), items), expect

    def update(self, pick: int, patch: Mapping[str, Any]) -> Deed:
        keyword_id = self._keyword(pick)
        return (
            lambda hub: hub.keywords.tree.update(local(), keyword_id, patch, allow_duplicate=True),
            lambda model, _: model.update(keyword_id, patch),
        )

    def move(self, pick: int, above: int) -> Deed:
        keyword_id, parent_id = self._two_keywords(pick, above)
        return (
            lambda hub: hub.keywords.tree.move(local(), keyword_id, parent_id, allow_duplicate=True),
            lambda model, _: model.move(keyword_id, parent_id),
        )

    def merge(self, pick: int, other: int) -> Deed:
        source_id, into_id = self._two_keywords(pick, other)
        return (
            lambda hub: hub.keywords.tree.merge(local(), source_id, into_id),
            lambda model, _: model.merge(source_id, into_id),
        )

    def delete(self, pick: int, policy: InfoPolicy, cascade: bool) -> Deed:
        keyword_id = self._keyword(pick)
        return (
            lambda hub: hub.keywords.tree.delete(local(), keyword_id, DeleteOptions(cascade, policy)),
            lambda model, _: model.delete(keyword_id, policy, cascade=cascade),
        )

    def add_alias(self, pick: int, alias: str) -> Deed:
        keyword_id = self._keyword(pick)
        return (
            lambda hub: hub.keywords.tree.add_alias(local(), keyword_id, alias),
            lambda model, _: model.add_alias(keyword_id, alias),
        )

    def remove_alias(self, pick: int, alias: str) -> Deed:
        keyword_id = self._keyword(pick)
        return (
            lambda hub: hub.keywords.tree.remove_alias(local(), keyword_id, alias),
            lambda model, _: model.remove_alias(keyword_id, alias),
        )

    def create_info(self, new: Given) -> Deed:
        wanted = self._new_info(new)

        def expect(model: TreeModel, answer: object) -> None:
            model.create_info(answer.record["id"] if isinstance(answer, SavedRow) else "refused", wanted)

        return lambda hub: hub.keywords.infos.create(local(), wanted), expect

    def create_infos(self, drawn: Sequence[Given]) -> Deed:
        items = [self._new_info(new) for new in drawn]

        def expect(model: TreeModel, answer: object) -> None:
            rows = (
                [saved.record for saved in answer.records]
                if isinstance(answer, SavedBatch)
                else [{"id": str(n)} for n in range(len(items))]
            )
            for row, new in zip(rows, items, strict=True):
                model.create_info(row["id"], new)

        return lambda hub: hub.keywords.infos.create_batch(local(), items), expect

    def update_info(self, pick: int, patch: Mapping[str, Any]) -> Deed:
        info_id = self._info(pick)
        return (
            lambda hub: hub.keywords.infos.patch(local(), info_id, patch),
            lambda model, _: model.update_info(info_id, patch),
        )

    def delete_info(self, pick: int) -> Deed:
        info_id = self._info(pick)
        return lambda hub: hub.keywords.infos.delete(local(), info_id), lambda model, _: model.delete_info(info_id)

    def link(self, pick: int, other: int, relation: RelationType, created_by: str) -> Deed:
        info_id, keyword_id = self._info(pick), self._keyword(other)
        return (
            lambda hub: hub.keywords.infos.link(local(), info_id, keyword_id, LinkRequest(relation, created_by)),
            lambda model, _: model.link(info_id, keyword_id, relation.value, created_by),
        )

    def link_near(self, pick: int, relation: RelationType) -> Deed:
        """Link the info of a live link to the parent or to a child of its keyword: a branch then has it twice."""
        pairs = sorted(self.model.links)
        info_id, linked = pairs[pick % len(pairs)] if pairs else (self._info(pick), self._keyword(pick))
        near = self.model.children(linked) or [self.model.keywords.get(linked, {}).get("parent_id") or _NOBODY]
        keyword_id = near[pick % len(near)]
        return (
            lambda hub: hub.keywords.infos.link(local(), info_id, keyword_id, LinkRequest(relation)),
            lambda model, _: model.link(info_id, keyword_id, relation.value, "user"),
        )

    def unlink(self, pick: int) -> Deed:
        pairs = sorted(self.model.links)
        info_id, keyword_id = (
            pairs[pick % len(pairs)] if pairs and pick % _ONE_IN else (self._info(pick), self._keyword(pick))
        )
        return (
            lambda hub: hub.keywords.infos.unlink(local(), info_id, keyword_id),
            lambda model, _: model.unlink(info_id, keyword_id),
        )

    def _keyword(self, pick: int) -> str:
        return _pick_id(sorted(self.model.keywords), pick)

    def _two_keywords(self, pick: int, other: int) -> tuple[str, str]:
        """Pick two keywords; now and then both are the same, or one does not exist."""
        first = self._keyword(pick)
        others = [keyword_id for keyword_id in sorted(self.model.keywords) if keyword_id != first or pick % 7 == 6]
        return first, _pick_id(others, other)

    def _info(self, pick: int) -> str:
        return _pick_id(sorted(self.model.infos), pick)

    def _new(self, new: Given) -> NewKeyword:
        name, pick, aliases, description, metadata, scopes = new
        return NewKeyword(name, self._keyword(pick), aliases, description, metadata, scopes, allow_duplicate=True)

    def _new_info(self, new: Given) -> NewInfo:
        content, picks, scopes = new
        return NewInfo(content, keyword_ids=[self._keyword(pick) for pick in picks], scopes=scopes)


def steps_of(
    model: TreeModel, versions: Mapping[str, int], drawn: Sequence[tuple[int, int, int, str]]
) -> list[dict[str, Any]]:
    """Make the steps of a plan; some of them are invalid."""
    # Few keywords, so that later steps build on earlier ones.
    first = drawn[0][1] % len(model.keywords)
    ids = [*sorted(model.keywords), *sorted(model.keywords)][first : first + 4]

    def ref(pick: int) -> dict[str, Any]:
        keyword_id = ids[pick % len(ids)]
        return {"id": keyword_id, "version": versions[keyword_id] + (pick % 41 == 40)}

    reached = ref(0)

    def step(kind: int, pick: int, other: int, name: str) -> dict[str, Any]:
        nonlocal reached
        match kind % 4:
            case 0:
                reached = ref(other)
                return {"kind": "move", "node": ref(pick), "to": reached}
            case 1:
                # Every second merge gives away what was moved before it.
                return {"kind": "merge", "source": ref(pick) if kind % 8 == 1 else reached, "into": ref(other)}
            case 2:
                return {"kind": "describe", "node": ref(pick), "description": name}
        node = ref(pick)
        below = model.children(node["id"]) or ids
        chosen = [below[(other + more) % len(below)] for more in range(1 + other % 2)]
        children = [{"id": item, "version": versions[item]} for item in chosen]
        return {"kind": "split", "node": node, "groups": [{"name": name, "children": children}]}

    return [step(*item) for item in drawn]


def _pick_id(ids: Sequence[str], pick: int) -> str:
    """Pick a live id, now and then a missing one. Adjacent numbers pick ids that are far apart.

    A negative number picks by age.
    """
    if pick < 0:
        return ids[-1 - pick]
    spread = pick * 2_654_435_761 >> 4
    return ids[spread % len(ids)] if ids and pick % _ONE_IN != _ONE_IN - 1 else _NOBODY


def _with(new: NewKeyword, **fields: Any) -> NewKeyword:  # noqa: ANN401 -- any field
    return NewKeyword(**{name: getattr(new, name) for name in NewKeyword.__slots__} | fields)
