"""Callers: what each kind of caller sees and may change, and that answers do not reveal hidden rows."""

import httpx
import pytest

from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

SCOPES = {
    "user": ["user:li"],
    "agent": ["agent:crawler"],
    "project": ["project:atlas"],
    "team": ["team:web"],
    "org": ["org:acme"],
    "public": ["public"],
    "several": ["team:web", "org:acme"],
    "own": None,
}


async def save_one_per_scope(save_record: SaveRecord) -> None:
    for name, scopes in SCOPES.items():
        scoped = {} if scopes is None else {"scopes": scopes}
        await save_record(f"wait {name}", owner="user:chen", **scoped)


@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        ({}, set(SCOPES)),
        ({"user_id": "li"}, {"user", "public"}),
        ({"agent_id": "crawler"}, {"agent", "public"}),
        ({"project_id": "atlas"}, {"project", "public"}),
        ({"team_id": "web"}, {"team", "several", "public"}),
        ({"org_id": "acme"}, {"org", "several", "public"}),
        ({"user_id": "chen"}, set(SCOPES)),
        ({"agent_id": "chen"}, {"public"}),
        ({"user_id": "li", "agent_id": "crawler", "project_id": "atlas"}, {"user", "agent", "project", "public"}),
        ({"user_id": "LI"}, {"public"}),
        ({"user_id": "owner"}, {"public"}),
        ({"account": "other", "user_id": "li"}, set()),
    ],
)
async def test_a_caller_sees_own_scoped_and_public_records_on_every_route(
    api: httpx.AsyncClient, save_record: SaveRecord, caller: dict[str, str], seen: set[str]
) -> None:
    await save_one_per_scope(save_record)
    everything = (await api.get("/api/knowledge", params={"limit": 100})).json()["results"]

    listed = (await api.get("/api/knowledge", params=caller | {"limit": 100})).json()
    found = (await api.get("/api/knowledge/search", params=caller | {"q": "wait", "top_k": 100})).json()
    exported = (await api.get("/api/knowledge/export", params=caller)).text
    read = [(item, await api.get(f"/api/knowledge/{item['id']}", params=caller)) for item in everything]
    histories = [(item, await api.get(f"/api/knowledge/{item['id']}/history", params=caller)) for item in everything]

    assert {result["content"].split()[1] for result in listed["results"]} == seen
    assert {result["content"].split()[1] for result in found["results"]} == seen
    assert exported.count("\n") == len(seen)
    for item, response in (*read, *histories):
        assert response.status_code == (200 if item["content"].split()[1] in seen else 404)


async def test_an_agent_may_change_the_records_of_the_user_it_names(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("hers", user_id="li")

    response = await api.patch(
        f"/api/knowledge/{record['id']}", json={"content": "new", "agent_id": "bot", "user_id": "li"}
    )

    assert response.status_code == 200
    answer = (await api.get("/api/operations", params={"subject": record["id"]})).json()
    assert [result["actor"] for result in answer["results"]] == ["agent:bot", "user:li"]


@pytest.mark.parametrize(
    ("caller", "owner", "kept"),
    [
        ({}, None, "user:local"),
        ({}, "user:anybody", "user:anybody"),
        ({"user_id": "li"}, None, "user:li"),
        ({"agent_id": "bot"}, None, "agent:bot"),
        ({"agent_id": "bot", "user_id": "li"}, None, "user:li"),
        ({"agent_id": "bot", "user_id": "li"}, "agent:bot", "agent:bot"),
    ],
)
async def test_a_record_belongs_to_its_caller_or_an_owner_they_may_name(
    save_record: SaveRecord, caller: dict[str, str], owner: str | None, kept: str
) -> None:
    named = {} if owner is None else {"owner": owner}

    assert (await save_record(**caller, **named))["owner"] == kept


@pytest.mark.parametrize("route", ["/api/knowledge", "/api/knowledge/batch"])
@pytest.mark.parametrize("owner", ["user:chen", "agent:li", "user:LI", "user:local"])
async def test_a_named_caller_cannot_save_for_another_owner(api: httpx.AsyncClient, route: str, owner: str) -> None:
    item = {"content": "x", "owner": owner}
    body = {"items": [item]} if route.endswith("batch") else item

    response = await api.post(route, json=body | {"user_id": "li"})

    assert response.status_code == 403
    assert (await api.get("/api/operations")).json()["count"] == 0


async def test_only_the_owner_of_a_record_supersedes_it(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    public = await save_record("hers", user_id="li", scopes=["public"])
    hidden = await save_record("secret", user_id="li")

    async def supersede(knowledge_id: str, user_id: str) -> int:
        body = {"content": f"better, says {user_id}", "supersedes": knowledge_id, "user_id": user_id}
        return (await api.post("/api/knowledge", json=body)).status_code

    assert await supersede(public["id"], "chen") == 403
    assert await supersede(hidden["id"], "chen") == 422
    assert await supersede(public["id"], "li") == 201
