"""The only place that builds objects: settings in, a complete Hub out, closed in reverse."""

import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from knowhub.core.clock import Clock, SystemClock
from knowhub.core.ids import Ids, RandomIds
from knowhub.knowledge import decisions as knowledge_decisions
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.retrieval import KnowledgeRetrieval
from knowhub.knowledge.service import KnowledgeService
from knowhub.operations.jobs import Jobs
from knowhub.operations.service import OperationsService
from knowhub.search.lexical import LexicalIndex
from knowhub.settings import Settings, default_owner
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, RealFileSystem
from knowhub.stores.files.inspection import Finding, inspect
from knowhub.stores.files.keeper import Keeper
from knowhub.stores.files.open_store import Environment, open_store
from knowhub.stores.files.records import RecordFiles
from knowhub.stores.files.state import SearchableRecords
from knowhub.stores.files.store import FileStore, StoreOptions

_REBUILD_BEFORE_SERVING = 10_000


@dataclass(frozen=True, slots=True)
class Hub:
    """Everything that a face of KnowHub needs, ready to use."""

    settings: Settings
    clock: Clock
    ids: Ids
    default_owner: str
    knowledge: KnowledgeService
    retrieval: KnowledgeRetrieval
    exchange: KnowledgeExchange
    operations: OperationsService
    jobs: Jobs
    store: FileStore
    index: LexicalIndex
    keeper: Keeper

    async def reindex(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the indexes of one account anew, or of all; return how many records they hold."""
        await self.store.refresh()
        return await self.index.rebuild(progress, account)


@asynccontextmanager
async def open_hub(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    files: FileSystem | None = None,
    keep: bool = True,
) -> AsyncIterator[Hub]:
    """Open the data directory that `settings` name and build the Hub on it.

    With `keep` the directory is kept up in the background. Raises Unavailable when the directory is of a newer
    format or held by a stopped process, and OSError.
    """
    clock, ids, files = clock or SystemClock(), ids or RandomIds(), files or RealFileSystem()
    directory = DataDirectory(settings.data_dir)
    store = open_store(directory.root, Environment(files, clock, ids, time.sleep), _options(settings))
    index = LexicalIndex(directory.indexes / "lexical", store, lambda name: SearchableRecords(store.state(name)))
    for account in store.accounts:
        index.account(account)
    store.subscribe(index)
    keeper = _keeper(settings, files, directory, store, index)
    if index.lag > _REBUILD_BEFORE_SERVING:
        # So much could not be scanned at each search; the index is missing or was made for another log.
        await index.rebuild(lambda _done, _total: None)
    # One full collection over everything just loaded would stall the loop: it is never looked at again.
    gc.freeze()
    if keep:
        keeper.start()
    try:
        yield Hub(
            settings=settings,
            clock=clock,
            ids=ids,
            default_owner=default_owner(settings),
            knowledge=KnowledgeService(store, ids),
            retrieval=KnowledgeRetrieval(store, index, clock),
            exchange=KnowledgeExchange(store, ids),
            operations=OperationsService(store, ids, {knowledge.COLLECTION: knowledge_decisions.UNDO_RULES}),
            jobs=Jobs(clock, ids),
            store=store,
            index=index,
            keeper=keeper,
        )
    finally:
        await keeper.close()
        await store.close()


def examine(settings: Settings) -> list[Finding]:
    """Look at a data directory without opening it: what is damaged, torn, behind or in the way."""
    return inspect(RealFileSystem(), DataDirectory(settings.data_dir))


def _options(settings: Settings) -> StoreOptions:
    return StoreOptions(
        lock_timeout_s=settings.lock_timeout_s,
        segment_bytes=settings.segment_bytes,
        retry_key_lifetime_s=settings.retry_key_lifetime_s,
    )


def _keeper(
    settings: Settings, files: FileSystem, directory: DataDirectory, store: FileStore, index: LexicalIndex
) -> Keeper:
    records = RecordFiles(directory.records, store.history, store.log_id)
    store.subscribe(records)

    async def absorb() -> None:
        while await index.absorb(settings.index_batch):
            continue

    async def reload() -> None:
        index.reload()

    kept = {"refresh": store.refresh, "room": store.resume, "indexes": absorb, "records": records.bring_up}
    followed = {"refresh": store.refresh, "room": store.resume, "indexes": reload}
    keeper = Keeper(files, directory.keeper, settings.index_interval_s, kept, followed)
    index.wake_at(settings.index_batch, keeper.wake)
    return keeper
