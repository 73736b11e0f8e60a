"""The layered memories in memory: what stands below what, in which order, also while a batch is being decided."""

from pathlib import Path
from typing import Any

import pytest

from knowhub.context.model import MemoryCategory
from knowhub.context.queries import (
    SEARCHED_TEXTS,
    find_memory,
    list_folders,
    list_memories,
    list_memories_in,
    list_neighbours,
    list_parts,
)
from knowhub.core.operation import Draft, View
from knowhub.engine.searchable import SearchableRows
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import open_files
from tests.context_rows import ACCOUNT, draft, memory_at, node_row, part_row, said, session_at

pytestmark = pytest.mark.anyio

SESSION = session_at()
LI = "ctx://default/users/li"


async def put(store: FileStore, *rows: dict[str, Any]) -> None:
    await store.commit(ACCOUNT, "user:li", lambda _view: draft(*rows))


def uris(heads: Any) -> list[str]:  # noqa: ANN401 -- heads of either kind
    return [head.uri for head in heads]


async def test_neighbours_are_the_nearest_on_both_sides_without_the_part_itself(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    parts = said(SESSION, [f"text {number}" for number in range(6)])
    await put(store, node_row(SESSION), *parts)

    view: View = store.view(ACCOUNT)

    ids = [part["id"] for part in parts]
    assert uris(list_neighbours(view, ids[3], 2)) == [ids[1], ids[2], ids[4], ids[5]]
    assert uris(list_neighbours(view, ids[0], 2)) == [ids[1], ids[2]]
    assert uris(list_neighbours(view, ids[5], 1)) == [ids[4]]
    assert list_neighbours(view, f"{SESSION}/never", 3) == []
    await store.close()


async def test_a_decision_sees_what_stands_before_it_in_its_batch(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    old = said(SESSION, ["a", "b"])
    await put(store, node_row(SESSION), *old)
    new = said(SESSION, ["c", "d"], first=2)
    seen: dict[str, list[str]] = {}

    def look(view: View) -> Draft:
        seen["parts"] = uris(list_parts(view, SESSION))
        seen["around"] = uris(list_neighbours(view, new[0]["id"], 1))
        seen["around what is not there"] = uris(list_neighbours(view, f"{SESSION}/never", 3))
        seen["below"] = uris(list_memories_in(view, f"{LI}/memories/events"))
        return draft(node_row(memory_at(MemoryCategory.EVENTS, "b")))

    event = node_row(memory_at(MemoryCategory.EVENTS, "a"))
    gone = {**old[1], "deleted": True, "version": 2}
    await store.commit_group(ACCOUNT, "user:li", [lambda _view: draft(*new, gone, event), look])

    ids = [old[0]["id"], new[0]["id"], new[1]["id"]]
    assert seen == {
        "parts": ids,
        "around": [ids[0], ids[2]],
        "around what is not there": [],
        "below": [event["id"]],
    }
    assert uris(list_parts(store.view(ACCOUNT), SESSION)) == ids
    await store.close()


async def test_a_session_that_is_called_sessions_has_parts_like_any_other(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    session = session_at("sessions")
    parts = said(session, ["a", "b"])

    await put(store, node_row(session), *parts)

    view: View = store.view(ACCOUNT)
    assert [head.is_part for head in list_memories(view)] == [False, True, True]
    assert list_folders(view, f"{LI}/sessions") == []
    await store.close()


async def test_text_numbers_outlive_a_reopening_and_a_compaction(tmp_path: Path) -> None:
    store = open_files(tmp_path, options=StoreOptions(segment_bytes=1))
    event = node_row(memory_at(MemoryCategory.EVENTS, "a"))
    parts = said(SESSION, ["a", "b"])
    await put(store, node_row(SESSION), *parts, event)
    # What is searched of it stays: so does its number.
    await put(store, {**event, "content": "more", "version": 2})
    await put(store, {**parts[0], "deleted": True, "version": 2})
    before = numbers(store)
    await store.close()
    store = open_files(tmp_path, options=StoreOptions(segment_bytes=1))
    reopened = numbers(store)

    await store.compact(0.0, run_in_process(RealFileSystem()))
    await store.close()

    store = open_files(tmp_path)
    assert reopened == before
    assert store.base_seq > 0
    assert numbers(store) == before
    found = SearchableRows(store.state(ACCOUNT), SEARCHED_TEXTS)
    assert found.by_text_num(before[event["id"]]) == found.head(event["id"])
    assert found.row(parts[1]["id"])["content"] == "b"
    assert found.seq_of(before[event["id"]]) == 1
    await store.close()


async def test_a_part_that_comes_back_elsewhere_stands_where_it_is_now(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    parts = said(SESSION, ["a", "b", "c"])
    await put(store, node_row(SESSION), *parts)
    await put(store, {**parts[0], "deleted": True, "version": 2})

    await put(store, part_row(SESSION, 7, "a", message_id="m0", version=3))

    view: View = store.view(ACCOUNT)
    assert uris(list_parts(view, SESSION)) == [parts[1]["id"], parts[2]["id"], parts[0]["id"]]
    await store.close()


def numbers(store: FileStore) -> dict[str, int]:
    return {head.uri: head.text_num for head in list_memories(store.view(ACCOUNT))}


async def test_what_was_deleted_is_listed_nowhere_and_its_head_says_so(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    gone = memory_at(MemoryCategory.EVENTS, "gone")
    parts = said(SESSION, ["a", "b", "c"])
    await put(store, node_row(gone), node_row(SESSION), *parts)

    await put(store, node_row(gone, deleted=True, version=2), {**parts[1], "deleted": True, "version": 2})

    view: View = store.view(ACCOUNT)
    head = find_memory(view, gone)
    assert head is not None
    assert not head.live
    assert uris(list_parts(view, SESSION)) == [parts[0]["id"], parts[2]["id"]]
    assert uris(list_neighbours(view, parts[0]["id"], 1)) == [parts[2]["id"]]
    assert list_folders(view, f"{LI}/memories") == []
    assert uris(list_memories(view)) == [SESSION, parts[0]["id"], parts[2]["id"]]
    assert find_memory(view, f"{gone}x") is None
    await store.close()
