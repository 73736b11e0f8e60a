"""The knowledge tools of an agent. Each is one call of the API."""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from agent_tools import arguments, client, failures, fences, records
from agent_tools.registry import tool
from agent_tools.results import ToolResult
from agent_tools.run import current_run, get_caller_ids, get_owner

DEFAULT_SCOPES = ("org:cybertogether",)
DEFAULT_AGENT = "research_agent"
# The server gives its LLM 30 s to rewrite a record. Slimming may take minutes.
EVOLVE_TIMEOUT_S = 45.0
SLIM_TIMEOUT_S = 600.0

_USE_A_SHOWN_ID = "Use an id from knowledge_search or knowledge_list."

KnowledgeType: TypeAlias = Literal["user_profile", "strategy", "tool", "usecase", "definition", "plan"]


class Case(TypedDict, total=False):
    """Where a record helped or misled."""

    task: str
    outcome: str
    reason: str


class _Rating(TypedDict):
    knowledge_id: str
    is_helpful: bool


class Rating(_Rating, total=False):
    """Whether a record helped."""

    case: Case


@tool(aliases=("get_knowledge",), hidden=("session_id", "goal_id", "unseen"))
async def knowledge_search(
    query: str,
    top_k: int = 5,
    min_score: int = 3,
    types: list[KnowledgeType] | None = None,
    session_id: str | None = None,
    goal_id: str | None = None,
    unseen: bool | None = None,
    **ids: str | None,
) -> ToolResult:
    """Find what was learned before about a task, the best first. Use it before you research or plan.

    Args:
        query: What you want to do or know, in your own words.
        top_k: How many records at most, 1 to 100.
        min_score: Leave out records with a lower score, 1 to 5.
        types: Only these types.
        session_id: The run of this search. The server remembers what it showed in it. Default: the current run.
        goal_id: The goal of this search. Default: the focused goal of the current run.
        unseen: Leave out what was shown before for this session and goal.
    """
    run = current_run()
    recorded = run.get_recorded_goal(goal_id) if run and session_id is None else None
    if run and recorded:
        session_id, goal_id = arguments.clean_id(run.trace_id), arguments.clean_id(recorded.id)
    params = {
        "q": query,
        "top_k": top_k,
        "min_score": min_score,
        "types": arguments.join_names(types),
        "session_id": session_id,
        "goal_id": goal_id,
        "unseen": "true" if unseen else None,
        **arguments.check_caller(ids),
    }
    reply = await client.request("GET", "/api/knowledge/search", params=params)
    found = _list_records(reply, "No knowledge matches. Use other words, or a lower min_score.")
    if recorded and found.metadata["items"]:
        recorded.was_shown = True
    return found


@tool(aliases=("save_knowledge",), hidden=("owner", "agent_id", "submitted_by", "message_id"))
async def knowledge_save(
    task: str,
    content: str,
    types: list[KnowledgeType],
    tags: dict[str, str] | None = None,
    scopes: list[str] | None = None,
    owner: str | None = None,
    source_name: str = "",
    source_category: Literal["paper", "exp", "skill", "book"] = "exp",
    urls: list[str] | None = None,
    agent_id: str = DEFAULT_AGENT,
    submitted_by: str = "",
    score: int = 3,
    message_id: str = "",
    resource_ids: list[str] | None = None,
) -> ToolResult:
    """Save what you learned, so that it is found for a similar task. One record for each lesson.

    Args:
        task: The situation and the goal in which this helps.
        content: What was learned, complete enough to be used without its source.
        types: One or more types.
        tags: Labels, such as category = preference or domain = coding_style.
        scopes: Who else may see it, such as ["project:web"] or ["public"]. Leave it out unless you are asked to share.
        owner: Who may change it, such as "agent:research_agent". Default: the user of the run.
        source_name: The name of the tool, page or paper that it comes from.
        source_category: Where it comes from. exp is your own experience.
        urls: The web addresses of the source.
        agent_id: The agent that saves it. Default: the agent of the run.
        submitted_by: The person responsible for it, such as an email address.
        score: How useful it is, 1 to 5.
        message_id: The message that it was learned from. Default: the message of the run.
        resource_ids: Stored resources that belong to it: code, credentials, cookies.
    """
    (content, task), notice = fences.keep_own_words(content, task)
    run = current_run()
    if run is not None:
        agent_id = run.caller.get("agent_id", agent_id) if agent_id == DEFAULT_AGENT else agent_id
        message_id = message_id or run.message_id
    source = {
        "name": source_name,
        "category": source_category,
        "urls": urls or [],
        "agent_id": agent_id,
        "submitted_by": submitted_by,
        "message_id": message_id,
    }
    if run is not None and run.trace_id:
        source["trace_id"] = arguments.clean_id(run.trace_id)
    body = {
        "task": task,
        "content": content,
        "types": types,
        "tags": tags or {},
        "source": source,
        "score": score,
    }
    body |= _set_owner(scopes, owner, agent_id) | arguments.drop_none(resource_ids=resource_ids)
    return _format_saved(client.check_row(await client.request("POST", "/api/knowledge", body=body)), notice)


