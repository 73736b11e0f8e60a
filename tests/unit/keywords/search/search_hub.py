"""The services of a tree on one store, beside the model that a search asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import Invalidation, RecentMatchesByReader, ResultCache
from knowhub.keywords.decision_log import DecisionLog
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import ROOT_ID, KeywordSearchResult, NewInfo, NewKeyword, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.service import KeywordService
from knowhub.search.keyword_text import KeywordTextRules
from tests.builders import CountedIds, FakeClock, caller
from tests.fakes.memory_store import MemoryStore
from tests.fakes.scripted_chat import Answer, ScriptedChat

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
TEXT = KeywordTextRules()


@dataclass
class Hub:
    """The services on one store, beside the model that they ask."""

    store: MemoryStore
    keywords: KeywordService
    infos: InfoService
    finding: KeywordSearch
    chat: ScriptedChat
    clock: FakeClock
    caches: ResultCache
    log: DecisionLog

    async def keyword(self, name: str, parent_id: str = ROOT_ID, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str(
            (await self.keywords.create(ctx, NewKeyword(name, parent_id, allow_duplicate=True, **fields))).row["id"]
        )

    async def info(self, content: str, *keyword_ids: str, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.infos.create(ANN, NewInfo(content, keyword_ids=keyword_ids, **fields))).row["id"])

    async def search(self, query: str, ctx: RequestContext = ANN, **how: bool) -> KeywordSearchResult:
        return await self.finding.search(ctx, query, **how)

    async def op_counts(self) -> dict[str, int]:
        await self.log.close()
        counts: dict[str, int] = {}
        async for operation in self.store.operations("default"):
            counts[operation.op] = counts.get(operation.op, 0) + 1
        return counts


def hub_with(
    answers: Sequence[Answer] | None = None, *, cached: bool = False, options: TreeOptions | None = None
) -> Hub:
    """Build the services; with `answers` there is a model that gives them, without there is none."""
    clock, ids, options = FakeClock(), CountedIds(), options or TreeOptions()
    store = MemoryStore(clock, CountedIds())
    chat = ScriptedChat(answers or [])
    caches, log = ResultCache(clock), DecisionLog(store)
    kept = caches if cached else None
    agent = KeywordAgent(None if answers is None else chat, RecentMatchesByReader(), options, cache=kept)
    store.subscribe(Invalidation(caches, RecentMatchesByReader()))
    return Hub(
        store,
        KeywordService(store, TEXT, ids, KeywordAgent(None, RecentMatchesByReader(), options), options),
        InfoService(store, TEXT, ids, agent, options),
        KeywordSearch(store, TEXT, agent, options, caches if cached else None, log),
        chat,
        clock,
        caches,
        log,
    )


def names(rows: Sequence[bytes]) -> list[str]:
    return [str(orjson.loads(row)["name"]) for row in rows]
