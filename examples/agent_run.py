"""An agent that learns: it fails at a step, keeps what it learned, and has it at hand when it comes back to the goal.

    make serve                          # in another terminal
    .venv/bin/python examples/agent_run.py

It plays the agent from a script. With KNOWHUB_LLM_BASE_URL, KNOWHUB_LLM_API_KEY and KNOWHUB_LLM_MODEL set, that model
of an OpenAI-compatible server decides instead, with the same tools. See docs/tutorial/agent-run.md.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import httpx

import agent_tools.compaction  # noqa: F401 -- registers its tool
from agent_tools.client import aclose_client
from agent_tools.goal import AgentRun, agent_start, before_risky_step, running
from agent_tools.knowledge import knowledge_save
from agent_tools.prompts.system import KNOWLEDGE_MANAGEMENT_PROMPT
from agent_tools.registry import call_tool, registered_tools, tool
from agent_tools.results import ToolResult
from agent_tools.trace_store import FileTraceStore

TASK = "登录 website_a 并导出本月订单"
CALLER = {"user_id": "li", "agent_id": "crawler"}
SCOPES = ["user:li"]
MOST_TURNS = 20
MODEL_TIMEOUT_S = 60.0
TOOLS = ("goal", "knowledge_search", "knowledge_save", "knowledge_update", "site_login", "site_export")

Message: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Site:
    """A site that takes whoever types at once for a robot."""

    is_logged_in: bool = False


SITE = Site()


@tool()
async def site_login(wait_s: float = 0.0) -> ToolResult:
    """Log in at website_a with the stored account.

    Args:
        wait_s: How long to wait before the form is sent, in seconds.
    """
    if wait_s < 2:  # noqa: PLR2004 -- what the site asks for; nobody tells
        return ToolResult("Login refused", "The site shows a captcha: it takes you for a robot.", error="captcha")
    SITE.is_logged_in = True
    return ToolResult("Logged in", "Logged in as li.")


@tool()
async def site_export() -> ToolResult:
    """Export this month's orders from website_a. It needs a login."""
    if not SITE.is_logged_in:
        return ToolResult("Export refused", "Log in first.", error="not logged in")
    return ToolResult("Exported", "37 orders, orders.csv")


class Model(Protocol):
    """Whatever decides what the agent does next."""

    async def next(self, messages: Sequence[Message]) -> Message:
        """Return the assistant's message; without tool calls the run is over."""


class Scripted:
    """Decides by a script: each step is a tool call, made of what the last call brought."""

    def __init__(self, steps: Generator[Call, ToolResult | None, None]) -> None:
        self._steps = steps
        self.last: ToolResult | None = None

    async def next(self, messages: Sequence[Message]) -> Message:
        """Return the next step of the script, and at its end a last word."""
        try:
            name, arguments = self._steps.send(self.last)
        except StopIteration:
            return {"role": "assistant", "content": "订单已导出:orders.csv"}
        return {"role": "assistant", "content": None, "tool_calls": [_tool_call(len(messages), name, arguments)]}


class OpenAICompatible:
    """A chat model of any server with OpenAI's interface and tool calls."""

    def __init__(self, base_url: str, api_key: str, model: str) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.AsyncClient(base_url=base_url.rstrip("/"), headers=headers, timeout=MODEL_TIMEOUT_S)
        self._model = model

    async def next(self, messages: Sequence[Message]) -> Message:
        """Ask the model. Raises httpx.HTTPError."""
        tools = [one.openai_schema() for name, one in registered_tools().items() if name in TOOLS]
        body = {"model": self._model, "messages": list(messages), "tools": tools}
        answer = (await self._client.post("/chat/completions", json=body)).raise_for_status()
        message: Message = answer.json()["choices"][0]["message"]
        return message

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def script() -> Generator[Call, ToolResult | None, None]:
    """Yield what the scripted agent does: it follows what it is shown, and where that fails reflects and comes back."""
    focus = ("goal", {"action": "focus", "goal_id": "login"})
    yield "goal", {"action": "create", "goal_id": "login", "description": "登录 website_a"}
    shown = yield focus
    first = _get_first(shown)
    tried = yield "site_login", {"wait_s": 3.0} if "等待" in first.get("content", "") else {}
    if tried and tried.error:
        case = {"task": TASK, "outcome": "captcha", "reason": "the form was sent at once"}
        yield "knowledge_update", {"knowledge_id": first.get("id", ""), "add_harmful_case": case}
        learned = {
            "task": "登录 website_a",
            "content": "打开登录页后先等待 2 秒以上再提交表单,否则会出现验证码。2026-11 验证过。",
            "types": ["tool", "strategy"],
            "score": 4,
            "scopes": SCOPES,
            "owner": "user:li",
        }
        yield "knowledge_save", learned
        first = _get_first((yield focus))
        yield "site_login", {"wait_s": 3.0}
    yield "site_export", {}
    used = first.get("tag", "none")
    yield "goal", {"action": "complete", "goal_id": "login", "outcome": "等待后一次登录成功", "used": used}


