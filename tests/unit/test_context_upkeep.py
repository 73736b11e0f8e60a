"""Memories in a whole hub: their directories follow a restore, an erasing and a compaction, and outlive a restart."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub
from knowhub.context.model import NODES, Category, MemoryContext
from knowhub.core.erasing import is_erased
from knowhub.stores.files.apart import run_here
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.filesystem import RealFileSystem
from tests.builders import FakeClock, local
from tests.context_rows import ACCOUNT, draft, memory_at, node_row, said, session_at
from tests.hubs import hub_at

pytestmark = pytest.mark.anyio

SESSION, EVENT = session_at(), memory_at(Category.EVENTS, "a")
WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")
ROWS = [node_row(SESSION), *said(SESSION, ["one", "two"]), node_row(EVENT, content="as it was")]


async def put(hub: Hub, *rows: Mapping[str, Any]) -> None:
    await hub.store.commit(ACCOUNT, "user:li", lambda _view: draft(*rows))
    await hub.keeper.run_once()


def nodes_in(folder: Path) -> ContextFS:
    return ContextFS(RealFileSystem(), folder / "context")


def files_of(folder: Path) -> dict[str, bytes]:
    root = folder / "context"
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "checkpoint.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def texts_of(folder: Path) -> dict[str, bytes]:
    return {name: text for name, text in files_of(folder).items() if not name.endswith(".meta.json")}


async def test_directories_follow_a_restore(tmp_path: Path) -> None:
    clock = FakeClock()
    async with hub_at(tmp_path, clock) as hub:
        await put(hub, *ROWS)
        before = texts_of(tmp_path)
        snapshot = await hub.snapshots.create()
        clock.advance(60)
        later = node_row(memory_at(Category.EVENTS, "later"))
        gone = {**ROWS[0], "deleted": True, "version": 2}
        parts = [{**part, "deleted": True, "version": 2} for part in ROWS[1:3]]
        await put(hub, {**ROWS[3], "content": "changed", "version": 2}, later, gone, *parts)
        assert texts_of(tmp_path) != before

        await hub.snapshots.restore(local(), snapshot.ts)
        await hub.keeper.run_once()

        assert texts_of(tmp_path) == before
        assert hub.keeper.failures == {}


async def test_directories_are_the_same_behind_a_compaction_and_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with hub_at(tmp_path, clock) as hub:
        await put(hub, *ROWS)
        await put(hub, *said(SESSION, ["three"], 2), {**ROWS[0], "version": 2})
        before = files_of(tmp_path)
        clock.advance(400 * 24 * 3600)
        await hub.store.compact(0.0, run_here(RealFileSystem()))
        assert hub.store.base_seq > 0
        await hub.keeper.run_once()
        assert files_of(tmp_path) == before
    (tmp_path / "context" / "checkpoint.json").unlink()

    async with hub_at(tmp_path, clock) as hub:
        await hub.keeper.run_once()

        assert files_of(tmp_path) == before


async def test_an_erasing_is_answered_when_no_directory_tells_of_the_row_any_more(tmp_path: Path) -> None:
    async with hub_at(tmp_path) as hub:
        await put(hub, *ROWS)

        erased = await hub.erasures.erase(local(), NODES, EVENT)

        assert list(erased.pending) == []
        assert not any(b"as it was" in text for text in files_of(tmp_path).values())
        assert not nodes_in(tmp_path).exists(WHOSE, EVENT)
        assert is_erased(hub.store.view(ACCOUNT).get(NODES, EVENT))


@pytest.mark.parametrize("account", [None, ACCOUNT, "the keeper's rounds"])
async def test_a_running_server_mends_directories_that_somebody_damaged(tmp_path: Path, account: str | None) -> None:
    async with hub_at(tmp_path) as hub:
        await put(hub, *ROWS)
        before = files_of(tmp_path)
        removed, scribbled = sorted(path.parent for path in (tmp_path / "context").rglob(".meta.json"))
        shutil.rmtree(removed)
        (scribbled / "content.md").write_text("mine")

        if account == "the keeper's rounds":
            await hub.keeper.run_once()
        else:
            await hub.reindex(lambda _done, _total: None, account)

        assert files_of(tmp_path) == before
