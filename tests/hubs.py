"""Open hubs whose upkeep runs only when the test calls it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.collection import Collections
from knowhub.core.language_models import Embedder
from knowhub.knowledge.model import NewKnowledge
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder
from knowhub.stores.files.subprocess_runner import SubprocessRunner, run_in_process
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.collections import COLLECTIONS, FIXED_IDS
from tests.builders import OWNER, FakeClock, local
from tests.pure_decisions import run_twice


@asynccontextmanager
async def open_search_hub(
    folder: Path, index_batch: int = 1000, embedder: Embedder | None = None
) -> AsyncIterator[Hub]:
    """Open a hub whose upkeep runs only when the test calls it, and once at the end."""
    settings = Settings(data_dir=folder, owner=OWNER, index_batch=index_batch, embedding_search_budget_s=30.0)
    async with open_hub(settings, Overrides(embedder=embedder, run_decision=run_twice), maintain=False) as hub:
        yield hub


async def save_record(hub: Hub, new: NewKnowledge) -> str:
    """Save a record and return its id."""
    return str((await hub.knowledge.records.save(local(), new)).record["id"])


def open_hub_at(
    folder: Path, clock: FakeClock | None = None, lock_timeout_s: float = 10.0
) -> AbstractAsyncContextManager[Hub]:
    """Open a hub that starts no subprocess: it does that work in this process."""
    world = Overrides(clock=clock or FakeClock(), files=FileSystem(), run_decision=run_twice)
    return open_hub(Settings(data_dir=folder, owner=OWNER, lock_timeout_s=lock_timeout_s), world, maintain=False)


def make_snapshot_folder(
    hub: Hub, root: Path, apart: SubprocessRunner | None = None, collections: Collections = COLLECTIONS
) -> SnapshotFolder:
    """Return the snapshot folder of a hub; `apart` replaces its subprocess runner."""
    files, fixed = FileSystem(), FIXED_IDS
    return SnapshotFolder(
        files, DataDirectory(root), hub.store, hub.clock, hub.ids, apart or run_in_process(files), fixed, collections
    )
