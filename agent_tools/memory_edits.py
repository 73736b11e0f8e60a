"""The memory tools of an agent that write by hand, look for a text, and read several at once."""

from collections.abc import Mapping
from typing import Any, Literal

from agent_tools import arguments, client, failures, fences, records
from agent_tools.registry import tool
from agent_tools.results import ToolResult

_NODES = "/api/context/nodes"
_RELATIONS = "/api/context/relations"
_USE_A_FOUND_URI = "Use a uri from search_memory or memory_grep. What was forgotten is there no more."


@tool()
async def memory_create(
    category: Literal["profile", "preferences", "entities", "events", "cases", "patterns"],
    content: str,
    name: str = "",
    tags: dict[str, str] | None = None,
) -> ToolResult:
    """Write a memory of the user by hand. Use it when the user asks for exactly this to be kept.

    Args:
        category: profile is who the user is; preferences are likes and standing instructions.
        content: The whole text.
        name: How its URI ends. Default: a hash of the text.
        tags: Tags, such as topic = reports.
    """
    sent: dict[str, Any] = {"category": category, "content": content, "name": name, "tags": tags or {}}
    return _format_node("created", await client.request("POST", _NODES, body=sent))


@tool()
async def memory_edit(uri: str, content: str | None = None, tags: dict[str, str] | None = None) -> ToolResult:
    """Correct the text of a memory, or replace all its tags. What is not given stays.

    Args:
        uri: The URI of a memory.
        content: The whole new text.
        tags: All tags from now on.
    """
    sent: dict[str, Any] = {"uri": uri, **arguments.drop_none(content=content), **arguments.drop_none(tags=tags)}
    return _format_node("changed", await client.request("PATCH", _NODES, body=sent, not_found=_USE_A_FOUND_URI))


@tool()
async def memory_move(uri: str, to: str) -> ToolResult:
    """Give a memory another URI in the same space. Edges that lead to it follow.

    Args:
        uri: The URI of a memory.
        to: Its new URI.
    """
    sent = {"uri": uri, "to": to}
    return _format_node("moved", await client.request("POST", f"{_NODES}/move", body=sent, not_found=_USE_A_FOUND_URI))


@tool()
async def memory_forget(uri: str) -> ToolResult:
    """Delete a memory, a message, or a session with its messages. It can be undone.

    Args:
        uri: The URI of the memory to forget.
    """
    reply = await client.request("DELETE", _NODES, params={"uri": uri}, not_found=_USE_A_FOUND_URI)
    return _format_write("forgotten", uri, reply)


@tool()
async def memory_link(from_uri: str, to_uri: str, relation_type: str = "related", reason: str = "") -> ToolResult:
    """Add an edge from one memory to another.

    Args:
        from_uri: The URI of a memory.
        to_uri: The URI of another memory.
        relation_type: What kind of edge it is, such as because_of.
        reason: Why.
    """
    sent = {"from_uri": from_uri, "to_uri": to_uri, "relation_type": relation_type, "reason": reason}
    reply = await client.request("PUT", _RELATIONS, body=sent, not_found=_USE_A_FOUND_URI)
    return _format_write("linked", from_uri, reply)


@tool()
async def memory_unlink(from_uri: str, to_uri: str, relation_type: str | None = None) -> ToolResult:
    """Remove the edges from one memory to another.

    Args:
        from_uri: The URI of the memory whose edges are removed.
        to_uri: The URI of the memory that they lead to.
        relation_type: Only edges of this type. Default: all.
    """
    params = {"from_uri": from_uri, "to_uri": to_uri, "relation_type": relation_type}
    reply = await client.request("DELETE", _RELATIONS, params=params, not_found=_USE_A_FOUND_URI)
    return _format_write("unlinked", from_uri, reply)


@tool()
async def memory_grep(text: str, uri: str | None = None, limit: int = 20) -> ToolResult:
    """Find the lines of memories and messages that contain a text word for word, in any case.

    Args:
        text: The text to look for.
        uri: Only at and below this URI.
        limit: How many lines at most, 1 to 1000.
    """
    params = {"q": arguments.clean_query(text), "uri": uri, "limit": limit}
    reply = await client.request("GET", "/api/context/grep", params=params, not_found=_USE_A_FOUND_URI)
    return _list_rows("Lines", reply, ("uri", "text"))


@tool()
async def memory_read_many(uris: list[str], level: Literal["L0", "L1", "L2"] = "L1") -> ToolResult:
    """Read up to 100 memories at once.

    Args:
        uris: URIs from search_memory or memory_grep.
        level: L0 is the abstract, L1 the overview, L2 the whole text.
    """
    reply = await client.request("POST", "/api/context/read", body={"uris": uris, "level": level})
    missing = [str(uri) for uri in reply.get("missing") or []]
    more = f" There is no memory at {failures.shorten(', '.join(missing))}." if missing else ""
    # The whole text includes the overview, and that the abstract.
    shown = {"L0": "abstract", "L1": "overview", "L2": "content"}[level]
    return _list_rows("Memories", reply, ("uri", "category", "said_at", shown), more)


@tool()
async def memory_sessions(limit: int = 10) -> ToolResult:
    """List the user's sessions, newest first.

    Args:
        limit: How many at most, 1 to 1000.
    """
    reply = await client.request("GET", "/api/context/sessions", params={"limit": limit})
    return _list_rows("Sessions", reply, ("uri", "message_count", "first_at", "last_at"))


def _format_node(done: str, reply: dict[str, Any]) -> ToolResult:
    return _format_write(done, client.get_field(reply, "uri", str), reply)


def _format_write(done: str, uri: str, reply: Mapping[str, Any]) -> ToolResult:
    operation_id = client.get_field(reply, "operation_id", str)
    output = f"{failures.shorten(uri)} is {done}. The undo tool takes it back: {failures.shorten(operation_id)}."
    return ToolResult(f"Memory {done}", output, {"items": [dict(reply)], "uri": uri, "operation_id": operation_id})


def _list_rows(title: str, reply: Mapping[str, Any], fields: tuple[str, ...], more: str = "") -> ToolResult:
    def get_fields(row: Mapping[str, Any]) -> fences.Fields:
        return {name: row.get(name) for name in fields}

    return records.make_list(title, reply, client.list_results(reply), get_fields, more=more)
