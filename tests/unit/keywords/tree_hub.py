"""The services of a tree on one store, and the model that they ask."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from knowhub.core.background_writes import DecisionLog
from knowhub.core.language_models import ChatReply, ChatRequest
from knowhub.core.operation import Operation
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import NO_CACHE, Invalidation, RecentMatchesByReader, ResultCache
from knowhub.keywords.curate.curator import Curator
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import ROOT_ID, InfoQuery, KeywordSearchResult, NewInfo, NewKeyword, TreeOptions
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import KeywordService
from knowhub.search.keyword_text import KeywordTextRules
from tests.builders import CountedIds, FakeClock, caller
from tests.fakes.memory_store import MemoryStore
from tests.fakes.queued_chat import Answer, QueuedChat

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
TEXT = KeywordTextRules()


class InterruptedChat(QueuedChat):
    """Runs `happens` before it answers the next question."""

    happens: Callable[[], Awaitable[object]] | None = None

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return await super().chat(question, timeout_s)


@dataclass
class TreeHub:
    """The services on one store, and the model that they ask."""

    store: MemoryStore
    keywords: KeywordService
    infos: InfoService
    finding: KeywordSearch
    curator: Curator
    chat: InterruptedChat
    clock: FakeClock
    log: DecisionLog

    async def keyword(self, name: str, parent_id: str = ROOT_ID, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        new = NewKeyword(name, parent_id, allow_duplicate=True, **fields)
        return str((await self.keywords.create(ctx, new)).record["id"])

    async def info(self, content: str, *keyword_ids: str, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.infos.create(ctx, NewInfo(content, keyword_ids=keyword_ids, **fields))).record["id"])

    async def search(self, query: str, ctx: RequestContext = ANN, **how: bool) -> KeywordSearchResult:
        return await self.finding.search(ctx, query, **how)

    async def names_of(self, info_id: str, ctx: RequestContext = ANN) -> dict[str, tuple[str, str]]:
        """Return the links of an info by keyword name: relation and maker."""
        linked = await self.infos.list_keywords(ctx, info_id)
        return {orjson.loads(row)["name"]: (relation.value, maker) for row, relation, maker in linked}

    async def contents_of(self, keyword_id: str, ctx: RequestContext = ANN, **query: Any) -> list[str]:  # noqa: ANN401 -- any part of a query
        rows = await self.infos.list_for_keyword(ctx, keyword_id, InfoQuery(**query))
        return [str(orjson.loads(row)["content"]) for row in rows]

    async def list_operations(self) -> list[Operation]:
        """Return the operations, newest first."""
        return [operation async for operation in self.store.operations("default")]

    async def last(self) -> Operation:
        return (await self.list_operations())[0]


def hub_with(
    answers: Sequence[Answer] | None = None,
    *,
    cached: bool = False,
    text: KeywordText = TEXT,
    **options: Any,  # noqa: ANN401 -- any option
) -> TreeHub:
    """Build the services; with `answers` there is a model that gives them, otherwise there is no model."""
    clock, ids, chosen = FakeClock(), CountedIds(), TreeOptions(**options)
    store, chat, near = MemoryStore(clock, CountedIds()), InterruptedChat(answers or []), NearKeywords(text)
    cache, recents, log = ResultCache(clock) if cached else NO_CACHE, RecentMatchesByReader(), DecisionLog(store)
    store.subscribe(Invalidation(cache, recents))
    agent = KeywordAgent(None if answers is None else chat, recents, chosen, log.note, cache)
    return TreeHub(
        store,
        KeywordService(store, near, ids, agent, chosen),
        InfoService(store, text, ids, agent, chosen, cache),
        KeywordSearch(store, near, agent, chosen, cache, log),
        Curator(store, text, ids, agent, chosen),
        chat,
        clock,
        log,
    )


def list_names(rows: Sequence[bytes]) -> list[str]:
    return [str(orjson.loads(row)["name"]) for row in rows]
