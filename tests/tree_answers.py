"""The expected answers of a tree view, and the expected rows after an undo, computed naively from a log."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.core.operation import View
from knowhub.keywords import tree
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, InfoQuery, InfoSort, RelationType, make_link_id
from knowhub.keywords.tree import (
    BY_INFO,
    BY_KEYWORD,
    BY_NAME,
    BY_PARENT,
    BY_PINYIN,
    INFO_TABLE,
    find_by_term,
    find_info,
    find_keyword,
    list_children,
    list_infos_of_keyword,
    list_keywords,
)
from tests.keyword_model import TreeModel

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]
_BOOKKEEPING: Final = frozenset({"version", "updated_at"})
# The fields that find a keyword are undone only together with `deleted`: no undo renames a deleted keyword.
_FOUND_BY: Final = frozenset({("name",), ("aliases",), ("normalized",), ("pinyin",), ("terms",), ("deleted",)})
_PARENT: Final = ("parent_id",)
_GONE: Final = object()


class LogReader:
    """Reads the new lines of a log, and keeps the newest row of each id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "change_log"
        self._lengths: dict[Path, int] = {}
        self.rows: Rows = {}
        self.operations: list[Row] = []

    def read_on(self) -> None:
        for path in sorted(self._folder.glob("*.jsonl")):
            data = path.read_bytes()
            for line in data[self._lengths.get(path, 0) :].splitlines():
                record = json.loads(line)
                if "changes" in record:
                    self._take(record)
            self._lengths[path] = len(data)

    def _take(self, record: Row) -> None:
        assert record["seq"] == len(self.operations) + 1
        for change in record["changes"]:
            key = change["collection"], change["id"]
            before = self.rows.get(key)
            assert change["before"] == before, f"operation {record['seq']} was decided on another {key}"
            assert change["after"]["version"] > (before["version"] if before is not None else 0)
            self.rows[key] = change["after"]
        self.operations.append(record)


def check_view(view: View, rows: Rows) -> None:
    """Fail where an answer of a view differs from the rows."""
    for (collection, row_id), row in rows.items():
        assert orjson.loads(view.raw(collection, row_id) or b"null") == row
    _check_keywords(view, rows)
    _check_links(view, rows)


def list_live(rows: Rows, collection: str) -> list[Row]:
    """Return the rows of a collection that are not deleted, in the order of their first writing."""
    return [row for (held, _), row in rows.items() if held == collection and not row.get("deleted")]


def strip_bookkeeping(rows: Rows) -> Rows:
    """Return every row without the fields that every write changes."""
    return {key: {name: row[name] for name in row if name not in _BOOKKEEPING} for key, row in rows.items()}


def expect_undo(rows: Rows, operation: Row, moment: str) -> Rows | None:
    """Return the rows without bookkeeping after an undo of an operation; None when a newer change blocks it.

    A link that replaces another was created at `moment`.
    """
    after = strip_bookkeeping(rows)
    cascaded = _find_cascaded(operation["changes"])
    for change in reversed(operation["changes"]):
        key = change["collection"], change["id"]
        row = _undo_row(rows[key], change, is_cascaded=key in cascaded)
        if row is not None:
            after[key] = row
        elif key not in cascaded:
            return None
    for key in sorted((key for key in after if key in cascaded and not after[key].get("deleted")), key=_rank(after)):
        _reattach_cascaded(after, rows, key, moment)
    gone = {key for key, row in rows.items() if not row.get("deleted") and after[key].get("deleted")}
    for key in sorted(after, key=_rank(after)):
        _follow(after, key, gone, moment)
    return after if TreeModel.of(after).fault() is None else None


def _undo_row(row: Row, change: Row, *, is_cascaded: bool) -> Row | None:
    present, wrote, stood = _flat(row), _flat(change["after"]), _flat(change["before"] or {})
    if change["before"] is None:
        return None if present != wrote else {**strip_bookkeeping({("", ""): row})["", ""], "deleted": True}
    moved = {path for path in wrote.keys() | stood.keys() if wrote.get(path, _GONE) != stood.get(path, _GONE)}
    compared = moved | _FOUND_BY if moved & _FOUND_BY and change["collection"] == KEYWORDS else moved
    was_deleted = row.get("deleted") and not change["before"].get("deleted") and not change["after"].get("deleted")
    if was_deleted and moved and not is_cascaded:
        return None
    if any(present.get(path, _GONE) != wrote.get(path, _GONE) for path in compared):
        return None
    unmoved = {path: value for path, value in present.items() if path not in moved}
    return _unflat(unmoved | {path: stood[path] for path in moved if path in stood})


