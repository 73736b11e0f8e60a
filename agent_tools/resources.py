"""The resource tools of an agent: code, credentials, cookies and other texts."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from agent_tools import arguments, client, failures, fences, records
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult
from agent_tools.run import get_owner

_TAKEN = "This id exists. Choose another id, or pass upsert=true to save a new version of your own resource."
_USE_A_LISTED_ID = "Use an id from resource_list, or from the resource_ids of a record."


@tool(hidden=("owner",))
async def resource_save(  # noqa: PLR0913, PLR0917 -- a model fills in flat parameters
    resource_id: str,
    title: str = "",
    body: str = "",
    secure_body: str | None = None,
    content_type: str = "text",
    metadata: dict[str, str] | None = None,
    scopes: list[str] | None = None,
    owner: str | None = None,
    expires_at: str | None = None,
    upsert: bool = False,
) -> ToolResult:
    """Save code, a credential, a cookie or another text. Name its id in resource_ids of knowledge_save.

    Args:
        resource_id: A path that you choose, such as code/selenium/login or credentials/website_a.
        title: A title of one line.
        body: The public text: the code, or how to use a credential.
        secure_body: The secret text, such as a password or a cookie. It is sealed, and shown only on request.
        content_type: code, credential, cookie, text or another word.
        metadata: Facts, such as language = python.
        scopes: Who may see it, such as ["project:web"]. Default: its owner.
        owner: Who may change it, such as "agent:research_agent". Default: the user of the run.
        expires_at: It cannot be used from this time on, such as 2026-03-07T10:00:00Z.
        upsert: Save a new version when the id exists. It replaces all fields.
    """
    sent: dict[str, Any] = {"id": resource_id, "title": title, "body": body, "content_type": content_type}
    sent |= arguments.drop_none(
        secure_body=secure_body, metadata=metadata, scopes=scopes, owner=owner or get_owner(), expires_at=expires_at
    )
    params = {"upsert": "true"} if upsert else None
    try:
        record = client.check_row(await client.request("POST", "/api/resource", params=params, body=sent))
    except ToolFailure as failure:
        if failure.metadata.get("status") == HTTPStatus.CONFLICT:
            raise ToolFailure(_TAKEN, failure.metadata) from failure
        raise
    shown_id = failures.shorten(record["id"])
    sealed = " Its secret text is sealed." if record.get("has_secure_body") else ""
    output = f"Saved as {shown_id}.{sealed} Name this id in resource_ids of the knowledge that uses it."
    return ToolResult("Resource saved", output, {"items": [record], "id": record["id"]})


@tool()
async def resource_get(resource_id: str, reveal: bool = False) -> ToolResult:
    """Read a resource that a record names. Its secret text is shown only on request.

    Args:
        resource_id: An id from a record or a list.
        reveal: Show the secret text too. Use it only when you need it now: the log records who saw it.
    """
    record = client.check_row(
        await client.request(
            "GET",
            f"/api/resource/{client.encode_segment(resource_id)}",
            params={"reveal": "true"} if reveal else None,
            not_found=_USE_A_LISTED_ID,
        )
    )
    if not reveal:
        record = _drop_secret(record)
    expired = " It has expired. Renew it before you use it." if record.get("expired") else ""
    formatted = fences.fence_rows([_get_fields(record)])
    kind = failures.shorten(record.get("content_type") or "text")
    output = f"A resource of type {kind}: {failures.shorten(record['id'])}.{expired}\n\n{formatted}"
    return ToolResult("Resource", output, {"items": [record], "id": record["id"]})


@tool()
async def resource_list(
    prefix: str = "", content_type: str | None = None, limit: int = 10, expired: bool | None = None
) -> ToolResult:
    """List stored resources by id, without their secret texts.

    Args:
        prefix: Only ids that begin with this text, such as credentials/.
        content_type: Only this content type, such as code, credential or cookie.
        limit: How many at most, 1 to 1000.
        expired: true lists only expired resources, false only the others.
    """
    params = {
        "prefix": prefix or None,
        "content_type": content_type,
        "limit": limit,
        "expired": None if expired is None else str(expired).lower(),
    }
    reply = await client.request("GET", "/api/resource", params=params)
    items = [_drop_secret(item) for item in client.list_results(reply)]
    return records.make_list("Resources", reply, items, _get_fields, "No resource was found.")


def _drop_secret(record: Mapping[str, Any]) -> dict[str, Any]:
    # Whatever the server sends: a model sees a secret only on request.
    return {name: value for name, value in record.items() if name != "secure_body"}


def _get_fields(record: Mapping[str, Any]) -> fences.Fields:
    names = ("id", "title", "content_type", "expires_at", "expired", "has_secure_body", "metadata", "body")
    return {name: record.get(name) for name in (*names, "secure_body")}
