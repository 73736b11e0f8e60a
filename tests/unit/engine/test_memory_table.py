"""Rows in memory: found by their keys after renames, deletes and moves, and in the overlay of a batch."""

from typing import Any

import orjson

from knowhub.core.table_schema import TableSchema
from knowhub.engine.view import AccountView, Overlay
from tests.fakes.account_rows import AccountRows


def test_a_field_that_an_older_row_lacks_is_read_with_its_default() -> None:
    schema = TableSchema[Any]("books", defaults={"language": None, "pages": 1})
    stored = AccountRows({"books": schema})
    stored.load("books", {"id": "old", "pages": 7}, {"id": "new", "pages": 8, "language": "en"})
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