def _find_cascaded(changes: Sequence[Row]) -> set[tuple[str, str]]:
    """Return the rows that changed only because another row was deleted or restored."""
    known = [change for change in changes if change["before"] is not None]
    turned = {
        (item["collection"], item["id"])
        for item in known
        if bool(item["before"].get("deleted")) != bool(item["after"].get("deleted"))
    }
    found = set()
    for change in known:
        before, after = _flat(change["before"]), _flat(change["after"])
        if {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == {_PARENT}:
            died = (KEYWORDS, before[_PARENT]) in turned and _is_gone(changes, before[_PARENT])
            came_back = (KEYWORDS, after[_PARENT]) in turned and not _is_gone(changes, after[_PARENT])
            if died or came_back:
                found.add((KEYWORDS, change["id"]))
    links = [change for change in changes if change["collection"] == LINKS]
    infos = {
        link["after"]["info_id"]
        for link in links
        if {(KEYWORDS, link["after"]["keyword_id"]), (INFOS, link["after"]["info_id"])} & turned
    }
    return found | {(LINKS, link["id"]) for link in links if link["after"]["info_id"] in infos}


def _is_gone(changes: Sequence[Row], keyword_id: str) -> bool:
    (after,) = [change["after"] for change in changes if (change["collection"], change["id"]) == (KEYWORDS, keyword_id)]
    return bool(after.get("deleted"))


def _nearest_live(after: Rows, keyword_id: str) -> str:
    """Return the nearest live keyword from this one upwards; the root is always there."""
    passed = set()
    while (KEYWORDS, keyword_id) in after and after[KEYWORDS, keyword_id].get("deleted") and keyword_id not in passed:
        passed.add(keyword_id)
        keyword_id = after[KEYWORDS, keyword_id]["parent_id"]
    return ROOT_ID if keyword_id in passed else keyword_id


def _reattach_cascaded(after: Rows, rows: Rows, key: tuple[str, str], moment: str) -> None:
    row = after[key]
    if key[0] == KEYWORDS:
        row["parent_id"] = _nearest_live(after, row["parent_id"])
        return
    if key[0] == LINKS:
        is_lost = after[INFOS, row["info_id"]].get("deleted")
        heir = _nearest_live(after, row["keyword_id"])
        if is_lost or heir != row["keyword_id"]:
            after[key] = strip_bookkeeping(rows)[key]
        if not is_lost and heir != row["keyword_id"]:
            _link(after, row, heir, moment)


def _link(after: Rows, link: Row, heir: str, moment: str) -> None:
    key = LINKS, make_link_id(link["info_id"], heir)
    if key not in after or after[key].get("deleted"):
        after[key] = {**link, "keyword_id": heir, "created_at": moment}


def _rank(after: Rows) -> Callable[[tuple[str, str]], int]:
    """Of several links of an info that move to one keyword, keep the strongest relation."""
    relations = list(RelationType)
    return lambda key: relations.index(after[key]["relation"]) if key[0] == LINKS else 0


def _follow(after: Rows, key: tuple[str, str], gone: set[tuple[str, str]], moment: str) -> None:
    """Move a child or a link of deleted rows upwards, or delete it with them."""
    row = after[key]
    if row.get("deleted"):
        return
    if key[0] == KEYWORDS and (KEYWORDS, row["parent_id"]) in gone:
        row["parent_id"] = _nearest_live(after, row["parent_id"])
    elif key[0] == LINKS and {(INFOS, row["info_id"]), (KEYWORDS, row["keyword_id"])} & gone:
        if (INFOS, row["info_id"]) not in gone:
            _link(after, row, _nearest_live(after, row["keyword_id"]), moment)
        row["deleted"] = True


def _check_keywords(view: View, rows: Rows) -> None:
    keywords = list_live(rows, KEYWORDS)
    ever = {row_id: row for (held, row_id), row in rows.items() if held == KEYWORDS}
    assert [node.id for node in list_keywords(view)] == [row["id"] for row in keywords]
    for name, index in (("normalized", BY_NAME), ("pinyin", BY_PINYIN)):
        for word in {word for row in ever.values() for word in row[name]}:
            assert [node.id for node in view.lookup(index, word)] == [
                row["id"] for row in keywords if word in row[name]
            ]
    for word in {word for row in ever.values() for word in row["terms"]}:
        bearers = [row["id"] for row in keywords if word in row["terms"]]
        assert [node.id for node in find_by_term(view, word, 2)] == bearers[:2]
    ordinals = []
    for keyword_id in {ROOT_ID: None, **ever}:
        below = [row["id"] for row in keywords if row["parent_id"] == keyword_id]
        assert [child.id for child in list_children(view, keyword_id)] == below
        assert view.count(BY_PARENT, keyword_id) == len(below)
    for row in ever.values():
        node = find_keyword(view, row["id"])
        assert node is not None
        ordinals.append(node.ordinal)
        assert (node.live, node.version, node.name) == (not row.get("deleted"), row["version"], row["name"])
        assert (node.parent_id, list(node.scopes), node.owner) == (row["parent_id"], row["scopes"], row["owner"])
    assert ordinals == sorted(set(ordinals))
    model = TreeModel.of(rows)
    assert model.fault() is None
    for keyword_id in model.keywords:
        path = model.path(keyword_id)
        assert [node.id for node in tree.get_path(view, keyword_id)] == path


def _check_links(view: View, rows: Rows) -> None:
    infos = [row_id for held, row_id in rows if held == INFOS]
    newest = [row["id"] for row in list_live(rows, INFOS)][::-1]
    links = list_live(rows, LINKS)
    heads = list(view.newest(INFO_TABLE))
    assert [head.id for head in heads] == newest
    assert [head.id for number, head in enumerate(heads) if number] == (
        [head.id for head in view.newest(INFO_TABLE, heads[0].ordinal)] if heads else []
    )
    for info_id in infos:
        head = find_info(view, info_id)
        assert head is not None
        assert head.live == (info_id in newest)
        of_info = [(link["keyword_id"], link["relation"]) for link in links if link["info_id"] == info_id]
        assert sorted((link.keyword_id, link.relation) for link in view.lookup(BY_INFO, info_id)) == sorted(of_info)
    for keyword_id in {ROOT_ID, *(row_id for held, row_id in rows if held == KEYWORDS)}:
        relations = {link["info_id"]: link["relation"] for link in links if link["keyword_id"] == keyword_id}
        oldest_first = [(info, relations[info]) for info in infos if info in relations]
        assert [(link.info_id, link.relation) for link in view.lookup(BY_KEYWORD, keyword_id)] == oldest_first
        for relation in (None, *RelationType):
            for sort in InfoSort:
                found = [head.id for head in list_infos_of_keyword(view, keyword_id, InfoQuery(relation, sort=sort))]
                assert found == _page(oldest_first[::-1], relation, sort)
    assert all((INFOS, link["info_id"]) in rows for link in links)
    assert all(rows.get((LINKS, make_link_id(link["info_id"], link["keyword_id"]))) is link for link in links)


def _page(newest_first: Sequence[tuple[str, str]], relation: RelationType | None, sort: InfoSort) -> list[str]:
    chosen = [item for item in newest_first if relation is None or item[1] == relation]
    if sort is InfoSort.RELEVANCE:
        chosen.sort(key=lambda item: list(RelationType).index(RelationType(item[1])))
    return [info_id for info_id, _ in chosen]


def _flat(row: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Map each field, and each key of `metadata`, to its value; an empty `metadata` stays a field."""
    flat: dict[tuple[str, ...], Any] = {(name,): row[name] for name in row if name not in _BOOKKEEPING}
    if flat.get(("metadata",)):
        flat |= {("metadata", name): value for name, value in flat.pop(("metadata",)).items()}
    return flat


def _unflat(flat: Mapping[tuple[str, ...], Any]) -> Row:
    row: Row = {path[0]: value for path, value in flat.items() if len(path) == 1}
    inner = {path[1]: value for path, value in flat.items() if len(path) > 1}
    if inner or "content" in row or "name" in row:
        row["metadata"] = inner
    return row
