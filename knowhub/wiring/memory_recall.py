"""What finds layered memories, and the outbox that brings it their vectors."""

from collections.abc import Callable
from dataclasses import dataclass

from knowhub.context.index.index_worker import IndexWorker
from knowhub.context.index.outbox import NothingLacking, Outbox
from knowhub.context.index.outbox_store import OutboxStore
from knowhub.context.model import ContextHead
from knowhub.context.ports import ContextIndex, GraphStore
from knowhub.core.clock import Clock
from knowhub.search.context_vectors import ContextVectors
from knowhub.search.texts import ContextTexts
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.derived.outbox_file import OutboxFile
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keeper import Job
from knowhub.stores.files.rows.state import SearchableContext
from knowhub.stores.files.store import FileStore
from knowhub.wiring.recall import Family, Meaning, Recall, recall_of


@dataclass(frozen=True, slots=True)
class MemoryRecall:
    """What finds memories: `index` is what a search asks. Without an embedder there is no worker, and nothing waits."""

    recall: Recall[ContextHead]
    outbox: Outbox
    letters: OutboxFile
    worker: IndexWorker | None
    kept: Job

    @property
    def index(self) -> ContextIndex:
        """What a search asks."""
        return self.recall.index

    @property
    def lag(self) -> int:
        """How many nodes and messages a search does not find in an index yet, or not by their meaning."""
        return self.recall.lag

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the indexes of one account anew, or of all; return how many rows they hold. Raises Unavailable."""
        return await self.recall.rebuild(progress, account)


@dataclass(frozen=True, slots=True)
class OutboxMeans:
    """What the outbox works with; `graph` is a replica of the edges, where somebody wants one."""

    files: FileSystem
    directory: DataDirectory
    clock: Clock
    graph: GraphStore | None = None


def memory_recall_of(store: FileStore, means: OutboxMeans, meaning: Meaning | None) -> MemoryRecall:
    """Build what finds the memories of a store, following it."""

    def records(name: str) -> SearchableContext:
        return SearchableContext(store.state(name))

    folder = means.directory.indexes / "context"
    recall = recall_of(store, Family(folder, records, ContextTexts()), meaning)
    letters = OutboxFile(means.files, folder, store.log_id, store)
    queue = OutboxStore(means.clock)
    if recall.vectors is None:
        idle = Outbox(queue, NothingLacking(), letters, means.clock)

        async def tidy() -> None:
            await letters.drop_outdated()
            await recall.kept()

        return MemoryRecall(recall, idle, letters, None, tidy)
    vectors = ContextVectors(recall.vectors, records, store.history)
    store.subscribe(vectors)
    outbox = Outbox(queue, vectors, letters, means.clock)
    worker = IndexWorker(outbox, store, vectors, means.graph)
    recall.vectors.hand_over(worker)

    async def tend() -> None:
        await outbox.keep()
        await recall.kept()

    return MemoryRecall(recall, outbox, letters, worker, tend)
