"""Every write route gets fields that no caller may set: each is refused, and nothing is written."""

from collections.abc import Mapping
from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.key_table import OP as NOTE_USE
from knowhub.identity.model import KeyHolder
from knowhub.web.mcp.tools import TOOLS, McpTool
from tests.authorisation import ROWS, Need, RouteRequest
from tests.authorised_rows import RowMaker, headers
from tests.keys import issue_key, key_headers, text_of

pytestmark = pytest.mark.anyio

# What the server keeps of a row, a key, a vote or a request, and what peers were seen to take from a body.
FIELDS: Mapping[str, object] = {
    "id": "of-my-choosing",
    "created_at": "2020-01-01T00:00:00Z",
    "updated_at": "2020-01-01T00:00:00Z",
    "version": 99,
    "deleted": False,
    "erased": True,
    "merged_into": "knowledge-20260101-0000",
    "eval": {"helpful": 1_000},
    "quality_score": 1_000,
    "duplicate_of": None,
    "normalized": ["x"],
    "pinyin": ["x"],
    "terms": ["x"],
    "level": 0,
    "children": [],
    "child_count": 0,
    "sealed": {"key_id": "k"},
    "has_secure_body": True,
    "expired": False,
    "actor": "user:somebody",
    "principal": "user:somebody",
    "role": "root",
    "is_admin": True,
    "key_id": "key-0000000000000000",
    "hash": "0" * 64,
    "revoked_at": None,
    "replaced_by": None,
    "last_used_at": None,
    "grantable": ["public"],
    "visible": None,
    "operation_id": "x",
    "undo_of": "x",
    "undoable": True,
    "seq": 1,
    "owner_id": "somebody",
    "__proto__": {},
    "account": "another",
    "user_id": "somebody",
    "agent_id": "somebody",
    "project_id": "somebodys",
    "team_id": "somebodys",
    "org_id": "somebodys",
}
# Fields that the route exists to set.
ITS_OWN = {
    ("POST", "/api/admin/keys"): {"user_id", "agent_id", "role"},
    ("POST", "/api/resource"): {"id"},
    ("POST", "/api/keywords/missed"): {"id"},
    # A line as an export writes it; its version and time are read past, and start anew.
    ("POST", "/api/knowledge/import"): {"id", "created_at", "eval", "updated_at", "version"},
}
CASES = [
    pytest.param(method, path, row, id=f"{method} {path}")
    for (method, path), (row, *_) in ROWS.items()
    # JSON-RPC ignores unknown fields of its envelope; the arguments of tools are tested below. Hosts of hooks send what
    # they like, and nothing of it names the caller (`tests/web/test_hooks.py`).
    if method in {"POST", "PUT", "PATCH"} and row.body is not None and path not in {"/mcp", "/api/hooks/{host}/{event}"}
]


@pytest.mark.parametrize(("method", "path", "row"), CASES)
async def test_no_write_route_accepts_server_owned_fields(
    method: str, path: str, row: RouteRequest, api: httpx.AsyncClient, hub: Hub
) -> None:
    role = Role.ADMIN if row.need is Need.ADMIN else Role.WRITER
    key = text_of(await issue_key(hub, KeyHolder("li", project_ids=("atlas",)), role))
    made = RowMaker(api, hub, key)
    ids = await made.rows(path, row)
    assert row.body is not None
    body, before = row.body(ids), await _list_writes(hub)
    # A version in the body of a change is the expected version: any other is a conflict.
    own = ITS_OWN.get((method, path), set())

    for field, value in FIELDS.items():
        for tampered in _with(body, field, value) if field not in own else ():
            is_lines = isinstance(tampered, bytes)
            answer = await api.request(
                method,
                path.replace(":path}", "}").format(**ids),
                content=tampered if is_lines else orjson.dumps(tampered),
                headers=headers(key) | {"Content-Type": "application/x-ndjson" if is_lines else "application/json"},
            )

            assert answer.status_code in {403, 409, 422}, (field, answer.text)
            assert answer.status_code != 409 or field == "version", (field, answer.text)
            assert await _list_writes(hub) == before, field


async def _list_writes(hub: Hub) -> list[str]:
    """Return the operations so far, without the first-use note of a key, which its request does not write."""
    return [operation.operation_id async for operation in hub.store.operations("default") if operation.op != NOTE_USE]


def _with(body: Any, field: str, value: object) -> list[Any]:  # noqa: ANN401 -- any body
    """Return copies of the body with another field: at the top, and in its first item."""
    if isinstance(body, bytes):
        return [orjson.dumps(orjson.loads(body) | {field: value})]
    tampered = [{**body, field: value}]
    tampered += [
        {**body, name: [{**items[0], field: value}]}
        for name, items in body.items()
        if isinstance(items, list) and items and isinstance(items[0], dict) and field not in items[0]
    ]
    return tampered


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.is_core], ids=lambda tool: tool.name)
async def test_no_mcp_tool_accepts_server_owned_fields(tool: McpTool, api: httpx.AsyncClient, hub: Hub) -> None:
    key = text_of(await issue_key(hub, KeyHolder("li"), Role.WRITER))
    fields = {name: value for name, value in FIELDS.items() if name not in tool.schema["properties"]}

    for name, value in fields.items():
        params = {"name": tool.name, "arguments": {name: value}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = (await api.post("/mcp", json=body, headers=key_headers(key))).json()["result"]

        assert result["isError"]
        assert f"{name}: Extra inputs are not permitted" in result["content"][0]["text"]
