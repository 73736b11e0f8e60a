"""What the domains declare fits what the engine derives from it."""

from typing import Any

import pytest

from knowhub.core.collection import Collection, OnDelete, table_schemas
from knowhub.core.table_schema import TableSchema
from knowhub.engine.account import Account
from knowhub.wiring.collections import COLLECTIONS

SCHEMAS = table_schemas(COLLECTIONS)


def unread(_segment: int, _start: int, _end: int) -> bytes:
    return b""


@pytest.mark.parametrize("collection", COLLECTIONS.values(), ids=COLLECTIONS)
def test_an_index_lists_the_rows_that_refer_to_a_row_which_may_not_go_alone(collection: Collection) -> None:
    targets = {reference.target for reference in collection.references if reference.on_delete is not OnDelete.KEEP}

    indexed = {index.target for index in collection.table.indexes} if collection.table else set()

    assert targets <= indexed


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_table_can_be_made_of_each_schema_and_begins_empty(schema: TableSchema[Any]) -> None:
    table = Account(SCHEMAS, unread).table(schema.name)

    assert len(table) == 0
    assert list(table.rows()) == []
    assert table.summary("none:none") is None


def test_rows_of_a_collection_that_nobody_declared_are_found_by_their_ids() -> None:
    account = Account(SCHEMAS, unread)
    table = account.memory_table("notes")

    table.put("n-1", b'{"id":"n-1"}', {"id": "n-1"}, 0)

    assert account.table("notes").text("n-1") == b'{"id":"n-1"}'
    assert account.read_rows("notes") == [("n-1", {"id": "n-1"})]
    assert account.table("notes").number("n-1") == 0
