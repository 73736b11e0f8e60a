"""What a broken or hostile client sends to `/mcp`: a clear error in the form of the protocol; nothing is written."""

import asyncio
import json
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
TOO_LARGE = "a body here is at most 1048576 bytes; this has {}"
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
    assert refused.status_code == 413
    assert refused.json()["error"] == {"code": -32600, "message": TOO_LARGE.format(len(refused.request.content))}

    assert await count_records(mcp.http) == 1


async def test_the_newer_protocol_has_no_initialize(mcp: McpApi) -> None:
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": INITIALIZE["clientInfo"],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"_meta": meta}}
    headers = {**HEADERS, "mcp-protocol-version": version, "mcp-method": "initialize"}

    answer = await mcp.http.post("/mcp", json=body, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)


async def test_a_second_initialize_is_answered_as_the_first(mcp: McpApi) -> None:
    first = await mcp.request("initialize", INITIALIZE)
    second = await mcp.request("initialize", INITIALIZE)

    assert first == second
    assert first["result"]["protocolVersion"] == INITIALIZE["protocolVersion"]
    assert (await mcp.call("recall", query="anything"))[1]["results"] == []


ONE_OBJECT = "MCP takes one JSON object at a time; this is {}; send one JSON-RPC request"
CALL = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %s}'
CALL_PROMPT = (
    '{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", '
    '"params": {"name": "recall_before_task", "arguments": {"task": 7}}}'
)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("body", "code", "named_id", "message"),
    [
        ("garbage", -32700, None, "this is not JSON: "),
        ("", -32700, None, "this is not JSON: "),
        ('{"jsonrpc": "2.0", "id": 1, "met', -32700, 1, "this is not JSON: "),
        ('{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": NaN}}', -32700, 1, "this is not JSON: "),
        (r'{"method": "x", "params": {"a": "\ud800"}, "jsonrpc": "2.0", "id": "a"}', -32700, "a", "this is not JSON: "),
        ("[]", -32600, None, ONE_OBJECT.format("a batch of 0")),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "x"}]', -32600, None, ONE_OBJECT.format("a batch of 1")),
        ("7", -32600, None, ONE_OBJECT.format(7)),
        ("null", -32600, None, ONE_OBJECT.format("null")),
        ("{}", -32600, None, 'jsonrpc: must be "2.0"; send one'),
        ('{"jsonrpc": "1.0", "id": 3, "method": "x"}', -32600, 3, 'jsonrpc: must be "2.0"; send one'),
        ('{"jsonrpc": "2.0", "id": "a"}', -32600, "a", "method: is missing"),
        ('{"jsonrpc": "2.0", "id": 1, "result": 7}', -32600, 1, "method: is missing"),
        ('{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600, 1, "method: must be a string"),
        ('{"jsonrpc": "2.0", "id": true, "method": "x"}', -32600, None, "id: must be a string or an integer"),
        ('{"jsonrpc": "2.0", "id": 1, "method": "x", "params": false}', -32600, 1, "params: must be an object"),
        (CALL % '{"arguments": {}}', -32602, 1, "params.name: must be a string"),
        (CALL % '{"name": "save", "arguments": [1]}', -32602, 1, "params.arguments: must be an object"),
        ('{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', -32602, 1, "params.protocolVersion: must be a string"),
        (
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 7}}',
            -32602,
            1,
            "params.cursor: must",
        ),
        (CALL_PROMPT, -32602, 1, "params.arguments.task: must be a string"),
    ],
)
async def test_what_is_no_request_is_an_error_of_json_rpc_that_says_why(
    mcp: McpApi, version: str, body: str, code: int, *, named_id: str | int | None, message: str
) -> None:
    headers = {**HEADERS, "mcp-protocol-version": version, "content-type": "application/json"}
    answered = await mcp.http.post("/mcp", content=body, headers=headers)

    assert (answered.status_code, answered.headers["content-type"]) == (400, "application/json")
    error = answered.json()["error"]
    assert answered.json() == {"jsonrpc": "2.0", "id": named_id, "error": {"code": code, "message": error["message"]}}
    assert error["message"].startswith(message)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_accepts_no_json_is_told_so(mcp: McpApi, version: str) -> None:
    headers = {**HEADERS, "accept": "text/plain", "mcp-protocol-version": version}
    answered = await mcp.http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)

    assert answered.status_code == 406
    assert answered.json()["error"]["message"].startswith("the header Accept must allow application/json")


async def test_what_a_guard_or_a_route_refuses_is_an_error_of_json_rpc_too(mcp: McpApi) -> None:
    for method, path, headers, status in (
        ("GET", "/mcp", {}, 405),
        ("POST", "/mcp/", {}, 404),
        ("POST", "/mcp", {"content-type": "text/plain"}, 415),
        ("POST", "/mcp", {"content-encoding": "gzip"}, 415),
        ("POST", "/mcp", {"origin": "https://evil.example"}, 403),
    ):
        answered = await mcp.http.request(method, path, json={}, headers={**HEADERS, **headers})
        assert (answered.status_code, answered.headers["content-type"]) == (status, "application/json"), answered.text
        assert answered.json()["id"] is None
        assert answered.json()["error"]["code"] == -32600
        assert answered.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize("request_id", [7, "a b"])
@pytest.mark.parametrize("order", [("jsonrpc", "id", "method", "params"), ("method", "params", "jsonrpc", "id")])
async def test_a_request_that_is_too_large_or_too_deep_is_answered_with_its_id(
    mcp: McpApi, request_id: int | str, order: tuple[str, ...]
) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}
    for content, status in (("x" * 2**20, 413), ([[]], 422)):
        message["params"] = {"name": "save", "arguments": {"id": 3, "content": content}}
        text = json.dumps({name: message[name] for name in order}).replace("[[]]", "[" * 70 + "]" * 70)
        refused = await mcp.http.post("/mcp", content=text, headers={**HEADERS, "content-type": "application/json"})
        assert (refused.status_code, refused.json()["id"]) == (status, request_id)
        assert refused.json()["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["no/such/method", "completion/complete", "resources/subscribe"])
async def test_a_method_that_does_not_exist_is_named(mcp: McpApi, method: str) -> None:
    answered = await mcp.request(method)
    assert answered["error"] == {"code": -32601, "message": "Method not found", "data": method}


async def test_an_address_that_names_a_caller_twice_or_not_at_all_is_refused(mcp: McpApi) -> None:
    for address, message in (
        ("?user=li&user=eve", "user: comes more than once in the query"),
        ("?user=li&user_id=eve", "body: user and user_id mean the same"),
        ("?user=", "user_id: must not be blank"),
        ("?evil=1", "evil: Extra inputs are not permitted"),
    ):
        assert (await mcp.call_in_error("save", address, content="x")).startswith(message)
    assert await count_records(mcp.http) == 0


async def test_many_wrong_arguments_are_counted_and_a_long_name_is_cut(mcp: McpApi) -> None:
    refused = await mcp.call_in_error("remember", messages=[1] * 1000)
    assert refused.endswith("; and 995 more")
    assert len(await mcp.call_in_error("z" * 500_000)) < 500


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
                assert answered.json()["error"]["message"].startswith(("this key opens nothing", "send a key"))
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
