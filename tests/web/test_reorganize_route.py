"""Tidying the tree over HTTP: figures, a plan that changes nothing, carrying it out as one operation, jobs."""

from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.web.trees import create_info, create_keyword, list_names, read_everything

pytestmark = pytest.mark.anyio

PLAN = "/api/keywords/reorganize"
APPLY = "/api/keywords/reorganize/apply"


async def create_untidy_tree(api: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Create a tree with a duplicate, a misplaced keyword and missing descriptions."""
    docker = await create_keyword(api, "Docker", description="容器")
    network = await create_keyword(api, "Docker 网络")
    first = await create_keyword(api, "日志", docker["id"], description="kept")
    second = await create_keyword(api, "日志", docker["id"])
    await create_info(api, "of the double", first["id"], second["id"])
    return {"docker": docker, "network": network, "first": first, "second": second}


async def make_plan(api: httpx.AsyncClient, **body: object) -> dict[str, Any]:
    response = await api.post(PLAN, json=body)
    assert response.status_code == 200, response.text
    plan: dict[str, Any] = response.json()
    return plan


async def test_a_plan_can_be_read_and_changes_nothing(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)
    before = await read_everything(api)

    plan = await make_plan(api)

    steps = {step["kind"]: step for step in plan["steps"]}
    assert (plan["scope_id"], plan["scope_name"], plan["degraded"]) == ("root", "root", [])
    assert plan["summary"] == "2 steps: 1 merges, 1 moves; 4 keywords were gone through"
    assert steps["merge"]["source"]["id"] == made["second"]["id"]
    into = {"id": made["first"]["id"], "name": "日志", "path": "root / Docker / 日志", "version": 1}
    assert (steps["merge"]["into"], bool(steps["move"]["reason"])) == (into, True)
    assert (steps["move"]["node"]["id"], steps["move"]["to"]["id"]) == (made["network"]["id"], made["docker"]["id"])
    assert plan["missing_description_count"] == len(plan["missing_descriptions"]) == 2
    assert await read_everything(api) == before


async def test_a_plan_is_carried_out_as_one_operation_that_is_undone_as_one(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)
    before = await read_everything(api)
    plan = await make_plan(api)

    response = await api.post(APPLY, json={"plan": plan}, headers={"Idempotency-Key": "k"})
    again = await api.post(APPLY, json={"plan": plan}, headers={"Idempotency-Key": "k"})

    done = response.json()
    assert (response.status_code, done["moved"], done["merged"]) == (200, 1, 1)
    # How many links went over would count infos that the caller does not see.
    assert done["merges"] == [{"source": made["second"]["id"], "into": made["first"]["id"], "children": []}]
    assert response.headers["x-operation-id"] == done["operation_id"]
    assert again.json() == done
    assert await list_names(api, f"/api/keywords/{made['docker']['id']}/children") == ["Docker 网络", "日志"]
    assert await list_names(api, f"/api/keywords/{made['first']['id']}/infos") == ["of the double"]
    operations = (await api.get("/api/operations")).json()
    assert operations["results"][0]["op"] == "reorganize_keywords"
    assert operations["count"] == len(before["operations"]) + 1
    undone = await api.post(f"/api/operations/{done['operation_id']}/undo", json={})
    assert undone.status_code == 200
    assert await list_names(api, f"/api/keywords/{made['second']['id']}/infos") == ["of the double"]
    assert await list_names(api, f"/api/keywords/{made['network']['id']}/path") == ["root", "Docker 网络"]


async def test_a_plan_of_one_branch_does_not_touch_the_others(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)

    plan = await make_plan(api, scope_id=made["docker"]["id"])

    assert [step["kind"] for step in plan["steps"]] == ["merge"]
    assert plan["scope_name"] == "Docker"


async def test_an_edited_plan_applies_its_remaining_steps(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)
    plan = await make_plan(api)
    plan["steps"] = [step for step in plan["steps"] if step["kind"] == "move"]

    done = (await api.post(APPLY, json={"plan": plan})).json()

    assert (done["moved"], done["merged"]) == (1, 0)
    assert (await api.get(f"/api/keywords/{made['second']['id']}")).status_code == 200


async def test_a_plan_without_steps_writes_nothing(api: httpx.AsyncClient) -> None:
    before = await read_everything(api)

    response = await api.post(APPLY, json={"plan": {"steps": []}})

    assert (response.status_code, response.json()["operation_id"]) == (200, None)
    assert await read_everything(api) == before


async def test_a_plan_is_refused_as_a_whole_if_a_keyword_was_moved(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)
    plan = await make_plan(api)
    elsewhere = await create_keyword(api, "elsewhere")
    await api.post(f"/api/keywords/{made['network']['id']}/move", json={"new_parent_id": elsewhere["id"]})
    before = await read_everything(api)

    response = await api.post(APPLY, json={"plan": plan})

    assert response.status_code == 409
    assert response.json()["stale"] == [{"id": made["network"]["id"], "version": 1, "current_version": 2}]
    assert await read_everything(api) == before


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (None, "plan"),
        ([], "plan"),
        ({}, "plan.steps"),
        ({"steps": {}}, "plan.steps"),
        ({"steps": [{}]}, "plan.steps.0.kind"),
        ({"steps": [{"kind": "burn"}]}, "plan.steps.0.kind"),
        ({"steps": [{"kind": "move", "node": {"id": "x", "version": 1}}]}, "plan.steps.0.to"),
        ({"steps": [{"kind": "move", "node": {"id": "x"}, "to": {"id": "y"}}]}, "plan.steps.0.node.version"),
        ({"steps": [], "colour": "red"}, "plan.colour"),
    ],
)
async def test_an_invalid_plan_is_refused_by_field(api: httpx.AsyncClient, plan: object, field: str) -> None:
    before = await read_everything(api)

    response = await api.post(APPLY, json={"plan": plan})

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
    assert await read_everything(api) == before


@pytest.mark.parametrize("params", [{}, {"wait": "false"}])
async def test_an_unknown_branch_is_refused_at_once(api: httpx.AsyncClient, params: dict[str, str]) -> None:
    response = await api.post(PLAN, json={"scope_id": "nowhere"}, params=params)

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "scope_id")


async def test_a_plan_may_be_fetched_later(api: httpx.AsyncClient, hub: Hub) -> None:
    await create_untidy_tree(api)

    started = await api.post(PLAN, params={"wait": "false"})
    job_id = started.json()["job_id"]
    await hub.operations.jobs.finish(await hub.operations.jobs.get("default", job_id))

    answer = (await api.get(f"/api/jobs/{job_id}")).json()
    assert (started.status_code, answer["kind"], answer["status"]) == (202, "reorganize", "done")
    assert {step["kind"] for step in answer["result"]["steps"]} == {"move", "merge"}


async def test_a_named_caller_must_wait_for_a_plan_which_has_only_own_keywords(api: httpx.AsyncClient) -> None:
    await create_untidy_tree(api)

    waited = await api.post(PLAN, json={"user_id": "chen"})
    left = await api.post(PLAN, json={"user_id": "chen"}, params={"wait": "false"})

    assert (waited.status_code, waited.json()["steps"]) == (200, [])
    assert left.status_code == 403


async def test_only_the_owner_can_apply_a_plan(api: httpx.AsyncClient) -> None:
    await create_untidy_tree(api)
    plan = await make_plan(api)
    before = await read_everything(api)

    response = await api.post(APPLY, json={"plan": plan, "user_id": "chen"})

    assert response.status_code == 403
    assert await read_everything(api) == before


async def test_tree_metrics_count_only_visible_keywords(api: httpx.AsyncClient) -> None:
    made = await create_untidy_tree(api)
    await create_keyword(api, "secret", made["docker"]["id"], user_id="li", scopes=["user:li"])

    whole = (await api.get("/api/keywords/metrics")).json()
    seen = (await api.get("/api/keywords/metrics", params={"user_id": "chen"})).json()

    assert (whole["nodes"], seen["nodes"]) == (5, 4)
    assert (seen["links"], seen["leaves"], seen["max_depth"]) == (2, 3, 2)
    assert seen["depths"] == {"0": 1, "1": 2, "2": 2}
    assert seen["missing_descriptions"] == {"count": 2, "rate": 0.5}
    assert seen["duplicates"] == [{"token": "日志", "ids": [made["first"]["id"], made["second"]["id"]]}]
    assert (seen["orphan_info_count"], seen["deep_count"], seen["fan_out"]["max"]) == (0, 0, 2)
