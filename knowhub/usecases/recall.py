"""One question answered from knowledge, keywords and memory together, each item with where it came from (C-50)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from knowhub.context.search_model import MemoryFound, RetrievedBlock
from knowhub.core.errors import Forbidden, InvalidInput, TooLarge, Unavailable
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import Found as KeywordFound
from knowhub.keywords.model import SearchStatus
from knowhub.knowledge.model import Found as KnowledgeFound
from knowhub.knowledge.model import SearchQuery

TEXT_CHARS = 600
# What the caller did wrong: no other source makes up for it, and nothing is broken.
_REFUSALS = (InvalidInput, Forbidden, TooLarge)
_Refusal: TypeAlias = InvalidInput | Forbidden | TooLarge


class Source(StrEnum):
    """Where an item comes from; in this order those of one rank stand."""

    KNOWLEDGE = "knowledge"
    KEYWORDS = "keywords"
    MEMORY = "memory"


class KnowledgeSearch(Protocol):
    """Finds records."""

    async def search(self, ctx: RequestContext, query: SearchQuery) -> KnowledgeFound:
        """Return the best records that the caller sees."""


class KeywordSearch(Protocol):
    """Finds the keyword that a text names."""

    async def search(
        self, ctx: RequestContext, query: str, *, expand: bool = True, disambiguate: bool = False
    ) -> KeywordFound:
        """Return it with its infos, or what comes near."""


class MemorySearch(Protocol):
    """Finds memories."""

    async def search_memory(
        self,
        ctx: RequestContext,
        query: str,
        target_uri: str | None = None,
        categories: Sequence[str] | None = None,
        top_k: int = 10,
    ) -> MemoryFound:
        """Return the best memories that the caller sees."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of which sources. `types` narrow knowledge, `categories` memory; `top_k` bounds all together."""

    text: str
    top_k: int = 10
    sources: frozenset[Source] = frozenset(Source)
    types: frozenset[str] = frozenset()
    categories: Sequence[str] = ()
    expand: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """Something that was found. `id` is what it is read by, `read` the address that does; `kind` is what it is.

    A score is comparable within one source only, and None where that gives none.
    """

    source: Source
    kind: str
    id: str
    title: str
    text: str
    read: str
    score: float | None = None
    why: str = ""
    message_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What one source says, or all: the best of each first. `degraded` names what failed, and what was done without."""

    items: Sequence[Item]
    index_lag: int = 0
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """Who is asked; one that is None is not there, and is missed by nobody."""

    knowledge: KnowledgeSearch | None
    keywords: KeywordSearch | None
    memory: MemorySearch | None


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """`budget_s` is what one source has; `note_failure(source, error)` is told what one raised, and must not fail."""

    budget_s: float = 20.0
    note_failure: Callable[[str, Exception], None] = field(default=lambda _source, _error: None)


class Recall:
    """Asks all sources side by side; one that fails or is late costs its own items only."""

    def __init__(self, parts: Parts, options: RecallOptions | None = None) -> None:
        self._parts = parts
        self._options = options or RecallOptions()

    async def recall(self, ctx: RequestContext, question: Question) -> Answer:
        """Return at most `top_k` items, taken from the sources in turn, the best of each first.

        Scores of two sources are not comparable, so that no item is dropped for another's. Raises Unavailable where
        every source that was asked has failed, and what a source raises of a question that is wrong in itself.
        """
        asked = {source: ask for source, ask in self._asked(ctx, question).items() if source in question.sources}
        parts = await asyncio.gather(*(self._part(source, ask) for source, ask in asked.items()))
        for part in parts:
            if isinstance(part, _REFUSALS):
                raise part
        failed = [source.value for source, part in zip(asked, parts, strict=True) if part is None]
        if failed and len(failed) == len(asked):
            raise Unavailable(f"nothing could be asked: {', '.join(failed)} failed")
        answered = [part for part in parts if isinstance(part, Answer)]
        ranks = zip_longest(*(part.items for part in answered))
        items = [item for item in chain.from_iterable(ranks) if item is not None]
        without = chain.from_iterable(part.degraded for part in answered)
        return Answer(
            items[: question.top_k],
            sum(part.index_lag for part in answered),
            list(dict.fromkeys([*failed, *without])),
        )

    def _asked(self, ctx: RequestContext, question: Question) -> Mapping[Source, Callable[[], Awaitable[Answer]]]:
        knowledge, keywords, memory = self._parts.knowledge, self._parts.keywords, self._parts.memory
        asked: dict[Source, Callable[[], Awaitable[Answer]]] = {}
        if knowledge is not None:
            asked[Source.KNOWLEDGE] = lambda: _from_knowledge(knowledge, ctx, question)
        if keywords is not None:
            asked[Source.KEYWORDS] = lambda: _from_keywords(keywords, ctx, question)
        if memory is not None:
            asked[Source.MEMORY] = lambda: _from_memory(memory, ctx, question)
        return asked

    async def _part(self, source: Source, ask: Callable[[], Awaitable[Answer]]) -> Answer | _Refusal | None:
        try:
            async with asyncio.timeout(self._options.budget_s):
                return await ask()
        except _REFUSALS as refusal:
            # The others are asked already, and are waited for: none is left running.
            return refusal
        except Exception as error:  # noqa: BLE001 -- whatever one source raises, it is named, and the others answer
            self._options.note_failure(source.value, error)
            return None


async def _from_knowledge(knowledge: KnowledgeSearch, ctx: RequestContext, question: Question) -> Answer:
    found = await knowledge.search(ctx, SearchQuery(question.text, top_k=question.top_k, types=question.types))
    items = [
        Item(
            Source.KNOWLEDGE,
            "record",
            row["id"],
            row["task"],
            _excerpt(row["content"]),
            f"/api/knowledge/{_quoted(row['id'])}",
            row["quality_score"],
            f"of quality {row['quality_score']:g}, {', '.join(row['types'])}",
        )
        for row in found.records
    ]
    return Answer(items, found.index_lag, found.degraded)


async def _from_keywords(keywords: KeywordSearch, ctx: RequestContext, question: Question) -> Answer:
    found = await keywords.search(ctx, question.text, expand=question.expand)
    if found.status is SearchStatus.MATCHED and found.node is not None:
        path = " / ".join(row["name"] for row in map(_row, found.path) if row["id"] != "root")
        named = [_keyword(_row(found.node), f"{path}: named by the question, {found.reason}")]
        items = [*named, *(_info(_row(one)) for one in found.infos)]
    else:
        items = [_keyword(_row(one), f"comes near: {found.status.value}") for one in found.candidates]
    return Answer(items[: question.top_k], degraded=found.degraded)


async def _from_memory(memory: MemorySearch, ctx: RequestContext, question: Question) -> Answer:
    categories = list(question.categories) or None
    found = await memory.search_memory(ctx, question.text, categories=categories, top_k=question.top_k)
    return Answer([_block(one) for one in found.blocks], found.index_lag, found.degraded)


def _keyword(row: Mapping[str, Any], why: str) -> Item:
    title, text, read = row["name"], _excerpt(row["description"]), f"/api/keywords/{_quoted(row['id'])}"
    return Item(Source.KEYWORDS, "keyword", row["id"], title, text, read, why=why)


def _info(row: Mapping[str, Any]) -> Item:
    why = f"hangs on that keyword, from {row['source']}" if row["source"] else "hangs on that keyword"
    title, text, read = row["source"], _excerpt(row["content"]), f"/api/infos/{_quoted(row['id'])}"
    return Item(Source.KEYWORDS, "info", row["id"], title, text, read, why=why)


def _block(block: RetrievedBlock) -> Item:
    return Item(
        Source.MEMORY,
        block.category,
        block.uri,
        block.said_at or "",
        block.abstract,
        f"/api/context/read?uri={_quoted(block.uri)}",
        block.score,
        block.match_reason,
        block.message_ids,
    )


def _quoted(row_id: str) -> str:
    return quote(row_id, safe="")


def _row(text: bytes) -> Mapping[str, Any]:
    row: Mapping[str, Any] = json.loads(text)
    return row


def _excerpt(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"
