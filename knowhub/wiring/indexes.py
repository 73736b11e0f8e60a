"""Builds the search indexes: lexical, and vectors beside them where there is an embedder."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic

import orjson

from knowhub.context.model import ContextSummary
from knowhub.context.outbox import Outbox
from knowhub.core.errors import InvalidInput
from knowhub.core.language_models import Embedder
from knowhub.keywords.model import Node
from knowhub.keywords.tree import Info
from knowhub.knowledge.model import KnowledgeSummary
from knowhub.search.hybrid import HybridIndex, QueryVectors
from knowhub.search.lexical import LexicalIndex
from knowhub.search.monitored_embedder import MonitoredEmbedder
from knowhub.search.scripts import ScriptSkills
from knowhub.search.texts import ContextTexts, KnowledgeTexts, SearchableT, Texts, TreeTexts
from knowhub.search.vector_index import BatchEmbedder, UnusedVectors, VectorIndex
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import replace_file
from knowhub.wiring.adapters import Adapters
from knowhub.wiring.models import EmbeddingReport

_REBUILD_BEFORE_SERVING = 10_000
"""With more operations than this missing from an index, it is rebuilt at start: a search could not scan them all."""


@dataclass(frozen=True, slots=True)
class SearchIndex(Generic[SearchableT]):
    """The indexes of one family of rows. A search asks `index`.

    `vector_files` are the vectors on disk; they are kept while there is no embedder.
    """

    index: HybridIndex[SearchableT] | LexicalIndex[SearchableT]
    lexical: LexicalIndex[SearchableT]
    vectors: VectorIndex[SearchableT] | None
    vector_files: VectorIndex[SearchableT] | UnusedVectors

    @property
    def find_similar(self) -> Callable[..., Awaitable[list[tuple[float, SearchableT]]]] | None:
        """`HybridIndex.find_similar`; None without an embedder."""
        return self.index.find_similar if isinstance(self.index, HybridIndex) else None

    @property
    def lag(self) -> int:
        """The number of rows that are not indexed yet, by their words or by their meaning."""
        return max(self.lexical.lag, self.vectors.lag if self.vectors is not None else 0)

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Rebuild the indexes of one account, or of all; return the number of rows in them. Raises Unavailable."""
        rows = await self.lexical.rebuild(progress, account)
        if self.vectors is not None:
            await self.vectors.rebuild(progress, account)
        return rows


class Indexes:
    """The indexes of records, memories and the tree, following the store; `stack` closes the embedder's helpers."""

    def __init__(self, adapters: Adapters, stack: AsyncExitStack) -> None:
        store, folder = adapters.store, adapters.directory.indexes
        queries = _build_query_vectors(adapters.embedding.embedder, adapters.settings, stack)
        self._files, self._embedder_file = adapters.files, folder / "leader" / "embedder"
        self._embedder = None if queries is None else queries.embedder
        self.embedding = EmbeddingReport(
            adapters.embedding, None if queries is None else queries.skills, adapters.settings, self._embedder
        )
        self.records: SearchIndex[KnowledgeSummary] = _build_search_index(adapters, folder, KnowledgeTexts(), queries)
        self.memories: SearchIndex[ContextSummary] = _build_search_index(
            adapters, folder / "context", ContextTexts(), queries
        )
        self.tree: SearchIndex[Node | Info] = _build_search_index(adapters, folder / "tree", TreeTexts(), queries)
        self.families: Sequence[SearchIndex[Any]] = (self.records, self.memories, self.tree)
        self.outbox = Outbox(store, self.memories.vectors, adapters.clock)

    async def close(self) -> None:
        """Stop embedding."""
        for index in reversed(self.families):
            await index.vector_files.close()

    @property
    def lag(self) -> int:
        """The number of rows that are not indexed yet, by their words or by their meaning."""
        return sum(index.lag for index in self.families)

    async def publish_embedder(self) -> None:
        """Tell other processes the embedder with which this one, the leader, makes the vectors. Raises OSError."""
        said = orjson.dumps({"model": None if self._embedder is None else self._embedder.model})
        if self._embedder is not None:
            self._embedder.note_model_in_use(self._embedder.model)
        if not self._embedder_file.is_file() or self._embedder_file.read_bytes() != said:
            self._files.make_folder(self._embedder_file.parent)
            await asyncio.to_thread(replace_file, self._files, self._embedder_file, said)

    async def compare_embedder(self) -> None:
        """Note whether the leader makes the vectors with the embedder of this process."""
        with suppress(OSError, orjson.JSONDecodeError, KeyError, TypeError):
            model = orjson.loads(self._embedder_file.read_bytes())["model"]
            if self._embedder is not None:
                self._embedder.note_model_in_use(model)

    async def rebuild_outdated(self) -> None:
        """Rebuild the lexical indexes that miss too much to be served. Raises Unavailable."""
        for lexical in (self.records.lexical, self.memories.lexical):
            if lexical.lag > _REBUILD_BEFORE_SERVING:
                await lexical.rebuild(lambda _done, _total: None)

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Rebuild all indexes of one account, or of all; return the number of rows in them. Raises Unavailable."""
        rows = 0
        for index in self.families:
            rows += await index.rebuild(partial(_add_progress, progress, rows), account)
        return rows


def _add_progress(progress: Callable[[int, int], None], before: int, done: int, total: int) -> None:
    progress(before + done, before + total)


def _build_query_vectors(embedder: Embedder | None, settings: Settings, stack: AsyncExitStack) -> QueryVectors | None:
    if embedder is None:
        return None
    monitored = MonitoredEmbedder(embedder)
    try:
        skills = ScriptSkills(monitored, settings.embedding_scripts or None)
    except ValueError as error:
        raise InvalidInput.of("KNOWHUB_EMBEDDING_SCRIPTS", str(error)) from error
    stack.push_async_callback(skills.close)
    queries = QueryVectors(monitored, skills, settings.embedding_search_budget_s)
    stack.push_async_callback(queries.close)
    return queries


def _build_search_index(
    adapters: Adapters, folder: Path, texts: Texts, queries: QueryVectors | None
) -> SearchIndex[SearchableT]:
    store, weight = adapters.store, adapters.settings.vector_weight
    collections = {index.collection for index in texts.indexes}
    lexical = LexicalIndex[SearchableT](folder / "lexical", store, store.account, texts)
    for account in store.accounts:
        lexical.account(account)
    store.subscribe(lexical, collections)
    if queries is None:
        return SearchIndex(lexical, lexical, None, UnusedVectors(folder / "vectors", store))
    work = BatchEmbedder(queries.embedder, queries.skills)
    vectors = VectorIndex[SearchableT](folder / "vectors", store, store.account, texts, work, adapters.clock)
    for account in store.accounts:
        vectors.account(account)
    store.subscribe(vectors, collections)
    index = HybridIndex(lexical, vectors, queries, lambda row: texts.get_vector_weight(row, weight))
    return SearchIndex(index, lexical, vectors, vectors)
