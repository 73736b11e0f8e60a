"""All that is derived from the log, and the keeper that brings it up: built in one place, closed in reverse."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowhub.context.model import ContextHead
from knowhub.core.clock import Clock
from knowhub.core.embedding import Embedder
from knowhub.core.ids import Ids
from knowhub.keywords.caches import ResultCache
from knowhub.knowledge.model import Head
from knowhub.operations.background import Background
from knowhub.operations.snapshot_schedule import PeriodicSnapshots
from knowhub.resources.shredding import Shredder
from knowhub.search.lexical import LexicalIndex
from knowhub.settings import Settings
from knowhub.stores.files.apart import Apart
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.derived.cache_files import CacheFiles
from knowhub.stores.files.derived.derived_maps import DerivedMaps, MapOptions
from knowhub.stores.files.derived.invalidation import touched_since
from knowhub.stores.files.derived.records import RecordFiles
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.erasing.erase_surroundings import Derived, ErasureSurroundings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keeper import Job, Keeper
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder, SnapshotLimits, SnapshotParts
from knowhub.stores.files.store import FileStore
from knowhub.wiring.memory_recall import MemoryRecall, OutboxMeans, memory_recall_of
from knowhub.wiring.recall import Recall, meaning_of, recall_of, records_of
from knowhub.wiring.rules import UNDO_RULES

DAY_S = 24 * 3600.0
_HOUR_S = 3600.0
_CACHE_KINDS = {"descend_cache.json": "descend:", "agent_decision.json": "agent:pick:"}


@dataclass(frozen=True, slots=True)
class Means:
    """What upkeep works with; `apart` does what is done in a child process, `embedder` may be missing."""

    settings: Settings
    files: FileSystem
    clock: Clock
    ids: Ids
    apart: Apart
    embedder: Embedder | None = None

    @property
    def directory(self) -> DataDirectory:
        """The data directory that the settings name."""
        return DataDirectory(self.settings.data_dir)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is derived from a store, following it."""

    recall: Recall[Head]
    memories: MemoryRecall
    records: RecordFiles
    maps: DerivedMaps
    directories: NodeDirectories
    archives: SnapshotFolder
    keeper: Keeper
    surroundings: ErasureSurroundings


def upkeep_of(
    store: FileStore, means: Means, cache: ResultCache | None, shredder: Shredder, stack: AsyncExitStack
) -> Upkeep:
    """Build what follows a store; `stack` closes it."""
    directory, settings, clock = means.directory, means.settings, means.clock
    _keep_from_others(means.files, (directory.records, directory.indexes, directory.cache))
    meaning = meaning_of(means.embedder, settings, stack)
    recall = recall_of(store, records_of(store, directory), meaning)
    memories = memory_recall_of(store, OutboxMeans(means.files, directory, clock), meaning)
    records = RecordFiles(directory.records, store.history, store.log_id, store)
    store.subscribe(records)
    pace = MapOptions(settings.maps_interval_s, means.apart)
    maps = DerivedMaps(means.files, directory, records, store.history, store, pace)
    directories = NodeDirectories(means.files, directory, store)
    store.subscribe(directories)
    archives = _archives(means, store)
    periodic = _periodic(settings, archives, clock, store)
    compaction = _compaction(settings, clock, store, means.apart)
    caches = CacheFiles(directory.cache, store.history, store.log_id, store, _CACHE_KINDS)
    kept: dict[str, Job] = {
        "indexes": _absorbing(recall.lexical, settings.index_batch),
        "vectors": recall.kept,
        "memory_indexes": _absorbing(memories.recall.lexical, settings.index_batch),
        "memory_vectors": memories.kept,
        "records": records.bring_up,
        "maps": maps.bring_up,
        "context": directories.bring_up,
        "context_patrol": directories.patrol,
        "snapshots": periodic.tend,
        "compaction": compaction.tend,
        "caches": caches.drop_outdated if cache is None else _keeping(cache, caches),
    }
    keeper = _keeper(means, store, (recall, memories.recall), shredder, kept)
    derived: dict[str, Derived] = {
        "indexes": recall.lexical,
        "vectors": recall.derived,
        "memory_indexes": memories.recall.lexical,
        "memory_vectors": memories.recall.derived,
        "outbox": memories.letters,
        "records": records,
        "maps": maps,
        "context": directories,
        "caches": caches,
        "keys": shredder,
    }
    stack.push_async_callback(directories.close)
    stack.push_async_callback(keeper.close)
    for vectors in (recall.vectors, memories.recall.vectors):
        if vectors is not None:
            stack.push_async_callback(vectors.close)
    stack.push_async_callback(periodic.close)
    stack.push_async_callback(compaction.close)
    stack.callback(maps.finish)
    surroundings = ErasureSurroundings(means.files, directory, keeper, derived)
    return Upkeep(recall, memories, records, maps, directories, archives, keeper, surroundings)


