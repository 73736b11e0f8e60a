"""An open hub whose upkeep runs only when the test says so."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from knowhub.bootstrap import Hub, World, open_hub
from knowhub.core.embedding import Embedder
from knowhub.knowledge.model import NewKnowledge
from knowhub.settings import Settings
from knowhub.stores.files.apart import Apart, run_here
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder, SnapshotParts
from knowhub.wiring.rules import UNDO_RULES
from tests.builders import OWNER, FakeClock, local


@asynccontextmanager
async def hub_on(folder: Path, index_batch: int = 1000, embedder: Embedder | None = None) -> AsyncIterator[Hub]:
    """Open a hub whose upkeep runs only when the test says so, and once at its end."""
    settings = Settings(data_dir=folder, owner=OWNER, index_batch=index_batch, embedding_search_budget_s=30.0)
    async with open_hub(settings, World(embedder=embedder), keep=False) as hub:
        yield hub


async def saved(hub: Hub, new: NewKnowledge) -> str:
    """Save a record and return its id."""
    return str((await hub.knowledge.save(local(), new)).record["id"])


def hub_at(
    folder: Path, clock: FakeClock | None = None, lock_timeout_s: float = 10.0
) -> AbstractAsyncContextManager[Hub]:
    """Open a hub that does here what others do in a process apart, so that it costs none."""
    world = World(clock=clock or FakeClock(), files=RealFileSystem())
    return open_hub(Settings(data_dir=folder, owner=OWNER, lock_timeout_s=lock_timeout_s), world, keep=False)


def folder_of(hub: Hub, root: Path, apart: Apart | None = None) -> SnapshotFolder:
    """Return the folder of snapshots that a hub has, with another way to run what it runs apart."""
    files, fixed = RealFileSystem(), {collection: rules.fixed for collection, rules in UNDO_RULES.items()}
    parts = SnapshotParts(files, DataDirectory(root), hub.store, hub.clock, hub.ids, apart or run_here(files), fixed)
    return SnapshotFolder(parts)
