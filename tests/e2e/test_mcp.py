"""MCP with the protocol's own client: over HTTP to a server process, and over stdio to `knowhub mcp`."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.e2e.server_process import COMMAND, Server, environment, run_server

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def http_session(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def stdio_session(data: Path, *options: str, **variables: str) -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "knowhub", "mcp", *options], env=environment(data, **variables)
    )
    async with stdio_client(command) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


async def test_a_lesson_saved_over_http_is_recalled_over_stdio(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        async with http_session(f"{server.url}/mcp?user=li") as first:
            saved = await first.call_tool("save", {"content": "Set http.proxy.", "task": "git push behind a proxy"})
        async with stdio_session(tmp_path, "--user-id", "li") as second:
            found = await second.call_tool("recall", {"query": "push behind a proxy"})
        async with stdio_session(tmp_path, "--user-id", "eve") as other:
            foreign = await other.call_tool("recall", {"query": "push behind a proxy"})

    assert saved.structured_content
    assert found.structured_content
    assert foreign.structured_content
    assert [row["id"] for row in found.structured_content["results"]] == [saved.structured_content["id"]]
    assert foreign.structured_content["results"] == []


def count_calls(server: Server, tool: str) -> float:
    """Return how many calls of a tool over MCP a server has answered well."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    name = f'knowhub_mcp_calls_total{{result="ok",tool="{tool}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


async def test_stdio_asks_the_server_of_its_directory_and_of_no_other(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    with run_server(ours) as server:
        async with stdio_session(ours, "--user-id", "li") as session:
            await session.call_tool("save", {"content": "Set http.proxy.", "task": "git push"})
        async with stdio_session(ours, "--tools", "all") as session:
            await session.call_tool("profile", {})
        async with stdio_session(other) as session:
            found = await session.call_tool("recall", {"query": "git push"})
        counted = [count_calls(server, tool) for tool in ("save", "profile", "recall")]

    assert counted == [1, 0, 0]
    assert found.structured_content is not None
    assert found.structured_content["results"] == []


async def test_a_session_on_stdio_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    with run_server(ours) as server, ExitStack() as later:
        async with stdio_session(ours) as session:
            before = await session.call_tool("save", {"content": "Set http.proxy.", "task": "git push"})
            server.stop()
            port = server.url.rpartition(":")[2]
            # Another directory's server has the address now.
            foreign = later.enter_context(run_server(other, (*COMMAND, "--port", port)))
            down = await session.call_tool("recall", {"query": "git push"})
            tools = await session.list_tools()
            with pytest.raises(MCPError, match="open any more"):
                await session.read_resource("knowhub://profile")
            later.enter_context(run_server(ours))
            after = await session.call_tool("recall", {"query": "git push"})
        assert count_calls(foreign, "recall") == 0

    assert down.is_error
    assert f"Start it with `knowhub serve --data-dir {ours}`, and call again" in str(down.content)
    assert [tool.name for tool in tools.tools][:3] == ["recall", "read", "save"]
    assert before.structured_content is not None
    assert after.structured_content is not None
    assert [row["id"] for row in after.structured_content["results"]] == [before.structured_content["id"]]


async def test_stdio_asks_the_server_of_an_address_with_the_key_of_the_environment(tmp_path: Path) -> None:
    unused = tmp_path / "unused"
    key = "k" * 40
    with run_server(tmp_path / "data", KNOWHUB_AUTH="api-key", KNOWHUB_ROOT_KEY=key) as server:
        options = ("--url", server.url, "--user-id", "li")
        async with stdio_session(unused, *options, KNOWHUB_API_KEY=key) as session:
            saved = await session.call_tool("save", {"content": "Set http.proxy."})
        async with stdio_session(unused, *options) as session:
            with pytest.raises(MCPError, match="send a key"):
                await session.call_tool("recall", {"query": "proxy"})
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "knowhub", "mcp", *options],
            env=environment(unused, KNOWHUB_API_KEY=key),
        )  # fmt: skip
        async with Client(stdio_client(parameters)) as newest:
            found = await newest.call_tool("recall", {"query": "proxy"})

    assert "for user:li. " in str(saved.content)
    assert saved.structured_content is not None
    assert found.structured_content is not None
    assert [row["id"] for row in found.structured_content["results"]] == [saved.structured_content["id"]]
    assert not unused.exists()


async def test_a_server_that_is_down_is_named_by_each_call(tmp_path: Path) -> None:
    async with stdio_session(tmp_path, "--url", "http://127.0.0.1:9") as session:
        tools = await session.list_tools()
        answer = await session.call_tool("recall", {"query": "anything"})

    assert len(tools.tools) == 6
    assert answer.is_error
    assert "no KnowHub answers at http://127.0.0.1:9/mcp" in str(answer.content)


@pytest.mark.parametrize("options", [["--url", "ftp://x"], ["--url", "http://127.0.0.1:8000", "--tools", "all"]])
def test_a_wrong_address_is_refused_at_once(options: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "knowhub", "mcp", *options]
    ended = subprocess.run(command, env=environment(tmp_path), capture_output=True, check=False, timeout=60)

    assert ended.returncode == 2
    assert b"--url" in ended.stderr


