"""The agent of examples/agent_run.py with a scripted model behind OpenAI's interface: its second run does better."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_tools.client import aclose_client
from agent_tools.knowledge import knowledge_save
from agent_tools.registry import tool
from agent_tools.results import ToolResult
from agent_tools.run import running
from examples.agent_run import CALLER, TASK, run_agent
from examples.scripted_model import make_server
from tests.e2e.server_process import ROOT, environment, run_server

pytestmark = pytest.mark.anyio

GOALS = [json.loads(line) for line in (ROOT / "tests/data/agent_goals.jsonl").read_text("utf-8").splitlines()]
needed_now: dict[str, str] = {}


@tool()
async def attempt_goal(how: str) -> ToolResult:
    """Work on the goal.

    Args:
        how: How it is done.
    """
    if needed_now["needed"] in how:
        return ToolResult("Done", "It worked.")
    return ToolResult("Refused", f"{needed_now['refusal']} What works: {needed_now['lesson']}", error="refused")


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    server = make_server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def model(model_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=model_url) as client:
        yield client


@pytest.fixture
async def server_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    with run_server(tmp_path / "data") as server:
        monkeypatch.setenv("KNOWHUB_API_URL", server.url)
        monkeypatch.delenv("KNOWHUB_API_KEY", raising=False)
        yield server.url
        await aclose_client()


async def test_the_second_run_follows_what_the_first_one_learned(server_url: str, model: httpx.AsyncClient) -> None:
    with running(caller=CALLER):
        old = await knowledge_save("登录 website_a", "打开登录页,直接提交表单即可。", ["strategy"], score=4)

    first, second = [await run_agent(TASK, model) for _ in range(2)]

    assert [result.title for result in first] == [
        "✅ Goal 已创建",
        "✅ Goal 已聚焦",
        "Refused",
        "Exported",
        "Knowledge saved",
        "✅ Goal 已完成",
    ]
    assert [result.title for result in second] == ["✅ Goal 已创建", "✅ Goal 已聚焦", "Exported", "✅ Goal 已完成"]
    async with httpx.AsyncClient(base_url=server_url, params=CALLER) as client:
        outdated = (await client.get(f"/api/knowledge/{old.metadata['id']}")).json()
        learned = (await client.get(f"/api/knowledge/{first[4].metadata['id']}")).json()
    assert outdated["eval"]["harmful"] == 1
    assert (learned["eval"]["helpful"], learned["eval"]["harmful"]) == (2, 0)
    # The run said once who calls.
    assert (learned["owner"], learned["scopes"]) == ("user:li", ["user:li"])
    assert learned["source"]["agent_id"] == "crawler"
    assert learned["source"]["trace_id"].startswith("run-")


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_ten_goals_are_reached_without_a_refusal_when_they_come_again(
    server_url: str, model: httpx.AsyncClient, language: str
) -> None:
    refused: dict[str, list[str]] = {"task": [], "again": []}
    for wording, tasks in refused.items():
        for goal in GOALS:
            if goal["language"] == language:
                needed_now.update(goal)
                results = await run_agent(goal[wording], model, ["attempt_goal"])
                tasks += [goal[wording] for result in results if result.title == "Refused"]
                assert results[-1].title == "✅ Goal 已完成"

    assert len(refused["task"]) == 10
    assert refused["again"] == []


def test_the_program_of_the_guide_is_the_example_and_learns(tmp_path: Path, model_url: str) -> None:
    guide = (ROOT / "docs/how-to/agents.md").read_text("utf-8")
    program = next(block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "def run_agent" in block)
    assert program == (ROOT / "examples/agent_run.py").read_text("utf-8")

    with run_server(tmp_path / "data") as server:
        variables = environment(tmp_path, KNOWHUB_API_URL=server.url, KNOWHUB_LLM_BASE_URL=model_url)
        ran: list[Any] = [
            subprocess.run(
                [sys.executable, "-c", program], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
            )
            for _ in range(2)
        ]

    assert [run.stdout.splitlines()[-1] for run in ran] == [
        "6 calls, 1 of them refused",
        "4 calls, 0 of them refused",
    ]


def test_without_a_model_the_program_says_which_one_it_missed(tmp_path: Path) -> None:
    variables = environment(
        tmp_path, KNOWHUB_API_URL="http://127.0.0.1:9", KNOWHUB_LLM_BASE_URL="http://127.0.0.1:9/v1"
    )

    done = subprocess.run(
        [sys.executable, ROOT / "examples/agent_run.py"], env=variables, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "The model at http://127.0.0.1:9/v1 gave no answer" in done.stderr
