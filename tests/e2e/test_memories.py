"""Memories in real processes: the tools of an agent at a server, and the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_tools.client import aclose_client
from agent_tools.memory import commit_session, read_memory, search_memory
from tests.e2e.command_line import Cli
from tests.e2e.server_process import ROOT, run_server

TRANSCRIPT = ROOT / "examples/transcripts/website-login.zh.json"
SESSION = "ctx://default/users/chen/sessions/2026-03-11-网站登录"
CHEN: dict[str, Any] = {"user_id": "chen", "agent_id": "crawler"}
ASKED = "登录怎么避免验证码"


@pytest.mark.anyio
async def test_an_agent_commits_its_session_and_finds_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))
    monkeypatch.delenv("KNOWHUB_API_KEY", raising=False)
    with run_server(tmp_path / "data") as server:
        monkeypatch.setenv("KNOWHUB_API_URL", server.url)

        committed = await commit_session(sent["session_id"], sent["messages"], used_tools=sent["used_tools"], **CHEN)
        again = await commit_session(sent["session_id"], sent["messages"], used_tools=sent["used_tools"], **CHEN)
        found = await search_memory(ASKED, top_k=5, **CHEN)
        others = await search_memory(ASKED, user_id="zhou")
        read = await read_memory(SESSION, level="L2", **CHEN)
        await aclose_client()

    assert [committed.error, again.error, found.error, others.error, read.error] == [None] * 5
    assert (committed.metadata["status"], again.metadata["status"]) == ("committed", "unchanged")
    assert any("等待 2 秒" in item["abstract"] for item in found.metadata["items"])
    assert len(others) == 0
    assert all(message["content"] in read.metadata["items"][0]["content"] for message in sent["messages"])


def test_the_answers_of_the_command_are_those_of_the_api(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data")
    words = ("--user-id", "chen", "--agent-id", "crawler")
    lines = "\n".join(json.dumps(message) for message in json.loads(TRANSCRIPT.read_text(encoding="utf-8"))["messages"])

    committed = cli.json("context", "commit", "-", "--session-id", "s", "--no-extract", *words, stdin=lines.encode())
    uri = committed["archive"]["archive_uri"]
    listed = cli.json("context", "ls", uri, *words)
    tree = cli.json("context", "tree", *words)
    read = cli.json("context", "read", uri, "--level", "L0", "--relations", *words)
    outbox = cli.json("context", "outbox", *words)

    assert [result["uri"] for result in committed["write_results"]] == [uri]
    assert listed["count"] == 30
    assert {uri, f"{uri}/zh-01"} <= {result["uri"] for result in tree["results"]}
    assert (read["level_hit"], read["content"]) == ("L0", None)
    assert (outbox["pending"], outbox["dead_letters"]) == (0, [])


@pytest.mark.parametrize(
    ("words", "stdin", "code", "error"),
    [
        (("commit", "-"), b'[{"role": "user", "content": "x"}]', 2, "--session-id"),
        (("commit", "-", "--session-id", "s"), b'[{"role": "user"}]', 2, "messages.0.content"),
        (("read", "ctx://default/users/../x"), b"", 1, "ctx://default/users/../x"),
        (("read", "ctx://default/users/li/memories/profile"), b"", 1, "no memory"),
    ],
)
def test_an_invalid_question_is_reported_in_one_line(
    tmp_path: Path, words: tuple[str, ...], stdin: bytes, code: int, error: str
) -> None:
    cli = Cli(tmp_path / "data")
    cli.json("context", "commit", str(TRANSCRIPT), "--no-extract")

    ended = cli("context", *words, stdin=stdin)

    assert ended.code == code, ended.err
    assert error in ended.err
