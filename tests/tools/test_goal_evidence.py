"""What came of a goal reaches the server as evidence, wherever the knowledge was shown."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

from agent_tools import goal as goals
from agent_tools.goal import AgentRun, before_risky_step, running
from agent_tools.trace_store import FileTraceStore
from tests.tools.routes import read_body

pytestmark = pytest.mark.anyio

RECORD: dict[str, Any] = {
    "id": "knowledge-20260305-a1b2",
    "task": "rm_file",
    "content": "use unlink",
    "types": ["tool"],
}
SEARCH, OUTCOME = "/api/knowledge/search", "/api/knowledge/outcome"
NOTHING: dict[str, Any] = {"results": [], "count": 0}
ONE: dict[str, Any] = {"results": [RECORD], "count": 1}


def accept_outcomes(hub: respx.MockRouter) -> respx.Route:
    return hub.post(OUTCOME).respond(json={"results": [], "count": 0, "operation_id": None})


def list_outcomes(route: respx.Route) -> list[tuple[str, bool]]:
    bodies = [json.loads(call.request.content) for call in route.calls]
    return [(body["goal_id"], body["outcome"] == "success") for body in bodies]


async def test_records_of_a_risky_step_are_known_after_a_restart(hub: respx.MockRouter, tmp_path: Path) -> None:
    search, outcome = hub.get(SEARCH).respond(json=NOTHING), accept_outcomes(hub)
    store = FileTraceStore(tmp_path)
    run = AgentRun(trace_id="trace-1", trace_store=store)
    wanted = run.tree.add("remove the link")
    with running(run):
        await goals.goal("focus", wanted.id)
        search.respond(json=ONE)
        await before_risky_step("remove the target", "rm_file")
    kept = await store.load_goal_tree("trace-1")
    assert kept is not None

    with running(AgentRun(kept, "trace-1", store)):
        await goals.goal("fail", wanted.id)

    assert list_outcomes(outcome) == [(wanted.id, False)]


async def test_a_focus_without_a_server_keeps_the_shown_records_and_their_evidence(
    hub: respx.MockRouter,
) -> None:
    search, outcome = hub.get(SEARCH).respond(json=ONE), accept_outcomes(hub)
    run = AgentRun(trace_id="trace-1")
    wanted = run.tree.add("remove the link")
    with running(run):
        await goals.goal("focus", wanted.id)
        search.mock(side_effect=httpx.ConnectError("refused"))
        again = await goals.goal("focus", wanted.id)

        await goals.goal("complete", wanted.id)

    assert again.metadata["items"] == []
    assert wanted.knowledge == [RECORD]
    assert list_outcomes(outcome) == [(wanted.id, True)]


async def test_a_late_success_is_sent_although_the_goal_was_taken_up_again(hub: respx.MockRouter) -> None:
    hub.get(SEARCH).respond(json=ONE)
    outcome = hub.post(OUTCOME).mock(side_effect=httpx.ConnectError("refused"))
    run = AgentRun(trace_id="trace-1")
    first, second = run.tree.add("remove the link"), run.tree.add("remove the file")
    with running(run):
        await goals.goal("focus", first.id)
        missed = await goals.goal("complete", first.id)
        await goals.goal("focus", first.id)
        outcome.mock(return_value=httpx.Response(200, json={}))
        await goals.goal("focus", second.id)

        await goals.goal("fail", second.id)

    assert (missed.error, "not yet recorded" in missed.output) == (None, True)
    assert list_outcomes(outcome) == [(first.id, True), (first.id, True), (second.id, False)]
    assert not first.evidence_due


@pytest.mark.parametrize("outcome_text", ["captcha\x00", "captcha \ud83d"])
async def test_an_invalid_outcome_does_not_stop_the_evidence(hub: respx.MockRouter, outcome_text: str) -> None:
    hub.get(SEARCH).respond(json=ONE)
    outcome = accept_outcomes(hub)
    run = AgentRun(trace_id="trace-1")
    wanted = run.tree.add("remove the link")
    with running(run):
        await goals.goal("focus", wanted.id)

        ended = await goals.goal("fail", wanted.id, outcome=outcome_text)

    assert (ended.metadata["notice"], "used=" in ended.output) == ("", True)
    assert read_body(outcome)["case"]["outcome"].startswith("captcha")
    assert b"\\u0000" not in outcome.calls.last.request.content


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"used": "a, c"}, {"outcome": "success", "used": ["a", "c"]}),
        ({"used": "a，c a"}, {"outcome": "success", "used": ["a", "c"]}),
        ({"used": "None"}, {"outcome": "success", "used": [], "wrong": []}),
        ({"used": "!b"}, {"outcome": "success", "wrong": ["b"]}),
        ({"action": "fail", "used": "a,!b,b"}, {"outcome": "failure", "used": ["a"], "wrong": ["b"]}),
        ({"action": "cancel", "used": "a"}, {"outcome": "external", "used": ["a"]}),
        ({"action": "cancel"}, {"outcome": "external"}),
    ],
)
async def test_helpful_and_wrong_records_are_named_by_tags(
    hub: respx.MockRouter, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    hub.get(SEARCH).respond(json={"results": [{**RECORD, "tag": "a"}], "count": 1})
    outcome = accept_outcomes(hub)
    run = AgentRun(trace_id="trace-1")
    wanted = run.tree.add("remove the link")
    with running(run):
        shown = await goals.goal("focus", wanted.id)

        ended = await goals.goal(**{"action": "complete", "goal_id": wanted.id} | fields)

    assert "| tag: a\n" in shown.output
    assert {
        name: value for name, value in read_body(outcome).items() if name in {"outcome", "used", "wrong"}
    } == expected
    assert (ended.metadata["notice"], "Next time" in ended.output) == ("", False)


async def test_unknown_tags_are_named_and_a_saved_tree_keeps_what_was_not_sent(
    hub: respx.MockRouter, tmp_path: Path
) -> None:
    hub.get(SEARCH).respond(json=ONE)
    outcome = hub.post(OUTCOME).mock(side_effect=httpx.ConnectError("refused"))
    store = FileTraceStore(tmp_path)
    run = AgentRun(trace_id="trace-1", trace_store=store)
    first, second = run.tree.add("remove the link"), run.tree.add("remove the file")
    with running(run):
        await goals.goal("focus", first.id)
        await goals.goal("cancel", first.id, used="a,!z")
    kept = await store.load_goal_tree("trace-1")
    assert kept is not None
    outcome.mock(return_value=httpx.Response(200, json={"results": [{"knowledge_id": "z", "status": "unknown"}]}))

    with running(AgentRun(kept, "trace-1", store)):
        ended = await goals.goal("complete", second.id)

    assert "Unknown tags: z." in ended.output
    body = read_body(outcome)
    assert (body["outcome"], body["used"], body["wrong"]) == ("external", ["a"], ["z"])
