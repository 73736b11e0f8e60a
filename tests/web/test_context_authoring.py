"""Memories written by hand over HTTP: create, tag, move, link, read several, grep; and searches with limits."""

import re
from typing import Any

import httpx
import pytest

from tests.web.sessions import NODES, commit_session, get_node, search_memories
from tests.web.trees import undo

pytestmark = pytest.mark.anyio

LI: dict[str, Any] = {"user_id": "li"}
SPACE = "ctx://default/users/li/memories"
LANGUAGE = f"{SPACE}/preferences/report-language"
FINANCE = f"{SPACE}/entities/finance"


async def create(api: httpx.AsyncClient, uri: str, content: str, **fields: object) -> dict[str, Any]:
    category, name = uri.removeprefix(f"{SPACE}/").split("/")
    body = {"category": category, "name": name, "content": content, **LI, **fields}
    answer = await api.post(NODES, json=body)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    assert (created["uri"], answer.headers["ETag"]) == (uri, f'"{created["version"]}"')
    return created


async def test_a_memory_is_created_found_and_undone(api: httpx.AsyncClient) -> None:
    created = await create(api, LANGUAGE, "报告一律用中文。", tags={"topic": "reports"})

    assert (created["abstract"], created["tags"]) == ("报告一律用中文。", {"topic": "reports"})
    assert [block["uri"] for block in await search_memories(api, "中文报告", **LI)] == [LANGUAGE]
    taken = await api.post(NODES, json={"category": "preferences", "name": "report-language", "content": "x", **LI})
    assert taken.status_code == 409

    assert (await undo(api, created["operation_id"])).status_code == 200

    assert await search_memories(api, "中文报告", **LI) == []


