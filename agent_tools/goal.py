"""Goals with knowledge: recall when a goal is focused, when an agent starts, and before a risky step.

A recall never stops the agent: without a server each of these succeeds with nothing found, and says so.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from agent_tools import arguments, client, failures, records
from agent_tools.goal_tree import Goal, GoalStatus, GoalTree, format_knowledge
from agent_tools.knowledge import knowledge_search
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult, make_failure
from agent_tools.risk import is_write_like
from agent_tools.run import RECALL_TIMEOUT_S, AgentRun, current_run, running
from agent_tools.trace_store import TraceStore

__all__ = ["AgentRun", "Goal", "GoalTree", "agent_start", "before_risky_step", "focus_goal", "goal", "running"]

FOCUS_TOP_K: Final = 3
FOCUS_MIN_SCORE: Final = 3
START_TOP_K: Final = 5
_OUTCOME_LIMIT_CHARS: Final = 2_000
_PROFILE_HEADING: Final = "👤 用户画像"
_RISK_HEADING: Final = "⚠️ 执行前提醒"

_SAY_WHAT_HELPED: Final = (
    'Next time, say which records helped by the tags that are shown beside them: used="a,c", or used="none".'
)

_Recalled: TypeAlias = tuple[list[dict[str, Any]], str]


@tool()
async def goal(
    action: Literal["create", "focus", "complete", "fail", "cancel", "list"],
    goal_id: str | None = None,
    description: str | None = None,
    parent_id: str | None = None,
    outcome: str = "",
    used: str = "",
) -> ToolResult:
    """Track what you want to reach. Focusing a goal shows what is known about it, each record with a short tag.

    Args:
        action: create, focus, complete, fail, cancel or list. Cancel what failed for a reason that no record is about,
            such as the network or a quota.
        goal_id: The goal to focus or end. For create: an id of your own, or none.
        description: For create: what you want to reach, in one sentence.
        parent_id: For create: the goal that this is a part of.
        outcome: For complete and fail: the result and the reason.
        used: For complete and fail: the tags of the records that helped, such as "a,c"; "none" if none did. With a "!"
            before it, a record was wrong or did not help: "a,!b". Said again, the last word counts; "none" takes all
            back.
    """
    run = current_run()
    if run is None:
        raise ToolFailure("No run is active. The host must call this within `agent_tools.goal.running(run)`.")
    match action:
        case "create":
            created = run.tree.add(description or "", parent_id, goal_id)
            notice = await _save_tree(run)
            output = _join_parts(f"{created.id}: {created.description}", notice)
            return ToolResult("✅ Goal 已创建", output, _make_metadata(created, notice))
        case "focus":
            return await _focus_goal(run, _require_id(goal_id))
        case "complete" | "fail" | "cancel":
            return await _end_goal(run, _require_id(goal_id), action, outcome, _split_tags(used))
        case "list":
            return ToolResult("Goals", run.tree.render(), {"items": [], "goals": run.tree.to_dict()["goals"]})
        case _:
            raise ToolFailure(f"There is no action {action!r}. Use create, focus, complete, fail, cancel or list.")


async def focus_goal(
    goal_tree: GoalTree,
    goal_id: str,
    *,
    trace_id: str | None = "",
    trace_store: TraceStore | None = None,
    caller: Mapping[str, str] | None = None,
    timeout_s: float = RECALL_TIMEOUT_S,
) -> ToolResult:
    """Focus a goal: search for knowledge, store it on the goal and in the trace, and show it.

    This is one call of the server, and it succeeds without a server. `caller` is the run's by default. An unknown goal
    is an error with the known ids.
    """
    run = AgentRun(goal_tree, trace_id or "", trace_store, _choose_caller(caller), timeout_s)
    try:
        return await _focus_goal(run, goal_id)
    except ToolFailure as failure:
        return make_failure("focus_goal", failure)


async def agent_start(task: str = "", *, caller: Mapping[str, str] | None = None) -> ToolResult:
    """Load what an agent should know when it starts: the profile of the user, then knowledge about its task.

    `caller` has the context ids, the run's by default; they say whose profile it is. Without a server it succeeds with
    nothing found.
    """
    run = AgentRun(caller=_choose_caller(caller))
    profile, missed = await _read_profile(run)
    sections = [
        f"{_PROFILE_HEADING} ({len(profile)} 条):\n{records.format_records(profile) if profile else missed or '暂无'}"
    ]
    known: list[dict[str, Any]] = []
    if task.strip() and not missed:
        found, missed = await _recall(run, task, START_TOP_K)
        shown = {item.get("id") for item in profile}
        known = [item for item in found if item.get("id") not in shown]
        sections.append(format_knowledge(known, missed))
    metadata = {"items": [*profile, *known], "profile": profile, "notice": missed}
    return ToolResult("✅ Agent 已启动", "\n\n".join(sections), metadata)


async def before_risky_step(step: str, tool_name: str = "", *, run: AgentRun | None = None) -> ToolResult:
    """Recall knowledge right before a change: records that were not shown for this goal yet.

    `step` says in words what will happen. Arguments are not sent: they may contain secrets. For a `tool_name` that only
    reads, nothing is recalled. `run` is the current run by default.
    """
    if tool_name and not is_write_like(tool_name):
        return ToolResult("Nothing to recall", "", {"items": [], "notice": ""})
    run = run or current_run() or AgentRun()
    focused = run.tree.focused
    about = " ".join(part for part in (step.strip(), tool_name, focused.description if focused else "") if part)
    had_evidence = focused is not None and focused.was_shown
    items, missed = await _recall(run, about, FOCUS_TOP_K, focused, unseen=True)
    # The outcome of the goal is evidence on these records, also after a restart.
    notice = await _save_tree(run) if focused is not None and focused.was_shown and not had_evidence else ""
    output = f"{_RISK_HEADING}\n\n{format_knowledge(items, missed)}" if items or missed else ""
    metadata = {"items": items, "notice": missed or notice}
    return ToolResult(f"{_RISK_HEADING} ({len(items)})", _join_parts(output, notice), metadata)


def _choose_caller(caller: Mapping[str, str] | None) -> Mapping[str, str]:
    run = current_run()
    return caller if caller is not None else run.caller if run else {}


async def _focus_goal(run: AgentRun, goal_id: str) -> ToolResult:
    current = run.tree.get(goal_id)
    items, missed = await _recall(run, current.description, FOCUS_TOP_K, current)
    run.tree.focus(current)
    if not missed:
        current.knowledge = items
    notice = await _save_tree(run)
    output = f"当前 Goal: {current.description}\n\n{format_knowledge(items, missed)}"
    return ToolResult(
        "✅ Goal 已聚焦", _join_parts(output, notice), {**_make_metadata(current, missed or notice), "items": items}
    )


async def _end_goal(run: AgentRun, goal_id: str, action: str, outcome: str, tags: list[str] | None) -> ToolResult:
    ended = run.tree.get(goal_id)
    is_helpful = action == "complete"
    ended.status = GoalStatus.COMPLETED if is_helpful else GoalStatus.FAILED
    ended.outcome = arguments.clean_text(outcome).strip()[:_OUTCOME_LIMIT_CHARS]
    # The goal may be taken up again before this is sent.
    ended.was_helpful, ended.was_external = is_helpful, action == "cancel"
    ended.tags = tags
    ended.evidence_due = bool(ended.was_shown and run.trace_id)
    missed = await _send_evidence(run)
    notice = await _save_tree(run)
    title = "✅ Goal 已完成" if is_helpful else "❌ Goal 已失败"
    said_nothing = ended.was_shown and ended.tags is None and not ended.was_external
    hint = _SAY_WHAT_HELPED if said_nothing else ""
    output = _join_parts(f"{ended.id}: {ended.description}", missed, notice, hint)
    return ToolResult(title, output, _make_metadata(ended, missed or notice))


async def _send_evidence(run: AgentRun) -> str:
    """Send every outcome that is due, also those of earlier goals.

    Return what went wrong: why that failed, or which tags are unknown.
    """
    notices = []
    for due in [ended for ended in run.tree if ended.evidence_due]:
        case = {"task": due.description, "outcome": due.outcome}
        try:
            body = {
                "session_id": arguments.clean_id(run.trace_id),
                "goal_id": arguments.clean_id(due.id),
                "outcome": due.outcome_kind,
                "case": {name: arguments.clean_text(text)[:_OUTCOME_LIMIT_CHARS] for name, text in case.items()},
                **due.name_records(),
            }
            with running(run):
                reply = await client.request("POST", "/api/knowledge/outcome", body=body, timeout_s=run.timeout_s)
        except ToolFailure as failure:
            return f"The outcome is not yet recorded as evidence. The next goal that ends sends it. {failure.advice}"
        due.evidence_due = False
        statuses = reply.get("results") or []
        unknown = [str(item.get("knowledge_id")) for item in statuses if item.get("status") == "unknown"]
        if unknown:
            notices.append(f"Unknown tags: {failures.shorten(', '.join(unknown))}. Use the tags beside the records.")
    return "\n".join(notices)


async def _recall(
    run: AgentRun, query: str, top_k: int, about: Goal | None = None, *, unseen: bool = False
) -> _Recalled:
    """Search, and return the records with the reason of a failure, or with an empty text.

    The server gets the ids of the run and the goal, and remembers what it showed for them.
    """
    words = arguments.clean_query(query)
    if not words:
        return [], "There is no text to search for."
    recorded = about if run.trace_id else None
    try:
        with running(run):
            async with asyncio.timeout(run.timeout_s):
                found = await knowledge_search(
                    words,
                    top_k,
                    FOCUS_MIN_SCORE,
                    goal_id=recorded.id if recorded else None,
                    unseen=unseen and recorded is not None,
                )
    except TimeoutError:
        return [], failures.make_timeout("the search", run.timeout_s).advice
    return found.metadata["items"], found.error or ""


async def _read_profile(run: AgentRun) -> _Recalled:
    try:
        with running(run):
            reply = await client.request("GET", "/api/knowledge/profile", timeout_s=run.timeout_s)
        return client.list_results(reply), ""
    except ToolFailure as failure:
        return [], failure.advice


async def _save_tree(run: AgentRun) -> str:
    """Save the tree in the trace store. Return why that failed, or an empty text: the goal is focused all the same."""
    if run.trace_store is None:
        return ""
    try:
        await run.trace_store.update_goal_tree(run.trace_id, run.tree)
    except Exception as error:  # noqa: BLE001 -- the store of a host may fail in any way, and that is not our bug
        return f"The goals could not be saved: {failures.shorten(error) or type(error).__name__}."
    return ""


def _split_tags(text: str) -> list[str] | None:
    """Return the tags of a list such as "a, !c"; None if nothing was said, and an empty list for "none"."""
    tags = arguments.clean_text(text).replace(",", " ").replace("，", " ").split()
    if not tags:
        return None
    return [] if [tag.lower() for tag in tags] == ["none"] else list(dict.fromkeys(tags))


def _require_id(goal_id: str | None) -> str:
    if not goal_id:
        raise ToolFailure("This action needs a goal_id. `list` shows the goals.")
    return goal_id


def _make_metadata(target: Goal, notice: str) -> dict[str, Any]:
    return {"items": target.knowledge, "goal": target.to_dict(), "goal_id": target.id, "notice": notice}


def _join_parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