def _keep_from_others(files: FileSystem, folders: Iterable[Path]) -> None:
    """Make folders whose files say what the log says, as closed as that: the one above may have been left open."""
    for folder in folders:
        # Who writes into it makes it where this could not, or says why not.
        with suppress(OSError):
            files.make_folder(folder)


def _archives(means: Means, store: FileStore) -> SnapshotFolder:
    parts = SnapshotParts(
        files=means.files,
        directory=means.directory,
        log=store,
        clock=means.clock,
        ids=means.ids,
        apart=means.apart,
        fixed={collection: rules.fixed for collection, rules in UNDO_RULES.items()},
        limits=SnapshotLimits(means.settings.lock_timeout_s, means.settings.snapshot_max_bytes),
    )
    return SnapshotFolder(parts)


def _compaction(settings: Settings, clock: Clock, store: FileStore, apart: Apart) -> Background:
    retention_s, hours = settings.undo_retention_days * DAY_S, settings.compaction_interval_hours

    async def is_due(_now: float) -> bool:
        return hours > 0 and store.is_compaction_worth_it(retention_s)

    return Background(clock, hours * _HOUR_S, lambda: store.compact(retention_s, apart), is_due)


def _periodic(settings: Settings, archives: SnapshotFolder, clock: Clock, store: FileStore) -> PeriodicSnapshots:
    def begun() -> float | None:
        oldest = store.history.at(store.history.base_seq + 1)
        return None if oldest is None else oldest.timestamp

    limits = (settings.snapshot_interval_hours, settings.snapshots_kept)
    return PeriodicSnapshots(archives, clock, limits, lambda: store.last_seq, begun)


def _absorbing(index: LexicalIndex[Any], limit: int) -> Job:
    async def absorb() -> None:
        while await index.absorb(limit):
            continue

    return absorb


def _keeping(cache: ResultCache, files: CacheFiles) -> Job:
    """Take back what was kept over the restart, and return the job that keeps it from now on."""
    cache.restore(files.load(touched_since))

    async def save() -> None:
        await files.save(cache.persistable())

    return save


def _keeper(
    means: Means,
    store: FileStore,
    recalls: tuple[Recall[Head], Recall[ContextHead]],
    shredder: Shredder,
    kept: Mapping[str, Job],
) -> Keeper:
    async def reload() -> None:
        for recall in recalls:
            recall.lexical.reload()

    always: dict[str, Job] = {
        "refresh": store.refresh,
        "erasing": store.end_erasing,
        "room": store.resume,
        # Whoever erases waits for it: no key outlives the answer, whichever process is keeper.
        "keys": shredder.tend,
    }
    jobs = {"vectors": recalls[0].followed, "memory_vectors": recalls[1].followed}
    followed = {name: job for name, job in jobs.items() if job is not None}
    settings = means.settings
    keeper = Keeper(
        means.files,
        means.directory.keeper,
        settings.index_interval_s,
        {**always, **kept},
        {**always, "indexes": reload} | followed,
    )
    for recall in recalls:
        recall.lexical.wake_at(settings.index_batch, keeper.wake)
    return keeper
