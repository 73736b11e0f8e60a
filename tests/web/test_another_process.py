"""Two servers on one directory: a write acknowledged by one is visible to the next request to the other."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.web.sessions import commit_session

pytestmark = pytest.mark.anyio

CONTENT = "Close the browser before the session ends."


async def create_rows(api: httpx.AsyncClient) -> Mapping[str, str]:
    """Create a row of each kind, and return the ids that reads need."""
    keyword = await _create(api, "/api/keywords", {"name": "Selenium", "aliases": ["web driver"]})
    child = await _create(api, "/api/keywords", {"name": "Waits", "parent_id": keyword["id"]})
    info = await _create(api, "/api/infos", {"content": CONTENT, "keyword_ids": [keyword["id"]]})
    record = await _create(api, "/api/knowledge", {"task": "Log in", "content": CONTENT, "types": ["user_profile"]})
    resource = {"id": "team/browser", "title": "Browser", "body": CONTENT, "content_type": "text"}
    await _create(api, "/api/resource", resource)
    session = await commit_session(api, "s-1", CONTENT)
    ids = {"keyword": keyword["id"], "child": child["id"], "info": info["id"], "record": record["id"]}
    return ids | {"operation": record["operation_id"], "session": session["archive"]["archive_uri"]}


READS = {
    "the infos of a keyword": ("/api/keywords/{keyword}/infos", CONTENT),
    "how healthy the tree is": ("/api/keywords/metrics", '"nodes":2'),
    "a search for a name": ("/api/keywords/search?q=webdriver", "Selenium"),
    "an info": ("/api/infos/{info}", CONTENT),
    "the history of a record": ("/api/knowledge/{record}/history", "{record}"),
    "a search for records": ("/api/knowledge/search?q=browser", CONTENT),
    "the caller's profile": ("/api/knowledge/profile", CONTENT),
    "a resource": ("/api/resource/team/browser", CONTENT),
    "a memory": ("/api/context/nodes?uri={session}", "s-1"),
    "a search for memories": ("/api/context/search?q=browser", CONTENT),
    "a recall of all": ("/api/recall?q=browser", CONTENT),
    "all operations": ("/api/operations", "{operation}"),
    "an audit": ("/api/maintenance/audit", '"records":1'),
}


@pytest.mark.parametrize("what", READS)
async def test_a_read_sees_the_writes_of_another_process(
    api: httpx.AsyncClient, second_server: httpx.AsyncClient, what: str
) -> None:
    ids = await create_rows(api)
    address, expected = (text.format(**ids) if "{" in text else text for text in READS[what])

    answer = await second_server.get(address)

    assert answer.status_code == 200, answer.text
    assert expected in answer.text


async def test_a_plan_includes_keywords_of_another_process(
    api: httpx.AsyncClient, second_server: httpx.AsyncClient
) -> None:
    twins = [await _create(api, "/api/keywords", {"name": "Twin", "allow_duplicate": True}) for _ in range(2)]

    plan = (await second_server.post("/api/keywords/reorganize?wait=true", json={})).json()

    assert [step["kind"] for step in plan["steps"]] == ["merge"]
    assert twins[1]["id"] in str(plan["steps"])


async def test_an_operation_of_another_process_can_be_undone(
    api: httpx.AsyncClient, second_server: httpx.AsyncClient
) -> None:
    record = await _create(api, "/api/knowledge", {"content": CONTENT})

    undone = await second_server.post(f"/api/operations/{record['operation_id']}/undo")

    assert undone.status_code == 200
    assert (await api.get(f"/api/knowledge/{record['id']}")).status_code == 404


async def test_a_session_committed_by_another_process_is_distilled(
    api: httpx.AsyncClient, second_server: httpx.AsyncClient
) -> None:
    await commit_session(api, "s-1", "Remember: I prefer dark mode.")

    distilled = await second_server.post("/api/context/sessions/s-1/distill", json={})

    assert distilled.status_code in {200, 201}


async def test_infos_link_to_keywords_of_another_process(
    api: httpx.AsyncClient, second_server: httpx.AsyncClient
) -> None:
    keyword = await _create(api, "/api/keywords", {"name": "Selenium"})
    alone = await _create(second_server, "/api/infos", {"content": "Selenium waits.", "auto_link": True})
    later = await _create(api, "/api/keywords", {"name": "Playwright"})
    items = {"items": [{"content": "Playwright waits, too.", "auto_link": True}]}
    batch = await _create(second_server, "/api/infos/batch", items)

    linked = [(await api.get(f"/api/infos/{info['id']}/keywords")).json() for info in (alone, batch["results"][0])]

    assert [[result["id"] for result in answer["results"]] for answer in linked] == [[keyword["id"]], [later["id"]]]


async def _create(api: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    response = await api.post(path, json=body)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer
