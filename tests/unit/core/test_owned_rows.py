"""A kind of row with an owner and scopes, as CONTRIBUTING describes it: its declaration, and its inherited verbs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from knowhub.core.collection import Collection, Lookup, check_rows
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.operation import Draft, Row, View
from knowhub.core.owned_rows import OwnedRows, SavedRow, list_visible, make_owned_fields, scan_newest
from knowhub.core.request_context import RequestContext
from knowhub.operations.service import OperationsService
from tests.builders import CountedIds, FakeClock, caller, local
from tests.collections_of_tests import BY_TEXT, CLIPPING, CLIPPING_TABLE, LABELS, NOTES, WITH_NOTES
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

ANN, BOB = caller(user_id="ann"), caller(user_id="bob")


class Clippings(OwnedRows):
    """The service of the recipe: all but `create` is inherited."""

    async def create(
        self, ctx: RequestContext, row_id: str, scopes: list[str] | None = None, **fields: str
    ) -> SavedRow:
        def decide(view: View) -> Draft:
            owned = make_owned_fields(ctx, scopes, None, "a clipping", view.now)
            return Draft("save_clipping", [self.write({"id": row_id, "url": "", "content": "", **fields, **owned})])

        return self.make_saved(ctx, await self._store.commit(ctx.account, ctx.actor, decide))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock(), CountedIds())


@pytest.fixture
def clippings(store: MemoryStore) -> Clippings:
    return Clippings(store, CLIPPING)


async def list_ids(store: MemoryStore, ctx: RequestContext, limit: int = 10, before: int | None = None) -> list[str]:
    found = await list_visible(store, ctx, scan_newest(CLIPPING_TABLE, before), limit)
    return [summary.id for summary in found]


async def test_a_list_returns_the_newest_visible_rows_before_a_position(
    store: MemoryStore, clippings: Clippings
) -> None:
    for row_id, scopes in (("a", ["public"]), ("b", None), ("c", ["public"]), ("d", ["public"])):
        await clippings.create(ANN, row_id, scopes)

    assert await list_ids(store, BOB) == ["d", "c", "a"]
    assert await list_ids(store, BOB, limit=2) == ["d", "c"]
    assert await list_ids(store, BOB, before=2) == ["a"]


async def test_undo_restores_a_deleted_row_and_history_shows_it(store: MemoryStore, clippings: Clippings) -> None:
    await clippings.create(ANN, "b-1", content="old")
    await clippings.patch(ANN, "b-1", {"content": "new"})
    operation_id = await clippings.delete(ANN, "b-1")
    with pytest.raises(NotFound):
        await clippings.read(ANN, "b-1")

    await OperationsService(store, CountedIds(), WITH_NOTES).undo(ANN, operation_id)

    assert (await clippings.read(ANN, "b-1"))["content"] == "new"
    page = await clippings.history(ANN, "b-1", limit=3)
    assert [entry.op for entry in page.entries] == ["undo_operation", "delete_clipping", "edit_clipping"]
    assert page.entries[2].changes == {"content": {"before": "old", "after": "new"}}
    last = await clippings.history(ANN, "b-1", before=page.next_before)
    assert ([entry.op for entry in last.entries], last.next_before) == (["save_clipping"], None)


@pytest.mark.parametrize(
    ("row", "text"),
    [({"url": "u", "content": "t"}, "u"), ({"url": " ", "content": "t"}, "t"), ({"url": "", "content": None}, "")],
)
def test_the_text_of_a_row_is_its_first_non_blank_text(row: Mapping[str, Any], text: str) -> None:
    assert CLIPPING.erase_rules.main_text(row) == text


def test_unique_keys_need_a_table(store: MemoryStore) -> None:
    collections = {**WITH_NOTES, LABELS: Collection(LABELS, unique=(BY_TEXT,))}

    with pytest.raises(TypeError, match="the rows of labels have no index"):
        check_rows(collections, store.view(local().account), {(LABELS, "a"): {"id": "a", "version": 1, "text": "red"}})


def test_a_rule_sees_other_rows_of_the_same_write(store: MemoryStore) -> None:
    def validate(lookup: Lookup, rows: Sequence[Row]) -> None:
        for row in rows:
            if lookup(NOTES, row["note"]) is None:
                raise InvalidInput.of("note", "there is no such note")

    collections = {**WITH_NOTES, LABELS: Collection(LABELS, validate=validate)}
    view, label = store.view(local().account), {"id": "a", "version": 1, "note": "n-1"}

    check_rows(collections, view, {(LABELS, "a"): label, (NOTES, "n-1"): {"id": "n-1", "version": 1}})
    check_rows(collections, view, {(LABELS, "a"): {**label, "deleted": True}})
    with pytest.raises(InvalidInput, match="no such note"):
        check_rows(collections, view, {(LABELS, "a"): label})
