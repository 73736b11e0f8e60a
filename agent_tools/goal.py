"""Goals that bring what is known: recall at the focus, at the start and before a risky step (seed 003, 知识注入).

The recall sits here, not in whatever runs the agent, and never in its way: without a server each of these succeeds
with nothing found, and says so.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from agent_tools import client, failures, records, sendable
from agent_tools.goal_tree import Goal, GoalStatus, GoalTree, knowledge_section
from agent_tools.knowledge import knowledge_search
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult, failed
from agent_tools.risk import is_write_like
from agent_tools.trace_store import TraceStore

__all__ = ["AgentRun", "Goal", "GoalTree", "agent_start", "before_risky_step", "focus_goal", "goal", "running"]

FOCUS_TOP_K: Final = 3
FOCUS_MIN_SCORE: Final = 3
START_TOP_K: Final = 5
# The server answers a search within its own 3 s; an agent that waits longer than this is held up by its memory.
RECALL_TIMEOUT_S: Final = 6.0
_OUTCOME_LIMIT_CHARS: Final = 2_000
_PROFILE_HEADING: Final = "👤 用户画像"
_RISK_HEADING: Final = "⚠️ 执行前提醒"

_Found: TypeAlias = tuple[list[dict[str, Any]], str]


@dataclass(slots=True)
class AgentRun:
    """What the goal tools of one run work on. `caller` holds the context ids, such as `user_id` and `project_id`.

    A `trace_id` that is no text is taken by its text, None for none. `timeout_s` bounds each call of the server.
    """

    tree: GoalTree = field(default_factory=GoalTree)
    trace_id: str = ""
    trace_store: TraceStore | None = None
    caller: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = RECALL_TIMEOUT_S

    def __post_init__(self) -> None:
        given: object = self.trace_id
        self.trace_id = "" if given is None else str(given)


_current: ContextVar[AgentRun | None] = ContextVar("agent_run", default=None)


@contextmanager
def running(run: AgentRun) -> Iterator[AgentRun]:
    """Let the tool `goal` work on this run, in the block and in the tasks that it starts."""
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)


@tool()
async def goal(
    action: str,
    goal_id: str | None = None,
    description: str | None = None,
    parent_id: str | None = None,
    outcome: str = "",
) -> ToolResult:
    """Keep track of what you want to reach. Focusing a goal shows what is already known about it.

    Args:
        action: create, focus, complete, fail or list.
        goal_id: The goal that is focused, completed or failed; for create an id of your own, or none.
        description: What shall be reached, in one sentence; for create.
        parent_id: The goal that a created one is a part of.
        outcome: For complete and fail, what came of it and why. It becomes evidence on the knowledge that was shown.
    """
    run = _current.get()
    if run is None:
        raise ToolFailure("No run has been started. The host must call this within `agent_tools.goal.running(run)`.")
    match action:
        case "create":
            return await _create(run, description or "", parent_id, goal_id)
        case "focus":
            return await _focus(run, _required(goal_id))
        case "complete" | "fail":
            return await _end(run, _required(goal_id), outcome, is_helpful=action == "complete")
        case "list":
            return ToolResult("Goals", run.tree.render(), {"items": [], "goals": run.tree.to_dict()["goals"]})
        case _:
            raise ToolFailure(f"There is no action {action!r}. Take create, focus, complete, fail or list.")


async def focus_goal(
    goal_tree: GoalTree,
    goal_id: str,
    *,
    trace_id: str | None = "",
    trace_store: TraceStore | None = None,
    caller: Mapping[str, str] | None = None,
    timeout_s: float = RECALL_TIMEOUT_S,
) -> ToolResult:
    """Focus a goal: search what is known, keep it on the goal and in the trace, and show it (GO-001…013).

    It is one call of the server, and succeeds without one. An unknown goal is an error that names those there are.
    """
    run = AgentRun(goal_tree, trace_id or "", trace_store, caller or {}, timeout_s)
    try:
        return await _focus(run, goal_id)
    except ToolFailure as failure:
        return failed("focus_goal", failure)


async def agent_start(task: str = "", *, caller: Mapping[str, str] | None = None) -> ToolResult:
    """Load what an agent should know as it starts: the user's profile first, then what is known of its task (GO-022).

    `caller` holds the context ids: the profile is that user's. Without a server it succeeds with nothing.
    """
    run = AgentRun(caller=caller or {})
    profile, missed = await _profile(run)
    sections = [f"{_PROFILE_HEADING} ({len(profile)} 条):\n{records.as_data(profile) if profile else missed or '暂无'}"]
    known: list[dict[str, Any]] = []
    if task.strip() and not missed:
        found, missed = await _recall(run, task, START_TOP_K)
        shown = {item.get("id") for item in profile}
        known = [item for item in found if item.get("id") not in shown]
        sections.append(knowledge_section(known, missed))
    metadata = {"items": [*profile, *known], "profile": profile, "notice": missed}
    return ToolResult("✅ Agent 已启动", "\n\n".join(sections), metadata)


async def before_risky_step(step: str, tool_name: str = "", *, run: AgentRun | None = None) -> ToolResult:
    """Recall once more right before something is changed: what was not shown for this goal yet.

    `step` says in words what is about to happen; arguments are not sent, they may hold secrets. A `tool_name` that only
    reads asks nothing. `run` is the current one when it is not given.
    """
    if tool_name and not is_write_like(tool_name):
        return ToolResult("Nothing to recall", "", {"items": [], "notice": ""})
    run = run or _current.get() or AgentRun()
    focused = run.tree.focused
    about = " ".join(part for part in (step.strip(), tool_name, focused.description if focused else "") if part)
    had_evidence = focused is not None and focused.was_shown
    items, missed = await _recall(run, about, FOCUS_TOP_K, focused, unseen=True)
    # What was shown now is judged by how the goal ends, after a restart too.
    notice = await _keep(run) if focused is not None and focused.was_shown and not had_evidence else ""
    output = f"{_RISK_HEADING}\n\n{knowledge_section(items, missed)}" if items or missed else ""
    metadata = {"items": items, "notice": missed or notice}
    return ToolResult(f"{_RISK_HEADING} ({len(items)})", _joined(output, notice), metadata)


async def _create(run: AgentRun, description: str, parent_id: str | None, goal_id: str | None) -> ToolResult:
    created = run.tree.add(description, parent_id, goal_id)
    notice = await _keep(run)
    return ToolResult("✅ Goal 已创建", _joined(f"{created.id}: {created.description}", notice), _of(created, notice))


async def _focus(run: AgentRun, goal_id: str) -> ToolResult:
    current = run.tree.get(goal_id)
    items, missed = await _recall(run, current.description, FOCUS_TOP_K, current)
    run.tree.focus(current)
    if not missed:
        current.knowledge = items
    notice = await _keep(run)
    output = f"当前 Goal: {current.description}\n\n{knowledge_section(items, missed)}"
    return ToolResult("✅ Goal 已聚焦", _joined(output, notice), {**_of(current, missed or notice), "items": items})


async def _end(run: AgentRun, goal_id: str, outcome: str, *, is_helpful: bool) -> ToolResult:
    ended = run.tree.get(goal_id)
    ended.status = GoalStatus.COMPLETED if is_helpful else GoalStatus.FAILED
    ended.outcome = sendable.plain_text(outcome).strip()[:_OUTCOME_LIMIT_CHARS]
    # The goal may be taken up again before this could be sent.
    ended.was_helpful = is_helpful
    ended.evidence_due = bool(ended.was_shown and run.trace_id)
    missed = await _send_evidence(run)
    notice = await _keep(run)
    title = "✅ Goal 已完成" if is_helpful else "❌ Goal 已失败"
    output = _joined(f"{ended.id}: {ended.description}", missed, notice)
    return ToolResult(title, output, _of(ended, missed or notice))


async def _send_evidence(run: AgentRun) -> str:
    """Send every outcome that is due, those too that an earlier call could not; say what is in the way."""
    for due in [one for one in run.tree if one.evidence_due]:
        case = {"task": due.description, "outcome": due.outcome}
        try:
            body = {
                **sendable.caller_ids(run.caller),
                "session_id": sendable.entity_id(run.trace_id),
                "goal_id": sendable.entity_id(due.id),
                "is_helpful": due.was_helpful,
                "case": {name: sendable.plain_text(text)[:_OUTCOME_LIMIT_CHARS] for name, text in case.items()},
            }
            await client.request("POST", "/api/knowledge/outcome", body=body, timeout_s=run.timeout_s)
        except ToolFailure as failure:
            return f"The outcome is not yet noted as evidence; the next goal that ends sends it. {failure.advice}"
        due.evidence_due = False
    return ""


async def _recall(run: AgentRun, query: str, top_k: int, about: Goal | None = None, *, unseen: bool = False) -> _Found:
    """Search, and return what was found with a word on what was in the way, empty where nothing was.

    The server is told the run and the goal: it remembers what it showed for them, and the goal that it did.
    """
    words = sendable.query(query)
    if not words:
        return [], "There are no words to search with."
    noted_for = about if run.trace_id else None
    try:
        context: dict[str, Any] = dict(sendable.caller_ids(run.caller))
        if noted_for is not None:
            session_id, goal_id = sendable.entity_id(run.trace_id), sendable.entity_id(noted_for.id)
            context |= {"session_id": session_id, "goal_id": goal_id, "unseen": unseen or None}
        async with asyncio.timeout(run.timeout_s):
            found = await knowledge_search(words, top_k, FOCUS_MIN_SCORE, None, **context)
    except ToolFailure as failure:
        return [], failure.advice
    except TimeoutError:
        return [], failures.timed_out("the search", run.timeout_s).advice
    items = found.metadata["items"]
    if items and noted_for is not None:
        noted_for.was_shown = True
    return items, found.error or ""


async def _profile(run: AgentRun) -> _Found:
    try:
        caller = sendable.caller_ids(run.caller)
        reply = await client.request("GET", "/api/knowledge/profile", params=caller, timeout_s=run.timeout_s)
        return client.result_list(reply), ""
    except ToolFailure as failure:
        return [], failure.advice


async def _keep(run: AgentRun) -> str:
    """Keep the tree in the trace store; say what is in the way of that: a goal is no less focused for it."""
    if run.trace_store is None:
        return ""
    try:
        await run.trace_store.update_goal_tree(run.trace_id, run.tree)
    except Exception as problem:  # noqa: BLE001 -- a store of the host's own may fail in any way, and is not our bug
        return f"The goals could not be kept: {failures.one_line(problem) or type(problem).__name__}."
    return ""


def _required(goal_id: str | None) -> str:
    if not goal_id:
        raise ToolFailure("This action needs a goal_id. `list` shows the goals there are.")
    return goal_id


def _of(one: Goal, notice: str) -> dict[str, Any]:
    return {"items": one.knowledge, "goal": one.to_dict(), "goal_id": one.id, "notice": notice}


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
