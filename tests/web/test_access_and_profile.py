"""Who can see a record and why, and the profile of the caller."""

from typing import Any

import httpx
import orjson
import pytest

from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio
EVERYTHING = ["read", "add_evidence", "edit", "set_score", "evolve", "delete", "erase"]


async def get_profile(api: httpx.AsyncClient, **params: str | int) -> list[str]:
    answer = (await api.get("/api/knowledge/profile", params=params)).json()
    assert (answer["count"], answer["next_cursor"]) == (len(answer["results"]), None)
    return [result["content"] for result in answer["results"]]


async def import_record(api: httpx.AsyncClient, content: str, **fields: Any) -> None:  # noqa: ANN401 -- any field of a line
    line = {"content": content, "type": "user_profile", "scopes": ["user:li"], "owner": "user:li"} | fields
    answer = await api.post(
        "/api/knowledge/import", content=orjson.dumps(line), headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 200, answer.text


async def test_access_names_every_reader_with_the_reason_and_the_callers_rights(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record(scopes=["org:o", "team:web", "user:owner"], owner="agent:bot")

    owner, reader, local = [
        (await api.get(f"/api/knowledge/{record['id']}/access", params=params)).json()
        for params in ({"agent_id": "bot"}, {"user_id": "li", "team_id": "web", "org_id": "o"}, {})
    ]

    assert reader == {
        "knowledge_id": record["id"],
        "owner": "agent:bot",
        "scopes": ["org:o", "team:web", "user:owner"],
        "visibility": "org",
        "readers": [
            {"scope": "agent:bot", "because": "owner"},
            {"scope": "team:web", "because": "scope"},
            {"scope": "org:o", "because": "scope"},
        ],
        "caller": {
            "principal": "user:li",
            "seen_by": "team:web",
            "is_owner": False,
            "rights": ["read", "add_evidence"],
        },
    }
    assert owner["caller"] == {"principal": "agent:bot", "seen_by": "agent:bot", "is_owner": True, "rights": EVERYTHING}
    assert (local["caller"]["seen_by"], local["caller"]["rights"]) == ("local_principal", EVERYTHING)


async def test_a_profile_sorts_by_confidence_then_helpfulness_then_age(
    api: httpx.AsyncClient,
) -> None:
    await import_record(api, "older", eval={"confidence": 0.5, "helpful": 1})
    await import_record(api, "newer", eval={"confidence": 0.5, "helpful": 1})
    await import_record(api, "sure", eval={"confidence": 0.9, "helpful": 1})
    await import_record(api, "helpful", eval={"confidence": 0.5, "helpful": 7})

    assert await get_profile(api, user_id="li") == ["sure", "helpful", "newer", "older"]
    assert await get_profile(api, user_id="li", limit=2) == ["sure", "helpful"]


async def test_a_profile_has_only_current_records_of_its_caller(api: httpx.AsyncClient) -> None:
    await import_record(api, "for me", owner="agent:bot", scopes=["user:li"])
    await import_record(api, "by me", owner="user:li", scopes=["user:owner", "project:p"])
    await import_record(api, "about chen", owner="user:chen", scopes=["user:chen", "project:p"])
    await import_record(api, "of everyone", owner="user:chen", scopes=["public"])
    await import_record(api, "no profile", type="tool")
    await import_record(api, "over", valid_to="2020-01-01")
    await import_record(api, "harmful", eval={"helpful": 0, "harmful": 9})
    await import_record(api, "low", eval={"score": 1})

    assert await get_profile(api, user_id="li", project_id="p") == ["low", "by me", "for me", "harmful"]
    assert await get_profile(api, user_id="chen") == ["of everyone", "about chen"]
    assert await get_profile(api, project_id="p") == []
    assert len(await get_profile(api)) == 6


async def test_a_profile_never_cuts_a_record(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("likes tabs", type="user_profile", user_id="li")

    answer = (await api.get("/api/knowledge/profile", params={"user_id": "li"})).json()

    del record["operation_id"]
    assert answer["results"] == [record]
