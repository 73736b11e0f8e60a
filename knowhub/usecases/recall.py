"""One question answered from knowledge, keywords and memory together, each item with where it came from."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import quote

from knowhub.context.search_model import MemoryLimits, RetrievedBlock
from knowhub.context.service import ContextService
from knowhub.core import scopes
from knowhub.core.clock import parse_iso
from knowhub.core.errors import Forbidden, InvalidInput, TooLarge, Unavailable
from knowhub.core.near_duplicates import normalize_text, share_contained, words
from knowhub.core.recall import ALL_TIME, TimeRange
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import shorten
from knowhub.keywords.model import INFOS, ROOT_ID, KeywordSearchResult, SearchStatus
from knowhub.keywords.rendering import SEPARATOR
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.knowledge.model import SearchQuery
from knowhub.knowledge.search.retrieval import KnowledgeRetrieval
from knowhub.knowledge.table import make_filters

TEXT_CHARS = 600
# The relevance of the keyword that a question names, and of its infos.
_NAMED_RELEVANCE = 1.0
# Shorter names are also words, such as "it" and "go", or parts of other words.
_MIN_ASCII_NAME, _MIN_NAME = 3, 2
# What the texts of a tree reach by meaning for questions about something else, with the packaged embedder, is less as a
# rule: a tree has short texts on everything, and some are always the nearest.
_CLEARLY_NEAR = 0.13
_FITS = "its text fits the question"
# What has less than this share of the relevance of another item is not as good an answer.
_NEAR = 0.4
# The times of keywords and infos are read from their texts.
_LIMITED_ROWS = 100
# What the caller did wrong: no other source makes up for it, and nothing is broken.
_REFUSALS = (InvalidInput, Forbidden, TooLarge)
_Refusal: TypeAlias = InvalidInput | Forbidden | TooLarge


class RecallSource(StrEnum):
    """The source of an item. Items of equal relevance are listed in this order."""

    KNOWLEDGE = "knowledge"
    KEYWORDS = "keywords"
    MEMORY = "memory"


_Ask: TypeAlias = Callable[[RequestContext, "RecallQuery"], Awaitable["RecallResult"]]


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A question to several sources. `types` filter knowledge, `categories` memories; `top_k` limits the total.

    `time` is when a row was created, and a memory was said. `tags` has, for each tag that is asked for, its facets;
    keywords have none. `min_relevance` is from 0 to 1; None is the floor of each source.
    """

    text: str
    top_k: int = 10
    sources: frozenset[RecallSource] = frozenset(RecallSource)
    types: frozenset[str] = frozenset()
    categories: Sequence[str] = ()
    expand: bool = False
    time: TimeRange = ALL_TIME
    tags: Sequence[frozenset[str]] = ()
    min_relevance: float | None = None


