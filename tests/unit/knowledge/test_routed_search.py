"""A search with a router and a reranker: what they are shown, how they order, and how they fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.language_models import ChatRequest, FailureReason, RerankFailed
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import DroppedPart, KnowledgeSearchResult, Order, SearchQuery
from knowhub.knowledge.table import make_filters
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, caller, local, new_knowledge
from tests.fakes.queued_chat import NEVER, Answer, QueuedChat, read_fenced
from tests.fakes.scripted_reranker import Scores, ScriptedReranker, Silence, longest_first

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def hub_with(
    folder: Path,
    chat: QueuedChat | None = None,
    reranker: ScriptedReranker | None = None,
    **settings: Any,  # noqa: ANN401 -- any setting
) -> AsyncIterator[Hub]:
    place = Settings(data_dir=folder, owner=OWNER, **settings)
    async with open_hub(place, Overrides(llm=chat, reranker=reranker), maintain=False) as hub:
        yield hub


async def save(hub: Hub, *names: str, ctx: RequestContext | None = None, **fields: Any) -> None:  # noqa: ANN401 -- any field
    for name in names:
        new = new_knowledge(**{"task": f"wait {name}", "content": f"secret content of {name}"} | fields)
        await hub.knowledge.records.save(ctx or local(), new)


def answer_picking(*names: str) -> Callable[[ChatRequest], object]:
    """Pick the candidates whose tasks end in these names."""

    def answer(question: ChatRequest) -> object:
        ids = {
            candidate["task"].rpartition(" ")[2]: candidate["id"] for candidate in read_fenced(question)["candidates"]
        }
        return {"ids": [ids[name] for name in names]}

    return answer


def list_names(found: KnowledgeSearchResult) -> list[str]:
    return [record["task"].rpartition(" ")[2] for record in found.records]


async def search(
    hub: Hub,
    text: str = "wait",
    top_k: int = 1,
    ctx: RequestContext | None = None,
    **rest: Any,  # noqa: ANN401 -- any field of a query
) -> KnowledgeSearchResult:
    return await hub.knowledge.search.search(ctx or local(), SearchQuery(text, top_k=top_k, **rest))


async def test_only_what_the_model_picks_is_answered(tmp_path: Path) -> None:
    chat = QueuedChat([answer_picking("b"), answer_picking("b", "a")])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "a", "b", "c", "d")

        first = await search(hub, order=Order.RELEVANCE)
        both = await search(hub, order=Order.RELEVANCE, top_k=3)

    assert list_names(first) == ["b"]
    assert list_names(both) == ["b", "a"]
    assert both.routed == [record["id"] for record in both.records]
    assert first.degraded == []


@pytest.mark.parametrize(
    ("answer", "picked", "unknown"),
    [
        (lambda a, b: [b, a], ["b", "a"], 0),
        (lambda a, _: ["knowledge-9", a, a, "", None, 7.5, {"id": 1}], ["a"], 3),
        (lambda _, b: [f" {b} "], ["b"], 0),
        (lambda _a, _b: [2, "1"], ["second", "first"], 0),
        (lambda _a, _b: [], [], 0),
    ],
)
async def test_each_shown_record_that_is_picked_counts_once_in_order(
    tmp_path: Path, answer: Callable[[str, str], list[object]], picked: list[str], unknown: int
) -> None:
    def choose(question: ChatRequest) -> object:
        shown = {
            candidate["task"].rpartition(" ")[2]: candidate["id"] for candidate in read_fenced(question)["candidates"]
        }
        numbered.update(zip(("first", "second"), shown, strict=False))
        return {"ids": answer(shown["a"], shown["b"])}

    numbered: dict[str, str] = {}
    async with hub_with(tmp_path, QueuedChat([choose])) as hub:
        await save(hub, "a", "b", "c", "d")

        found = await search(hub, top_k=2, order=Order.RELEVANCE)

    assert (list_names(found), found.degraded) == ([numbered.get(name, name) for name in picked], [])
    assert len(found.routed or ()) == len(picked)
    assert found.dropped == [DroppedPart("picks", "unknown", unknown)] * bool(unknown)


async def test_more_picks_than_the_model_may_make_are_said_to_be_dropped(tmp_path: Path) -> None:
    names = "abcdefg"
    async with hub_with(tmp_path, QueuedChat([answer_picking(*names)])) as hub:
        await save(hub, *names)

        found = await search(hub, top_k=2)

    assert (len(found.records), len(found.routed or ())) == (2, 4)
    assert found.dropped == [DroppedPart("picks", "too_many", 3)]


async def test_the_model_is_asked_where_the_floor_would_drop_a_candidate(tmp_path: Path) -> None:
    chat = QueuedChat([answer_picking("a", "b")])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "a", "b")

        found = await search(hub, "wait", top_k=8, min_relevance=0.99)

    assert len(chat.questions) == 1
    assert found.routed is not None


@pytest.mark.parametrize("is_routed", [True, False])
async def test_min_relevance_is_compared_with_the_relevance_by_words_not_with_the_order_of_a_model(
    tmp_path: Path, *, is_routed: bool
) -> None:
    names = "abcdef"
    chat = QueuedChat([answer_picking("other", *names)]) if is_routed else None
    reranker = None if is_routed else ScriptedReranker([longest_first])
    async with hub_with(tmp_path, chat, reranker) as hub:
        await save(hub, *names, content="x")
        await save(hub, "other", task="pause other", content="wait " + "for a text that is much longer " * 20)

        found = await search(hub, top_k=8, min_relevance=0.5, explain=True)

    assert sorted(list_names(found)) == list(names)
    assert [item["rule"] for item in (found.explanation or {})["filtered"]] == ["below_min_relevance"]


async def test_the_default_floor_does_not_drop_what_a_model_picks(tmp_path: Path) -> None:
    async with hub_with(tmp_path, QueuedChat([answer_picking("other", "a")]), relevance_floor=0.9) as hub:
        await save(hub, "a", "b", "other", content="x")

        found = await search(hub, "wait for whatever nobody stored", top_k=2)

    assert sorted(list_names(found)) == ["a", "other"]


async def test_the_model_finds_records_without_shared_words(tmp_path: Path) -> None:
    chat = QueuedChat([answer_picking("网站")])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "网站", task="登录 网站", content="captcha")

        found = await search(hub, "sign in to a page", top_k=5, explain=True)

    assert list_names(found) == ["网站"]
    why = found.records[0]["why"]
    assert why["stages"] == [{"stage": "routing", "rank": 1, "score": None}]
    assert why["recall"] == {"stage": "routing", "rank": 1, "score": None, "matched": []}


async def test_the_model_sees_only_records_the_caller_may_find(tmp_path: Path) -> None:
    chat = QueuedChat([{"ids": []}])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "mine", ctx=caller(user_id="li"))
        await save(hub, "open", scopes=["public"])
        await save(hub, "hidden", "private", ctx=caller(user_id="chen"))
        await save(hub, "low", scopes=["public"], score=1)
        await save(hub, "over", scopes=["public"], valid_to="2020-01-01T00:00:00Z")
        await save(hub, "plan", scopes=["public"], types=("plan",))

        await search(hub, "anything", ctx=caller(user_id="li"), filters=make_filters({"types": ["tool"]}), explain=True)

    told = str(chat.questions[0].messages)
    assert sorted(candidate["task"] for candidate in chat.read_prompt()["candidates"]) == ["wait mine", "wait open"]
    assert "secret content" not in told


@pytest.mark.parametrize("answer", [{"ids": "knowledge-1"}, ["knowledge-1"], RuntimeError("any"), NEVER])
async def test_an_unusable_answer_or_none_in_time_leaves_what_words_found(tmp_path: Path, answer: Answer) -> None:
    started = asyncio.get_running_loop().time()
    async with hub_with(tmp_path, QueuedChat([answer]), llm_budget_s=0.2) as hub:
        await save(hub, "a", "b", "c")

        found = await search(hub, top_k=2)
        await hub.decisions.close()
        (noted,) = [item async for item in hub.store.operations("default") if item.op == "agent_decision"]

    assert (len(found.records), found.routed, found.degraded) == (2, None, ["llm"])
    assert [call["failure"] for call in noted.agent_io or ()] == [
        "agent_timeout" if answer is NEVER else "agent_failure"
    ]
    assert asyncio.get_running_loop().time() - started < 5


@pytest.mark.parametrize(("records", "top_k", "asked"), [(0, 5, 0), (1, 1, 0), (5, 5, 0), (6, 5, 1)])
async def test_the_model_is_not_asked_without_a_choice(tmp_path: Path, records: int, top_k: int, asked: int) -> None:
    chat = QueuedChat([{"ids": []}])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, *(f"r{number}" for number in range(records)))

        found = await search(hub, top_k=top_k)

    assert (len(chat.questions), len(found.records)) == (asked, 0 if asked else min(records, top_k))


async def test_records_deleted_or_hidden_during_the_call_are_not_returned(tmp_path: Path) -> None:
    chat = QueuedChat()

    class Deleting(QueuedChat):
        async def chat(self, question: ChatRequest, timeout_s: float) -> Any:  # noqa: ANN401 -- a Reply
            ids = {candidate["task"]: candidate["id"] for candidate in read_fenced(question)["candidates"]}
            await hub.knowledge.records.delete(local(), ids["wait gone"])
            await hub.knowledge.records.patch(local(), ids["wait hidden"], {"scopes": ["user:chen"]})
            return await super().chat(question, timeout_s)

    chat = Deleting([answer_picking("gone", "hidden", "stays")])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "gone", "hidden", "stays", "more", scopes=["public"])

        found = await search(hub, top_k=2, ctx=caller(user_id="li"))

    assert list_names(found) == ["stays"]


async def test_erasing_a_record_erases_it_from_logged_decisions(tmp_path: Path) -> None:
    chat = QueuedChat([answer_picking("zebra-42")])
    async with hub_with(tmp_path, chat) as hub:
        await save(hub, "a", "zebra-42")
        await search(hub)
        await hub.decisions.close()
        operations = [item async for item in hub.store.operations("default") if item.op == "agent_decision"]
        noted = [call["function"] for item in operations for call in item.agent_io or ()]
        record = operations[0].agent_io[0]["output"]["ids"][0] if operations[0].agent_io else ""
        await hub.operations.erasure.erase(local(), "knowledge", record)
        after = [item async for item in hub.store.operations("default") if item.op == "agent_decision"]
    logged = b"".join(path.read_bytes() for path in (tmp_path / "change_log").iterdir())

    assert noted == ["route_knowledge"]
    assert [item.agent_io for item in after] == [None]
    assert b"zebra-42" not in logged


@pytest.mark.parametrize("is_routed", [True, False])
async def test_the_reranker_orders_routed_or_else_recalled_records(tmp_path: Path, *, is_routed: bool) -> None:
    reranker = ScriptedReranker([longest_first])
    chat = QueuedChat([answer_picking("a", "cc")]) if is_routed else None
    async with hub_with(tmp_path, chat, reranker) as hub:
        await save(hub, "a", "bbbb", "cc", "ddd", content="x")

        found = await search(hub, top_k=1, order=Order.RELEVANCE, explain=True)

    assert list_names(found) == (["cc"] if is_routed else ["bbbb"])
    assert len(reranker.asked[0][1]) == (2 if is_routed else 4)
    stages = [stage["stage"] for stage in found.records[0]["why"]["stages"]]
    assert stages == (["lexical", "routing", "rerank"] if is_routed else ["lexical", "rerank"])
    assert found.records[0]["why"]["stages"][-1]["rank"] == 1


@pytest.mark.parametrize(
    "scores",
    [
        RerankFailed(FailureReason.FAILURE, "down"),
        Silence.NEVER,
        [1.0],
        [float("nan"), 1.0, 2.0],
        [float("inf"), 1.0, 2.0],
    ],
)
async def test_a_failing_reranker_keeps_the_order_and_is_reported(tmp_path: Path, scores: Scores) -> None:
    async with hub_with(tmp_path, None, ScriptedReranker([scores]), rerank_budget_s=0.2) as hub:
        await save(hub, "a", "b", "c")

        found = await search(hub, top_k=2, order=Order.RELEVANCE)

    assert (list_names(found), found.degraded) == (["c", "b"], ["reranker"])


async def test_a_reranker_gets_fifty_texts_of_limited_length(tmp_path: Path) -> None:
    reranker = ScriptedReranker()
    async with hub_with(tmp_path, None, reranker) as hub:
        await save(hub, *(f"r{number}" for number in range(60)), content="y" * 5_000)

        found = await search(hub, top_k=60)

    query, texts = reranker.asked[0]
    assert (query, len(texts), len(found.records)) == ("wait", 50, 60)
    assert {len(text) for text in texts} == {2_000}
    assert all(text.startswith("wait r") for text in texts)