@tool()
async def knowledge_update(
    knowledge_id: str,
    add_helpful_case: Case | None = None,
    add_harmful_case: Case | None = None,
    update_score: int | None = None,
    evolve_feedback: str | None = None,
) -> ToolResult:
    """Record whether a record helped. It then ranks higher or lower for everyone.

    Args:
        knowledge_id: An id from a search or a list.
        add_helpful_case: Where it helped: the task and the outcome.
        add_harmful_case: Where it misled: the task, the outcome and the reason.
        update_score: A new score, 1 to 5.
        evolve_feedback: What is wrong or missing. The server rewrites the content.
    """
    feedback: dict[str, Any] = arguments.drop_none(
        add_helpful_case=add_helpful_case,
        add_harmful_case=add_harmful_case,
        update_score=update_score,
        evolve_feedback=evolve_feedback,
    )
    reply = await client.request(
        "PUT",
        f"/api/knowledge/{client.encode_segment(knowledge_id)}",
        body=feedback,
        timeout_s=client.ANSWER_TIMEOUT_S if evolve_feedback is None else EVOLVE_TIMEOUT_S,
        not_found=_USE_A_SHOWN_ID,
    )
    record = client.check_row(reply)
    evolved = bool(record.get("evolved"))
    output = "The feedback was recorded."
    if evolve_feedback is not None:
        output += " The content was rewritten." if evolved else " The content was not rewritten."
    output += f"\n\n{records.format_records([record])}"
    return records.make_result("Knowledge updated", output, record, [record], evolved=evolved)


@tool()
async def knowledge_batch_update(feedback_list: list[Rating]) -> ToolResult:
    """Record for several records whether they helped. Use it when a task is done.

    Args:
        feedback_list: One object for each record.
    """
    body = {"feedback_list": feedback_list}
    reply = await client.request("POST", "/api/knowledge/batch_update", body=body)
    items = client.list_results(reply)
    unknown = [item.get("knowledge_id") for item in items if item.get("status") == "unknown"]
    output = f"Feedback was recorded for {len(items) - len(unknown)} of {len(items)}."
    if unknown:
        output += f" Unknown ids: {failures.shorten(', '.join(map(str, unknown)))}. {_USE_A_SHOWN_ID}"
    return ToolResult("Knowledge feedback", output, {"items": items, "unknown": unknown})


@tool()
async def knowledge_list(
    limit: int = 10,
    types: list[KnowledgeType] | None = None,
    scopes: list[str] | None = None,
) -> ToolResult:
    """List saved records without a search. To find something for a task, use knowledge_search.

    Args:
        limit: How many records at most, 1 to 1000.
        types: Only these types.
        scopes: Only what these scopes may see, such as ["project:web"].
    """
    params = {"limit": limit, "types": arguments.join_names(types), "scopes": arguments.join_names(scopes)}
    reply = await client.request("GET", "/api/knowledge", params=params)
    return _list_records(reply, "No knowledge is saved yet.")


@tool()
async def knowledge_get(knowledge_id: str) -> ToolResult:
    """Read a record whole, with its votes. Use it when a shown record was cut.

    Args:
        knowledge_id: An id from a search or a list.
    """
    path = f"/api/knowledge/{client.encode_segment(knowledge_id)}"
    record = client.check_row(await client.request("GET", path, not_found=_USE_A_SHOWN_ID))
    return ToolResult("Knowledge", records.format_records([record]), {"items": [record], "id": record["id"]})


