"""An agent that learns from run to run, with any model that has OpenAI's interface and tool calls.

    make serve                                             # in another terminal
    export KNOWHUB_LLM_BASE_URL=http://127.0.0.1:11434/v1 KNOWHUB_LLM_MODEL=qwen3
    .venv/bin/python examples/agent_run.py                 # and once more

Without a model, `examples/scripted_model.py` serves a scripted one. See docs/tutorial/agent-run.md.
"""

import asyncio
import os
from collections.abc import Collection
from typing import Any
from uuid import uuid4

import httpx

from agent_tools.client import aclose_client
from agent_tools.goal import agent_start
from agent_tools.prompts.system import KNOWLEDGE_MANAGEMENT_PROMPT
from agent_tools.registry import call_tool, registered_tools, tool
from agent_tools.results import ToolResult
from agent_tools.run import running

TASK = "登录 website_a 并导出本月订单"
CALLER = {"user_id": "li", "agent_id": "crawler"}
KNOWHUB_TOOLS = ("goal", "knowledge_search", "knowledge_save")
MAX_TURNS = 20
MODEL_TIMEOUT_S = 60.0
SYSTEM_PROMPT = f"""{KNOWLEDGE_MANAGEMENT_PROMPT}
Create a goal for the task with `goal`, and focus it. Work as the records say that are shown. If a step is refused, find
another way, and save with `knowledge_save` what worked. At the end complete the goal: say in `used` which tags helped.
"""


@tool()
async def website_export(how: str) -> ToolResult:
    """Log in at website_a and export the orders of this month.

    Args:
        how: How you do it, in one or two sentences.
    """
    if "等待" in how or "wait" in how.lower():
        return ToolResult("Exported", "37 orders, orders.csv")
    reason = "A captcha: the site takes you for a robot. What works: 打开登录页后先等待 2 秒以上,再提交表单。"
    return ToolResult("Refused", reason, error="captcha")


async def run_agent(
    task: str, model: httpx.AsyncClient, own_tools: Collection[str] = ("website_export",)
) -> list[ToolResult]:
    """Let the model work on a task until it calls no tool. Return the results of its calls. Raises httpx.HTTPError."""
    names = [*KNOWHUB_TOOLS, *own_tools]
    schemas = [registered_tools()[name].openai_schema() for name in names]
    results: list[ToolResult] = []
    # Who calls is said here, once. Nothing in the schemas lets the model choose it.
    with running(caller=CALLER, trace_id=f"run-{uuid4().hex}"):
        started = await agent_start(task)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": f"{started}\n\nTask: {task}"},
        ]
        for _ in range(MAX_TURNS):
            body = {"model": os.environ.get("KNOWHUB_LLM_MODEL", ""), "messages": messages, "tools": schemas}
            answer = (await model.post("chat/completions", json=body)).raise_for_status().json()
            message = answer["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls") or []:
                result = await call_tool(call["function"]["name"], call["function"]["arguments"])
                print(f"\n> {call['function']['name']} {call['function']['arguments']}\n== {result.title}\n{result}")
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
                results.append(result)
            if not message.get("tool_calls"):
                break
    return results


async def main() -> None:
    """Run the agent once."""
    key = os.environ.get("KNOWHUB_LLM_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    base_url = os.environ.get("KNOWHUB_LLM_BASE_URL", "http://127.0.0.1:11434/v1")
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=MODEL_TIMEOUT_S) as model:
        try:
            results = await run_agent(TASK, model)
        except httpx.HTTPError as problem:
            raise SystemExit(f"The model at {base_url} gave no answer: {problem!r}") from problem
    print(f"\n{len(results)} calls, {sum(result.error is not None for result in results)} of them refused")
    await aclose_client()


if __name__ == "__main__":
    asyncio.run(main())
