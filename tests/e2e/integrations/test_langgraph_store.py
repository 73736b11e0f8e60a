"""The store for LangGraph at a real server: the cases of the tests of LangGraph's own PostgreSQL store, and more."""

import asyncio
import time
from typing import Any

import httpx
import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from agent_tools.integrations.langgraph_store import KnowHubStore

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

NS = ("test",)
SECONDS = 1 / 60
SPACES = [(a, b, c) for a in ("test", "prod") for b in ("documents", "images") for c in ("public", "private")]


@pytest.fixture
def store(user: str) -> KnowHubStore:
    return KnowHubStore(user_id=user)


async def keys(store: KnowHubStore, query: str | None = None, **options: Any) -> list[str]:  # noqa: ANN401 -- as asearch
    return [item.key for item in await store.asearch(NS, query=query, **options)]


# ── operations in batches ─────────────────────────────────────────────────────────────────────────────────────────


async def test_results_are_in_the_order_of_the_operations(store: KnowHubStore) -> None:
    await store.aput(("test", "foo"), "key1", {"data": "value1"})
    await store.aput(("test", "bar"), "key2", {"data": "value2"})

    got, put, found, spaces, missing = await store.abatch(
        [
            GetOp(("test", "foo"), "key1"),
            PutOp(("test", "bar"), "key2", {"data": "value2"}),
            SearchOp(("test",), filter={"data": "value1"}),
            ListNamespacesOp(),
            GetOp(("test",), "key3"),
        ]
    )

    assert isinstance(got, Item)
    assert (got.namespace, got.key, got.value) == (("test", "foo"), "key1", {"data": "value1"})
    assert (put, missing) == (None, None)
    assert isinstance(found, list)
    assert [item.key for item in found if isinstance(item, Item)] == ["key1"]
    assert spaces == [("test", "bar"), ("test", "foo")]


async def test_reads_of_a_batch_come_before_its_writes_and_the_last_write_counts(store: KnowHubStore) -> None:
    writes = [PutOp(NS, "a", {"n": number}) for number in range(5)]

    results = await store.abatch([*writes, GetOp(NS, "a")])

    assert results == [None] * 6
    item = await store.aget(NS, "a")
    assert item is not None
    assert item.value == {"n": 4}
    await store.abatch([PutOp(NS, "a", {"n": 5}), PutOp(NS, "a", None), PutOp(NS, "b", None)])
    assert await store.aget(NS, "a") is None


# ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_is_put_read_changed_and_deleted(store: KnowHubStore) -> None:
    space = ("test", "documents")
    await store.aput(space, "doc1", {"title": "Test", "nested": {"list": [1, None, "登录"]}})
    first = await store.aget(space, "doc1")
    await store.aput(space, "doc1", {"title": "Updated"})
    second = await store.aget(space, "doc1")

    assert first is not None
    assert second is not None
    assert (first.namespace, first.key) == (space, "doc1")
    assert first.value == {"title": "Test", "nested": {"list": [1, None, "登录"]}}
    assert second.value == {"title": "Updated"}
    assert (second.created_at, second.updated_at > first.updated_at) == (first.created_at, True)
    assert await store.aget(("test", "other"), "doc1") is None
    await store.adelete(space, "doc1")
    assert await store.aget(space, "doc1") is None


async def test_a_key_and_a_namespace_may_have_the_same_name(store: KnowHubStore) -> None:
    await store.aput(("a",), "b", {"n": 1})
    await store.aput(("a", "b"), "c", {"n": 2})
    await store.aput(("a b",), "c/d", {"n": 3})

    assert [item.key for item in await store.asearch(("a", "b"))] == ["c"]
    assert {item.key for item in await store.asearch(("a",))} == {"b", "c"}
    assert [(item.namespace, item.key) for item in await store.asearch(("a b",))] == [(("a b",), "c/d")]


