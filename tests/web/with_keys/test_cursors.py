"""Pages for callers with partial access: a cursor counts no hidden row, and stays valid when its row goes."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.keys import ROOT_KEY, issue_key_text
from tests.web.conftest import OpenServer

pytestmark = pytest.mark.anyio

Params = Mapping[str, str | int]
LISTS = ["/api/knowledge", "/api/infos"]


@pytest.fixture
async def li(hub: Hub) -> dict[str, str]:
    return {"X-API-Key": await issue_key_text(hub, "li")}


@pytest.fixture
async def chen(hub: Hub) -> dict[str, str]:
    return {"X-API-Key": await issue_key_text(hub, "chen")}


async def save(api: httpx.AsyncClient, path: str, who: Mapping[str, str], *contents: str, scope: str) -> list[str]:
    made = []
    for content in contents:
        answer = await api.post(path, json={"content": content, "scopes": [scope]}, headers=who)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
    return made


async def page(api: httpx.AsyncClient, path: str, who: Mapping[str, str], **params: str | int) -> dict[str, Any]:
    answer = await api.get(path, params=params, headers=who)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def list_ids(told: Mapping[str, Any]) -> list[str]:
    return [result["id"] for result in told["results"]]


@pytest.mark.parametrize("path", LISTS)
async def test_a_cursor_does_not_reveal_positions_of_hidden_rows(
    api: httpx.AsyncClient, li: dict[str, str], chen: dict[str, str], path: str
) -> None:
    await save(api, path, li, *map(str, range(7)), scope="user:li")
    await save(api, path, chen, "first", "second", scope="public")

    cursor = (await page(api, path, chen, limit=1))["next_cursor"]
    made_up = [(await api.get(path, params={"cursor": str(place)}, headers=chen)).status_code for place in range(12)]

    assert not cursor.isdecimal()
    assert made_up == [422] * 12


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_continues_after_a_row_deleted_or_hidden_between_pages(
    api: httpx.AsyncClient, hub: Hub, li: dict[str, str], chen: dict[str, str], path: str
) -> None:
    rows = await save(api, path, li, *map(str, range(8)), scope="public")
    first = await page(api, path, chen, limit=3)
    await api.delete(f"{path}/{rows[5]}", headers=li)
    await save(api, path, li, "later", scope="public")

    second = await page(api, path, chen, limit=2, cursor=first["next_cursor"])
    await api.patch(f"{path}/{rows[3]}", json={"scopes": ["user:owner"]}, headers=li)
    third = await page(api, path, chen, limit=9, cursor=second["next_cursor"])

    assert [list_ids(first), list_ids(second), list_ids(third)] == [rows[:4:-1], [rows[4], rows[3]], rows[2::-1]]
    assert third["next_cursor"] is None


@pytest.mark.parametrize("path", LISTS)
async def test_a_cursor_works_in_other_and_later_processes(
    api: httpx.AsyncClient, hub: Hub, chen: dict[str, str], open_second_server: OpenServer, path: str
) -> None:
    rows = await save(api, path, chen, *map(str, range(4)), scope="public")
    first = await page(api, path, chen, limit=2)

    async with open_second_server() as beside:
        from_second = list_ids(await page(beside, path, chen, cursor=first["next_cursor"]))
    compacted = await api.post("/api/maintenance/compact?undo_retention_days=0", headers={"X-API-Key": ROOT_KEY})
    async with open_second_server() as later:
        afterwards = list_ids(await page(later, path, chen, cursor=first["next_cursor"]))

    assert compacted.status_code == 200
    assert [from_second, afterwards] == [rows[1::-1]] * 2


@pytest.mark.parametrize("path", LISTS)
async def test_a_cursor_is_refused_for_another_list_or_account(
    api: httpx.AsyncClient, hub: Hub, chen: dict[str, str], path: str
) -> None:
    await save(api, path, chen, "1", "2", scope="public")
    elsewhere = {"X-API-Key": await issue_key_text(hub, "chen", account="elsewhere")}
    cursor = (await page(api, path, chen, limit=1))["next_cursor"]

    refused = [
        await api.get(other, params={"cursor": cursor}, headers=who)
        for other, who in ((path, elsewhere), (LISTS[path == LISTS[0]], chen))
    ]

    assert [item.status_code for item in refused] == [422, 422]
    assert {item.json()["errors"][0]["field"] for item in refused} == {"cursor"}