@dataclass(frozen=True, slots=True)
class RecallItem:
    """Something that was found. `id` is what it is read by, `read` the address that does; `kind` is what it is.

    `scope` is the widest by which the caller sees it: `user:li`, `project:atlas`, `public`.
    `relevance`, from 0 to 1, compares between sources. A score compares within one source only, and is None where that
    gives none. `path` tells keywords of one name apart; other items have none.
    """

    source: RecallSource
    kind: str
    id: str
    title: str
    text: str
    read: str
    relevance: float
    scope: str
    score: float | None = None
    why: str = ""
    message_ids: Sequence[str] = ()
    path: str | None = None


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What one source says, or all: the best of each first. `degraded` names what failed, and what was done without."""

    items: Sequence[RecallItem]
    index_lag: int = 0
    degraded: Sequence[str] = ()


class RecallService:
    """Asks all sources in parallel.

    A source that fails or is late, after `budget_s`, loses only its own items. `note_failure(source, error)` receives
    its error and must not raise.
    """

    def __init__(
        self,
        knowledge: KnowledgeRetrieval,
        keywords: KeywordSearch,
        memory: ContextService,
        note_failure: Callable[[str, Exception], None],
        budget_s: float = 20.0,
    ) -> None:
        self._asks: dict[RecallSource, _Ask] = {
            RecallSource.KNOWLEDGE: partial(_recall_knowledge, knowledge),
            RecallSource.KEYWORDS: partial(_recall_keywords, keywords),
            RecallSource.MEMORY: partial(_recall_memory, memory),
        }
        self._note_failure = note_failure
        self._budget_s = budget_s

    async def recall(self, ctx: RequestContext, question: RecallQuery) -> RecallResult:
        """Return at most `top_k` items, the most relevant first; of items that are near, the sources take turns.

        Raises Unavailable where every source that was asked has failed, and what a source raises of a question that is
        wrong in itself.
        """
        asked = [source for source in self._asks if source in question.sources]
        parts = await asyncio.gather(*(self._ask_source(source, ctx, question) for source in asked))
        for part in parts:
            if isinstance(part, _REFUSALS):
                raise part
        failed = [source.value for source, part in zip(asked, parts, strict=True) if part is None]
        if failed and len(failed) == len(asked):
            raise Unavailable(f"nothing could be asked: {', '.join(failed)} failed")
        answered = [part for part in parts if isinstance(part, RecallResult)]
        degraded = chain.from_iterable(part.degraded for part in answered)
        return RecallResult(
            take_turns([part.items for part in answered], question.top_k),
            sum(part.index_lag for part in answered),
            list(dict.fromkeys([*failed, *degraded])),
        )

    async def _ask_source(
        self, source: RecallSource, ctx: RequestContext, question: RecallQuery
    ) -> RecallResult | _Refusal | None:
        try:
            async with asyncio.timeout(self._budget_s):
                return await self._asks[source](ctx, question)
        except _REFUSALS as refusal:
            # The others are asked already, and are waited for: none is left running.
            return refusal
        except Exception as error:  # noqa: BLE001 -- whatever one source raises, it is named, and the others answer
            self._note_failure(source.value, error)
            return None


def take_turns(lists: Sequence[Sequence[RecallItem]], top_k: int) -> list[RecallItem]:
    """Return the first `top_k` items of several lists, each in its order.

    The lists take turns with their next items, the more relevant first. An item with less than `_NEAR` of the relevance
    of the best next one waits: relevance compares between sources, but not so finely that one may fill the answer.
    """
    queues = [deque(items) for items in lists]
    taken: list[RecallItem] = []
    counts = [0] * len(queues)
    while len(taken) < top_k and any(queues):
        relevances = {number: queue[0].relevance for number, queue in enumerate(queues) if queue}
        least = _NEAR * max(relevances.values())
        near = [number for number, relevance in relevances.items() if relevance >= least]
        following = min(near, key=lambda number: (counts[number], -relevances[number]))
        taken.append(queues[following].popleft())
        counts[following] += 1
    return taken


async def _recall_knowledge(knowledge: KnowledgeRetrieval, ctx: RequestContext, question: RecallQuery) -> RecallResult:
    found = await knowledge.search(
        ctx,
        SearchQuery(
            question.text,
            top_k=question.top_k,
            filters=[*make_filters({"types": question.types}), *question.tags],
            created=question.time,
            min_relevance=question.min_relevance,
        ),
    )
    items = [
        RecallItem(
            RecallSource.KNOWLEDGE,
            "record",
            row["id"],
            row["task"],
            shorten(row["content"], TEXT_CHARS),
            f"/api/knowledge/{_quote_id(row['id'])}",
            row["relevance"],
            _get_scope(row, ctx),
            row["relevance"],
            "; ".join([", ".join(row["types"]), *([row["warning"]] if "warning" in row else [])]),
        )
        for row in found.records
    ]
    return RecallResult(items, found.index_lag, found.degraded)


async def _recall_keywords(keywords: KeywordSearch, ctx: RequestContext, question: RecallQuery) -> RecallResult:
    if question.tags:
        return RecallResult([])
    found = await keywords.search(ctx, question.text, expand=question.expand)
    limit = _LIMITED_ROWS if question.time.is_limiting else question.top_k
    texts = await keywords.search_texts(ctx, question.text, limit, question.min_relevance)
    least = _CLEARLY_NEAR if question.min_relevance is None else question.min_relevance
    hits = [(kind, relevance, _parse_row(row)) for kind, relevance, row in texts.rows if relevance >= least]
    if found.status is SearchStatus.MATCHED and found.node is not None:
        path = SEPARATOR.join([row["name"] for row in map(_parse_row, found.path) if row["id"] != ROOT_ID])
        node, why = {**_parse_row(found.node), "path": path}, f"named by the question, {found.reason}"
        named = [
            (node, _make_keyword_item(ctx, node, _NAMED_RELEVANCE, why)),
            *(
                (row, _make_info_item(ctx, row, _NAMED_RELEVANCE, _describe_link(row["source"])))
                for row in map(_parse_row, found.infos)
            ),
        ]
    else:
        known = {row["id"]: relevance for _, relevance, row in hits}
        named = _make_near_items(ctx, question.text, found, known)
    fitting = [
        (row, (_make_info_item if kind == INFOS else _make_keyword_item)(ctx, row, relevance, _FITS))
        for kind, relevance, row in hits
    ]
    min_relevance = question.min_relevance or 0.0
    items: dict[str, RecallItem] = {}
    for row, item in (*named, *fitting):
        if item.relevance >= min_relevance and question.time.contains(parse_iso(row["created_at"])):
            items.setdefault(item.id, item)
    best = sorted(items.values(), key=lambda item: -item.relevance)
    degraded = list(dict.fromkeys([*found.degraded, *texts.degraded]))
    return RecallResult(best[: question.top_k], texts.index_lag, degraded)


async def _recall_memory(memory: ContextService, ctx: RequestContext, question: RecallQuery) -> RecallResult:
    categories = list(question.categories) or None
    limits = MemoryLimits(question.time, question.tags, question.min_relevance or 0.0)
    found = await memory.search_memory(ctx, question.text, categories=categories, top_k=question.top_k, limits=limits)
    return RecallResult([_make_memory_item(block) for block in found.blocks], found.index_lag, found.degraded)


def _make_near_items(
    ctx: RequestContext, question: str, found: KeywordSearchResult, known: Mapping[str, float]
) -> list[tuple[Mapping[str, Any], RecallItem]]:
    """Return the candidates that the question is about. `known` is the relevance of those whose texts fit it.

    Several keywords of one name are all named. Other candidates may share no more than a word or a character with the
    question: where neither a text fits nor the question has a whole name, they are left out.
    """
    is_named_by_all = found.status is SearchStatus.AMBIGUOUS
    items = []
    for row in map(_parse_row, found.candidates):
        if is_named_by_all or row["id"] in known or _has_name(question, row):
            relevance = _NAMED_RELEVANCE if is_named_by_all else known.get(row["id"]) or _share_words(question, row)
            items.append((row, _make_keyword_item(ctx, row, relevance, f"comes near: {found.status.value}")))
    return items


def _has_name(question: str, row: Mapping[str, Any]) -> bool:
    """Return whether a question has all words of a name or an alias of a keyword, or contains one in Chinese."""
    text, asked = normalize_text(question), words(question)
    for name in map(normalize_text, (row["name"], *row["aliases"])):
        is_part = words(name) <= asked if name.isascii() else name in text
        if is_part and len(name) >= (_MIN_ASCII_NAME if name.isascii() else _MIN_NAME):
            return True
    return False


def _share_words(question: str, row: Mapping[str, Any]) -> float:
    """Return the share of a question's words, or Chinese characters, that a keyword's names and text have."""
    asked = words(question)
    known = words(" ".join((row["name"], *row["aliases"], row["description"])))
    return round(share_contained(asked, known), 4)


def _make_keyword_item(ctx: RequestContext, row: Mapping[str, Any], relevance: float, why: str) -> RecallItem:
    text, read = shorten(row["description"], TEXT_CHARS), f"/api/keywords/{_quote_id(row['id'])}"
    return RecallItem(
        RecallSource.KEYWORDS,
        "keyword",
        row["id"],
        row["name"],
        text,
        read,
        relevance,
        _get_scope(row, ctx),
        why=why,
        path=row["path"],
    )


def _describe_link(source: str) -> str:
    return f"hangs on that keyword, from {source}" if source else "hangs on that keyword"


def _make_info_item(ctx: RequestContext, row: Mapping[str, Any], relevance: float, why: str) -> RecallItem:
    text, read = shorten(row["content"], TEXT_CHARS), f"/api/infos/{_quote_id(row['id'])}"
    scope = _get_scope(row, ctx)
    return RecallItem(RecallSource.KEYWORDS, "info", row["id"], row["source"], text, read, relevance, scope, why=why)


def _make_memory_item(block: RetrievedBlock) -> RecallItem:
    return RecallItem(
        RecallSource.MEMORY,
        block.category,
        block.uri,
        block.said_at or "",
        block.abstract,
        f"/api/context/read?uri={_quote_id(block.uri)}",
        block.relevance,
        block.scope,
        block.score,
        block.match_reason,
        block.message_ids,
    )


def _get_scope(row: Mapping[str, Any], ctx: RequestContext) -> str:
    return scopes.widest(row["scopes"], row["owner"], ctx.visible)


def _quote_id(row_id: str) -> str:
    return quote(row_id, safe="")


def _parse_row(text: bytes) -> Mapping[str, Any]:
    row: Mapping[str, Any] = json.loads(text)
    return row
