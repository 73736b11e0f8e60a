"""Who may change a keyword and when: versions, owners, hidden keywords, accounts, unknown ids."""

from typing import Any

import httpx
import pytest

from tests.web.trees import create_keyword, read_everything

pytestmark = pytest.mark.anyio


async def list_changes(api: httpx.AsyncClient, made: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"/api/keywords/{made['id']}"
    return [
        {"method": "PATCH", "url": path, "json": {"description": "new"}},
        {"method": "POST", "url": f"{path}/move", "json": {"new_parent_id": other["id"]}},
        {"method": "POST", "url": f"{path}/merge", "json": {"into": other["id"]}},
        {"method": "POST", "url": f"{path}/aliases", "json": {"alias": "new"}},
        {"method": "DELETE", "url": f"{path}/aliases/old"},
        {"method": "DELETE", "url": path},
    ]


@pytest.mark.parametrize("verb", range(6))
async def test_a_change_of_an_outdated_version_is_409_with_the_current_version(
    api: httpx.AsyncClient, verb: int
) -> None:
    made, other = await create_keyword(api, "topic", aliases=["old"]), await create_keyword(api, "other")
    await api.patch(f"/api/keywords/{made['id']}", json={"metadata": {"newer": True}})
    before = await read_everything(api)
    asked = (await list_changes(api, made, other))[verb]

    refused = await api.request(**asked, headers={"If-Match": '"1"'})
    unchanged = await read_everything(api)
    taken = await api.request(**asked, headers={"If-Match": '"2"'})

    assert (refused.status_code, refused.json()["current_version"]) == (409, 2)
    assert unchanged == before
    assert taken.status_code == 200


async def test_a_reader_may_create_below_a_keyword_but_only_own_rows(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "top", user_id="li")

    made = await create_keyword(api, "his", top["id"], user_id="chen")
    refused = await api.post("/api/keywords", json={"name": "x", "owner": "user:li", "user_id": "chen"})

    assert made["owner"] == "user:chen"
    assert refused.status_code == 403
