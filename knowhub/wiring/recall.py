"""What finds records: an index over words, and beside it vectors where the settings name an embedder."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from knowhub.core.embedding import Embedder
from knowhub.knowledge.ports import KnowledgeIndex
from knowhub.search.embedding_work import PatientEmbedding
from knowhub.search.hybrid import HybridIndex
from knowhub.search.lexical import LexicalIndex
from knowhub.search.query_vectors import QueryVectors
from knowhub.search.scripts import Literacy
from knowhub.search.vector_index import UnusedVectors, VectorIndex
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erase_surroundings import Derived
from knowhub.stores.files.keeper import Job
from knowhub.stores.files.state import SearchableRecords
from knowhub.stores.files.store import FileStore


@dataclass(frozen=True, slots=True)
class Recall:
    """What finds records, as one: `index` is what a search asks."""

    index: KnowledgeIndex
    lexical: LexicalIndex
    vectors: VectorIndex | None
    kept: Job
    followed: Job | None
    derived: Derived

    @property
    def lag(self) -> int:
        """How many records a search does not find in an index yet, or not by their meaning."""
        return max(self.lexical.lag, self.vectors.lag if self.vectors is not None else 0)

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the indexes of one account anew, or of all; return how many records they hold. Raises Unavailable."""
        records = await self.lexical.rebuild(progress, account)
        if self.vectors is not None:
            await self.vectors.rebuild(progress, account)
        return records


def recall_of(
    store: FileStore, directory: DataDirectory, embedder: Embedder | None, settings: Settings, stack: AsyncExitStack
) -> Recall:
    """Build what finds the records of a store, following it."""
    lexical = LexicalIndex(directory.indexes / "lexical", store, lambda name: SearchableRecords(store.state(name)))
    for account in store.accounts:
        lexical.account(account)
    store.subscribe(lexical)
    folder = directory.indexes / "vectors"
    if embedder is None:
        unused = UnusedVectors(folder, store)
        return Recall(lexical, lexical, None, unused.tend, None, unused)
    literacy = Literacy(embedder)
    stack.push_async_callback(literacy.close)
    embedding = PatientEmbedding(embedder, literacy)
    vectors = VectorIndex(folder, store, lambda name: SearchableRecords(store.state(name)), embedding)
    for account in store.accounts:
        vectors.account(account)
    store.subscribe(vectors)
    queries = QueryVectors(embedder, literacy, settings.embedding_search_budget_s)
    index = HybridIndex(lexical, vectors, queries, settings.vector_weight)
    return Recall(index, lexical, vectors, vectors.tend, vectors.reload, vectors)
