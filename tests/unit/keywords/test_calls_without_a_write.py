"""Calls of a model are logged even if nothing is written: the verb is refused, cancelled or a retry."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from knowhub.core.background_writes import DecisionLog
from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.language_models import ChatReply, ChatRequest
from knowhub.core.operation import IdempotencyKey
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.curate.curator import SHOWN_A_CALL, Curator
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import NewInfo, NewKeyword, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import DeleteOptions, KeywordService
from tests.builders import CountedIds, FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.plain_text import PlainText
from tests.fakes.queued_chat import NEVER, Answer, QueuedChat, point_to
from tests.keyword_verbs import ANN

pytestmark = pytest.mark.anyio

KEY = IdempotencyKey(principal="user:ann", method="POST", path="/api/keywords", key="k-1", body="b-1")


class InterruptedChat(QueuedChat):
    """Runs `happens` before it answers the first question; an answer may also wait forever."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(answers)
        self.happens: Callable[[], Awaitable[object]] | None = None

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return await super().chat(question, timeout_s)


class TreeServices:
    """The services on a store in memory, with a model and the log of its decisions in reads."""

    def __init__(self, *answers: Answer) -> None:
        self.store, text, ids, options = (
            MemoryStore(FakeClock(), CountedIds()),
            PlainText(),
            CountedIds(),
            TreeOptions(),
        )
        self.chat, self.log = InterruptedChat(*answers), DecisionLog(self.store)
        agent = KeywordAgent(self.chat, RecentMatchesByReader(), options, note=self.log.note)
        self.keywords = KeywordService(self.store, NearKeywords(text), ids, agent, options)
        self.infos = InfoService(self.store, text, ids, agent, options)
        self.search = KeywordSearch(self.store, NearKeywords(text), agent, options, log=self.log)
        self.curator = Curator(self.store, text, ids, agent, options)

    async def create_keyword(self, name: str, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.keywords.create(ANN, NewKeyword(name, **fields), auto_place=False)).record["id"])

    async def list_logged_calls(self) -> list[tuple[str, str, list[str]]]:
        """Return the operations with model calls: the kind, the actor, and the called functions."""
        await self.log.close()
        found = [item async for item in self.store.operations("default") if item.agent_io]
        return [(item.op, item.actor, [str(call["function"]) for call in item.agent_io or ()]) for item in found][::-1]

    async def cancel_while_asked(self, verb: Awaitable[object], asked: int) -> None:
        """Break a verb off while the model thinks about its question of this number."""
        task = asyncio.ensure_future(verb)
        while len(self.chat.questions) < asked:
            assert not task.done(), task
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_calls_of_a_refused_keyword_are_logged() -> None:
    tree = TreeServices({"action": "create_new"}, point_to("top"))
    await tree.create_keyword("top")
    tree.chat.happens = lambda: tree.create_keyword("taken")

    with pytest.raises(Conflict):
        await tree.keywords.create(ANN, NewKeyword("top", aliases=["taken"]), dedup_check=True)

    assert await tree.list_logged_calls() == [("agent_decision", "user:ann", ["dedup_check", "pick_branch"])]


async def test_calls_of_a_refused_info_are_logged() -> None:
    tree = TreeServices({"links": []})
    keyword_id = await tree.create_keyword("top")
    tree.chat.happens = lambda: tree.keywords.delete(ANN, keyword_id, DeleteOptions())

    with pytest.raises(InvalidInput):
        await tree.infos.create(ANN, NewInfo("top of all", keyword_ids=[keyword_id], auto_link=True))

    assert await tree.list_logged_calls() == [("agent_decision", "user:ann", ["link_info"])]


async def test_calls_of_a_concurrent_retry_are_logged() -> None:
    tree = TreeServices(point_to("top"))
    await tree.create_keyword("top")
    tree.chat.happens = lambda: tree.keywords.create(ANN, NewKeyword("one"), KEY, auto_place=False)

    retried = await tree.keywords.create(ANN, NewKeyword("one"), KEY)

    assert retried.record["parent_id"] == "root"
    assert await tree.list_logged_calls() == [("agent_decision", "user:ann", ["pick_branch"])]


@pytest.fixture
def tree() -> TreeServices:
    return TreeServices(point_to("top", "jump"), NEVER)


async def test_calls_of_a_cancelled_search_are_logged(tree: TreeServices) -> None:
    await tree.create_keyword("below", parent_id=await tree.create_keyword("top"))

    await tree.cancel_while_asked(tree.search.search(ANN, "what nobody named"), asked=2)

    assert await tree.list_logged_calls() == [("agent_decision", "user:ann", ["pick_branch"])]


async def test_calls_of_a_cancelled_plan_are_logged() -> None:
    tree = TreeServices({"moves": []}, NEVER)
    for number in range(SHOWN_A_CALL + 1):
        await tree.create_keyword(f"keyword {number}")

    await tree.cancel_while_asked(tree.curator.reorganize(ANN), asked=2)

    assert await tree.list_logged_calls() == [("agent_decision", "user:ann", ["reorganize"])]
