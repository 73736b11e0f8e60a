"""Links over HTTP: each has its own version for conditional changes."""

import httpx
import pytest

from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio


async def create_link(api: httpx.AsyncClient, **said: str) -> str:
    """Link an info to a keyword, and return the path of the link."""
    python, made = await create_keyword(api, "Python"), await create_info(api, "GIL 可以关闭")
    path = f"/api/infos/{made['id']}/keywords/{python['id']}"
    assert (await api.put(path, json=said)).status_code == 200
    return path


async def test_an_outdated_version_deletes_nothing(api: httpx.AsyncClient) -> None:
    link = await create_link(api)
    keyword = f"/api/keywords/{(await create_keyword(api, 'Rust', aliases=['rustlang']))['id']}"
    memory = {"category": "events", "content": "Dentist on 5 December", "user_id": "li"}
    uri = (await api.post("/api/context/nodes", json=memory)).json()["uri"]
    await api.post("/api/resource", json={"id": "a"})
    paths = [link, link.partition("/keywords/")[0], f"/api/context/nodes?uri={uri}", "/api/resource/a"]

    for path in (*paths, f"{keyword}/aliases/rustlang", keyword):
        for how in ({"headers": {"If-Match": '"99"'}}, {"json": {"version": 99}}):
            refused = await api.request("DELETE", path, **how)
            assert (refused.status_code, refused.json()["current_version"]) == (409, 1), path
    paths += [f"{keyword}/aliases/rustlang", keyword]
    versions = ['"1"'] * 5 + ['"2"']
    taken = [
        await api.delete(path, headers={"If-Match": version}) for path, version in zip(paths, versions, strict=True)
    ]
    assert [answer.status_code for answer in taken] == [200] * 6


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