async def test_an_invalid_namespace_is_refused(store: KnowHubStore) -> None:
    for namespace in ((), ("a.b",), ("",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(namespace, "a", {"n": 1})
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a.b",), "a", {"n": 1})])


async def test_users_have_stores_of_their_own(store: KnowHubStore, user: str) -> None:
    await store.aput(NS, "a", {"text": "deploy on Friday"})
    other = KnowHubStore(user_id=f"{user}2")

    assert await other.aget(NS, "a") is None
    assert await other.asearch(()) == []
    assert await other.asearch((), query="deploy") == []
    assert await other.alist_namespaces() == []


# ── namespaces ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix": ["test"]},
        {"prefix": ["test", "documents"]},
        {"suffix": ["public"]},
        {"prefix": ["*", "images"]},
        {"suffix": ["documents", "*"]},
        {"prefix": ["test"], "suffix": ["public"]},
        {"prefix": ["test", "documents", "public", "deeper"]},
        {"suffix": ["x", "test", "documents", "public"]},
        {"max_depth": 2},
        {"max_depth": 1, "prefix": ["prod"]},
        {"limit": 3},
        {"limit": 3, "offset": 6},
        {"offset": 99},
    ],
)
async def test_namespaces_are_listed_as_in_langgraphs_own_store(store: KnowHubStore, options: dict[str, Any]) -> None:
    own = InMemoryStore()
    for space in SPACES:
        await asyncio.gather(*(kept.aput(space, "dummy", {"content": "dummy"}, index=False) for kept in (own, store)))

    assert await store.alist_namespaces(**options) == await own.alist_namespaces(**options)


# ── search without words ──────────────────────────────────────────────────────────────────────────────────────────


async def test_items_are_listed_filtered_and_paged_newest_first(store: KnowHubStore) -> None:
    for space, key, author in (("docs", "1", "Alice"), ("docs", "2", "Bob"), ("images", "3", "Alice")):
        await store.aput(("test", space), key, {"author": author, "tags": ["x"]})

    assert await keys(store) == ["3", "2", "1"]
    assert await keys(store, filter={"author": "Alice"}) == ["3", "1"]
    assert await keys(store, filter={"author": "Alice", "tags": ["x"]}) == ["3", "1"]
    assert await keys(store, filter={"author": "Carol"}) == []
    assert (await keys(store, limit=2), await keys(store, offset=2)) == (["3", "2"], ["1"])
    assert [item.key for item in await store.asearch(("test", "docs"))] == ["2", "1"]
    assert {item.score for item in await store.asearch(NS)} == {None}


@pytest.mark.parametrize(
    ("condition", "fitting"),
    [
        ({"$gte": 10}, [10, 11]),
        ({"$gt": 9}, [9.5, 10, 11]),
        ({"$lt": 9.5}, [2, 9]),
        ({"$lte": 9}, [2, 9]),
        ({"$eq": 9}, [9]),
        ({"$ne": 9}, [2, 9.5, 10, 11]),
        ({"$gt": 2, "$lt": 10}, [9, 9.5]),
        ({"$gt": "text"}, []),
        (9.5, [9.5]),
    ],
)
async def test_numbers_are_compared_as_numbers(store: KnowHubStore, condition: object, fitting: list[float]) -> None:
    for number in (2, 9, 10, 11, 9.5):
        await store.aput(NS, str(number), {"at": {"score": number}}, index=False)

    found = await store.asearch(NS, filter={"at": {"score": condition}})

    assert sorted(item.value["at"]["score"] for item in found) == fitting


async def test_an_unknown_operator_is_named(store: KnowHubStore) -> None:
    await store.aput(NS, "a", {"n": 1})

    with pytest.raises(ValueError, match=r"There is no operator \$near"):
        await store.asearch(NS, filter={"n": {"$near": 1}})


# ── search by words ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_most_relevant_item_comes_first_with_a_score(store: KnowHubStore) -> None:
    for key, text in (("1", "something about dogs"), ("2", "zany zebra Xerxes"), ("3", "text about birds")):
        await store.aput(NS, key, {"text": text})

    found = await store.asearch(NS, query="Zany Xerxes")

    assert found[0].key == "2"
    assert found[0].score is not None
    assert 0 < found[0].score <= 1


async def test_a_changed_or_deleted_item_is_found_by_its_new_words_only(store: KnowHubStore) -> None:
    await store.aput(NS, "1", {"text": "zany zebra Xerxes"})
    await store.aput(NS, "1", {"text": "new text about dogs"})

    assert await keys(store, "zany Xerxes") == []
    assert await keys(store, "about dogs") == ["1"]
    await store.aput(NS, "1", {"text": "new text about dogs"}, index=False)
    assert await keys(store, "about dogs") == []
    await store.aput(NS, "1", {"text": "new text about dogs"})
    await store.adelete(NS, "1")
    assert await keys(store, "about dogs") == []


