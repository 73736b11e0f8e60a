"""Compaction beside other processes: one at a time, only verified files are published."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import NotFound, Unavailable
from knowhub.core.ids import RandomIds, operation_id
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import domain_on, local
from tests.crash.compaction_store import (
    compact,
    fill,
    list_log_files,
    list_unpublished,
    open_store,
    state_of,
)

pytestmark = pytest.mark.anyio


async def test_two_processes_that_compact_at_once_wait_for_each_other(tmp_path: Path) -> None:
    async with open_store(tmp_path) as first, open_store(tmp_path) as other:
        known = await fill(first)
        await other.refresh()
        before, seen = state_of(first, known), list[Sequence[str]]()

        async def looked_at(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0.2)
            made = await run_in_process(FileSystem())(name, root, arguments)
            seen.append(list_unpublished(tmp_path))
            return made

        await asyncio.gather(first.compact(0.0, looked_at), other.compact(0.0, looked_at))

        assert [len(names) for names in seen] in ([1], [1, 1])
        assert (first.status().writable, other.status().writable) == (True, True)
        assert state_of(first, known) == state_of(other, known) == before
    async with open_store(tmp_path) as store:
        assert (state_of(store, known), store.status().damage) == (before, [])


@pytest.mark.parametrize("spoiling", ["emptied", "cut", "of another", "gone"])
async def test_a_changed_base_is_not_published(tmp_path: Path, spoiling: str) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before = state_of(store, known)

        async def spoilt(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            made = await run_in_process(FileSystem())(name, root, arguments)
            spoil(Path(arguments["path"]), spoiling)
            return made

        with pytest.raises(Unavailable):
            await store.compact(0.0, spoilt)

        assert not any(name.startswith("base-") for name in list_log_files(tmp_path))
        assert store.status().writable
        patched = await domain_on(store).knowledge.records.patch(
            local(), known.knowledge_id, {"content": "written since"}
        )
        await domain_on(store).operations.log.undo(local(), patched.operation_id or "")
        assert (await compact(store)).operations > 0
        assert {key: row for key, row in state_of(store, known).items() if key[1] != known.knowledge_id} == {
            key: row for key, row in before.items() if key[1] != known.knowledge_id
        }


async def test_leftovers_of_a_dead_compaction_are_removed(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await fill(store)
        (tmp_path / "change_log" / "base-00000099.g9.jsonl").write_bytes(b"old")

        await compact(store)

        assert list_unpublished(tmp_path) == []
        assert not any("00000099" in name for name in list_log_files(tmp_path))


async def test_compacted_operations_differ_from_unknown_ones_in_errors(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        await compact(store)
        operations = domain_on(store).operations

        with pytest.raises(NotFound, match="a compaction has removed all up to number"):
            await operations.log.undo(local(), known.operation_id)
        with pytest.raises(NotFound, match="a compaction has removed"):
            await operations.log.get(local(), known.operation_id)
        with pytest.raises(NotFound, match=r"^no operation with id"):
            await operations.log.get(local(), operation_id(store.last_seq + 1, RandomIds()))


def spoil(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()
    spoilt = {"emptied": b"", "cut": content[:-1] + b" ", "of another": b"X" + content[1:]}
    if how in spoilt:
        path.write_bytes(spoilt[how])
