"""The keyword tools of an agent. Each is one call of the API; the server searches the tree."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_tools import arguments, client, failures, fences, records
from agent_tools.registry import tool
from agent_tools.results import ToolResult

# The server gives its LLM 15 s to search the tree, and 30 s to choose a parent.
SEARCH_TIMEOUT_S = 30.0
PLACE_TIMEOUT_S = 45.0

_SAME_NAME = "Several keywords fit. Choose by path and description, and ask keyword_search for its id."
_TEXTS = ("content", "source")
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
    return _make_result("Keyword created", output, row, "created")


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
    row = client.check_row(await client.request("POST", "/api/infos", body=body, timeout_s=PLACE_TIMEOUT_S))
    dropped = failures.list_objects(row.get("dropped"))
    named = [f"{item.get('count')} {item.get('what')} ({item.get('why')})" for item in dropped]
    left_out = f" Left out: {failures.shorten(', '.join(named))}." if named else ""
    known = row.get("duplicate_of") is not None
    output = f"{'Known already' if known else 'Saved'} as {failures.shorten(row['id'])}.{left_out}{notice}"
    return _make_result("Info saved", output, row, "saved", dropped=dropped)


def _format_search(reply: Mapping[str, Any]) -> ToolResult:
    status = reply.get("status")
    if status not in _STATUSES:
        raise failures.make_foreign_answer()
    node, candidates = failures.list_objects([reply.get("node")]), failures.list_objects(reply.get("candidates"))
    path, infos = failures.list_objects(reply.get("path")), failures.list_objects(reply.get("infos"))
    match status:
        case "matched":
            items = node
            info_rows = (
                {"info id": info.get("id")} | {name: info.get(name) for name in ("content", "source")} for info in infos
            )
            shown = fences.fence_rows([_get_fields(node, path), *info_rows])
            output = f"Found, with {len(infos)} infos.\n\n{shown}"
        case "ambiguous":
            items = candidates
            output = f"{_SAME_NAME}\n\n{_format_candidates(candidates)}"
        case _:
            items = []
            output = _format_empty(reply, candidates)
    names = ("status", "reason", "suggested_parent_id", "suggested_name")
    metadata = {name: reply.get(name) for name in names} | {"path": path, "infos": infos, "candidates": candidates}
    return records.make_result(f"Keyword: {str(status).replace('_', ' ')}", output, reply, items, **metadata)


def _format_empty(reply: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> str:
    parts = ["No keyword was found. Use another name, or add a keyword with keyword_create."]
    suggested = {name.replace("_", " ", 1): reply.get(name) for name in ("suggested_parent_id", "suggested_name")}
    if any(value is not None for value in suggested.values()):
        # Both may come from the texts of others, or from a model.
        parts.append(fences.fence_rows([suggested]))
    if candidates:
        parts += ["The most similar keywords. Use one only if it is what you mean:", _format_candidates(candidates)]
    return "\n\n".join(parts)


def _format_candidates(candidates: Sequence[Mapping[str, Any]]) -> str:
    return fences.fence_rows(_get_fields([row], ()) for row in candidates)


def _get_fields(rows: Sequence[Mapping[str, Any]], path: Sequence[Mapping[str, Any]]) -> fences.Fields:
    """Return what a model is shown of a keyword, and of the path to it where there is one."""
    row = rows[0] if rows else {}
    names = "/".join(str(above.get("name")) for above in path if above.get("id") != "root")
    return {
        "keyword id": row.get("id"),
        "path": names or row.get("path"),
        "name": None if path else row.get("name"),
        "aliases": row.get("aliases"),
        "description": row.get("description"),
        "children": row.get("child_count") or None,
        "infos": row.get("infos_count") or None,
    }


def _make_result(title: str, output: str, row: Mapping[str, Any], status: str, **metadata: object) -> ToolResult:
    metadata |= {"id": row["id"], "operation_id": row.get("operation_id"), "decided": row.get("decided")}
    return records.make_result(title, output, row, [dict(row)], status=status, **metadata)
