"""The resource tools of an agent: code, credentials, cookies and other texts beside what was learned (seed 003)."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from agent_tools import client, failures, records, sendable
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult

_TAKEN = "This id is taken. Choose another one, or pass upsert=true for a new version of a resource of your own."
_TAKE_A_LISTED_ID = "Take an id that resource_list has shown, or that stands in resource_ids of a record."


@tool()
async def resource_save(  # noqa: PLR0913, PLR0917 -- a model fills in flat parameters
    resource_id: str,
    title: str = "",
    body: str = "",
    secure_body: str | None = None,
    content_type: str = "text",
    metadata: dict[str, Any] | None = None,
    scopes: list[str] | None = None,
    owner: str | None = None,
    expires_at: str | None = None,
    upsert: bool = False,
) -> ToolResult:
    """Keep code, a credential, a cookie or another text, to be named in resource_ids of knowledge_save.

    Args:
        resource_id: A path of your choosing, such as code/selenium/login or credentials/website_a.
        title: What it is, in a line.
        body: What everybody may read who sees it: the code, or how a credential is to be used.
        secure_body: What is secret of it, such as a password or a cookie. It is sealed and shown to nobody unasked.
        content_type: code, credential, cookie, text or another word.
        metadata: Facts such as {"language": "python"} or {"acquired_at": ..., "expires_at": ...}.
        scopes: Who may see it, such as ["project:web"]. Without it only its owner does.
        owner: Who may change it, such as "agent:research_agent".
        expires_at: From when on it is of no use, such as 2026-03-07T10:00:00Z.
        upsert: Save a new version where the id is taken; it says all anew.
    """
    sent: dict[str, Any] = {"id": resource_id, "title": title, "body": body, "content_type": content_type}
    sent |= sendable.without_none(
        secure_body=secure_body, metadata=metadata, scopes=scopes, owner=owner, expires_at=expires_at
    )
    params = {"upsert": "true"} if upsert else None
    try:
        record = client.row(await client.request("POST", "/api/resource", params=params, body=sent))
    except ToolFailure as failure:
        if failure.metadata.get("status") == HTTPStatus.CONFLICT:
            raise ToolFailure(_TAKEN, failure.metadata) from failure
        raise
    shown_id = failures.one_line(record["id"])
    sealed = " What is secret of it is sealed." if record.get("has_secure_body") else ""
    output = f"Saved as {shown_id}.{sealed} Name this id in resource_ids of the knowledge that uses it."
    return ToolResult("Resource saved", output, {"items": [record], "id": record["id"]})


@tool()
async def resource_get(resource_id: str, reveal: bool = False) -> ToolResult:
    """Read a resource that a record names. What is secret of it is shown only where you ask for that.

    Args:
        resource_id: The id that a record or a list has shown.
        reveal: Show what is secret of it too. Do so only when you are about to use it: it is noted who was shown it.
    """
    record = client.row(
        await client.request(
            "GET",
            f"/api/resource/{client.segment(resource_id)}",
            params={"reveal": "true"} if reveal else None,
            not_found=_TAKE_A_LISTED_ID,
        )
    )
    if not reveal:
        record = _without_secret(record)
    expired = " It has expired: renew it before you rely on it." if record.get("expired") else ""
    shown = records.fenced([record], _lines)
    output = f"{_content_type(record)} {failures.one_line(record['id'])}.{expired}\n\n{shown}"
    return ToolResult("Resource", output, {"items": [record], "id": record["id"]})


@tool()
async def resource_list(
    prefix: str = "", content_type: str | None = None, limit: int = 10, expired: bool | None = None
) -> ToolResult:
    """List stored resources by id, without what is secret of them.

    Args:
        prefix: Only those whose id begins so, such as credentials/.
        content_type: Only of this kind, such as code, credential or cookie.
        limit: How many at most, 1 to 1000.
        expired: true for those only that have expired, false for the others only.
    """
    params = {
        "prefix": prefix or None,
        "content_type": content_type,
        "limit": limit,
        "expired": None if expired is None else str(expired).lower(),
    }
    reply = await client.request("GET", "/api/resource", params=params)
    items = [_without_secret(item) for item in client.result_list(reply)]
    more = " There are more: raise limit to see them." if reply.get("next_cursor") else ""
    output = f"{len(items)} found.{more}\n\n{records.fenced(items, _lines)}" if items else "There is no such resource."
    return ToolResult(f"Resources: {len(items)} found", output, {"items": items})


def _without_secret(record: Mapping[str, Any]) -> dict[str, Any]:
    # Whatever a server sends: what was not asked for by name is not shown to a model.
    return {name: value for name, value in record.items() if name != "secure_body"}


def _content_type(record: Mapping[str, Any]) -> str:
    return f"A resource of kind {failures.one_line(record.get('content_type') or 'text')}:"


def _lines(record: Mapping[str, Any], limit_chars: int) -> Iterator[str]:
    for name in ("id", "title", "content_type", "expires_at", "expired", "has_secure_body", "metadata"):
        if record.get(name) not in (None, "", {}):
            yield records.quoted(name, str(record[name]), limit_chars)
    if record.get("body"):
        yield records.quoted("body", str(record["body"]), limit_chars)
    if record.get("secure_body") is not None:
        yield records.quoted("secure_body", str(record["secure_body"]))
