"""Reading one record, lists with filters and cursors, and the history of a record."""

from typing import Any

import httpx
import pytest

from tests.web.conftest import SaveRecord, read_pages

pytestmark = pytest.mark.anyio


async def test_a_record_is_read_whole_with_its_version_as_etag(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("绕过反爬检测", tags={"domain": "爬虫"})

    response = await api.get(f"/api/knowledge/{record['id']}")

    assert response.status_code == 200
    assert response.headers["etag"] == '"1"'
    del record["operation_id"]
    assert response.json() == record | {"similar": []}


@pytest.mark.parametrize("knowledge_id", ["knowledge-20260101-0000", "中文", "a b", "a/b", "a?b", "..", "%ff"])
async def test_an_unknown_id_of_any_characters_is_404(api: httpx.AsyncClient, knowledge_id: str) -> None:
    quoted = {"a/b": "a%2Fb", "a?b": "a%3Fb", "..": "%2E%2E"}.get(knowledge_id, knowledge_id)

    response = await api.get(f"/api/knowledge/{quoted}")

    assert response.status_code == 404
    assert response.json()["detail"].startswith("no knowledge with id")


async def test_a_list_is_newest_first_and_paged_to_its_end(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    ids = [(await save_record(f"number {number}"))["id"] for number in range(25)]

    pages = await read_pages(api, "/api/knowledge", limit=10)

    assert [len(page) for page in pages] == [10, 10, 5]
    assert [record["id"] for page in pages for record in page] == ids[::-1]


async def test_a_list_has_ten_records_by_default(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for number in range(11):
        await save_record(f"number {number}")

    assert (await api.get("/api/knowledge")).json()["count"] == 10
    assert (await api.get("/api/knowledge", params={"limit": 1000})).json()["count"] == 11


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, "abc"),
        ({"types": "tool"}, "ab"),
        ({"types": "plan,definition"}, "bc"),
        ({"types": ["plan", "definition"]}, "bc"),
        ({"scopes": "project:atlas"}, "bc"),
        ({"scopes": "project:atlas,public"}, "abc"),
        ({"owner": "agent:crawler"}, "b"),
        ({"owner": "li@example.com"}, "c"),
        ({"tag.domain": "网页"}, "ab"),
        ({"tag.domain": "网页", "types": "plan"}, "b"),
        ({"tag.langs": "go"}, "c"),
        ({"tag.domain": "nowhere"}, ""),
        ({"scopes": "team:none"}, ""),
    ],
)
async def test_a_list_is_filtered_by_type_scope_owner_and_tag(
    api: httpx.AsyncClient, save_record: SaveRecord, params: dict[str, Any], found: str
) -> None:
    await save_record("a", types=["tool"], scopes=["public"], tags={"domain": "网页"})
    await save_record(
        "b", types=["tool", "plan"], scopes=["project:atlas"], owner="agent:crawler", tags={"domain": "网页"}
    )
    await save_record(
        "c", types=["definition"], scopes=["project:atlas"], owner="li@example.com", tags={"langs": ["python", "go"]}
    )

    listed = (await api.get("/api/knowledge", params=params)).json()

    assert "".join(sorted(record["content"] for record in listed["results"])) == found


async def test_lists_and_searches_are_limited_by_the_time_of_creation_and_by_tags(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    times = [
        (await save_record(f"wait {letter}", tags={"odd": str(number % 2)}))["created_at"]
        for number, letter in enumerate("abcd")
    ]

    async def list_contents(**params: str) -> str:
        page = (await api.get("/api/knowledge", params=params)).json()
        rest = "" if page["next_cursor"] is None else await list_contents(**params | {"cursor": page["next_cursor"]})
        return "".join(record["content"][-1] for record in page["results"]) + rest

    assert await list_contents(until=times[3], limit="1") == "cba"
    for params, newest_first in (
        ({"since": times[1]}, "dcb"),
        ({"until": times[3]}, "cba"),
        ({"since": times[1], "until": times[3], "tag.odd": "0"}, "c"),
        ({"tag.odd": "1"}, "db"),
        ({"since": "2100-01-01"}, ""),
    ):
        found = (await api.get("/api/knowledge/search", params={"q": "wait", **params})).json()["results"]
        assert await list_contents(**params) == newest_first
        assert sorted(record["content"][-1] for record in found) == sorted(newest_first)


async def test_a_filtered_list_follows_changes_of_the_filtered_field(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record(types=["tool"], scopes=["public"], tags={"domain": "web"})

    await api.patch(
        f"/api/knowledge/{record['id']}", json={"types": ["plan"], "scopes": ["team:web"], "tags": {"domain": "api"}}
    )

    for params in ({"types": "tool"}, {"scopes": "public"}, {"tag.domain": "web"}):
        assert (await api.get("/api/knowledge", params=params)).json()["count"] == 0
    for params in ({"types": "plan"}, {"scopes": "team:web"}, {"tag.domain": "api"}):
        assert (await api.get("/api/knowledge", params=params)).json()["count"] == 1


async def test_a_history_names_each_version_with_what_it_changed(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("first")
    path = f"/api/knowledge/{record['id']}"
    await api.patch(path, json={"content": "second", "user_id": "local"})
    await api.put(path, json={"add_helpful_case": {"outcome": "good"}, "agent_id": "crawler", "user_id": "local"})
    await api.delete(path)

    history = (await api.get(f"{path}/history")).json()

    assert [entry["version"] for entry in history["results"]] == [4, 3, 2, 1]
    ops = [entry["op"] for entry in history["results"]]
    assert ops == ["delete_knowledge", "update_knowledge", "edit_knowledge", "save_knowledge"]
    assert [entry["actor"] for entry in history["results"]] == [
        "user:local", "agent:crawler", "user:local", "user:local",
    ]  # fmt: skip
    assert history["results"][2]["changes"] == {"content": {"before": "first", "after": "second"}}
    assert history["results"][1]["changes"]["eval.helpful"] == {"before": 1, "after": 2}
    assert history["results"][3]["operation_id"] == record["operation_id"]
    assert (history["count"], history["next_cursor"]) == (4, None)


async def test_a_long_history_comes_in_pages(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    path = f"/api/knowledge/{(await save_record('first'))['id']}"
    for number in range(6):
        await api.patch(path, json={"content": f"said {number}"})

    pages = await read_pages(api, f"{path}/history", limit=3)

    assert [[entry["version"] for entry in page] for page in pages] == [[7, 6, 5], [4, 3, 2], [1]]


async def test_a_history_omits_versions_that_were_hidden(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("the password is 1234", user_id="li")
    path = f"/api/knowledge/{record['id']}"
    await api.patch(path, json={"content": "ask li for the password", "user_id": "li"})
    await api.patch(path, json={"scopes": ["public"], "user_id": "li"})
    await api.put(path, json={"add_helpful_case": {}, "user_id": "chen"})

    stranger = await api.get(f"{path}/history", params={"user_id": "chen"})
    owner = await api.get(f"{path}/history", params={"user_id": "li"})

    assert "1234" not in stranger.text
    assert [entry["version"] for entry in stranger.json()["results"]] == [4]
    assert [entry["version"] for entry in owner.json()["results"]] == [4, 3, 2, 1]
