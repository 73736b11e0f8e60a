"""Links over HTTP: each has its own version for conditional changes."""

import httpx
import pytest

from tests.web.trees import create_info, create_keyword, read_everything

pytestmark = pytest.mark.anyio


async def create_link(api: httpx.AsyncClient, **said: str) -> str:
    """Link an info to a keyword, and return the path of the link."""
    python, made = await create_keyword(api, "Python"), await create_info(api, "GIL 可以关闭")
    path = f"/api/infos/{made['id']}/keywords/{python['id']}"
    assert (await api.put(path, json=said)).status_code == 200
    return path


async def test_a_link_is_answered_with_its_version(api: httpx.AsyncClient) -> None:
    path = await create_link(api)

    changed = await api.put(path, json={"relation": "EXAMPLE"}, headers={"If-Match": '"1"'})
    again = await api.put(path, json={"relation": "EXAMPLE", "version": 2})

    assert (changed.json()["version"], changed.headers["etag"]) == (2, '"2"')
    assert (again.json()["operation_id"], again.headers["etag"]) == (None, '"2"')


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_an_outdated_link_version_is_409_with_the_current_version(api: httpx.AsyncClient, method: str) -> None:
    path = await create_link(api)
    await api.put(path, json={"relation": "EXAMPLE"})
    before = await read_everything(api)
    body = {"relation": "SOURCE"} if method == "PUT" else {}

    by_header = await api.request(method, path, json=body, headers={"If-Match": '"1"'})
    by_body = await api.request(method, path, json=body | {"version": 1})

    assert [(item.status_code, item.json()["current_version"]) for item in (by_header, by_body)] == [(409, 2)] * 2
    assert await read_everything(api) == before
    assert (await api.request(method, path, json=body, headers={"If-Match": '"2"'})).status_code == 200


async def test_a_version_for_a_missing_link_is_409_and_without_it_links(api: httpx.AsyncClient) -> None:
    path = await create_link(api)
    await api.delete(path)

    refused = await api.put(path, headers={"If-Match": '"2"'})
    made = await api.put(path, headers={"If-Match": "*"})

    assert (refused.status_code, refused.json()["current_version"]) == (409, None)
    assert (made.status_code, made.json()["version"]) == (200, 3)


async def test_another_creator_of_the_same_relation_is_a_change(api: httpx.AsyncClient) -> None:
    path = await create_link(api, created_by="agent")

    changed = (await api.put(path, json={"created_by": "crawler-7"})).json()

    assert (changed["created_by"], changed["relation"], changed["version"]) == ("crawler-7", "PRIMARY", 2)
    assert changed["operation_id"] is not None
    (shown,) = (await api.get(path.rpartition("/")[0])).json()["results"]
    assert shown["created_by"] == "crawler-7"
