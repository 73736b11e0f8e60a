"""Bringing the record files up to the log while something else goes on."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.operation import Draft, Write
from knowhub.knowledge.model import COLLECTION
from knowhub.stores.files.apart import run_here
from knowhub.stores.files.derived.record_rows import record_file
from knowhub.stores.files.derived.records import RecordFiles
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import knowledge_row, open_files

pytestmark = pytest.mark.anyio


async def save(store: FileStore, row_id: str) -> None:
    row = knowledge_row(row_id, content="said")
    await store.commit("default", "user:li", lambda _view: Draft("save_knowledge", [Write(COLLECTION, row_id, row)]))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.jsonl"))}


def has_more(work: Coroutine[Any, Any, object]) -> bool:
    """Let something that was begun have its next turn; tell whether it wants another."""
    try:
        work.send(None)
    except StopIteration:
        return False
    return True


async def test_files_that_a_compaction_overtakes_are_not_taken_for_whole(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    apart = run_here(RealFileSystem())
    records = RecordFiles(tmp_path / "records", store.history, store.log_id, store)
    fresh = RecordFiles(tmp_path / "fresh", store.history, store.log_id, store)
    for row_id in ("a", "b"):
        await save(store, row_id)
    await store.compact(0.0, apart)
    bringing_up = records.bring_up()
    # The rows of the base are written, and it waits for its next turn.
    assert has_more(bringing_up)
    await save(store, "b")
    await store.compact(0.0, apart)
    await save(store, "c")

    while has_more(bringing_up):
        pass
    fits = records.fits(records.checkpoint())
    await records.bring_up()
    await fresh.bring_up()

    assert not fits
    assert records.fits(records.checkpoint())
    assert contents(tmp_path / "records") == contents(tmp_path / "fresh")
    await store.close()


def test_an_account_of_any_name_has_a_folder_that_the_disk_takes() -> None:
    names = ["数" * 200, "数" * 199 + "据", "..", "a/b", "x" * 200]

    folders = [record_file(name, "knowledge").split("/")[1] for name in names]

    assert max(len(folder.encode()) for folder in folders) <= 255
    assert len(set(folders)) == len(names)
    assert not {".", ".."} & set(folders)
