"""The keyword tools of an agent. Each is one call of the API; the server searches the tree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_tools import arguments, client, failures, fences, records
from agent_tools.registry import tool
from agent_tools.results import ToolResult

# The server gives its LLM 15 s to search the tree, and 30 s to choose a parent.
SEARCH_TIMEOUT_S = 30.0
PLACE_TIMEOUT_S = 45.0

_SAME_NAME = "Several keywords fit. Choose by path and description, and ask keyword_search for its id."
_STATUSES = ("matched", "ambiguous", "not_found")


@tool()
async def keyword_search(
    query: str,
    llm_expand_query: bool = True,
    **ids: str | None,
) -> ToolResult:
    """Look something up in the keyword tree: where it belongs and what is known about it. Ask with its name.

    Args:
        query: A name, in Chinese or English, a path such as 目的地/Java, the id of a keyword, or what you mean.
        llm_expand_query: If no keyword has this name, let the LLM of the server find what you mean.
    """
    params = {"q": query, "llm_expand_query": "true" if llm_expand_query else "false"}
    params |= arguments.check_caller(ids)
    reply = await client.request("GET", "/api/keywords/search", params=params, timeout_s=SEARCH_TIMEOUT_S)
    return _format_search(reply)


@tool()
async def keyword_create(
    name: str,
    parent_id: str | None = None,
    aliases: list[str] | None = None,
    description: str = "",
    llm_auto_place: bool = True,
    allow_duplicate: bool = False,
    **ids: str | None,
) -> ToolResult:
    """Add a keyword to the tree, so that infos can be saved under it. Search first: it may exist.

    Args:
        name: The name of the thing.
        parent_id: The id or the path of the parent keyword. Leave it out to let the LLM of the server choose.
        aliases: Other names: translations, abbreviations, spellings.
        description: One sentence about what belongs below it. The LLM chooses by this text.
        llm_auto_place: Without parent_id: true lets the LLM choose the parent, false takes the root.
        allow_duplicate: Create it although its parent has a keyword of this name.
    """
    body: dict[str, Any] = {"name": name, "description": description, "llm_auto_place": llm_auto_place}
    body |= arguments.drop_none(parent_id=parent_id, aliases=aliases, allow_duplicate=allow_duplicate or None)
    body |= arguments.check_caller(ids)
    reply = await client.request("POST", "/api/keywords", body=body, timeout_s=PLACE_TIMEOUT_S)
    row = client.check_row(reply)
    below = f" below {failures.shorten(row.get('parent_id'))}" if row.get("parent_id") else ""
    output = f"Created as {failures.shorten(row['id'])}{below}. Save infos under it with info_save."
    return ToolResult("Keyword created", output + records.describe_degraded(row), _make_metadata(row, "created"))


@tool()
async def info_save(
    content: str,
    keyword_ids: list[str] | None = None,
    source: str = "",
    auto_link: bool = False,
    **ids: str | None,
) -> ToolResult:
    """Save a piece of information under keywords. A search for such a keyword shows it.

    Args:
        content: The information, complete enough to be used without its source.
        keyword_ids: The ids or paths of its keywords, as keyword_search shows them.
        source: The source: an address or a title.
        auto_link: Also link it to the keywords that its text names.
    """
    (content,), notice = fences.keep_own_words(content)
    body: dict[str, Any] = {"content": content, "source": source, "auto_link": auto_link}
    body |= arguments.drop_none(keyword_ids=keyword_ids) | arguments.check_caller(ids)
    reply = await client.request("POST", "/api/infos", body=body, timeout_s=PLACE_TIMEOUT_S)
    return _format_saved(client.check_row(reply), notice)


def _format_search(reply: Mapping[str, Any]) -> ToolResult:
    status = reply.get("status")
    if status not in _STATUSES:
        raise failures.make_foreign_answer("the request")
    node, candidates = _list_objects([reply.get("node")]), _list_objects(reply.get("candidates"))
    path, infos = _list_objects(reply.get("path")), _list_objects(reply.get("infos"))
    match status:
        case "matched":
            items = node
            parts = [
                f"Found, with {len(infos)} infos.",
                fences.FENCE_NOTE,
                _format_keyword(node, path),
                *_format_infos(infos),
            ]
        case "ambiguous":
            items = candidates
            parts = [_SAME_NAME, fences.FENCE_NOTE, *(_format_keyword([row], ()) for row in candidates)]
        case _:
            items = []
            parts = list(_format_empty(reply, candidates))
    metadata = {
        "items": items,
        "status": status,
        "path": path,
        "infos": infos,
        "candidates": candidates,
        "reason": reply.get("reason"),
        "suggested_parent_id": reply.get("suggested_parent_id"),
        "suggested_name": reply.get("suggested_name"),
        "degraded": records.list_degraded(reply),
    }
    return ToolResult(
        f"Keyword: {str(status).replace('_', ' ')}", "\n\n".join(parts) + records.describe_degraded(reply), metadata
    )


def _format_empty(reply: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    parent_id, name = reply.get("suggested_parent_id"), reply.get("suggested_name")
    yield "No keyword was found. Use another name, or add a keyword with keyword_create."
    if parent_id is not None or name is not None:
        # Both may come from the texts of others, or from a model.
        yield f"{fences.FENCE_NOTE}\n\n{_format_fields({'suggested parent_id': parent_id, 'suggested name': name})}"
    if candidates:
        nearest = "The most similar keywords. Use one only if it is what you mean:"
        yield "\n\n".join([nearest, fences.FENCE_NOTE, *(_format_keyword([row], ()) for row in candidates)])


def _format_keyword(rows: Sequence[Mapping[str, Any]], path: Sequence[Mapping[str, Any]]) -> str:
    """Format the id, path, name, aliases, description and counts of a keyword."""
    row = rows[0] if rows else {}
    aliases = row.get("aliases")
    names = "/".join(str(above.get("name")) for above in path if above.get("id") != "root")
    values = {
        "keyword id": row.get("id"),
        "path": names or row.get("path"),
        "name": None if path else row.get("name"),
        "aliases": ", ".join(map(str, aliases)) if isinstance(aliases, list) else None,
        "description": row.get("description"),
        "children": row.get("child_count"),
        "infos": row.get("infos_count"),
    }
    return _format_fields(values)


def _format_infos(infos: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    limit_chars = records.split_budget(len(infos))
    for info in infos:
        values = {"info id": info.get("id"), "content": info.get("content"), "source": info.get("source")}
        yield _format_fields(values, limit_chars)


def _format_fields(values: Mapping[str, object], limit_chars: int = records.OUTPUT_BUDGET_CHARS) -> str:
    return "\n".join(records.quote(label, str(value), limit_chars) for label, value in values.items() if value)


def _format_saved(row: Mapping[str, Any], notice: str) -> ToolResult:
    known = row.get("duplicate_of") is not None
    dropped = [
        f"{item.get('count')} {item.get('what')} ({item.get('why')})" for item in _list_objects(row.get("dropped"))
    ]
    left_out = f" Left out: {failures.shorten(', '.join(dropped))}." if dropped else ""
    output = f"{'Known already' if known else 'Saved'} as {failures.shorten(row['id'])}.{left_out}{notice}"
    metadata = _make_metadata(row, "saved") | {"dropped": _list_objects(row.get("dropped"))}
    return ToolResult("Info saved", output + records.describe_degraded(row), metadata)


def _make_metadata(row: Mapping[str, Any], status: str) -> dict[str, Any]:
    parts = {"status": status, "decided": row.get("decided"), "degraded": records.list_degraded(row)}
    return {"items": [dict(row)], "id": row["id"], "operation_id": row.get("operation_id"), **parts}


def _list_objects(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
