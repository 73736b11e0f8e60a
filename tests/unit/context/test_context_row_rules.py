"""Undoing and erasing memories: new rows go, merged ones are restored, and erased text is nowhere."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.context.model import NODES, PARTS, MemoryCategory
from knowhub.context.queries import list_parts
from knowhub.context.texts import format_transcript
from knowhub.core.errors import Conflict
from knowhub.core.ids import RandomIds
from knowhub.core.operation import Operation
from knowhub.operations.erasure import Erased, ErasureService
from knowhub.operations.service import OperationsService
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.eraser import ErasureFollowUp
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.maintenance import Maintenance
from knowhub.stores.files.projections.directory_export import DirectoryExport
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import local, open_files
from tests.context_directories import make_export, read_text
from tests.context_rows import ACCOUNT, commit_rows, memory_at, node_row, part_row, part_rows, session_at

pytestmark = pytest.mark.anyio

SESSION = session_at()
PREFERENCE = memory_at(MemoryCategory.PREFERENCES, "coffee")
SECRET = "my passport number is X1234567 and I hid it in the blue teapot"


@dataclass(frozen=True, slots=True)
class ErasureAccount:
    store: FileStore
    directories: DirectoryExport
    operations: OperationsService
    erasures: ErasureService
    folder: Path

    async def commit(self, *rows: Mapping[str, Any], reply: Mapping[str, Any] | None = None) -> Operation:
        operation = await commit_rows(self.store, *rows, reply=reply)
        assert await self.directories.project(ACCOUNT, operation)
        return operation

    async def undo(self, operation: Operation) -> None:
        await self.operations.undo(local(), operation.operation_id)
        await self.directories.catch_up()

    async def erase(self, collection: str, row_id: str) -> Erased:
        return await self.erasures.erase(local(), collection, row_id)

    def row(self, collection: str, row_id: str) -> Mapping[str, Any]:
        row = self.store.view(ACCOUNT).get(collection, row_id)
        assert row is not None
        return row


@asynccontextmanager
async def open_account(folder: Path) -> AsyncIterator[ErasureAccount]:
    files, directory = FileSystem(), DataDirectory(folder)
    store = open_files(folder, options=StoreOptions(segment_bytes=1))
    directories = make_export(store, folder)
    maintenance = Maintenance(files, directory.leader_lock, 1.0, {"context": directories.catch_up}, {})
    derived_files = ErasureFollowUp(files, directory, maintenance, {"context": directories})
    try:
        yield ErasureAccount(
            store,
            directories,
            OperationsService(store, RandomIds(), COLLECTIONS),
            ErasureService(store, derived_files, COLLECTIONS),
            folder,
        )
    finally:
        await maintenance.close()
        await store.close()


def find_files_with(folder: Path, text: str) -> list[str]:
    """Return the files that hold a text, by their paths."""
    return sorted(_iter_files_with(folder, text.encode()))


def _iter_files_with(folder: Path, text: bytes) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and text in path.read_bytes():
            yield str(path.relative_to(folder))


def session_row(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    counts = {"session_id": "s1", "message_count": 2, "committed": 1}
    return node_row(SESSION, **{"metadata": counts, **fields})


async def test_an_older_commit_is_undone_if_newer_ones_only_added_counts(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        first = session_row()
        second = session_row(metadata={"session_id": "s1", "message_count": 4, "committed": 2}, version=2)
        third = session_row(metadata={"session_id": "s1", "message_count": 6, "committed": 3}, version=3)
        await here.commit(first, *part_rows(SESSION, ["a", "b"]))
        older = await here.commit(second, *part_rows(SESSION, ["c", "d"], 2))
        await here.commit(third, *part_rows(SESSION, ["e", "f"], 4))

        await here.undo(older)

        assert here.row(NODES, SESSION)["metadata"] == {"session_id": "s1", "message_count": 4, "committed": 2}
        expected = format_transcript([*part_rows(SESSION, ["a", "b"]), *part_rows(SESSION, ["e", "f"], 4)])
        assert read_text(here.folder, SESSION) == expected


async def test_undo_subtracts_tool_uses_and_keeps_later_ones(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        tool = "ctx://default/agents/bot/tools/grep"

        def used(calls: int, seconds: float, last: str, version: int) -> dict[str, Any]:
            stats = {"calls": calls, "success": calls, "failure": 0, "total_seconds": seconds, "last_used": last}
            return node_row(tool, metadata={"stats": stats}, version=version)

        await here.commit(used(1, 0.5, "2026-01-01", 1))
        older = await here.commit(used(3, 1.5, "2026-01-02", 2))
        newest = await here.commit(used(4, 2.0, "2026-01-03", 3))

        await here.undo(older)
        after_older = here.row(NODES, tool)["metadata"]["stats"]
        await here.undo(newest)

        assert (after_older["calls"], after_older["total_seconds"], after_older["last_used"]) == (2, 1.0, "2026-01-03")
        left = here.row(NODES, tool)["metadata"]["stats"]
        assert (left["calls"], left["total_seconds"], left["last_used"]) == (1, 0.5, "2026-01-02")


async def test_an_undo_that_would_orphan_messages_is_refused(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        first = await here.commit(session_row())
        later = part_row(SESSION, 0, "a")
        added = await here.commit(later)

        with pytest.raises(Conflict) as refused:
            await here.undo(first)

        assert refused.value.extra["blocked_by"] == [added.operation_id]
        assert here.row(NODES, SESSION).get("deleted") is None


async def test_messages_do_not_come_back_without_their_session(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        part = part_row(SESSION, 0, "a")
        await here.commit(session_row(), part)
        deleted = await here.commit({**part, "deleted": True, "version": 2})
        gone = await here.commit({**session_row(), "deleted": True, "version": 2})

        with pytest.raises(Conflict) as refused:
            await here.undo(deleted)

        assert refused.value.extra["blocked_by"] == [gone.operation_id]


async def test_erasing_a_session_erases_its_messages_and_deleted_ones(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        parts = part_rows(SESSION, [SECRET, "y", f"again: {SECRET}"])
        other = session_at("s10")
        await here.commit(
            session_row(abstract=SECRET), *parts, node_row(other), *part_rows(other, ["stays here for good"])
        )
        await here.commit({**parts[2], "deleted": True, "version": 2})

        await here.erase(NODES, SESSION)

        assert find_files_with(tmp_path, SECRET) == []
        assert [here.row(PARTS, part["id"])["erased"] for part in parts] == [True] * 3
        assert [summary.uri for summary in list_parts(here.store.view(ACCOUNT), other)] == [
            part_rows(other, ["x"])[0]["id"]
        ]
        assert "stays here for good" in read_text(here.folder, other)


@pytest.mark.parametrize(("by", "stays"), [("rules", "A talk about hiding places."), ("llm", ""), ("person", "")])
async def test_erasing_a_message_erases_generated_summaries_only(tmp_path: Path, by: str, stays: str) -> None:
    async with open_account(tmp_path) as here:
        parts = part_rows(SESSION, ["hello there", SECRET])
        metadata = {"session_id": "s1", "message_count": 2, "committed": 1, "by": by}
        retold = session_row(abstract="A talk about hiding places.", overview="", metadata=metadata)
        await here.commit(retold, *parts)

        await here.erase(PARTS, str(parts[1]["id"]))

        assert here.row(NODES, SESSION)["abstract"] == stays
        assert (find_files_with(tmp_path, "A talk about hiding places.") != []) is (by == "rules")


async def test_erasing_a_message_names_the_memories_made_from_it(tmp_path: Path) -> None:
    async with open_account(tmp_path) as here:
        parts = part_rows(SESSION, ["hello there", SECRET])
        made = node_row(PREFERENCE, content="a teapot lover", metadata={"source_refs": [parts[1]["id"]]})
        other = node_row(memory_at(MemoryCategory.EVENTS, "b"), metadata={"source_refs": [parts[0]["id"]]})
        await here.commit(session_row(), *parts, made, other)

        of_message = await here.erase(PARTS, str(parts[1]["id"]))
        of_session = await here.erase(NODES, SESSION)

        assert of_message.other_rows == [PREFERENCE]
        assert sorted(of_session.other_rows) == sorted([PREFERENCE, str(other["id"])])


@pytest.mark.parametrize("content", ["", "a", "好"])
async def test_short_messages_have_room_for_the_erased_mark(tmp_path: Path, content: str) -> None:
    async with open_account(tmp_path) as here:
        parts = part_rows(SESSION, [content, "b"])
        bare = node_row(memory_at(MemoryCategory.EVENTS, "a"), abstract="")
        await here.commit(session_row(), *parts, bare)

        await here.erase(PARTS, str(parts[0]["id"]))
        await here.erase(NODES, str(bare["id"]))

    async with open_account(tmp_path) as here:
        assert here.row(PARTS, str(parts[0]["id"]))["erased"] is True
        assert [summary.uri for summary in list_parts(here.store.view(ACCOUNT), SESSION)] == [parts[1]["id"]]
