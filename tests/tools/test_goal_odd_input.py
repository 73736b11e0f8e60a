"""What a host hands in need not fit: no goal tool raises at an agent, and no recall is lost to a refusal."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

from agent_tools import goal as goals
from agent_tools.goal import AgentRun, GoalTree, agent_start, before_risky_step, focus_goal, running
from agent_tools.goal_tree import DEEPEST_INDENT
from agent_tools.results import ToolResult
from agent_tools.trace_store import FileTraceStore
from knowhub.core.scopes import entity_id_problem
from knowhub.web.schemas.knowledge import KnowledgeSearchParams
from tests.tools.routes import query_of, read_body

pytestmark = pytest.mark.anyio

RECORD: dict[str, Any] = {"id": "knowledge-20260305-a1b2", "task": "登录", "content": "随机延迟", "types": ["tool"]}
ODD_IDS = ["t" * 300, "a\nb", "a\x00b", "half \ud800", "   ", "💥" * 201]


def answer_like_the_server(request: httpx.Request) -> httpx.Response:
    """Refuse what the server would."""
    KnowledgeSearchParams.model_validate(dict(request.url.params.multi_items()))
    return httpx.Response(200, json={"results": [RECORD], "count": 1})


@pytest.fixture
def search(hub: respx.MockRouter) -> respx.Route:
    hub.get("/api/knowledge/profile").respond(json={"results": [], "count": 0})
    return hub.get("/api/knowledge/search").mock(side_effect=answer_like_the_server)


@pytest.mark.parametrize(("trace_id", "session_id"), [(None, None), (5, "5"), ("t", "t")])
async def test_a_trace_id_of_another_type_is_converted_to_text(
    search: respx.Route,
    tmp_path: Path,
    trace_id: Any,  # noqa: ANN401 -- as a host may have it
    session_id: str | None,
) -> None:
    tree, store = GoalTree(), FileTraceStore(tmp_path)

    result = await focus_goal(tree, tree.add("登录").id, trace_id=trace_id, trace_store=store)

    assert (result.error, result.metadata["notice"], len(result)) == (None, "", 1)
    assert query_of(search).get("session_id") == session_id
    assert await store.load_goal_tree(session_id or "") is not None


async def test_a_store_of_the_host_may_raise_any_error(search: respx.Route) -> None:
    class Failing:
        async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
            raise LookupError

        async def load_goal_tree(self, trace_id: str) -> GoalTree | None:
            return None

    tree = GoalTree()

    result = await focus_goal(tree, tree.add("登录").id, trace_id="t", trace_store=Failing())

    assert (result.error, len(result)) == (None, 1)
    assert result.metadata["notice"] == "The goals could not be saved: LookupError."
    assert search.called


async def act_as(caller: Any) -> list[ToolResult]:  # noqa: ANN401 -- as a host may have it
    tree = GoalTree()
    run = AgentRun(tree, "trace-1", None, caller)
    return [
        await focus_goal(tree, tree.add("登录").id, caller=caller),
        await agent_start("登录", caller=caller),
        await before_risky_step("删除", "rm_file", run=run),
    ]


@pytest.mark.parametrize(
    ("caller", "named"),
    [
        pytest.param({"account": "acme"}, {"account": "acme"}, id="account"),
        pytest.param({"user_id": 5, "org_id": None}, {"user_id": "5"}, id="number"),
    ],
)
async def test_every_recall_has_the_ids_of_the_caller_and_the_account(
    search: respx.Route, caller: dict[str, Any], named: dict[str, str]
) -> None:
    results = await act_as(caller)

    assert [(result.error, result.metadata["notice"], len(result)) for result in results] == [(None, "", 1)] * 3
    queries = [dict(call.request.url.params.multi_items()) for call in search.calls]
    assert len(queries) == 3
    assert all(query | named == query for query in queries)
    assert all({"user_id", "org_id"} & query.keys() <= named.keys() for query in queries)


@pytest.mark.parametrize("caller", [{"user": "x"}, {"top_k": 1}, {"user_id": ["a"]}, {"user_id": "a", 5: "b"}, "x", 7])
async def test_an_invalid_caller_recalls_nothing_and_says_why(
    hub: respx.MockRouter,
    caller: Any,  # noqa: ANN401 -- as a host may have it
) -> None:
    results = await act_as(caller)

    assert [(result.error, len(result)) for result in results] == [(None, 0)] * 3
    assert all("caller" in result.metadata["notice"].lower() for result in results)
    assert all(result.metadata["notice"] in result.output for result in results)
    assert not hub.calls


async def test_an_outcome_has_the_account_and_waits_for_a_valid_caller(
    hub: respx.MockRouter, search: respx.Route
) -> None:
    outcome = hub.post("/api/knowledge/outcome").respond(json={})
    run = AgentRun(trace_id="t", caller={"account": "acme"})
    wanted = run.tree.add("登录")
    with running(run):
        await goals.goal("focus", wanted.id)
        run.caller = {"user": "x"}
        missed = await goals.goal("complete", wanted.id)
        run.caller = {"account": "acme"}

        await goals.goal("complete", wanted.id)

    assert "not yet recorded" in missed.output
    assert search.called
    assert read_body(outcome)["account"] == "acme"
    assert len(outcome.calls) == 1


@pytest.mark.parametrize("description", ["登录 " + "x " * 2_500, "登录\x00", "登录 \ud800", "登录" * 3_000])
async def test_a_description_that_is_too_long_for_a_search_is_cut(search: respx.Route, description: str) -> None:
    tree = GoalTree()
    wanted = tree.add("…")
    wanted.description = description

    results = [await focus_goal(tree, wanted.id), await agent_start(description)]

    assert [(result.metadata["notice"], len(result)) for result in results] == [("", 1)] * 2
    assert query_of(search)["q"].startswith("登录")


async def test_an_empty_description_makes_no_goal_and_no_request(search: respx.Route) -> None:
    run = AgentRun(trace_id="t")

    with running(run):
        created = await goals.goal("create", description="\x00 ")
        reminded = await before_risky_step("\x00")

    assert "needs a description" in (created.error or "")
    assert (reminded.error, reminded.metadata["notice"]) == (None, "There is no text to search for.")
    assert not search.called


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_an_invalid_id_is_made_valid(hub: respx.MockRouter, search: respx.Route, odd: str) -> None:
    outcome = hub.post("/api/knowledge/outcome").respond(json={})
    run = AgentRun(trace_id=odd)
    wanted = run.tree.add("登录", goal_id=odd)
    with running(run):
        focused = await goals.goal("focus", odd)
        ended = await goals.goal("complete", odd)

    assert (focused.metadata["notice"], ended.metadata["notice"], len(focused)) == ("", "", 1)
    names = {name: query_of(search)[name] for name in ("session_id", "goal_id")}
    assert [entity_id_problem(name) for name in names.values()] == [None, None]
    body = read_body(outcome)
    assert {name: body[name] for name in names} == names
    assert wanted.id == odd


async def test_goals_deeper_than_the_stack_of_python_work(search: respx.Route, tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    run = AgentRun(trace_id="deep", trace_store=store)
    last = run.tree.add("goal 0")
    for number in range(1, 3_000):
        last = run.tree.add(f"goal {number}", last.id)

    with running(run):
        await goals.goal("focus", last.id)
        shown = await goals.goal("list")

    lines = [line for line in shown.output.splitlines() if "] goal-" in line]
    assert len(lines) == 3_000
    assert lines[DEEPEST_INDENT] == "  " * DEEPEST_INDENT + "[ ] goal-33: goal 32"
    assert lines[-1] == "  " * DEEPEST_INDENT + "(level 2999) [>] goal-3000: goal 2999"
    assert len(shown.output) < 500_000
    kept = await store.load_goal_tree("deep")
    assert kept is not None
    assert len(kept) == 3_000
    assert search.called