async def test_a_uri_quotes_nothing_of_the_text_and_a_profile_has_no_name(api: httpx.AsyncClient) -> None:
    text = "Finance wants CSV. The wifi password is Heron-5512-x!"
    entity, again = [await api.post(NODES, json={"category": "entities", "content": text, **LI}) for _ in range(2)]
    profile = await api.post(NODES, json={"category": "profile", "content": "- Lives in Ghent.", **LI})

    assert re.fullmatch(f"{SPACE}/entities/[0-9a-f]{{12}}", entity.json()["uri"])
    assert (entity.status_code, again.status_code) == (201, 409)
    assert profile.json()["uri"] == f"{SPACE}/profile"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"category": "sessions", "content": "x"}, "category"),
        ({"category": "events", "content": " \n"}, "content"),
        ({"category": "events", "content": "x", "name": "n" * 200 + "…" * 900}, "name"),
        ({"content": "x"}, "category"),
    ],
)
async def test_a_memory_that_cannot_be_created_is_refused(
    api: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await api.post(NODES, json={**body, **LI})

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_moved_memory_keeps_text_and_edges_and_can_be_undone(api: httpx.AsyncClient) -> None:
    await create(api, LANGUAGE, "报告一律用中文。")
    await create(api, FINANCE, "The finance team reads the reports.")
    edge = {"from_uri": FINANCE, "to_uri": LANGUAGE, "relation_type": "because_of", "reason": "asked", "weight": 0.5}
    assert (await api.put("/api/context/relations", json={**edge, **LI})).status_code == 200
    to = f"{SPACE}/patterns/language"

    moved = await api.post(f"{NODES}/move", json={"uri": LANGUAGE, "to": to, **LI}, headers={"If-Match": '"1"'})

    assert (moved.status_code, moved.json()["uri"], moved.json()["category"]) == (200, to, "patterns")
    assert (await api.get(NODES, params={"uri": LANGUAGE, **LI})).status_code == 404
    assert [link["to_uri"] for link in (await get_node(api, FINANCE, **LI))["relations"]] == [to]
    assert [block["uri"] for block in await search_memories(api, "中文", **LI)] == [to]

    assert (await undo(api, moved.json()["operation_id"])).status_code == 200

    assert (await get_node(api, LANGUAGE, **LI))["content"] == "报告一律用中文。"
    assert [link["to_uri"] for link in (await get_node(api, FINANCE, **LI))["relations"]] == [LANGUAGE]


@pytest.mark.parametrize(
    ("to", "status"),
    [
        (LANGUAGE.replace("users/li", "users/zhou"), 422),
        (f"{SPACE}/preferences", 422),
        ("ctx://default/users/li/sessions/s-1", 422),
        ("ctx://other/users/li/memories/preferences/x", 404),
        (FINANCE, 409),
    ],
)
async def test_a_memory_moves_only_to_a_free_place_of_its_space(api: httpx.AsyncClient, to: str, status: int) -> None:
    await create(api, LANGUAGE, "报告一律用中文。")
    await create(api, FINANCE, "The finance team reads the reports.")

    answer = await api.post(f"{NODES}/move", json={"uri": LANGUAGE, "to": to, **LI})

    assert answer.status_code == status
    assert (await get_node(api, LANGUAGE, **LI))["version"] == 1


async def test_sessions_and_messages_neither_move_nor_get_edges(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "The deploy failed.", **LI)
    session = "ctx://default/users/li/sessions/s-1"
    (message,) = (await api.get("/api/context/children", params={"uri": session, **LI})).json()["results"]
    await create(api, FINANCE, "The finance team.")

    moved = await api.post(f"{NODES}/move", json={"uri": session, "to": f"{session}-2", **LI})
    linked = await api.put("/api/context/relations", json={"from_uri": message["uri"], "to_uri": FINANCE, **LI})

    assert (moved.status_code, linked.status_code) == (422, 422)


async def test_edges_are_replaced_by_type_and_removed(api: httpx.AsyncClient) -> None:
    await create(api, LANGUAGE, "报告一律用中文。")
    await create(api, FINANCE, "The finance team.")
    edge = {"from_uri": FINANCE, "to_uri": LANGUAGE, **LI}
    for kind, reason in (("a", "first"), ("a", "second"), ("b", "")):
        linked = await api.put("/api/context/relations", json={**edge, "relation_type": kind, "reason": reason})
    again = await api.put("/api/context/relations", json={**edge, "relation_type": "b"})

    assert [(item["relation_type"], item["reason"]) for item in linked.json()["relations"]] == [
        ("a", "second"),
        ("b", ""),
    ]
    assert again.json()["operation_id"] is None

    removed = await api.delete("/api/context/relations", params={**edge, "relation_type": "a"})
    rest = await api.delete("/api/context/relations", params=edge)
    none = await api.delete("/api/context/relations", params=edge)

    assert [item["relation_type"] for item in removed.json()["relations"]] == ["b"]
    assert (rest.json()["relations"], none.status_code) == ([], 404)


async def test_tags_are_replaced_whole_and_limit_a_search(api: httpx.AsyncClient) -> None:
    await create(api, LANGUAGE, "报告一律用中文。", tags={"topic": "reports", "team": ["a", "b"]})

    async def search(**tags: str) -> int:
        return len(await search_memories(api, "报告", **LI, **{f"tag.{name}": value for name, value in tags.items()}))

    assert [await search(topic="reports"), await search(team="b"), await search(topic="x")] == [1, 1, 0]

    patched = await api.patch(NODES, params={"uri": LANGUAGE}, json={"tags": {"topic": "x"}, **LI})

    assert patched.json()["tags"] == {"topic": "x"}
    assert [await search(topic="reports"), await search(team="b"), await search(topic="x")] == [0, 0, 1]
    unknown = await api.get("/api/context/search", params={"q": "报告", "topic": "x", **LI})
    assert unknown.status_code == 422


async def test_a_search_is_limited_by_time_and_relevance(api: httpx.AsyncClient) -> None:
    for session, day in (("s-1", "2026-01-05"), ("s-2", "2026-03-05")):
        said = {"role": "user", "content": f"The heron was at the pond, {session}.", "timestamp": f"{day}T09:00:00Z"}
        body = {"session_id": session, "messages": [said], "options": {"extract": False}, **LI}
        assert (await api.post("/api/context/sessions/commit", json=body)).status_code == 201

    async def days(**limits: str) -> list[str]:
        blocks = await search_memories(api, "heron pond", categories="sessions", **LI, **limits)
        assert all(0 < block["relevance"] <= 1 for block in blocks)
        return sorted(block["said_at"][:10] for block in blocks if block["said_at"])

    assert await days() == ["2026-01-05", "2026-03-05"]
    assert await days(since="2026-02-01") == ["2026-03-05"]
    assert await days(until="2026-02-01") == ["2026-01-05"]
    assert await days(min_relevance="1") == []


async def test_several_memories_are_read_at_once_and_missing_ids_are_named(api: httpx.AsyncClient) -> None:
    await create(api, LANGUAGE, "报告一律用中文。")
    await create(api, FINANCE, "The finance team.")

    answer = await api.post(
        "/api/context/read", json={"uris": [FINANCE, f"{FINANCE}-x", LANGUAGE], "level": "L2", **LI}
    )

    body = answer.json()
    assert [block["content"] for block in body["results"]] == ["The finance team.", "报告一律用中文。"]
    assert body["missing"] == [f"{FINANCE}-x"]


async def test_grep_reads_memories_and_messages_word_for_word(api: httpx.AsyncClient) -> None:
    await create(api, FINANCE, "Finance:\nuses sap-7 and SAP-7x.")
    await commit_session(api, "s-1", "Ask about sap-7.", **LI)
    await create(api, LANGUAGE, "s.p-7 is not it.")

    async def grep(**params: str | int) -> dict[str, Any]:
        answer = await api.get("/api/context/grep", params={"q": "SAP-7", **LI, **params})
        assert answer.status_code == 200, answer.text
        lines: dict[str, Any] = answer.json()
        return lines

    body = await grep()
    assert (FINANCE, 2, "uses sap-7 and SAP-7x.") in [(it["uri"], it["line"], it["text"]) for it in body["results"]]
    assert any(it["category"] == "sessions" for it in body["results"])
    assert LANGUAGE not in [it["uri"] for it in body["results"]]
    assert [it["uri"] for it in (await grep(uri=f"{SPACE}/entities"))["results"]] == [FINANCE]
    assert (await grep(limit=1))["truncated"] is True
    assert (await grep(user_id="zhou"))["results"] == []
    assert (await api.get("/api/context/grep", params={"q": " ", **LI})).status_code == 422
