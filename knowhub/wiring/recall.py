"""What finds the rows of a family: an index over words, and beside it vectors where the settings name an embedder."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from knowhub.core.embedding import Embedder
from knowhub.knowledge.model import Head
from knowhub.search.embedding_work import PatientEmbedding
from knowhub.search.following import HeadT, Records, Texts
from knowhub.search.hybrid import HybridIndex
from knowhub.search.lexical import LexicalIndex
from knowhub.search.query_vectors import QueryVectors
from knowhub.search.scripts import Literacy
from knowhub.search.texts import KnowledgeTexts
from knowhub.search.vector_index import UnusedVectors, VectorIndex
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.erase_surroundings import Derived
from knowhub.stores.files.keeper import Job
from knowhub.stores.files.rows.state import SearchableRecords
from knowhub.stores.files.store import FileStore


@dataclass(frozen=True, slots=True)
class Meaning:
    """An embedder, and what is known of it: one for all families."""

    embedder: Embedder
    literacy: Literacy
    queries: QueryVectors
    weight: float


@dataclass(frozen=True, slots=True)
class Family(Generic[HeadT]):
    """Rows that are found together: where their indexes lie, how they are read, and what they are found by."""

    folder: Path
    records: Callable[[str], Records[HeadT]]
    texts: Texts


@dataclass(frozen=True, slots=True)
class Recall(Generic[HeadT]):
    """What finds the rows of a family, as one: `index` is what a search asks."""

    index: HybridIndex[HeadT] | LexicalIndex[HeadT]
    lexical: LexicalIndex[HeadT]
    vectors: VectorIndex[HeadT] | None
    kept: Job
    followed: Job | None
    derived: Derived

    @property
    def lag(self) -> int:
        """How many rows a search does not find in an index yet, or not by their meaning."""
        return max(self.lexical.lag, self.vectors.lag if self.vectors is not None else 0)

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the indexes of one account anew, or of all; return how many rows they hold. Raises Unavailable."""
        rows = await self.lexical.rebuild(progress, account)
        if self.vectors is not None:
            await self.vectors.rebuild(progress, account)
        return rows


def meaning_of(embedder: Embedder | None, settings: Settings, stack: AsyncExitStack) -> Meaning | None:
    """Return what compares meanings; None where no embedder is configured."""
    if embedder is None:
        return None
    literacy = Literacy(embedder)
    stack.push_async_callback(literacy.close)
    queries = QueryVectors(embedder, literacy, settings.embedding_search_budget_s)
    return Meaning(embedder, literacy, queries, settings.vector_weight)


def records_of(store: FileStore, directory: DataDirectory) -> Family[Head]:
    """Return the family of the records of knowledge."""
    return Family(directory.indexes, lambda name: SearchableRecords(store.state(name)), KnowledgeTexts())


def recall_of(store: FileStore, family: Family[HeadT], meaning: Meaning | None) -> Recall[HeadT]:
    """Build what finds the rows of a family, following the store."""
    lexical = LexicalIndex(family.folder / "lexical", store, family.records, family.texts)
    for account in store.accounts:
        lexical.account(account)
    store.subscribe(lexical)
    folder = family.folder / "vectors"
    if meaning is None:
        unused = UnusedVectors(folder, store)
        return Recall(lexical, lexical, None, unused.tend, None, unused)
    embedding = PatientEmbedding(meaning.embedder, meaning.literacy)
    vectors = VectorIndex(folder, store, family.records, family.texts, embedding)
    for account in store.accounts:
        vectors.account(account)
    store.subscribe(vectors)
    index = HybridIndex(lexical, vectors, meaning.queries, meaning.weight)
    return Recall(index, lexical, vectors, vectors.tend, vectors.reload, vectors)