def _get_first(shown: ToolResult | None) -> Mapping[str, Any]:
    return shown.metadata["items"][0] if shown and shown.metadata["items"] else {}


async def prepare() -> str | None:
    """Save what was known before this run: what the user likes, and advice that is out of date. Return what failed."""
    mine: dict[str, Any] = {"scopes": SCOPES, "owner": "user:li"}
    liking = "报告一律用中文,附上 CSV 文件名"
    first = await knowledge_save("用户偏好的报告格式", liking, ["user_profile"], {"category": "preference"}, **mine)
    second = await knowledge_save("登录 website_a", "打开登录页,直接提交表单即可。", ["strategy"], score=4, **mine)
    return first.error or second.error


async def run_agent(model: Model, run: AgentRun, show: Callable[[str], None] = print) -> list[ToolResult]:
    """Let the model work with the tools until it calls none; return what the calls brought."""
    started = await agent_start(TASK, caller=run.caller)
    show(f"== {started.title}\n{started.output}")
    messages: list[Message] = [
        {"role": "system", "content": KNOWLEDGE_MANAGEMENT_PROMPT},
        {
            "role": "user",
            "content": f"{started.output}\n\n任务: {TASK}\n保存知识时使用 scopes={SCOPES}, owner=user:li。",
        },
    ]
    results: list[ToolResult] = []
    with running(run):
        for _ in range(MOST_TURNS):
            message = await model.next(messages)
            messages.append(message)
            for call in message.get("tool_calls") or ():
                results.append(await _called(call["function"], show))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": results[-1].output})
                if isinstance(model, Scripted):
                    model.last = results[-1]
            if not message.get("tool_calls"):
                show(f"== {message.get('content')}")
                break
    return results


async def _called(function: Mapping[str, Any], show: Callable[[str], None]) -> ToolResult:
    name, arguments = function["name"], function["arguments"]
    reminder = await before_risky_step(f"{name} {TASK}", name) if name.startswith("site_") else None
    if reminder is not None and reminder.metadata["items"]:
        show(f"== {reminder.title}\n{reminder.output}")
    result = await call_tool(name, arguments)
    show(f"\n> {name} {arguments}\n== {result.title}\n{result.output}")
    return result


def _tool_call(number: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call-{number}", "type": "function", "function": function}


async def main() -> None:
    """Run the agent once, by the model that the environment names or by the script."""
    parser = argparse.ArgumentParser(description="An agent that fails, learns, and comes back with what it learned.")
    parser.add_argument("--traces", type=Path, default=Path("traces"), help="where the goals of the run are kept")
    traces: Path = parser.parse_args().traces
    run = AgentRun(trace_id="agent-run", trace_store=FileTraceStore(traces), caller=CALLER)
    problem = await prepare()
    if problem is not None:
        raise SystemExit(problem)
    base_url = os.environ.get("KNOWHUB_LLM_BASE_URL", "")
    if base_url:
        model = OpenAICompatible(
            base_url, os.environ.get("KNOWHUB_LLM_API_KEY", ""), os.environ.get("KNOWHUB_LLM_MODEL", "")
        )
        try:
            await run_agent(model, run)
        except httpx.HTTPError as problem:
            raise SystemExit(f"The model at {base_url} gave no answer: {problem!r}") from problem
        finally:
            await model.aclose()
    else:
        await run_agent(Scripted(script()), run)
    await aclose_client()


if __name__ == "__main__":
    asyncio.run(main())
