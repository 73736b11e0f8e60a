"""The keyword tools of an agent: each is one call of the API; the server walks the tree (seeds 000, 001)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_tools import client, degraded, failures, records, sendable
from agent_tools.registry import tool
from agent_tools.results import ToolResult

# The server gives its LLM 15 s to walk the tree, and 30 s to place what is new.
SEARCH_TIMEOUT_S = 30.0
PLACE_TIMEOUT_S = 45.0

_SAME_NAME = "Several keywords are called so. Choose by what is said of each, and go on with its id."
_STATUSES = ("matched", "ambiguous", "not_found")


@tool()
async def keyword_search(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    query: str,
    llm_expand_query: bool = True,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Look a thing up in the keyword tree: where it belongs and what is known of it. Ask with its name.

    Args:
        query: A name, in Chinese or English, or a few words for what you mean.
        llm_expand_query: Where no keyword has that name, let the server's LLM find what is meant.
        user_id: Search as this user sees it.
        agent_id: Search as this agent sees it.
        project_id: Search with what this project sees.
        team_id: Search with what this team sees.
        org_id: Search with what this organisation sees.
        account: Search in this account; nothing crosses from one to another.
    """
    params = {
        "q": query,
        "llm_expand_query": "true" if llm_expand_query else "false",
        **sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account),
    }
    return _found(await client.request("GET", "/api/keywords/search", params=params, timeout_s=SEARCH_TIMEOUT_S))


@tool()
async def keyword_create(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    name: str,
    parent_id: str | None = None,
    aliases: list[str] | None = None,
    description: str = "",
    llm_auto_place: bool = True,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Add a keyword to the tree, so that infos can be kept under it. Search first: it may be there.

    Args:
        name: What the thing is called.
        parent_id: The id of the keyword that it belongs below; leave it out to let the server's LLM choose.
        aliases: Other names of the same thing: translations, abbreviations, spellings.
        description: One sentence on what belongs there; the LLM chooses branches by it.
        llm_auto_place: Without parent_id, let the LLM choose the parent; false puts it below the root.
        user_id: Create as this user.
        agent_id: Create as this agent.
        project_id: Act with what this project sees.
        team_id: Act with what this team sees.
        org_id: Act with what this organisation sees.
        account: Act in this account; nothing crosses from one to another.
    """
    body: dict[str, Any] = {"name": name, "description": description, "llm_auto_place": llm_auto_place}
    body |= sendable.without_none(parent_id=parent_id, aliases=aliases)
    body |= sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account)
    reply = await client.request("POST", "/api/keywords", body=body, timeout_s=PLACE_TIMEOUT_S)
    return _created(client.row(reply))


@tool()
async def info_save(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    content: str,
    keyword_ids: list[str] | None = None,
    source: str = "",
    auto_link: bool = False,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Keep a piece of information under keywords: whoever looks one of them up will read it.

    Args:
        content: What is known, complete enough to be used without its source.
        keyword_ids: The ids of the keywords that it is about, as keyword_search has shown them.
        source: Where it comes from: an address or a title.
        auto_link: Let the server link it to the keywords that it names, too.
        user_id: Save as this user.
        agent_id: Save as this agent.
        project_id: Act with what this project sees.
        team_id: Act with what this team sees.
        org_id: Act with what this organisation sees.
        account: Act in this account; nothing crosses from one to another.
    """
    body: dict[str, Any] = {"content": content, "source": source, "auto_link": auto_link}
    body |= sendable.without_none(keyword_ids=keyword_ids)
    body |= sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account)
    reply = await client.request("POST", "/api/infos", body=body, timeout_s=PLACE_TIMEOUT_S)
    return _saved(client.row(reply))


def _found(reply: Mapping[str, Any]) -> ToolResult:
    status = reply.get("status")
    if status not in _STATUSES:
        raise failures.not_knowhub("the request")
    node, candidates = _rows([reply.get("node")]), _rows(reply.get("candidates"))
    path, infos = _rows(reply.get("path")), _rows(reply.get("infos"))
    match status:
        case "matched":
            items = node
            told = [f"Found, with {len(infos)} infos.", records.FENCE_NOTE, _keyword(node, path), *_infos(infos)]
        case "ambiguous":
            items = candidates
            told = [_SAME_NAME, records.FENCE_NOTE, *(_keyword([row], ()) for row in candidates)]
        case _:
            items = []
            told = list(_nothing(reply, candidates))
    metadata = {
        "items": items,
        "status": status,
        "path": path,
        "infos": infos,
        "candidates": candidates,
        "reason": reply.get("reason"),
        "suggested_parent_id": reply.get("suggested_parent_id"),
        "suggested_name": reply.get("suggested_name"),
        "degraded": degraded.parts_of(reply),
    }
    return ToolResult(
        f"Keyword: {str(status).replace('_', ' ')}", "\n\n".join(told) + degraded.told_of(reply), metadata
    )


def _nothing(reply: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    parent_id, name = reply.get("suggested_parent_id"), reply.get("suggested_name")
    yield "No keyword is that. Use another name, or make one with keyword_create."
    if parent_id is not None or name is not None:
        # Both are of what others wrote, or of what a model made of it.
        yield f"{records.FENCE_NOTE}\n\n{_lines({'suggested parent_id': parent_id, 'suggested name': name})}"
    if candidates:
        nearest = "The nearest that there are; use one only if it is what you meant:"
        yield "\n\n".join([nearest, records.FENCE_NOTE, *(_keyword([row], ()) for row in candidates)])


def _keyword(rows: Sequence[Mapping[str, Any]], path: Sequence[Mapping[str, Any]]) -> str:
    """Show a keyword's id, path or name, aliases and description."""
    row = rows[0] if rows else {}
    aliases = row.get("aliases")
    shown = {
        "keyword id": row.get("id"),
        "path": " / ".join(str(above.get("name")) for above in path if above.get("id") != "root") or None,
        "name": None if path else row.get("name"),
        "aliases": ", ".join(map(str, aliases)) if isinstance(aliases, list) else None,
        "description": row.get("description"),
    }
    return _lines(shown)


def _infos(infos: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    limit_chars = records.share_chars(len(infos))
    for info in infos:
        shown = {"info id": info.get("id"), "content": info.get("content"), "source": info.get("source")}
        yield _lines(shown, limit_chars)


def _lines(shown: Mapping[str, object], limit_chars: int = records.OUTPUT_BUDGET_CHARS) -> str:
    return "\n".join(records.quoted(label, str(value), limit_chars) for label, value in shown.items() if value)


def _created(row: Mapping[str, Any]) -> ToolResult:
    below = f" below {failures.one_line(row.get('parent_id'))}" if row.get("parent_id") else ""
    output = f"Created as {failures.one_line(row['id'])}{below}. Keep infos under it with info_save."
    return ToolResult("Keyword created", output + degraded.told_of(row), _written(row, "created"))


def _saved(row: Mapping[str, Any]) -> ToolResult:
    output = f"Saved as {failures.one_line(row['id'])}."
    return ToolResult("Info saved", output + degraded.told_of(row), _written(row, "saved"))


def _written(row: Mapping[str, Any], status: str) -> dict[str, Any]:
    told = {"status": status, "decided": row.get("decided"), "degraded": degraded.parts_of(row)}
    return {"items": [dict(row)], "id": row["id"], "operation_id": row.get("operation_id"), **told}


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
