"""A keyword service on a store in memory, and the calls that its tests share."""

from typing import Any

import orjson

from knowhub.core.ids import RandomIds
from knowhub.core.operation import Operation
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.model import ROOT_ID, NewKeyword, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import KeywordService
from tests.builders import caller
from tests.fakes.memory_store import MemoryStore
from tests.fakes.plain_text import PlainText
from tests.fakes.queued_chat import QueuedChat

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
STRANGER = caller(user_id="eve")


def service_on(
    store: MemoryStore, chat: QueuedChat | None = None, options: TreeOptions | None = None
) -> KeywordService:
    """Build the service, with a model to ask or without."""
    options = options or TreeOptions()
    return service_with(store, KeywordAgent(chat, RecentMatchesByReader(), options), options)


def service_with(store: MemoryStore, agent: KeywordAgent, options: TreeOptions | None = None) -> KeywordService:
    """Build the service around an agent."""
    return KeywordService(store, NearKeywords(PlainText()), RandomIds(), agent, options or TreeOptions())


async def create_keyword(service: KeywordService, name: str, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
    """Make a keyword and return its id."""
    created = await service.create(ctx, NewKeyword(name, allow_duplicate=True, **fields), auto_place=False)
    return str(created.record["id"])


async def read_keyword(service: KeywordService, keyword_id: str, ctx: RequestContext = ANN) -> dict[str, Any]:
    """Return a keyword as this caller reads it."""
    row: dict[str, Any] = orjson.loads((await service.get(ctx, keyword_id)).json)
    return row


async def list_child_names(service: KeywordService, keyword_id: str = ROOT_ID, ctx: RequestContext = ANN) -> list[str]:
    """Return the names of a keyword's children."""
    return [orjson.loads(child)["name"] for child in (await service.list_children(ctx, keyword_id)).records]


async def list_op_names(store: MemoryStore) -> list[str]:
    """Return the names of the operations, oldest first."""
    return [operation.op async for operation in store.operations("default")][::-1]


async def get_last_operation(store: MemoryStore) -> Operation:
    """Return the newest operation."""
    newest = await anext(aiter(store.operations("default")))
    assert newest.seq == store.last_seq
    return newest
