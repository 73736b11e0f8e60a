"""Slimming over HTTP: which records are merged, that no text is lost, and that one undo restores all."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.web.conftest import OpenServer, SaveRecord

pytestmark = pytest.mark.anyio

SLIM = "/api/knowledge/slim"
LONG = (
    "To log in with Selenium, open the page, wait until the form is there, type the name and the password, press the "
    "button and wait for the address to change; never sleep for a fixed time, because pages load slowly in the morning."
)
LONGER = f"{LONG} The mobile form has the id login-2."


async def slim(api: httpx.AsyncClient, **body: object) -> dict[str, Any]:
    response = await api.post(SLIM, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def list_ids(api: httpx.AsyncClient) -> list[str]:
    return [result["id"] for result in (await api.get("/api/knowledge", params={"limit": 1000})).json()["results"]]


async def read_record(api: httpx.AsyncClient, row_id: str) -> dict[str, Any]:
    response = await api.get(f"/api/knowledge/{row_id}")
    assert response.status_code == 200, response.text
    record: dict[str, Any] = response.json()
    return record


async def search_ids(api: httpx.AsyncClient, q: str) -> list[str]:
    answer = (await api.get("/api/knowledge/search", params={"q": q, "min_score": 1})).json()
    return [result["id"] for result in answer["results"]]


async def vote(api: httpx.AsyncClient, row_id: str, *cases: Mapping[str, Any], harmful: bool = False) -> None:
    name = "add_harmful_case" if harmful else "add_helpful_case"
    for case in cases:
        assert (await api.put(f"/api/knowledge/{row_id}", json={name: case})).status_code == 200


async def list_records(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return all listed records without version and time of change."""
    rows = (await api.get("/api/knowledge", params={"limit": 1000})).json()["results"]
    return [{name: row[name] for name in row if name not in ("version", "updated_at")} for row in rows]


