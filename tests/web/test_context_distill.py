"""A committed session becomes knowledge over HTTP: once, in one operation, found by search, undone as one."""

from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.web.sessions import commit_session

pytestmark = pytest.mark.anyio

DISTILL = "/api/context/sessions/s-1/distill"
LI: dict[str, Any] = {"user_id": "li", "agent_id": "crawler"}
USED = [{"name": "site_login", "ok": True, "seconds": 1.0, "call_id": "c-1"}]


@pytest.fixture
async def session_commit(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "请以后都用中文回答我。", used_tools=USED, **LI)


@pytest.mark.usefixtures("session_commit")
async def test_distilled_records_name_their_session(api: httpx.AsyncClient) -> None:
    response = await api.post(DISTILL, json=LI)

    answer = response.json()
    assert (response.status_code, answer["count"]) == (200, len(answer["saved"]))
    assert answer["operation_id"] == response.headers["X-Operation-Id"]
    by_category = {result["category"]: result for result in answer["results"]}
    assert by_category["preferences"]["types"] == ["user_profile"]
    assert by_category["tools"]["types"] == ["tool"]
    preference = next(item for item in answer["saved"] if item["types"] == ["user_profile"])
    assert preference["source"]["urls"] == [
        "ctx://default/users/li/sessions/s-1",
        by_category["preferences"]["uri"],
    ]
    found = await api.get("/api/knowledge/search", params={"q": "中文", **LI})
    assert preference["id"] in [result["id"] for result in found.json()["results"]]


@pytest.mark.usefixtures("session_commit")
async def test_distilling_again_saves_no_duplicates(api: httpx.AsyncClient, hub: Hub) -> None:
    await api.post(DISTILL, json=LI)
    before = hub.store.last_seq

    again = await api.post(DISTILL, json=LI)

    assert (again.status_code, again.json()["operation_id"], again.json()["saved"]) == (200, None, [])
    assert {result["status"] for result in again.json()["results"]} == {"known"}
    assert hub.store.last_seq == before


@pytest.mark.usefixtures("session_commit")
async def test_a_dry_run_and_no_body_at_all_are_answered(api: httpx.AsyncClient, hub: Hub) -> None:
    before = hub.store.last_seq

    look = await api.post(DISTILL, json={"dry_run": True, **LI})
    nobody = await api.post("/api/context/sessions/none/distill")

    assert (look.status_code, look.json()["dry_run"], look.json()["count"]) == (200, True, 0)
    assert {result["status"] for result in look.json()["results"]} == {"new"}
    assert nobody.status_code == 404
    assert hub.store.last_seq == before


@pytest.mark.usefixtures("session_commit")
async def test_an_undone_record_is_distilled_again_and_a_deleted_one_is_not(api: httpx.AsyncClient) -> None:
    answer = (await api.post(DISTILL, json=LI)).json()
    undone = await api.post(f"/api/operations/{answer['operation_id']}/undo", json=LI)
    read = [(await api.get(f"/api/knowledge/{row['id']}", params=LI)).status_code for row in answer["saved"]]

    again = (await api.post(DISTILL, json=LI)).json()
    for record in again["saved"]:
        assert (await api.delete(f"/api/knowledge/{record['id']}", params=LI)).status_code == 200
    gone = (await api.post(DISTILL, json=LI)).json()

    assert (undone.status_code, set(read)) == (200, {404})
    assert {result["status"] for result in again["results"]} == {"new"}
    assert ({result["status"] for result in gone["results"]}, gone["saved"]) == ({"forgotten"}, [])


@pytest.mark.usefixtures("session_commit")
@pytest.mark.parametrize("version", ["1", "0"])
async def test_a_tag_of_another_user_does_not_block_distillation(api: httpx.AsyncClient, version: str) -> None:
    look = (await api.post(DISTILL, json={"dry_run": True, **LI})).json()
    for result in look["results"]:
        bait = {
            "task": "bait",
            "content": f"bait {result['uri']}",
            "types": result["types"],
            "scopes": ["public"],
            "tags": {"memory": result["uri"], "memory_version": version},
            "source": {"urls": [result["uri"]]},
            "user_id": "eve",
        }
        assert (await api.post("/api/knowledge", json=bait)).status_code == 201

    answer = await api.post(DISTILL, json=LI)

    assert (answer.status_code, {result["status"] for result in answer.json()["results"]}) == (200, {"new"})
    assert len(answer.json()["saved"]) == len(look["results"])


@pytest.mark.parametrize("session_id", ["🙂" * 100, "a%00b", "%20", "..%2Fx", "%2E%2E"])
async def test_an_impossible_session_id_is_404(api: httpx.AsyncClient, session_id: str) -> None:
    response = await api.post(f"/api/context/sessions/{session_id}/distill", json=LI)

    assert response.status_code in {404, 422}, response.text


async def test_a_grown_memory_supersedes_its_earlier_record(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "hello", used_tools=USED, **LI)
    (first,) = (await api.post(DISTILL, json=LI)).json()["saved"]
    more = [*USED, {"name": "site_login", "ok": False, "note": "captcha", "call_id": "c-2"}]
    await api.post(
        "/api/context/sessions/commit",
        json={
            "session_id": "s-1",
            "messages": [{"role": "user", "content": "again", "message_id": "m-9"}],
            "used_tools": more,
            **LI,
        },
    )

    answer = (await api.post(DISTILL, json=LI)).json()

    assert [result["status"] for result in answer["results"]] == ["changed"]
    assert answer["saved"][0]["supersedes"] == first["id"]
