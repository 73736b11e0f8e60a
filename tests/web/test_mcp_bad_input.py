"""What a broken or hostile client sends to `/mcp`: a clear error in the form of the protocol; nothing is written."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.identity.model import KeyHolder
from knowhub.web.app import create_app
from tests.keys import ROOT_KEY, issue_key, key_headers, make_keyed_settings, text_of
from tests.web.conftest import client_of
from tests.web.mcp_api import HEADERS, McpApi

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}


@pytest.fixture
def mcp(api: httpx.AsyncClient) -> McpApi:
    return McpApi(api)


async def count_records(api: httpx.AsyncClient) -> int:
    listed: int = (await api.get("/api/knowledge")).json()["count"]
    return listed


async def test_arguments_of_nearly_a_mebibyte_are_taken_or_named_and_more_is_refused(mcp: McpApi) -> None:
    most = MIB - 1024
    _, saved = await mcp.call("save", content="x" * most)
    assert "verdict: " in await mcp.call_in_error("feedback", id=saved["id"], verdict="y" * most)
    assert "limit: " in await mcp.call_in_error("recall", query="a", limit="z" * most)
    assert "no tool 'zzz" in await mcp.call_in_error("z" * most)
    assert "query: String should have at most 4096" in await mcp.call_in_error("recall", query="q" * most)

    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "save", "arguments": {"content": "x" * MIB}},
    }
    refused = await mcp.http.post("/mcp", json=body, headers=HEADERS)
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:knowhub:problem:too-large")

    assert await count_records(mcp.http) == 1


async def test_a_second_initialize_is_answered_as_the_first(mcp: McpApi) -> None:
    first = await mcp.request("initialize", INITIALIZE)
    second = await mcp.request("initialize", INITIALIZE)

    assert first == second
    assert first["result"]["protocolVersion"] == INITIALIZE["protocolVersion"]
    assert (await mcp.call("recall", query="anything"))[1]["results"] == []


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {}}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "save", "arguments": [1]}},
        {"jsonrpc": "2.0", "id": 1, "method": "no/such/method"},
        [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}],
    ],
)
async def test_what_is_no_request_is_an_error_of_json_rpc(mcp: McpApi, body: Any) -> None:  # noqa: ANN401 -- any JSON
    answered = await mcp.http.post("/mcp", json=body, headers=HEADERS)

    assert answered.status_code in {200, 400, 404}, answered.text
    assert answered.json()["error"]["code"] < 0
    assert "Traceback" not in answered.text


async def test_foreign_hosts_and_origins_are_refused(mcp: McpApi) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for foreign in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
        answered = await mcp.http.post("/mcp", json=listing, headers={**HEADERS, **foreign})
        assert answered.status_code == 403, (foreign, answered.text)


async def test_a_wrong_key_and_a_key_that_is_revoked_in_mid_session_open_nothing(tmp_path: Path) -> None:
    settings = make_keyed_settings(tmp_path / "keyed")
    async with open_hub(settings, maintain=False) as hub:
        app = create_app(settings, hub)
        key = await issue_key(hub, KeyHolder("li"))
        for headers in (
            {"X-API-Key": "kh_wrong"},
            {"Authorization": "Bearer kh_wrong"},
            {"Authorization": "Basic eA=="},
        ):
            async with client_of(app, headers) as stranger:
                answered = await stranger.post("/mcp", json={}, headers=HEADERS)
                assert (answered.status_code, answered.headers["www-authenticate"]) == (401, "Bearer")
        async with client_of(app, key_headers(text_of(key))) as client, client_of(app, key_headers(ROOT_KEY)) as root:
            session = McpApi(client)
            await session.request("initialize", INITIALIZE)
            _, saved = await session.call("save", content="Only li knows this.")
            assert (await root.delete(f"/api/admin/keys/{key.key.key_id}")).status_code == 200

            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "undo", "arguments": {"operation_id": saved["operation_id"]}
            }}  # fmt: skip
            refused = await client.post("/mcp", json=body, headers=HEADERS)
            assert refused.status_code == 401
            assert await count_records(root) == 1


async def test_a_client_that_vanishes_in_a_call_leaves_a_whole_record_or_none(mcp: McpApi, hub: Hub) -> None:
    del hub
    for number in range(20):
        call = asyncio.ensure_future(mcp.call("save", content=f"The lesson of call {number}.", task="vanish"))
        await asyncio.sleep(number * 0.001)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    records = (await mcp.http.get("/api/knowledge")).json()["results"]
    assert all(record["content"].startswith("The lesson of call ") for record in records)
    _, saved = await mcp.call("save", content="The last lesson.")
    assert (await mcp.http.get(f"/api/knowledge/{saved['id']}")).json()["content"] == "The last lesson."