async def test_copies_become_one_record_with_the_evidence_on_all_of_them(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first = await save_record("Use pnpm here.", score=3, tags={"domain": "web"}, resource_ids=["r-1"])
    second = await save_record(" Use pnpm ｈｅｒｅ.", score=5, dedup=False, tags={"domain": "tooling", "by": "li"})
    third = await save_record("Use pnpm here.", dedup=False, resource_ids=["r-2"], source={"urls": ["https://pnpm.io"]})
    await vote(api, first["id"], {"task": "b", "timestamp": "2026-03-02T00:00:00Z"})
    await vote(api, second["id"], {"task": "a", "timestamp": "2026-03-01T00:00:00Z"})
    await vote(api, third["id"], {"reason": "c"}, harmful=True)

    done = await slim(api)

    kept = await read_record(api, first["id"])
    assert (done["records_before"], done["records_after"], done["sources_by"]["duplicate"]) == (3, 1, 2)
    assert done["merged"] == [
        {"into": first["id"], "sources": [second["id"], third["id"]], "how": "duplicate", "similarity": 1.0}
    ]
    assert await list_ids(api) == [first["id"]]
    assert await search_ids(api, "pnpm") == [first["id"]]
    assert kept["content"] == "Use pnpm here."
    assert (kept["eval"]["score"], kept["eval"]["helpful"], kept["eval"]["harmful"]) == (5, 3, 1)
    assert [case["task"] for case in kept["eval"]["helpful_history"]] == ["a", "b"]
    assert kept["tags"] == {"domain": ["web", "tooling"], "by": "li"}
    assert (kept["resource_ids"], kept["source"]["urls"]) == (["r-1", "r-2"], ["https://pnpm.io"])


async def test_near_copies_become_one_record_with_all_sentences(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first, second = await save_record(LONG), await save_record(LONGER)

    done = await slim(api)

    assert [(item["into"], item["sources"], item["how"]) for item in done["merged"]] == [
        (first["id"], [second["id"]], "near_duplicate")
    ]
    assert 0.8 <= done["merged"][0]["similarity"] < 1
    assert (await read_record(api, first["id"]))["content"] == f"{LONG}\nThe mobile form has the id login-2."
    assert await search_ids(api, "mobile form id") == [first["id"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LONG, LONG.replace("wait until the form is there", "wait until the login form is there")),
        (f"{LONG} The form has the id login-2.", f"{LONG} The form has the id login-3 now."),
        (
            "考勤系统导出前要先选部门编号,再选月份,最后点右上角的导出按钮,否则打卡记录是一张空表。",
            "考勤系统导出前要先选好部门编号,再选月份,最后点右上角的导出按钮,否则打卡记录是一张空表。",
        ),
        (f"{LONG} Rinse it well. Wait an hour.", f"{LONG} Wait an hour. Rinse it well."),
    ],
)
async def test_near_copies_only_a_model_could_merge_stay_apart_and_are_named(
    api: httpx.AsyncClient, save_record: SaveRecord, first: str, second: str
) -> None:
    records = [await save_record(first), await save_record(second)]

    done = await slim(api)

    assert done["merged"] == []
    assert [(item["ids"], "only a model" in item["reason"]) for item in done["skipped"]] == [
        ([record["id"] for record in records], True)
    ]
    assert [(await read_record(api, record["id"]))["content"] for record in records] == [first, second]


async def test_a_merged_source_is_readable_by_id_but_not_listed(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first, second = await save_record("one"), await save_record("ｏｎｅ", dedup=False)

    done = await slim(api)

    source = await read_record(api, second["id"])
    history = (await api.get(f"/api/knowledge/{second['id']}/history")).json()["results"]
    saved_again = await api.post("/api/knowledge", json={"content": "ONE"})
    assert (source["merged_into"], source["content"], source["version"]) == (first["id"], "ｏｎｅ", 2)
    assert history[0]["op"] == "slim_knowledge"
    assert history[0]["changes"]["merged_into"] == {"before": None, "after": first["id"]}
    assert saved_again.json()["duplicate_of"] == first["id"]
    assert "merged_into" not in await read_record(api, first["id"])
    assert done["operation_ids"] == [done["operation_id"]]


async def test_no_record_is_lost_and_one_undo_brings_all_of_them_back(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    # A consolidation that wiped a bank and said "completed" (peers: Hindsight #3876).
    ids = [(await save_record(f"fact {number // 3} of the bank", dedup=False))["id"] for number in range(60)]
    ids += [(await save_record(LONG))["id"], (await save_record(LONGER))["id"]]
    before = await list_records(api)

    done = await slim(api)

    sources = {source for merge in done["merged"] for source in merge["sources"]}
    assert (done["records_after"], len(sources)) == (21, 41)
    assert set(await list_ids(api)) | sources == set(ids)
    for row_id in ids:
        row = await read_record(api, row_id)
        assert row.get("merged_into") in (None, *await list_ids(api))
    undone = await api.post(f"/api/operations/{done['slim_id']}/undo", json={})
    assert undone.status_code == 200
    assert await list_records(api) == before


async def test_evidence_after_a_merge_survives_its_undo(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first, second = await save_record("one"), await save_record("one", dedup=False)
    await vote(api, second["id"], {"task": "before"})
    done = await slim(api)
    await vote(api, first["id"], {"task": "after"})

    await api.post(f"/api/operations/{done['slim_id']}/undo", json={})

    kept, source = await read_record(api, first["id"]), await read_record(api, second["id"])
    assert [case["task"] for case in kept["eval"]["helpful_history"]] == ["after"]
    assert (kept["eval"]["helpful"], source["eval"]["helpful"]) == (2, 2)


async def test_a_preview_answers_the_same_plan_and_writes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    for content in ("one", "One", LONG, LONGER, LONGER):
        await save_record(content, dedup=False)
    before = (await api.get("/api/operations")).json()

    planned = await slim(api, dry_run=True)

    assert (await api.get("/api/operations")).json() == before
    assert (planned["dry_run"], planned["operation_id"], planned["slim_id"]) == (True, None, None)
    done = await slim(api)
    answer = ("dry_run", "operation_id", "operation_ids", "slim_id")
    assert {**planned, **dict.fromkeys(answer)} == {**done, **dict.fromkeys(answer)}
    assert (planned["merged_count"], planned["records_after"]) == (2, 2)


async def test_copies_whose_merge_would_be_invalid_stay_apart_and_are_named(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    many = [[f"{name}-{number}" for number in range(30)] for name in "ab"]
    pair = [await save_record("same", dedup=False, resource_ids=ids) for ids in many]

    planned, done = await slim(api, dry_run=True), await slim(api)

    assert done == planned | {"dry_run": False}
    assert [item["ids"] for item in done["skipped"]] == [[row["id"] for row in pair]]
    assert "the merged record is not valid: resource_ids" in done["skipped"][0]["reason"]
    assert (done["merged"], done["operation_id"], len(await list_ids(api))) == ([], None, 2)


async def test_records_of_different_owners_readers_types_or_times_stay_apart(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    fields: list[dict[str, Any]] = [
        {},
        {"owner": "user:li"},
        {"scopes": ["public"]},
        {"scopes": ["public", "team:web"]},
        {"type": "tool"},
        {"valid_to": "2099-01-01T00:00:00Z"},
    ]
    for field in fields:
        await save_record(LONG, dedup=False, **field)
        await save_record(LONGER, dedup=False, **field)

    done = await slim(api)

    assert (done["merged_count"], done["records_after"]) == (6, 6)
    for merge in done["merged"]:
        into, source = await read_record(api, merge["into"]), await read_record(api, merge["sources"][0])
        for name in ("owner", "scopes", "types", "visibility", "valid_to"):
            assert into[name] == source[name]


async def test_superseded_or_voted_down_records_are_not_merged(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    old = await save_record(LONG)
    new = await save_record("Ask the identity service for a session.", supersedes=old["id"])
    bad = await save_record(f"{LONG} Then sleep for ten seconds.")
    await vote(api, bad["id"], *({"reason": "banned"} for _ in range(3)), harmful=True)
    other = await save_record(LONGER)

    done = await slim(api)

    assert done["merged"] == []
    assert await list_ids(api) == [other["id"], bad["id"], new["id"], old["id"]]


async def test_a_named_caller_slims_only_own_records(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    own = [await save_record("same", owner="user:li", scopes=["team:web"], dedup=False) for _ in range(2)]
    for _ in range(2):
        await save_record("same", owner="user:wang", scopes=["team:web"], dedup=False)

    done = await slim(api, user_id="li", team_id="web")

    job = await api.post(SLIM, json={"user_id": "li"}, params={"wait": "false"})
    assert done["records_before"] == 2
    assert [merge["into"] for merge in done["merged"]] == [own[0]["id"]]
    assert len(await list_ids(api)) == 3
    assert job.status_code == 403


async def test_evidence_on_a_merged_source_goes_to_the_merged_record(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first, second = await save_record("one"), await save_record("one", dedup=False)
    await slim(api)

    put = await api.put(f"/api/knowledge/{second['id']}", json={"add_helpful_case": {"task": "t"}})
    feedback = [{"knowledge_id": row["id"], "is_helpful": True} for row in (first, second)]
    batch = await api.post("/api/knowledge/batch_update", json={"feedback_list": feedback})

    assert (put.status_code, put.json()["id"]) == (200, first["id"])
    assert [result["status"] for result in batch.json()["results"]] == ["applied", "applied"]
    assert (await read_record(api, first["id"]))["eval"]["helpful"] == 4
    assert (await read_record(api, second["id"]))["eval"]["helpful"] == 1


async def test_a_merged_source_cannot_be_edited_but_deleted(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first, second = await save_record("one"), await save_record("one", dedup=False)
    done = await slim(api)

    patched = await api.patch(f"/api/knowledge/{second['id']}", json={"content": "two"})
    deleted = await api.delete(f"/api/knowledge/{second['id']}")

    assert (patched.status_code, patched.json()["merged_into"]) == (409, first["id"])
    assert deleted.status_code == 200
    assert (await api.get(f"/api/knowledge/{second['id']}")).status_code == 404
    await api.post(f"/api/operations/{done['slim_id']}/undo", json={})
    assert await list_ids(api) == [first["id"]]


@pytest.mark.parametrize("second_wait", ["true", "false"])
@pytest.mark.parametrize("first_wait", ["true", "false"])
async def test_a_retried_slimming_is_one_operation(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord, first_wait: str, second_wait: str
) -> None:
    for _ in range(2):
        await save_record("one", dedup=False)

    answers = []
    for wait in (first_wait, second_wait):
        response = await api.post(SLIM, json={}, params={"wait": wait}, headers={"Idempotency-Key": "k"})
        answer = response.json()
        if wait == "false":
            answer = (
                await hub.operations.jobs.finish(await hub.operations.jobs.get("default", answer["job_id"]))
            ).result
        answers.append(answer)
    other = await api.post(SLIM, json={"dry_run": True}, params={"wait": "false"}, headers={"Idempotency-Key": "k"})
    refused = await hub.operations.jobs.finish(await hub.operations.jobs.get("default", other.json()["job_id"]))

    assert answers[0]["merged_count"] == 1
    assert answers[1] == answers[0]
    assert refused.problem is not None
    assert "another body" in str(refused.problem)


async def test_slimming_runs_as_a_single_job_with_progress(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord
) -> None:
    for number in range(6):
        await save_record(f"{LONG} {number // 2}", dedup=False)

    started = await api.post(SLIM, params={"wait": "false"})
    second = await api.post(SLIM, params={"wait": "false"})
    job_id = started.json()["job_id"]
    await hub.operations.jobs.finish(await hub.operations.jobs.get("default", job_id))
    job = (await api.get(f"/api/jobs/{job_id}")).json()

    assert (started.status_code, second.status_code, second.json()["job_id"]) == (202, 409, job_id)
    assert (job["status"], job["kind"]) == ("done", "slim")
    assert job["progress"]["done"] > 0
    assert job["result"]["records_after"] == len(await list_ids(api))


@pytest.mark.parametrize("turns", [0, 1, 5, 20])
async def test_a_cancelled_slimming_has_written_all_or_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord, turns: int
) -> None:
    items = [{"content": f"{LONG} {number}", "dedup": False} for number in range(100)]
    await api.post("/api/knowledge/batch", json={"items": items})

    started = await api.post(SLIM, params={"wait": "false"})
    for _ in range(turns):
        await asyncio.sleep(0)
    ended = (await api.delete(f"/api/jobs/{started.json()['job_id']}")).json()

    left = len(await list_ids(api))
    assert (ended["status"], left) in (("cancelled", 100), ("done", 1))
    assert (await slim(api))["records_after"] == 1


async def test_merged_records_stay_merged_after_a_restart(
    api: httpx.AsyncClient, open_second_server: OpenServer, save_record: SaveRecord
) -> None:
    first, second = await save_record("one"), await save_record("one", dedup=False)
    await slim(api)

    async with open_second_server() as later:
        assert await list_ids(later) == [first["id"]]
        assert (await read_record(later, second["id"]))["merged_into"] == first["id"]
        assert await search_ids(later, "one") == [first["id"]]
        assert (await slim(later))["merged"] == []


async def test_erasing_a_source_names_the_merged_record(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first, second = await save_record(LONG), await save_record(LONGER)
    await slim(api)

    of_source = await api.delete(f"/api/knowledge/{second['id']}", params={"erase": "true"})

    assert of_source.status_code == 200, of_source.text
    assert (await api.get(f"/api/knowledge/{second['id']}")).status_code == 404
    assert "login-2" in (await read_record(api, first["id"]))["content"]


@pytest.mark.parametrize("named", [0, 1], ids=["what stayed", "what was merged"])
async def test_undoing_a_merge_keeps_a_later_superseding_record(
    api: httpx.AsyncClient, save_record: SaveRecord, named: int
) -> None:
    pair = [(await save_record(text, dedup=False))["id"] for text in (LONG, LONGER)]
    done = await slim(api)
    made = await save_record("Never log in with Selenium.", supersedes=pair[named])

    undone = await api.post(f"/api/operations/{done['slim_id']}/undo")

    assert undone.status_code == 200
    assert sorted(await search_ids(api, "Selenium")) == sorted([pair[1], made["id"]])
    assert (await api.get(f"/api/knowledge/{made['id']}")).json()["supersedes"] == pair[0]


@pytest.mark.parametrize("superseded", [0, 1], ids=["what stayed", "what was merged"])
async def test_redoing_a_merge_is_refused_if_a_source_was_superseded(
    api: httpx.AsyncClient, save_record: SaveRecord, superseded: int
) -> None:
    ids = [(await save_record(text, dedup=False))["id"] for text in (LONG, LONGER)]
    done = await slim(api)
    undone = (await api.post(f"/api/operations/{done['slim_id']}/undo")).json()
    newer = await save_record("Never log in with Selenium.", supersedes=ids[superseded])
    redo = f"/api/operations/{undone['operation_ids'][0]}/undo"

    refused = await api.post(redo)

    assert refused.status_code == 409
    assert refused.json()["blocked_by"] == [newer["operation_id"]]
    assert sorted(await list_ids(api)) == sorted([*ids, newer["id"]])
    assert (await api.post(redo, json={"with_later": True})).status_code == 200
    assert len(await list_ids(api)) == 1
