"""What a view of the tree must answer, and what an undo must leave, computed naively from the rows of a log."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.keywords import tree
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, InfoQuery, InfoSort, RelationType, link_id
from knowhub.keywords.ports import KeywordView
from tests.keyword_model import TreeModel

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]
_BOOKKEEPING: Final = frozenset({"version", "updated_at"})
# What a keyword is found by is one thing with whether it stands: no undo gives a deleted one other names.
_FOUND_BY: Final = frozenset({("name",), ("aliases",), ("normalized",), ("pinyin",), ("terms",), ("deleted",)})
_GONE: Final = object()


class LogReader:
    """Reads the lines that a log got since the last time, and keeps the newest row of each id."""

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


def check_view(view: KeywordView, rows: Rows) -> None:
    """Fail where a view answers otherwise than the rows say."""
    for (collection, row_id), row in rows.items():
        assert orjson.loads(view.raw(collection, row_id) or b"null") == row
    _check_keywords(view, rows)
    _check_links(view, rows)


def live(rows: Rows, collection: str) -> list[Row]:
    """Return the rows of a collection that are not deleted, in the order of their first writing."""
    return [row for (held, _), row in rows.items() if held == collection and not row.get("deleted")]


def said(rows: Rows) -> Rows:
    """Return every row less what each write moves."""
    return {key: {name: row[name] for name in row if name not in _BOOKKEEPING} for key, row in rows.items()}


def turned_back(rows: Rows, operation: Row) -> Rows | None:
    """Return the rows, as `said`, after an undo of an operation; None when something newer stands in its way."""
    after = said(rows)
    for change in reversed(operation["changes"]):
        key = change["collection"], change["id"]
        present = _flat(rows[key])
        wrote, stood = _flat(change["after"]), _flat(change["before"] or {})
        if change["before"] is None:
            if present != wrote:
                return None
            after[key] = {**after[key], "deleted": True}
            continue
        moved = {path for path in wrote.keys() | stood.keys() if wrote.get(path, _GONE) != stood.get(path, _GONE)}
        compared = moved | _FOUND_BY if moved & _FOUND_BY and key[0] == KEYWORDS else moved
        if any(present.get(path, _GONE) != wrote.get(path, _GONE) for path in compared):
            return None
        kept = {path: value for path, value in present.items() if path not in moved}
        after[key] = _unflat(kept | {path: stood[path] for path in moved if path in stood})
    return after if TreeModel.of(after).fault() is None else None


def _check_keywords(view: KeywordView, rows: Rows) -> None:
    keywords = live(rows, KEYWORDS)
    ever = {row_id: row for (held, row_id), row in rows.items() if held == KEYWORDS}
    assert [node.id for node in view.nodes()] == [row["id"] for row in keywords]
    for name, found in (("normalized", view.by_token), ("pinyin", view.by_pinyin)):
        for word in {word for row in ever.values() for word in row[name]}:
            assert [node.id for node in found(word)] == [row["id"] for row in keywords if word in row[name]]
    for word in {word for row in ever.values() for word in row["terms"]}:
        bearers = [row["id"] for row in keywords if word in row["terms"]]
        assert [node.id for node in view.by_term(word, 2)] == bearers[:2]
    ordinals = []
    for keyword_id in {ROOT_ID: None, **ever}:
        below = [row["id"] for row in keywords if row["parent_id"] == keyword_id]
        assert [child.id for child in view.children(keyword_id)] == below == list(view.child_ids(keyword_id))
        assert view.child_count(keyword_id) == len(below)
    for row in ever.values():
        node = view.node(row["id"])
        assert node is not None
        ordinals.append(node.ordinal)
        assert (node.live, node.version, node.name) == (not row.get("deleted"), row["version"], row["name"])
        assert (node.parent_id, list(node.scopes), node.owner) == (row["parent_id"], row["scopes"], row["owner"])
    assert ordinals == sorted(set(ordinals))
    model = TreeModel.of(rows)
    assert model.fault() is None
    for keyword_id in model.keywords:
        path = model.path(keyword_id)
        assert [node.id for node in tree.path_of(view, keyword_id)] == path
        assert tree.level_of(view, keyword_id) == len(path) - 1


def _check_links(view: KeywordView, rows: Rows) -> None:
    infos = [row_id for held, row_id in rows if held == INFOS]
    newest = [row["id"] for row in live(rows, INFOS)][::-1]
    links = live(rows, LINKS)
    heads = list(view.infos_newest())
    assert [head.id for head in heads] == newest
    assert [head.id for number, head in enumerate(heads) if number] == (
        [head.id for head in view.infos_newest(heads[0].ordinal)] if heads else []
    )
    for info_id in infos:
        head = view.info(info_id)
        assert head is not None
        assert head.live == (info_id in newest)
        of_info = [(link["keyword_id"], link["relation"]) for link in links if link["info_id"] == info_id]
        assert sorted((link.keyword_id, link.relation) for link in view.links_of_info(info_id)) == sorted(of_info)
    for keyword_id in {ROOT_ID, *(row_id for held, row_id in rows if held == KEYWORDS)}:
        relations = {link["info_id"]: link["relation"] for link in links if link["keyword_id"] == keyword_id}
        oldest_first = [(one, relations[one]) for one in infos if one in relations]
        assert [(link.info_id, link.relation) for link in view.links_of_keyword(keyword_id)] == oldest_first
        for relation in (None, *RelationType):
            for sort in InfoSort:
                found = [head.id for head in view.infos_of_keyword(keyword_id, InfoQuery(relation, sort=sort))]
                assert found == _page(oldest_first[::-1], relation, sort)
    assert all((INFOS, link["info_id"]) in rows for link in links)
    assert all(rows.get((LINKS, link_id(link["info_id"], link["keyword_id"]))) is link for link in links)


def _page(newest_first: Sequence[tuple[str, str]], relation: RelationType | None, sort: InfoSort) -> list[str]:
    chosen = [one for one in newest_first if relation is None or one[1] == relation]
    if sort is InfoSort.RELEVANCE:
        chosen.sort(key=lambda one: list(RelationType).index(RelationType(one[1])))
    return [info_id for info_id, _ in chosen]


def _flat(row: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Map each field to its value, and of `metadata` each key; that it is empty is something that it says."""
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