async def test_a_question_looks_below_a_namespace_only(store: KnowHubStore) -> None:
    for space in (("a",), ("a", "b"), ("ab",)):
        await store.aput(space, "k", {"text": "deploy on Friday"})

    assert {item.namespace for item in await store.asearch(("a",), query="deploy")} == {("a",), ("a", "b")}
    assert {item.namespace for item in await store.asearch((), query="deploy")} == {("a",), ("a", "b"), ("ab",)}


@pytest.mark.parametrize("query", ["test " * 1500, "test!@#$%^&*()", "test\0\ud800"])
async def test_odd_questions_find_what_their_words_find(store: KnowHubStore, query: str) -> None:
    await store.aput(NS, "1", {"text": "test document"})

    assert await keys(store, query) == ["1"]


async def test_only_the_fields_that_are_named_are_searched(user: str) -> None:
    store = KnowHubStore(user_id=user, fields=["title", "parts[*].text"])
    value = {"title": "xylophone", "body": "yesterday", "parts": [{"text": "zeppelin"}, {"text": "walrus"}]}
    await store.aput(NS, "default", value)
    await store.aput(NS, "own", value, index=["body"])

    assert await keys(store, "xylophone") == await keys(store, "walrus") == ["default"]
    assert await keys(store, "yesterday") == ["own"]
    assert await keys(store, "parts") == []
    await store.aput(NS, "default", {"other": "xylophone"})
    assert await keys(store, "xylophone") == []


async def test_other_agents_of_the_user_find_an_item_by_recall(store: KnowHubStore, url: str, user: str) -> None:
    await store.aput(NS, "1", {"text": "website_a needs a pause before the login"})

    async with httpx.AsyncClient(base_url=url) as agent:
        answer = await agent.get("/api/recall", params={"q": "login at website_a", "user_id": user})

    assert [result["text"] for result in answer.json()["results"]] == [
        '{"text": "website_a needs a pause before the login"}'
    ]


# ── time to live ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_lives_on_while_it_is_read(store: KnowHubStore) -> None:
    await store.aput(NS, "1", {"text": "short lived"}, ttl=4 * SECONDS)
    put = time.monotonic()
    for _ in range(2):
        await asyncio.sleep(2.5)
        assert await store.aget(NS, "1", refresh_ttl=True) is not None
    assert time.monotonic() - put > 4.5
    assert await keys(store, "short lived", refresh_ttl=False) == ["1"]

    await asyncio.sleep(4.5)

    assert await store.aget(NS, "1") is None
    assert await keys(store) == await keys(store, "short lived") == []
    assert await store.alist_namespaces() == []
    assert (await store.asweep(), await store.asweep()) == (1, 0)


async def test_an_item_that_is_read_without_renewal_expires(user: str) -> None:
    store = KnowHubStore(user_id=user, ttl={"default_ttl": 2 * SECONDS, "refresh_on_read": False})
    await store.aput(NS, "default", {"text": "short lived"})
    await store.aput(NS, "forever", {"text": "long lived"}, ttl=None)
    await asyncio.sleep(1)
    assert set(await keys(store)) == {"default", "forever"}
    await asyncio.sleep(1.5)

    assert await keys(store) == await keys(store, "lived") == ["forever"]
    await store.aput(NS, "default", {"text": "back again"})
    assert set(await keys(store)) == {"default", "forever"}


# ── without waiting ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_code_that_cannot_wait_uses_the_store_too(store: KnowHubStore) -> None:
    def work() -> None:
        store.put(NS, "a", {"text": "deploy on Friday"})
        item = store.get(NS, "a")
        assert item is not None
        assert item.value == {"text": "deploy on Friday"}
        assert [found.key for found in store.search(NS, query="deploy")] == ["a"]
        assert store.list_namespaces() == [NS]
        store.delete(NS, "a")
        assert store.get(NS, "a") is None

    await asyncio.to_thread(work)
