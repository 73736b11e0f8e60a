"""Memories that can be searched without a server: a store, its full-text index, and a clock."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowhub.context.model import NODES, PARTS, ContextSummary, Level, MemoryCategory
from knowhub.context.retrieval.blocks import read_layer
from knowhub.context.retrieval.search import MemorySearch
from knowhub.context.search_model import RetrievedBlock
from knowhub.core.language_models import Reranker
from knowhub.core.request_context import RequestContext
from knowhub.search.lexical import LexicalIndex
from knowhub.search.texts import ContextTexts
from knowhub.stores.files.store import FileStore
from tests.builders import FakeClock, caller, open_files
from tests.context_rows import ACCOUNT, draft, node_row, part_row

LI = caller(user_id="li")


@dataclass(frozen=True, slots=True)
class Memories:
    """A store of memories, with the services that search and read them."""

    store: FileStore
    index: LexicalIndex[ContextSummary]
    clock: FakeClock
    searching: MemorySearch

    async def put(self, *rows: Mapping[str, Any]) -> None:
        """Write rows, as one operation."""
        await self.store.commit(ACCOUNT, "user:li", lambda _view: draft(*rows))

    async def talk(self, session_uri: str, messages: Sequence[Mapping[str, Any]], **fields: Any) -> None:  # noqa: ANN401 -- fields of any row
        """Commit a session of messages: `content`, and any other field of a message."""
        parts = [
            part_row(session_uri, number, **{**fields, **message}) for number, message in enumerate(messages, start=0)
        ]
        await self.put(node_row(session_uri, abstract="", **fields), *parts)

    def read(self, address: str, level: Level = Level.L1, ctx: RequestContext = LI, **named: Any) -> RetrievedBlock:  # noqa: ANN401 -- what a reading takes
        """Read a layer."""
        return read_layer(self.store.view(ACCOUNT), ctx, address, level, **named)

    async def search(self, question: str, ctx: RequestContext = LI, **named: Any) -> list[RetrievedBlock]:  # noqa: ANN401 -- what a search takes
        """Return the blocks of a search."""
        return list((await self.searching.search(ctx, question, **named)).blocks)

    async def search_ids(self, question: str, **named: Any) -> list[str]:  # noqa: ANN401 -- what a search takes
        """Return the message ids that a search in sessions finds, best first."""
        blocks = await self.search(question, categories=[MemoryCategory.SESSIONS.value], **named)
        return list(dict.fromkeys(item for block in blocks for item in block.message_ids))


@asynccontextmanager
async def memories_in(folder: Path, reranker: Reranker | None = None) -> AsyncIterator[Memories]:
    """Open an empty store, with the services that search it."""
    store, clock = open_files(folder), FakeClock()
    index: LexicalIndex[ContextSummary] = LexicalIndex(folder / "lexical", store, store.account, ContextTexts())
    index.account(ACCOUNT)
    store.subscribe(index, [NODES, PARTS])
    try:
        yield Memories(store, index, clock, MemorySearch(store, index, clock, reranker, 5.0))
    finally:
        await store.close()
