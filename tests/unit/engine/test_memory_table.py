"""Rows in memory: found by their keys after renames, deletes and moves, and in the overlay of a batch."""

import random
from typing import Any

import orjson
import pytest

from knowhub.core.operation import View
from knowhub.core.table_schema import TableSchema
from knowhub.engine.overlay import Overlay
from knowhub.engine.view import AccountView
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from knowhub.keywords.tree import (
    count_children,
    find_by_token,
    find_keyword,
    list_child_ids,
    list_children,
    list_keywords,
)
from tests.fakes.account_rows import AccountRows
from tests.keyword_rows import keyword_row


def rows_of(*rows: dict[str, Any]) -> AccountRows:
    stored = AccountRows()
    for row in rows:
        stored.put(KEYWORDS, row)
    return stored


def decided_over(stored: AccountRows, *rows: dict[str, Any]) -> tuple[Overlay, View]:
    overlay = Overlay(stored.account)
    for row in rows:
        overlay.put(KEYWORDS, row["id"], row, orjson.dumps(row), 0)
    return overlay, AccountView(overlay, now=0.0)


def ids(nodes: Any) -> list[str]:  # noqa: ANN401 -- nodes, however they are given
    return [node.id for node in nodes]


def having(view: View, token: str) -> list[str]:
    return ids(find_by_token(view, token))


def below(view: View, keyword_id: str = ROOT_ID) -> list[str]:
    found = ids(list_children(view, keyword_id))
    assert list(list_child_ids(view, keyword_id)) == found
    assert count_children(view, keyword_id) == len(found)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_each_of_several_rows_with_a_key_can_go_and_come_back(count: int) -> None:
    expected = [f"k{number}" for number in range(count)]
    stored = rows_of(*(keyword_row(row_id, "Python") for row_id in expected))

    for gone in expected:
        stored.put(KEYWORDS, keyword_row(gone, "Python", version=2, deleted=True))
        assert having(stored.view, "python") == [row_id for row_id in expected if row_id != gone]
        stored.put(KEYWORDS, keyword_row(gone, "Python", version=3))
        assert having(stored.view, "python") == expected


def test_a_child_may_be_known_before_its_parent() -> None:
    # As after a damaged line: what is left is read all the same.
    view = rows_of(keyword_row("b", parent_id="lost")).view

    assert below(view, "lost") == ["b"]
    assert find_keyword(view, "lost") is None


def test_rows_that_are_read_back_are_found_as_rows_that_are_written() -> None:
    rows = [keyword_row("a", "Python"), keyword_row("b", "Go", "a"), keyword_row("a", "Rust", version=2)]
    read = AccountRows()

    read.load(KEYWORDS, *rows)

    assert list(list_keywords(read.view)) == list(list_keywords(rows_of(*rows).view))
    assert (having(read.view, "rust"), having(read.view, "python")) == (["a"], [])


def test_the_rows_that_refer_to_a_row_are_named() -> None:
    view = rows_of(keyword_row("a"), keyword_row("b", parent_id="a")).view

    assert view.referrers(KEYWORDS, "a") == [(KEYWORDS, "b")]
    assert view.referrers(KEYWORDS, "b") == []


def test_a_thousand_changes_leave_what_a_plain_list_says() -> None:
    order = random.Random(5)
    stored, current = AccountRows(), {}
    for version in range(1, 1_500):
        row_id = f"k{order.randrange(60)}"
        fields = {"deleted": True} if order.random() < 0.3 and row_id in current else {}
        row = keyword_row(row_id, order.choice(["Python", "Go", "中文"]), f"k{order.randrange(5)}", version=version)
        stored.put(KEYWORDS, row | fields)
        current[row_id] = row | fields

    live = [row for row in current.values() if "deleted" not in row]
    for token in ("python", "go", "中文"):
        assert having(stored.view, token) == [row["id"] for row in live if token in row["normalized"]]
    for parent_id in (f"k{number}" for number in range(5)):
        assert below(stored.view, parent_id) == [row["id"] for row in live if row["parent_id"] == parent_id]
    assert ids(list_keywords(stored.view)) == [row["id"] for row in live]


def test_an_index_over_decided_rows_follows_what_is_decided_after_it_was_asked() -> None:
    overlay, view = decided_over(rows_of(keyword_row("a")), keyword_row("b", "Go"))
    assert having(view, "go") == ["b"]

    for row in (keyword_row("b", "Rust", version=2), keyword_row("c", "Go")):
        overlay.put(KEYWORDS, row["id"], row, orjson.dumps(row), 0)

    assert having(view, "go") == ["c"]
    assert having(view, "rust") == ["b"]


@pytest.mark.parametrize("changed_before", [0, 1, 2])
def test_a_decided_row_has_the_ordinal_that_it_will_have(changed_before: int) -> None:
    stored = rows_of(keyword_row("a"), keyword_row("b"))
    changed = [keyword_row(row_id, version=2) for row_id in "ab"[:changed_before]]

    _, view = decided_over(stored, *changed, keyword_row("c"), keyword_row("d"), keyword_row("c", version=2))
    decided = [node.ordinal for node in list_keywords(view)]
    stored.put(KEYWORDS, keyword_row("c"), keyword_row("d"))

    assert below(stored.view) == ["a", "b", "c", "d"]
    assert decided == [node.ordinal for node in list_keywords(stored.view)] == [0, 1, 2, 3]


def test_a_plan_sees_its_own_rows_and_leaves_the_view_that_it_was_made_of() -> None:
    stored = rows_of(keyword_row("a", "Python"))
    _, decided = decided_over(stored, keyword_row("b", "Go"))
    plan = decided.plan()

    plan.put(KEYWORDS, "c", keyword_row("c", "Go"))
    node: Node | None = find_keyword(plan, "c")

    assert node is not None
    assert node.ordinal == 2
    assert having(plan, "go") == ["b", "c"]
    assert having(decided, "go") == ["b"]
    assert having(stored.view, "go") == []


def test_a_field_that_an_older_row_lacks_is_read_with_its_default() -> None:
    schema = TableSchema[Any]("books", defaults={"language": None, "pages": 1})
    stored = AccountRows({"books": schema})
    stored.put("books", {"id": "old", "pages": 7}, {"id": "new", "pages": 8, "language": "en"})
    overlay = Overlay(stored.account)
    overlay.put("books", "decided", {"id": "decided"}, b'{"id":"decided"}', 0)
    view = AccountView(overlay, now=0.0)
    expected = {
        "old": {"id": "old", "pages": 7, "language": None},
        "new": {"id": "new", "pages": 8, "language": "en"},
        "decided": {"id": "decided", "pages": 1, "language": None},
        "missing": None,
    }

    assert {row_id: view.get("books", row_id) for row_id in expected} == expected
    assert {row_id: orjson.loads(view.raw("books", row_id) or b"null") for row_id in expected} == expected
    assert view.get_acknowledged("books", "old") == expected["old"]
    assert view.get_acknowledged("books", "decided") is None
