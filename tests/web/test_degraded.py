"""Each part is broken in turn: every answer that needed it names it, and no other answer names anything."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx
import orjson
import pytest
import respx

from knowhub.bootstrap import open_hub
from knowhub.core.language_models import EmbeddingFailed, FailureReason, Vector
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.fakes.model_server import BASE_URL, URL, completion
from tests.fakes.scripted_reranker import ScriptedReranker
from tests.web.conftest import client_of, open_server

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
SAID = [{"role": "user", "content": "Please remember that I prefer tabs.", "message_id": "m-1"}]
REWORDED = ("Wait two seconds before the login form is sent", "The login form is sent two seconds later: wait")


def make_get(path: str, **params: str | int) -> Ask:
    return lambda api: api.get(path, params=params)


def make_post(path: str, **body: object) -> Ask:
    return lambda api: api.post(path, json=body)


async def evolve(api: httpx.AsyncClient) -> httpx.Response:
    listed = (await api.get("/api/knowledge")).json()["results"]
    return await api.put(f"/api/knowledge/{listed[0]['id']}", json={"evolve_feedback": "it moved"})


ANSWERS: dict[str, Ask] = {
    "search": make_get("/api/knowledge/search", q="wait for the login form", top_k=1),
    "evolve": evolve,
    "slim": make_post("/api/knowledge/slim", dry_run=True),
    "extract": make_post("/api/knowledge/extract", messages=SAID, dry_run=True),
    "commit": make_post("/api/context/sessions/commit", session_id="s", messages=SAID, wait=True),
    "memories": make_get("/api/context/search", q="What do I prefer?"),
    "recall": make_get("/api/recall", q="wait for the login form", top_k=1),
    "keyword": make_get("/api/keywords/search", q="something unheard of"),
    "place": make_post("/api/keywords", name="Rust", allow_duplicate=True),
    "link": make_post("/api/infos", content="Rust borrows.", auto_link=True),
    "reorganize": make_post("/api/keywords/reorganize", scope_id="root"),
}
OF_SEARCH = ["search", "memories", "recall"]
OF_THE_MODEL = ["search", "evolve", "slim", "extract", "commit", "recall", "keyword", "place", "link", "reorganize"]


@asynccontextmanager
async def open_degraded_server(settings: Settings, overrides: Overrides) -> AsyncIterator[httpx.AsyncClient]:
    """Open a server on records, a session and a tree that were saved before anything broke."""
    bare = settings.model_copy(update={"llm_base_url": None})
    async with open_server(bare) as api:
        for content in (*REWORDED, "Wait for the element of the form", "The form of the printer has a login"):
            await api.post("/api/knowledge", json={"content": content, "types": ["tool"]})
        await api.post("/api/context/sessions/commit", json={"session_id": "before", "messages": SAID})
        for name in ("编程语言", "数据库"):
            await api.post("/api/keywords", json={"name": name, "llm_auto_place": False})
    async with open_server(settings, overrides) as api:
        yield api


async def list_degraded(api: httpx.AsyncClient) -> dict[str, list[str]]:
    """Return the `degraded` list of each answer that has one."""
    said: dict[str, Any] = {}
    for name, ask in ANSWERS.items():
        answer = await ask(api)
        assert answer.is_success, (name, answer.text)
        said[name] = answer.json()["degraded"]
    return {name: parts for name, parts in said.items() if parts}


async def test_without_models_nothing_is_degraded(settings: Settings) -> None:
    async with open_degraded_server(settings, Overrides()) as api:
        assert await list_degraded(api) == {}


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
        httpx.Response(500),
        httpx.Response(200, text="<html>"),
        completion("gibberish"),
        completion({"foo": 1}),
        completion(None),
    ],
    ids=["down", "late", "failing", "proxy", "gibberish", "another object", "nothing"],
)
async def test_a_model_that_is_down_or_answers_junk_is_reported_as_degraded(
    settings: Settings, answer: httpx.Response | Exception
) -> None:
    configured = settings.model_copy(update={"llm_base_url": BASE_URL, "llm_attempts": 1, "llm_breaker_failures": 0})
    with respx.mock() as router:
        router.post(URL).mock(side_effect=[answer] * 100)
        async with open_degraded_server(configured, Overrides()) as api:
            assert await list_degraded(api) == {name: ["llm"] for name in OF_THE_MODEL}


def pick(kind: str, shown: list[Any]) -> list[Any]:
    """Return what a model picks from the pointers that it is shown."""
    return {"nothing": [], "everything": shown, "strangers": ["unknown-1", 999]}[kind]


def answer_by_picking(kind: str, request: httpx.Request) -> httpx.Response:
    """Answer each question that offers a choice; the others get no usable answer."""
    task, data = (message["content"] for message in orjson.loads(request.content)["messages"])
    data = orjson.loads(data.split("<data>")[1].split("</data>")[0])
    shown = [item.get("idx", item.get("id")) for name in SHOWN_AS for item in data.get(name, ())]
    picked = pick(kind, shown)
    if "steps" in data:
        answer: dict[str, Any] = {"refused": picked}
    elif "nodes" in data:
        answer = {"moves": [{"node_id": item, "new_parent_id": shown[0]} for item in picked]}
    elif "info" in data:
        answer = {"links": [{"keyword_id": item, "relation": "PRIMARY"} for item in picked]}
    elif "most" in data:
        answer = {"ids": picked}
    elif "records" in data:
        answer = {"same": picked, "task": "t", "content": REWORDED[0]}
    elif "new" in data:
        answer = {"action": "merge", "node_id": (picked or [None])[0]}
    elif "action" in task:
        answer = {"action": "match", "node_ids": picked}
    else:
        answer = {"node_id": (picked or [None])[0]}
    return completion(answer)


SHOWN_AS = ("candidates", "nodes", "steps", "records")
CHOICES: dict[str, Ask] = {name: ANSWERS[name] for name in ("search", "slim", "recall", "keyword", "place", "link")} | {
    "reorganize": ANSWERS["reorganize"],
    "namesake": make_post("/api/keywords", name="数据库", llm_dedup_check=True),
    "homonyms": make_get("/api/keywords/search", q="数据库", llm_disambiguate="true"),
}


@pytest.mark.parametrize(
    ("kind", "degraded"),
    [
        ("nothing", []),
        ("everything", []),
        ("strangers", ["search", "slim", "recall", "keyword", "place", "link", "namesake", "homonyms"]),
    ],
)
async def test_odd_picks_of_a_model_get_a_clear_answer(settings: Settings, kind: str, degraded: list[str]) -> None:
    configured = settings.model_copy(update={"llm_base_url": BASE_URL, "llm_attempts": 1, "llm_breaker_failures": 0})
    said: dict[str, Any] = {}
    with respx.mock() as router:
        router.post(URL).mock(side_effect=lambda request: answer_by_picking(kind, request))
        async with open_degraded_server(configured, Overrides()) as api:
            for name, ask in CHOICES.items():
                answer = await ask(api)
                assert answer.is_success, (name, answer.text)
                said[name] = answer.json()

    assert [name for name, answer in said.items() if answer["degraded"]] == degraded
    # All proposals, or all but the single possible one.
    assert bool(said["reorganize"]["dropped"]) is (kind != "nothing")
    assert (said["search"].get("routed") == [], said["homonyms"]["status"]) == (
        kind == "nothing",
        "matched" if kind == "everything" else "ambiguous",
    )


async def test_an_embedder_that_is_down_is_reported_by_each_vector_search(settings: Settings) -> None:
    embedder = HashingEmbedder()
    async with open_degraded_server(settings, Overrides(embedder=embedder)) as api:
        # Vectors of queries are cached: this one is of another.
        assert (await api.get("/api/knowledge/search", params={"q": "printer"})).json()["degraded"] == []
        embedder.is_down = True

        assert await list_degraded(api) == {name: ["embedder"] for name in [*OF_SEARCH, "keyword"]}


async def test_the_sources_of_a_recall_wait_once_for_a_slow_embedder(settings: Settings) -> None:
    embedder, hurried = _SlowEmbedder(), settings.model_copy(update={"embedding_search_budget_s": 1.0})
    async with open_degraded_server(hurried, Overrides(embedder=embedder)) as api:
        # The embedder is known to read English then.
        await api.get("/api/knowledge/search", params={"q": "printer"})
        embedder.is_slow = True
        answer = (await api.get("/api/recall", params={"q": "form of the printer"})).json()

    assert (answer["degraded"], answer["count"] > 0) == (["embedder"], True)
    assert embedder.queries.count("form of the printer") == 1


class _SlowEmbedder(HashingEmbedder):
    """Takes all the time that it has, as long as it is slow."""

    is_slow = False

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        vectors = await super().embed(texts, timeout_s, query=query)
        if self.is_slow:
            await asyncio.sleep(timeout_s)
            raise EmbeddingFailed(FailureReason.TIMEOUT, "late")
        return vectors


async def test_a_reranker_that_is_down_is_reported_by_each_search(settings: Settings) -> None:
    async with open_degraded_server(
        settings, Overrides(reranker=ScriptedReranker([RuntimeError("down")] * 200))
    ) as api:
        assert await list_degraded(api) == {name: ["reranker"] for name in OF_SEARCH}


async def test_messages_beyond_the_limits_of_an_extraction_are_counted_as_dropped(settings: Settings) -> None:
    many = [{"role": "user", "content": f"Sentence {number}. " * 100} for number in range(400)]
    async with open_degraded_server(settings, Overrides()) as api:
        answer = (await api.post("/api/knowledge/extract", json={"messages": many, "dry_run": True})).json()

    [dropped] = answer["dropped"]
    assert (dropped["what"], dropped["why"]) == ("messages", "not_read")
    assert dropped["count"] == len(many) - answer["messages_read"] > 0


async def test_a_lagging_index_is_reported_until_it_has_caught_up(settings: Settings) -> None:
    long_texts = [" ".join(f"word{number * 50_000 + place}" for place in range(50_000)) for number in range(12)]
    tree = make_get("/api/recall", q="word7 stripes", sources="keywords")
    records = make_get("/api/knowledge/search", q="word7 stripes")
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        for text in long_texts:
            assert (await api.post("/api/knowledge", json={"content": text, "types": ["tool"]})).is_success
        for text in long_texts[:3]:
            assert (await api.post("/api/infos", json={"content": text})).is_success
        behind = [(await ask(api)).json()["degraded"] for ask in (tree, records)]
        await hub.maintenance.tick()
        caught_up = [(await ask(api)).json() for ask in (tree, records)]

    assert behind == [["index"], ["index"]]
    assert [answer["degraded"] for answer in caught_up] == [[], []]
    assert [len(answer["results"]) for answer in caught_up] == [1, 1]