@tool()
async def knowledge_delete(knowledge_id: str) -> ToolResult:
    """Delete a record of your own that is wrong. It can be undone.

    Args:
        knowledge_id: An id from a search or a list.
    """
    path = f"/api/knowledge/{client.encode_segment(knowledge_id)}"
    reply = await client.request("DELETE", path, not_found=_USE_A_SHOWN_ID)
    operation_id = _get_operation(reply)
    return ToolResult(
        "Knowledge deleted", f"Deleted.{_offer_undo(operation_id)}", {"items": [], "operation_id": operation_id}
    )


@tool()
async def profile_get(limit: int = 20) -> ToolResult:
    """Read what is known about the user: preferences, habits, background, constraints. Use it when you start.

    Args:
        limit: How many records at most, 1 to 1000.
    """
    return _list_records(
        await client.request("GET", "/api/knowledge/profile", params={"limit": limit}),
        "Nothing is known about the user yet.",
    )


@tool()
async def undo(operation_id: str) -> ToolResult:
    """Undo a change: a save, an update, a deletion. Undoing an undo restores the change.

    Args:
        operation_id: The id of the operation, as the tool that made the change showed it.
    """
    path = f"/api/operations/{client.encode_segment(operation_id)}/undo"
    reply = await client.request("POST", path, body={}, not_found="Use an operation id that a change has shown.")
    made = _get_operation(reply)
    return ToolResult("Undone", f"Undone.{_offer_undo(made)}", {"items": [], "operation_id": made})


@tool()
async def knowledge_slim(model: str = "google/gemini-2.0-flash-001") -> ToolResult:
    """Merge similar records of the whole knowledge base. This is maintenance, and may take minutes.

    Args:
        model: The LLM that the server uses for it.
    """
    reply = await client.request(
        "POST",
        "/api/knowledge/slim",
        body={"model": model},
        timeout_s=SLIM_TIMEOUT_S,
        not_found="This version of the server has no slim. Go on without it, and tell the operator of the server.",
    )
    report = fences.fence_rows([{"report": json.dumps(reply, ensure_ascii=False)}])
    output = f"The knowledge base was slimmed.{records.describe_degraded(records.list_degraded(reply))}\n\n{report}"
    return ToolResult("Knowledge slimmed", output, {"items": reply.get("results") or [], "report": reply})


# Other names of these two.
get_knowledge = knowledge_search
save_knowledge = knowledge_save


def _set_owner(scopes: list[str] | None, owner: str | None, agent_id: str) -> dict[str, Any]:
    given: dict[str, Any] = arguments.drop_none(scopes=scopes, owner=owner)
    user = get_owner()
    if user is not None:
        return {"scopes": [user], "owner": user, **given}
    if get_caller_ids() or client.has_api_key():
        # The caller is named. The defaults would name another one, which the server refuses.
        return given
    return {"scopes": list(DEFAULT_SCOPES), "owner": f"agent:{agent_id}", **given}


def _list_records(reply: Mapping[str, Any], nothing: str) -> ToolResult:
    return records.make_list("Knowledge", reply, client.list_results(reply), nothing=nothing)


def _get_operation(reply: Mapping[str, Any]) -> str | None:
    return None if reply.get("operation_id", 0) is None else client.get_field(reply, "operation_id", str)


def _offer_undo(operation_id: object) -> str:
    return f" To take it back: undo {failures.shorten(operation_id)}." if operation_id else ""


def _format_saved(record: dict[str, Any], notice: str) -> ToolResult:
    shown_id = failures.shorten(record["id"])
    duplicate_of = record.get("duplicate_of")
    known = f"An equal record exists already: {shown_id}. Nothing new was saved."
    if record.get("restored"):
        known += " You had judged it wrong or no help; that no longer counts."
    if record.get("warning"):
        known += f" Warning: {failures.shorten(record['warning'])}."
    return ToolResult(
        "Knowledge known already" if duplicate_of else "Knowledge saved",
        known if duplicate_of else f"Saved as {shown_id}.{_offer_undo(record.get('operation_id'))}{notice}",
        {
            "items": [record],
            "id": record["id"],
            "duplicate_of": duplicate_of,
            "operation_id": record.get("operation_id"),
        },
    )
