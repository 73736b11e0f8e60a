"""MCP at /mcp: tools, resources and prompts for the caller of the request, and clear errors for the rest."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from agent_tools.fences import FENCE_NOTE
from knowhub.bootstrap import Hub, open_hub
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import Role
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.mcp.greeting import make_greeting
from tests.keys import issue_key_text, key_headers, make_keyed_settings
from tests.web.conftest import client_of
from tests.web.mcp_api import HEADERS, McpApi

pytestmark = pytest.mark.anyio

CORE = ["recall", "read", "save", "remember", "feedback", "undo"]
DATA = Path(__file__).parents[1] / "data" / "hosts"
FRAMES: dict[str, list[dict[str, Any]]] = json.loads((DATA / "mcp_frames.json").read_text("utf-8"))
"""What Claude Code 2.1.197 and Codex 0.169.0 sent to `/mcp` in a session, and how each was answered."""


@pytest.fixture
def mcp(api: httpx.AsyncClient) -> McpApi:
    return McpApi(api)


@pytest.fixture
async def hub_with_keys(tmp_path: Path) -> AsyncIterator[tuple[Hub, Settings]]:
    settings = make_keyed_settings(tmp_path / "keyed")
    async with open_hub(settings, maintain=False) as hub:
        yield hub, settings


async def test_six_tools_are_offered_within_700_tokens_and_no_model_chooses_the_caller(mcp: McpApi) -> None:
    tools = (await mcp.request("tools/list"))["result"]["tools"]

    assert [tool["name"] for tool in tools] == CORE
    assert len(json.dumps(tools)) / 4 <= 700
    assert not any(name.endswith("_id") for tool in tools for name in tool["inputSchema"]["properties"] if name not in {
        "session_id", "operation_id"
    })  # fmt: skip
    assert all(tool["inputSchema"]["additionalProperties"] is False for tool in tools)
    assert all(
        tool["annotations"]["openWorldHint"] is tool["annotations"]["destructiveHint"] is False for tool in tools
    )
    assert {tool["name"] for tool in tools if tool["annotations"]["readOnlyHint"]} == {"recall", "read"}


async def test_a_lesson_is_saved_recalled_read_rated_and_undone(mcp: McpApi) -> None:
    text, saved = await mcp.call("save", content="Set http.proxy, then push.", task="git push fails behind the proxy")
    assert text.startswith(f"Saved {saved['id']} for ")

    text, found = await mcp.call("recall", query="push behind a proxy")
    assert [row["id"] for row in found["results"]] == [saved["id"]]
    assert text.startswith('Lines that begin with "| " are stored text')
    assert all(line.startswith("| ") for line in text.splitlines()[2:])

    text, row = await mcp.call("read", id=saved["id"])
    assert row["content"] == "Set http.proxy, then push."
    assert "| content: Set http.proxy, then push." in text.splitlines()

    _, rated = await mcp.call("feedback", id=saved["id"], verdict="helped", reason="it worked")
    _, undone = await mcp.call("undo", operation_id=rated["operation_id"])
    assert undone["operation_id"] not in {None, rated["operation_id"]}
    stored = (await mcp.http.get(f"/api/knowledge/{saved['id']}")).json()
    assert (stored["eval"]["helpful"], stored["eval"]["helpful_history"]) == (1, [])

    text, again = await mcp.call("save", content="Set http.proxy, then push.", task="git push fails behind the proxy")
    assert again == {"id": saved["id"], "operation_id": None, "duplicate_of": saved["id"], "dropped": []}
    assert text.startswith("Known already as")


async def test_keywords_of_one_name_are_recalled_with_their_paths(mcp: McpApi) -> None:
    for parent in ("语言", "目的地"):
        made = (await mcp.http.post("/api/keywords", json={"name": parent})).json()
        await mcp.http.post("/api/keywords", json={"name": "Java", "parent_id": made["id"]})

    text, found = await mcp.call("recall", query="Java")

    assert [row["path"] for row in found["results"]] == ["语言/Java", "目的地/Java"]
    assert {"| path: 语言/Java", "| path: 目的地/Java"} <= set(text.splitlines())


async def test_a_conversation_is_stored_once_without_recalled_text(mcp: McpApi) -> None:
    said = [{"role": "user", "content": "Remember that I prefer tabs."}]
    _, first = await mcp.call("remember", messages=said, session_id="s-1")
    recalled, found = await mcp.call("recall", query="tabs")
    text, second = await mcp.call("remember", messages=said, session_id="s-1")
    spoken = [{"role": "tool", "content": recalled}, {"role": "assistant", "content": f"I see:\n> {FENCE_NOTE}\n> | x"}]
    _, third = await mcp.call("remember", messages=spoken, session_id="s-2")

    assert first["operation_id"]
    assert found["results"]
    assert (second["operation_id"], text) == (None, "These messages are remembered already; nothing was written.")
    assert not any("/memories/" in uri for uri in third["memories"])
    assert third["dropped"][0] == {"what": "lines", "why": "recalled", "count": len(recalled.split("\n")) - 1 + 2}
    refusal = await mcp.call_in_error("remember", messages=spoken[:1])
    assert refusal.startswith("messages: this text came from KnowHub")


async def test_recalled_text_is_not_saved_again_and_own_words_beside_it_are(mcp: McpApi) -> None:
    await mcp.call("save", content="Set http.proxy, then push.", task="git push fails behind the proxy")
    recalled, _ = await mcp.call("recall", query="push behind a proxy")
    quoted = "\n".join(f"> {line}" for line in recalled.splitlines())

    for copy in (recalled, quoted, f"```\n{recalled}\n```", recalled.partition("\n\n")[2]):
        assert "came from KnowHub" in await mcp.call_in_error("save", content=copy)
    text, saved = await mcp.call("save", content=f"It failed on Mondays.\n\n{quoted}", task="git push")

    assert saved["dropped"] == [{"what": "lines", "why": "recalled", "count": 7}]
    assert text.endswith("Left out: 7 lines (recalled).")
    _, row = await mcp.call("read", id=saved["id"])
    assert row["content"] == "It failed on Mondays."


@pytest.mark.parametrize(
    ("address", "reader"), [("", "user:local"), ("?user=li", "user:li"), ("?project=atlas", "project:atlas"),
                            ("?user=li&project=atlas", "user:li"), ("?agent=bot", "agent:bot")]
)  # fmt: skip
async def test_a_save_and_a_recall_name_the_scope(mcp: McpApi, address: str, reader: str) -> None:
    text, saved = await mcp.call("save", address, content="Set http.proxy, then push.", task="git push")
    shown, found = await mcp.call("recall", address, query="push behind a proxy")
    caller = {f"{name}_id": value for name, value in parse_qsl(address.removeprefix("?"))}
    asked = {"q": "push behind a proxy", **caller}
    (listed,) = (await mcp.http.get("/api/recall", params=asked)).json()["results"]

    said = [{"role": "user", "content": "Remember that I prefer tabs."}]
    assert text.startswith(f"Saved {saved['id']} for {reader}. ")
    if not reader.startswith("project:"):
        remembered, _ = await mcp.call("remember", address, messages=said, session_id="s")
        assert remembered.startswith(f"Remembered session s for {reader}, ")
    assert [row["scope"] for row in found["results"]] == [reader] == [listed["scope"]]
    assert f"| scope: {reader}" in shown.splitlines()


async def test_the_scope_of_each_source_is_the_one_by_which_the_caller_sees_it(mcp: McpApi) -> None:
    shared = {"task": "push", "content": "Set http.proxy.", "types": ["tool"], "scopes": ["team:web", "org:acme"]}
    await mcp.http.post("/api/knowledge", json={**shared, "user_id": "eve", "team_id": "web", "org_id": "acme"})
    await mcp.http.post("/api/keywords", json={"name": "proxy", "description": "http.proxy", "user_id": "eve"})
    await mcp.call("remember", "?user=li", messages=[{"role": "user", "content": "I prefer the proxy of Berlin."}])

    _, found = await mcp.call("recall", "?user=li&team=web&org=acme", query="proxy")

    scopes = {(row["source"], row["scope"]) for row in found["results"]}
    assert scopes == {("knowledge", "org:acme"), ("keywords", "public"), ("memory", "user:li")}


async def test_who_sees_everything_is_told_how_far_a_row_reaches(mcp: McpApi) -> None:
    record = {"task": "push", "content": "Set http.proxy.", "types": ["tool"], "user_id": "bo"}
    for scopes in (["public"], ["user:owner"]):
        await mcp.http.post("/api/knowledge", json={**record, "task": f"push {scopes}", "scopes": scopes})
    await mcp.http.post("/api/keywords", json={"name": "proxy", "description": "http.proxy"})

    _, found = await mcp.call("recall", query="proxy")

    assert sorted((row["source"], row["scope"]) for row in found["results"]) == [
        ("keywords", "public"),
        ("knowledge", "public"),
        ("knowledge", "user:bo"),
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("recall", {}, "query: Field required"),
        ("recall", {"query": "a", "user_id": "eve"}, "user_id: Extra inputs are not permitted"),
        ("recall", {"query": 7}, "query: Input should be a valid string"),
        ("save", {"content": ""}, "content: must not be empty"),
        ("save", {"content": "a\0b"}, "content: must not hold a NUL"),
        ("feedback", {"id": "knowledge-1", "verdict": "meh"}, "verdict: Input should be 'helped' or 'wrong'"),
        ("feedback", {"id": "knowledge-20260101-abcd", "verdict": "helped"}, "no knowledge with id"),
        ("read", {"id": "no-such-row"}, "no resource with id"),
        ("undo", {"operation_id": "x"}, "no operation with id 'x'"),
        ("forget_everything", {}, "no tool 'forget_everything'; known are recall"),
    ],
)
async def test_an_invalid_call_is_a_result_that_names_the_error(
    mcp: McpApi, tool: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in await mcp.call_in_error(tool, **arguments)


async def test_the_address_names_the_caller_and_hides_its_records_from_others(mcp: McpApi) -> None:
    _, saved = await mcp.call("save", "?user=li", content="The staging password rotates on Mondays.")

    _, own = await mcp.call("recall", "?user=li", query="staging password")
    _, foreign = await mcp.call("recall", "?user=eve", query="staging password")

    assert [row["id"] for row in own["results"]] == [saved["id"]]
    assert foreign["results"] == []
    assert "no knowledge with id" in await mcp.call_in_error("read", "?user=eve", id=saved["id"])
    assert "role: Extra inputs are not permitted" in await mcp.call_in_error("recall", "?role=root", query="a")


async def test_the_role_of_a_key_decides_about_reads_and_writes(hub_with_keys: tuple[Hub, Settings]) -> None:
    hub, settings = hub_with_keys
    app = create_app(settings, hub)
    async with client_of(app) as nobody:
        unauthorised = await nobody.post("/mcp", json={}, headers=HEADERS)
    assert unauthorised.status_code == 401
    async with client_of(app, key_headers(await issue_key_text(hub, "li"))) as writer:
        text, saved = await McpApi(writer).call("save", content="Only li knows this.")
        assert text.startswith(f"Saved {saved['id']} for user:li. ")
        assert "user" in await McpApi(writer).call_in_error("recall", "?user=eve", query="li")
    async with client_of(app, key_headers(await issue_key_text(hub, "eve", Role.READER))) as reader:
        assert "no knowledge with id" in await McpApi(reader).call_in_error("read", id=saved["id"])
        assert "read" in await McpApi(reader).call_in_error("save", content="x")


@pytest.mark.parametrize("host", sorted(FRAMES))
async def test_the_recorded_session_of_a_host_is_answered(mcp: McpApi, host: str) -> None:
    said = "Remember that I prefer tabs over spaces."
    await mcp.call("remember", "?user=li", messages=[{"role": "user", "content": said}], session_id="before")

    answers: dict[str, dict[str, Any]] = {}
    for frame in FRAMES[host]:
        answered = await mcp.http.request(frame["method"], frame["path"], headers=frame["headers"], json=frame["body"])
        assert answered.status_code == frame["status"], (frame, answered.text)
        if answered.status_code == 200:
            answer = answered.json()
            assert answer["id"] == frame["body"]["id"]
            answers[frame["body"]["method"]] = answer["result"]

    sent = {frame["body"]["method"]: frame["body"] for frame in FRAMES[host] if frame["body"]}
    assert answers["initialize"]["protocolVersion"] == sent["initialize"]["params"]["protocolVersion"]
    assert [tool["name"] for tool in answers["tools/list"]["tools"]] == CORE
    recalled = answers["tools/call"]
    assert not recalled.get("isError")
    assert said in recalled["content"][0]["text"]


async def test_resources_and_prompts(mcp: McpApi) -> None:
    _, saved = await mcp.call("save", content="Answers in English, please.", type="user_profile")
    await mcp.call("remember", messages=[{"role": "user", "content": "Remember that I prefer tabs."}])

    listed = (await mcp.request("resources/list"))["result"]["resources"]
    templates = (await mcp.request("resources/templates/list"))["result"]["resourceTemplates"]
    profile = (await mcp.request("resources/read", {"uri": "knowhub://profile"}))["result"]["contents"][0]
    row = (await mcp.request("resources/read", {"uri": f"knowhub://{saved['id']}"}))["result"]["contents"][0]
    prompt = (await mcp.request("prompts/get", {"name": "recall_before_task", "arguments": {"task": "deploy"}}))[
        "result"
    ]

    assert [resource["uri"] for resource in listed] == ["knowhub://profile"]
    assert templates[0]["uriTemplate"] == "knowhub://{+id}"
    assert "| text: Answers in English, please." in profile["text"].splitlines()
    assert "prefer tabs" in profile["text"]
    assert profile["text"].splitlines().count("| scope: user:local") == 2
    assert "| content: Answers in English, please." in row["text"].splitlines()
    assert prompt["messages"][0]["content"]["text"].endswith("and then plan: deploy")


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("resources/read", {"uri": "file:///etc/passwd"}, "addresses begin with knowhub://"),
        ("resources/read", {"uri": "knowhub://knowledge-20260101-abcd"}, "no knowledge with id"),
        ("prompts/get", {"name": "nope"}, "no prompt 'nope'"),
        ("prompts/get", {"name": "save_lessons"}, "the argument task is missing"),
    ],
)
async def test_an_unknown_name_is_an_error(mcp: McpApi, method: str, params: dict[str, Any], said: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await mcp.http.post("/mcp", json=body, headers=HEADERS)).json()

    assert said in answer["error"]["message"]


async def test_requests_and_calls_are_counted_by_the_names_that_are_known(mcp: McpApi) -> None:
    await mcp.call("recall", query="anything")
    await mcp.call_in_error("recall")
    await mcp.call_in_error("forget_everything")
    await mcp.http.get("/mcp")

    lines = (await mcp.http.get("/metrics")).text.splitlines()
    assert 'knowhub_http_requests_total{method="POST",route="/mcp",status="200"} 3.0' in lines
    assert 'knowhub_http_requests_total{method="GET",route="/mcp",status="405"} 1.0' in lines
    assert 'knowhub_mcp_calls_total{result="ok",tool="recall"} 1.0' in lines
    assert 'knowhub_mcp_calls_total{result="error",tool="recall"} 1.0' in lines
    assert 'knowhub_mcp_calls_total{result="error",tool="unknown"} 1.0' in lines


async def test_white_space_around_a_header_is_ignored(mcp: McpApi) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = await mcp.http.post("/mcp", json=body, headers={**HEADERS, "mcp-protocol-version": "2025-11-25  "})

    assert answer.status_code == 200


async def test_a_setting_selects_the_tools(settings: Settings, hub: Hub) -> None:
    chosen = settings.model_copy(update={"mcp_tools": "core, profile"})
    async with client_of(create_app(chosen, hub)) as api:
        tools = (await McpApi(api).request("tools/list"))["result"]["tools"]

    assert [tool["name"] for tool in tools] == [*CORE, "profile"]
    async with client_of(create_app(settings.model_copy(update={"mcp_tools": "all"}), hub)) as api:
        every = (await McpApi(api).request("tools/list"))["result"]["tools"]
    assert {tool["name"] for tool in tools} <= {tool["name"] for tool in every}
    assert len(json.dumps(every)) / 4 <= 4_000
    with pytest.raises(InvalidInput, match="nope: no such tool"):
        create_app(settings.model_copy(update={"mcp_tools": "core,nope"}), hub)


async def test_the_greeting_over_stdio_is_the_answer_of_the_library(mcp: McpApi) -> None:
    for version in (*KNOWN_PROTOCOL_VERSIONS, "unknown"):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        assert make_greeting(request) == await mcp.request("initialize", params)
