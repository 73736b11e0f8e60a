"""Open hubs whose upkeep runs only when the test calls it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.clock import Clock
from knowhub.core.collection import Collections
from knowhub.core.language_models import Embedder
from knowhub.knowledge.model import NewKnowledge
from knowhub.search.vector_files import VectorFiles
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder
from knowhub.stores.files.subprocess_runner import SubprocessRunner, run_in_process
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.collections import COLLECTIONS, FIXED_IDS
from tests.builders import OWNER, FakeClock, local
from tests.pure_decisions import run_twice


def open_search_hub(
    folder: Path,
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    **settings: Any,  # noqa: ANN401 -- any setting
) -> AbstractAsyncContextManager[Hub]:
    """Open a hub whose searches wait long for the embedder."""
    given = Settings(data_dir=folder, owner=OWNER, embedding_search_budget_s=30.0, **settings)
    return open_hub(given, Overrides(embedder=embedder, clock=clock, run_decision=run_twice), maintain=False)


async def embed_pending(hub: Hub) -> None:
    """Index and embed all records that wait."""
    if hub.indexes.records.vectors is not None:
        await hub.indexes.records.vectors.embed_pending()
    await hub.maintenance.tick()


def read_vectors(folder: Path, family: str = "") -> Mapping[int, bytes]:
    """Return every vector on the disk by the number of its text; of memories, the family is `context`."""
    by_number: dict[int, bytes] = {}
    for account in sorted((folder / "indexes" / family / "vectors").glob("*")):
        files = VectorFiles(account)
        note = files.read_metadata()
        # A process that was killed before its first note has written no vector.
        rows = () if note is None else files.read(note)
        by_number |= {int(row["number"]): row["vector"].tobytes() for row in rows}
    return by_number


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
