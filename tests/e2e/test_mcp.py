"""MCP with the protocol's own client: over HTTP to a server process, and over stdio to `knowhub mcp`."""

import asyncio
import fcntl
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
        async with stdio_session(unused, *options, KNOWHUB_API_KEY=f" {key}\n") as session:
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


HERE = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("options", "key", "named"),
    [
        (["--url", "ftp://x"], "", "--url"),
        (["--url", HERE, "--tools", "all"], "", "--url"),
        (["--url", "http://127.0.0.1:99999"], "", "--url"),
        (["--url", "http://li:secret@127.0.0.1"], "", "--url"),
        (["--url", "http://[::1"], "", "--url"),
        (["--url", HERE], "schlüssel", "KNOWHUB_API_KEY"),
        (["--url", HERE], "two words", "KNOWHUB_API_KEY"),
    ],
)
def test_a_wrong_address_and_a_wrong_key_are_refused_at_once(
    options: list[str], key: str, named: str, tmp_path: Path
) -> None:
    ended = end_with("", tmp_path, *options, KNOWHUB_API_KEY=key)

    assert ended.returncode == 2
    assert named in ended.stderr
    assert not key or key not in ended.stderr


def end_with(text: str, data: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `knowhub mcp` with all that its client says, and return how it ends."""
    command = [sys.executable, "-m", "knowhub", "mcp", *options]
    settings = environment(data, **variables)
    return subprocess.run(command, env=settings, input=text, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("text", ["", "\n", "garbage\n"])
@pytest.mark.parametrize("options", [[], ["--url", HERE]])
def test_stdio_ends_with_a_client_that_asks_nothing(options: list[str], text: str, tmp_path: Path) -> None:
    ended = end_with(text, tmp_path / "data", *options)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert not (tmp_path / "data").exists()
    assert ended.stdout.count("\n") == (text == "garbage\n")


def test_what_was_asked_before_the_client_ended_is_done(tmp_path: Path) -> None:
    asked: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": PARAMS},
        {"method": "notifications/initialized"},
        {"id": "2", "method": "tools/call", "params": {"name": "save", "arguments": {"content": "Set http.proxy."}}},
    ]
    ended = end_with("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in asked), tmp_path)

    greeting, saved = map(json.loads, ended.stdout.splitlines())
    assert (ended.returncode, greeting["id"], saved["id"]) == (0, 1, "2")
    assert saved["result"]["content"][0]["text"].startswith("Saved knowledge-")


@pytest.mark.parametrize("owner", ["user:local", "user:ann"])
async def test_who_saves_does_not_depend_on_a_server(owner: str, tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        async with stdio_session(tmp_path, KNOWHUB_OWNER=owner) as session:
            saved = await session.call_tool("save", {"content": "Set http.proxy."})
        async with stdio_session(tmp_path, "--user-id", "li", KNOWHUB_OWNER=owner) as session:
            named = await session.call_tool("save", {"content": "Set http.proxy."})
        counted = count_calls(server, "save")

    assert f"for {owner}. " in str(saved.content)
    assert "for user:li. " in str(named.content)
    assert counted == 1 + (owner == "user:local")


@pytest.mark.parametrize("says", [{"token": "00"}, {"token": 7}, {"unknown": "field"}, None])
async def test_an_address_where_another_directory_is_served_is_not_asked(
    says: dict[str, object] | None, tmp_path: Path
) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    with run_server(other) as server, (ours / "SERVER").open("w") as announced:
        # As a server of ours does in a container, whose addresses are not those of this process.
        fcntl.flock(announced, fcntl.LOCK_EX)
        there = json.loads((other / "SERVER").read_text())
        announced.write(json.dumps({**there, **says} if says else [1]))
        announced.flush()
        async with stdio_session(ours) as session:
            saved = await session.call_tool("save", {"content": "Set http.proxy."})
        assert count_calls(server, "save") == 0

    assert not saved.is_error
    assert b"Set http.proxy." in (ours / "change_log/segment-00000001.jsonl").read_bytes()


async def test_an_id_that_is_a_text_does_not_cancel_the_same_number(tmp_path: Path) -> None:
    both_came, came = asyncio.Event(), 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        await reader.readuntil(b"\r\n\r\n")
        came += 1
        if came == 2:
            both_came.set()
        await both_came.wait()
        body = b'{"jsonrpc": "2.0", "id": 0, "result": {}}'
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    asked: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": PARAMS},
        {"id": 700, "method": "tools/list"},
        {"method": "notifications/cancelled", "params": {"requestId": "700"}},
        {"id": 2, "method": "tools/list"},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in asked)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as slow:
        url = f"http://127.0.0.1:{slow.sockets[0].getsockname()[1]}"
        ended = await asyncio.to_thread(end_with, text, tmp_path, "--url", url)

    assert {json.loads(line)["id"] for line in ended.stdout.splitlines()} == {1, 700, 2}


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
        # No `initialize` is needed before.
        assert len(json.loads(process.stdout.readline())["result"]["tools"]) == 6
        process.send_signal(signal.SIGINT)
        ended = process.wait(30)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (ended, errors) == (130, "")


PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}


@pytest.mark.parametrize(
    ("form", "options", "why"),
    [
        ("99\n", [], "FORMAT is damaged"),
        (None, ["--tools", "zzz"], "KNOWHUB_MCP_TOOLS: zzz: no such tool"),
    ],
)
def test_errors_of_the_start_have_a_code_and_one_line(
    form: str | None, options: list[str], why: str, tmp_path: Path
) -> None:
    if form:
        (tmp_path / "FORMAT").write_text(form)
    requests: list[dict[str, object]] = [
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

    _, listed, read = answers
    if form:
        assert len(listed["result"]["tools"]) == 6
    for error in [read["error"]] if form else [listed["error"], read["error"]]:
        assert (error["code"], error["message"].count("\n")) == (-32603, 0)
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
