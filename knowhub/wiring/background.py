"""Builds what the leader process does in the background: projections, snapshots, compaction, erasing."""

from contextlib import AsyncExitStack, suppress

from knowhub.context.commit.background_extraction import SessionExtraction
from knowhub.core.clock import Clock, iso
from knowhub.core.erasing import is_erased
from knowhub.core.projection import Projection
from knowhub.operations.jobs import PeriodicSnapshots, PeriodicTask
from knowhub.resources.model import RESOURCES
from knowhub.resources.vault import Vault
from knowhub.stores.files.erasing.eraser import ErasureFollowUp
from knowhub.stores.files.maintenance import Maintenance, MaintenanceTask
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder
from knowhub.stores.files.store import FileStore
from knowhub.wiring.adapters import Adapters
from knowhub.wiring.collections import COLLECTIONS, FIXED_IDS
from knowhub.wiring.exports import Exports, build_exports
from knowhub.wiring.indexes import Indexes

DAY_S = 24 * 3600.0
HOUR_S = 3600.0


class BackgroundWork:
    """The background work of a store and what it writes; `stack` closes it."""

    def __init__(self, adapters: Adapters, indexes: Indexes, stack: AsyncExitStack) -> None:
        _close_folders_to_others(adapters)
        store, directory, settings = adapters.store, adapters.directory, adapters.settings
        shredder = KeyShredder(store, adapters.vault, adapters.clock)
        self.exports = build_exports(adapters.files, directory, store, adapters.run_subprocess, settings)
        self.archives = _build_snapshot_folder(adapters)
        snapshots = _build_periodic_snapshots(adapters, self.archives)
        compaction = _build_compaction(adapters)
        projections = _list_projections(indexes, self.exports)
        leader_jobs: dict[str, MaintenanceTask] = {
            name: projection.catch_up for name, projection in projections.items()
        }
        leader_jobs |= {
            "embedder": indexes.publish_embedder,
            "snapshots": snapshots.tick,
            "compaction": compaction.tick,
        }
        self.extraction = None
        if adapters.chat is not None:
            self.extraction = SessionExtraction(
                store,
                adapters.chat,
                indexes.memories.index,
                self.exports.directories,
                settings.extraction_budget_s,
                lambda: self.maintenance.wake(),  # noqa: PLW0108 -- it is built below
            )
            leader_jobs["extraction"] = self.extraction.tick
        self.maintenance = _build_maintenance(adapters, indexes, shredder, leader_jobs)
        self.derived_files = ErasureFollowUp(
            adapters.files,
            directory,
            self.maintenance,
            {**projections, "keys": shredder, "open_files": store.eraser},
        )
        stack.push_async_callback(self.exports.directories.close)
        stack.push_async_callback(self.maintenance.close)
        # Before the maintenance, which would wait for a batch of texts to be embedded.
        stack.push_async_callback(indexes.close)
        stack.push_async_callback(snapshots.close)
        stack.push_async_callback(compaction.close)
        if self.extraction is not None:
            stack.push_async_callback(self.extraction.close)
        stack.callback(self.exports.maps.finish)


class KeyShredder:
    """Destroys the keys of erased rows. If a process dies in an erase, the next leader destroys its keys."""

    def __init__(self, store: FileStore, vault: Vault, clock: Clock) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock
        self._last_erase_seq = -1

    @property
    def erased_through_seq(self) -> int:
        """The number of the newest erase whose keys, and those of all before it, were destroyed."""
        return self._last_erase_seq

    async def tick(self) -> None:
        """Destroy the keys of erased resources; does nothing if there was no erase since the last call."""
        last_erase_seq = self._store.last_erase_seq
        if last_erase_seq == self._last_erase_seq:
            return

        def is_gone(account: str, resource_id: str) -> bool:
            return is_erased(self._store.view(account).get(RESOURCES, resource_id))

        await self._vault.destroy(is_gone, iso(self._clock.now()))
        self._last_erase_seq = last_erase_seq


def _close_folders_to_others(adapters: Adapters) -> None:
    """Make the folders of derived files with the mode of the log's: the directory above may be open to others."""
    directory = adapters.directory
    for folder in [directory.indexes, *([directory.records] if adapters.settings.record_files else [])]:
        # A folder that cannot be made now is made by its writer, which reports the error.
        with suppress(OSError):
            adapters.files.make_folder(folder)


def _list_projections(indexes: Indexes, exports: Exports) -> dict[str, Projection]:
    return {
        "indexes": indexes.records.lexical,
        "vectors": indexes.records.vector_files,
        "memory_indexes": indexes.memories.lexical,
        "memory_vectors": indexes.memories.vector_files,
        "tree_indexes": indexes.tree.lexical,
        "tree_vectors": indexes.tree.vector_files,
        "records": exports.records,
        "maps": exports.maps,
        "context": exports.directories,
    }


def _build_snapshot_folder(adapters: Adapters) -> SnapshotFolder:
    settings = adapters.settings
    return SnapshotFolder(
        files=adapters.files,
        directory=adapters.directory,
        log=adapters.store,
        clock=adapters.clock,
        ids=adapters.ids,
        run_subprocess=adapters.run_subprocess,
        fixed=FIXED_IDS,
        collections=COLLECTIONS,
        wait_s=settings.lock_timeout_s,
        max_bytes=settings.snapshot_max_bytes,
    )


def _build_compaction(adapters: Adapters) -> PeriodicTask:
    store, settings = adapters.store, adapters.settings
    retention_s, hours = settings.undo_retention_days * DAY_S, settings.compaction_interval_hours

    async def is_due(_now: float) -> bool:
        return hours > 0 and await store.compaction.is_due(retention_s)

    return PeriodicTask(
        adapters.clock, hours * HOUR_S, lambda: store.compact(retention_s, adapters.run_subprocess), is_due
    )


def _build_periodic_snapshots(adapters: Adapters, archives: SnapshotFolder) -> PeriodicSnapshots:
    store, settings = adapters.store, adapters.settings

    async def find_begin() -> float | None:
        oldest = await store.history.at_async(store.base_seq + 1)
        return None if oldest is None else oldest.timestamp

    limits = (settings.snapshot_interval_hours, settings.snapshots_kept)
    return PeriodicSnapshots(archives, adapters.clock, limits, lambda: store.last_seq, find_begin)


def _build_maintenance(
    adapters: Adapters, indexes: Indexes, shredder: KeyShredder, leader_jobs: dict[str, MaintenanceTask]
) -> Maintenance:
    store, settings = adapters.store, adapters.settings

    async def reload() -> None:
        for index in indexes.families:
            index.lexical.reload()

    every_process: dict[str, MaintenanceTask] = {
        "refresh": store.refresh,
        "erasing": store.eraser.remove_replaced_files,
        "room": store.commits.resume,
        # An erase waits for this: no key outlives its answer, whichever process is the leader.
        "keys": shredder.tick,
    }
    followers: dict[str, MaintenanceTask] = {
        "embedder": indexes.compare_embedder,
        "indexes": reload,
        "vectors": indexes.records.vector_files.reload,
        "memory_vectors": indexes.memories.vector_files.reload,
        "tree_vectors": indexes.tree.vector_files.reload,
    }
    maintenance = Maintenance(
        adapters.files,
        adapters.directory.leader_lock,
        settings.index_interval_s,
        every_process | leader_jobs,
        every_process | followers,
    )
    for index in indexes.families:
        index.lexical.wake_at(settings.index_batch, maintenance.wake)
    return maintenance
