"""The agent of examples/agent_run.py against a real server: it fails, keeps what it learned, and comes back with it."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import respx

from agent_tools.client import aclose_client
from agent_tools.goal import AgentRun
from agent_tools.trace_store import FileTraceStore
from examples import agent_run
from examples.agent_run import CALLER, OpenAICompatible, Scripted, prepare, run_agent, script
from tests.e2e.server_process import serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    with serving(tmp_path / "data") as server:
        monkeypatch.setenv("KNOWHUB_API_URL", server.url)
        monkeypatch.delenv("KNOWHUB_API_KEY", raising=False)
        yield server.url
        await aclose_client()


async def test_the_agent_comes_back_to_its_goal_with_what_it_learned_first(server_url: str, tmp_path: Path) -> None:
    agent_run.SITE.is_logged_in = False
    told: list[str] = []
    run = AgentRun(trace_id="agent-run", trace_store=FileTraceStore(tmp_path / "traces"), caller=CALLER)
    await prepare()

    results = await run_agent(Scripted(script()), run, told.append)

    assert "👤 用户画像 (1 条)" in told[0]
    assert "报告一律用中文" in told[0]
    before, after = [one for one in results if one.title == "✅ Goal 已聚焦"]
    assert [item["content"][:9] for item in before.metadata["items"]] == ["打开登录页,直接提"]
    assert after.metadata["items"][0]["content"].startswith("打开登录页后先等待 2 秒")
    assert [one.error for one in results if one.title in {"Login refused", "Logged in", "Exported"}] == [
        "captcha",
        None,
        None,
    ]
    assert results[-1].title == "✅ Goal 已完成"
    async with httpx.AsyncClient(base_url=server_url) as client:
        learned = (await client.get(f"/api/knowledge/{after.metadata['items'][0]['id']}")).json()
    assert learned["eval"]["helpful"] == 2
    assert learned["eval"]["helpful_history"][0]["outcome"] == "等待后一次登录成功"
    kept = await FileTraceStore(tmp_path / "traces").load_goal_tree("agent-run")
    assert kept is not None
    assert [(goal.id, goal.outcome) for goal in kept] == [("login", "等待后一次登录成功")]


async def test_the_next_run_follows_what_the_first_one_learned(server_url: str, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    shown: list[str] = []
    for name in ("first", "second"):
        agent_run.SITE.is_logged_in = False
        run = AgentRun(trace_id=name, trace_store=FileTraceStore(tmp_path / "traces"), caller=CALLER)
        await prepare()

        results = await run_agent(Scripted(script()), run, lambda _text: None)
        ran.append([one.title for one in results])
        shown += [one.metadata["items"][0]["content"][:7] for one in results if one.title == "✅ Goal 已聚焦"]

    assert ran[0].count("Login refused") == 1
    assert ran[1] == ["✅ Goal 已创建", "✅ Goal 已聚焦", "Logged in", "Exported", "✅ Goal 已完成"]
    assert shown == ["打开登录页,直", "打开登录页后先", "打开登录页后先"]
    async with httpx.AsyncClient(base_url=server_url) as client:
        found = (await client.get("/api/knowledge", params={"types": "tool"})).json()["results"]
    assert [(one["eval"]["helpful"], one["eval"]["harmful"]) for one in found] == [(3, 0)]


async def test_a_model_of_any_compatible_server_decides_with_the_same_tools(server_url: str) -> None:
    asked = {"name": "goal", "arguments": '{"action": "create", "description": "登录"}'}
    step = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": asked}]}
    run = AgentRun(caller=CALLER)
    async with respx.mock() as router:
        router.route(url__startswith=server_url).pass_through()
        answers = [step, {"role": "assistant", "content": "done"}]
        chat = router.post("http://model.test/v1/chat/completions").mock(
            side_effect=[httpx.Response(200, json={"choices": [{"message": message}]}) for message in answers]
        )
        model = OpenAICompatible("http://model.test/v1/", "secret", "any")

        results = await run_agent(model, run, lambda _text: None)
        await model.aclose()

    assert [one.title for one in results] == ["✅ Goal 已创建"]
    assert chat.calls[0].request.headers["Authorization"] == "Bearer secret"
    assert b'"tools"' in chat.calls[0].request.content
    assert "登录".encode() in chat.calls[1].request.content