async def test_the_newest_protocol_needs_no_handshake(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        async with Client(f"{server.url}/mcp") as client:
            tools = await client.list_tools()
            answer = await client.call_tool("recall", {"query": "anything"})

    assert [tool.name for tool in tools.tools][:3] == ["recall", "read", "save"]
    assert answer.structured_content == {"results": [], "degraded": [], "index_lag": 0}


async def test_the_client_shows_why_a_request_is_refused(tmp_path: Path) -> None:
    too_deep: list[object] = []
    for _ in range(70):
        too_deep = [too_deep]
    with run_server(tmp_path) as server:
        async with http_session(f"{server.url}/mcp") as session:
            with pytest.raises(MCPError, match="a body here is at most 1048576 bytes"):
                await session.call_tool("save", {"content": "x" * 2**20})
            with pytest.raises(MCPError, match="nested more than 64 deep"):
                await session.call_tool("save", {"content": too_deep})
    async with stdio_session(tmp_path) as session:
        with pytest.raises(MCPError, match="nested more than 64 deep"):
            await session.call_tool("save", {"content": too_deep})
        with pytest.raises(MCPError, match="a line here is at most 16777216 bytes"):
            await session.call_tool("save", {"content": "x" * 2**24})
    with run_server(tmp_path, KNOWHUB_AUTH="api-key", KNOWHUB_ROOT_KEY="k" * 40) as server:
        # The client ends with a group that holds the error.
        with pytest.raises(BaseExceptionGroup) as refused:
            async with http_session(f"{server.url}/mcp"):
                pass
        assert refused.group_contains(MCPError, match="send a key, as `X-API-Key: KEY`")


def test_an_interrupted_server_on_stdio_ends_at_once(tmp_path: Path) -> None:
    # A shell starts what runs in the background with SIGINT ignored, and processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-m", "knowhub", "mcp", "--data-dir", str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        ended = process.wait(30)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (ended, errors) == (130, "")


async def test_a_directory_that_cannot_be_opened_is_named_by_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("99\n")

    async with stdio_session(tmp_path) as session:
        answer = await session.call_tool("recall", {"query": "anything"})

    assert answer.is_error
    assert "FORMAT is damaged" in str(answer.content)


PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}


@pytest.mark.parametrize(
    ("form", "options", "code", "why"),
    [
        ("99\n", [], -32603, "FORMAT is damaged"),
        (None, ["--tools", "zzz"], -32602, "KNOWHUB_MCP_TOOLS: zzz: no such tool"),
    ],
)
def test_errors_of_the_start_have_a_code_and_one_line(
    form: str | None, options: list[str], code: int, why: str, tmp_path: Path
) -> None:
    if form:
        (tmp_path / "FORMAT").write_text(form)
    requests: list[dict[str, object]] = [
        {"method": "tools/list"},
        {"method": "initialize", "params": PARAMS},
        {"method": "tools/list"},
        {"method": "resources/read", "params": {"uri": "knowhub://profile"}},
    ]
    command = [sys.executable, "-m", "knowhub", "mcp", "--data-dir", str(tmp_path), *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(tmp_path),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        answers = []
        for number, request in enumerate(requests):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **request}) + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        errors = process.stderr.read()

    early, _, *late = [answer.get("error") for answer in answers]
    assert early == {"code": -32600, "message": "send `initialize` first, and then this request again"}
    for error in late:
        assert (error["code"], error["message"].count("\n")) == (code, 0)
        assert why in error["message"]
    assert why in errors
    assert errors.count("\n") == 1


def test_lines_that_are_no_requests_do_not_stop_stdio_and_it_ends_with_its_client(tmp_path: Path) -> None:
    save = {"name": "save", "arguments": {"content": "x" * 2**20}}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": PARAMS},
        {"jsonrpc": "2.0", "id": 3, "method": "no/such/method"},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": save},
    ]
    command = [sys.executable, "-m", "knowhub", "mcp", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("garbage", "", "[]", "7", "[" * 65 + "]" * 65, "z" * (16 * 2**20 + 1)):
            process.stdin.write(f"{line}\n")
        process.stdin.flush()
        errors = [json.loads(process.stdout.readline()) for _ in range(5)]
        for request in requests:
            process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        answers = {answer["id"]: answer for answer in (json.loads(process.stdout.readline()) for _ in requests)}
        process.stdin.close()
        ended = process.wait(30)

    assert {error["id"] for error in errors} == {None}
    assert [error["error"]["code"] for error in errors] == [-32700, -32600, -32600, -32600, -32600]
    assert "this is a batch of 0" in errors[1]["error"]["message"]
    assert errors[3]["error"]["message"] == "JSON is nested more than 64 deep"
    assert errors[4]["error"]["message"] == "a line here is at most 16777216 bytes; this is longer"
    # The first was answered without the library, the second by it.
    assert answers[1]["result"] == answers[2]["result"]
    assert answers[3]["error"]["message"] == "Method not found"
    assert answers[4]["result"]["content"][0]["text"].startswith("Saved knowledge-")
    assert ended == 0
