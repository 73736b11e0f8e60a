"""`knowhub connect` in an empty home directory: the hooks that it wrote are run as the host runs them."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.command_line import Cli, environment
from tests.e2e.forking import variables_for_scripts
from tests.e2e.server_process import Server, run_server

DATA = Path(__file__).parents[1] / "data" / "hosts"
PAYLOADS: dict[str, dict[str, dict[str, Any]]] = json.loads((DATA / "payloads.json").read_text("utf-8"))
FILES = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json", "cursor": ".cursor/hooks.json"}
TRANSCRIPTS = {"claude": ".claude/projects", "codex": ".codex/sessions", "cursor": ".cursor/projects"}
EVENTS = {
    "claude": ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"),
    "codex": ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"),
    "cursor": ("sessionStart", "stop", "sessionEnd"),
}
SAID = "Remember that I prefer tabs over spaces."


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home directory, and a hub that runs in it."""

    home: Path
    server: Server
    cli: Cli

    def run(self, *words: str) -> str:
        """Run the command line and return what it said."""
        ended = self.cli(*words, HOME=str(self.home))
        assert ended.code == 0, ended.err
        return ended.out

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_file())


@pytest.fixture
def li(tmp_path: Path) -> Iterator[Person]:
    home = tmp_path / "home"
    home.mkdir()
    with run_server(tmp_path / "data", HOME=str(home)) as server:
        yield Person(home, server, Cli(tmp_path / "data"))


def run_hook(hook: dict[str, Any], payload: dict[str, Any], home: Path, **variables: str) -> tuple[str, float]:
    """Run a hook as a host does; return what it answers, and the seconds."""
    began = time.monotonic()
    if hook.get("type") == "http":
        try:
            response = httpx.post(hook["url"], json=payload, timeout=hook["timeout"])
            answer = response.text if response.is_success else ""
        except httpx.HTTPError:
            answer = ""
    else:
        done = subprocess.run(
            ["sh", "-c", hook["command"]], input=json.dumps(payload).encode(), capture_output=True, check=True,
            env=environment(home, HOME=str(home), **variables), timeout=20,
        )  # fmt: skip
        answer = done.stdout.decode()
    return answer, time.monotonic() - began


def find_hooks(home: Path, host: str) -> dict[str, dict[str, Any]]:
    """Return the hooks of a host by event."""
    document = json.loads((home / FILES[host]).read_text("utf-8"))
    return {
        event: entries[0]["hooks"][0] if "hooks" in entries[0] else entries[0]
        for event, entries in document["hooks"].items()
    }


def recalls(home: Path, host: str, **variables: str) -> bool:
    """Return whether a new session is shown SAID. A busy machine may be late: three sessions are tried."""
    return any(SAID in run_session(home, host, f"next-{number}", "", **variables) for number in range(3))


def run_session(home: Path, host: str, session_id: str, transcript: str, **variables: str) -> str:
    """Run the hooks of a whole session; return all that they showed."""
    path = home / TRANSCRIPTS[host] / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(transcript, "utf-8")
    hooks = find_hooks(home, host)
    printed = ""
    for event in EVENTS[host]:
        named = {"session_id": session_id, "conversation_id": session_id, "transcript_path": str(path)}
        payload = {**PAYLOADS[host][event], **named, "prompt": "Should I indent with tabs or spaces?"}
        answer, _ = run_hook(hooks[event], payload, home, **variables)
        assert answer == "" or isinstance(json.loads(answer), dict)
        printed += answer
    return printed


@pytest.mark.parametrize("host", sorted(FILES))
def test_a_session_is_remembered_in_the_next_and_nothing_is_left_behind(li: Person, host: str) -> None:
    show = li.run("connect", host, "--user", "li", "--url", li.server.url, "--dry-run")
    assert ("+++" in show, li.files()) == (True, [])
    assert li.run("connect", host, "--user", "li", "--url", li.server.url).startswith(show.rstrip())
    assert "already" in li.run("connect", host, "--user", "li", "--url", li.server.url)

    assert SAID not in run_session(li.home, host, "first", (DATA / f"{host}.jsonl").read_text("utf-8"))
    assert recalls(li.home, host)

    printed = li.run("disconnect", host)
    assert "---" in printed
    assert {str(Path(name).parent) for name in li.files()} == {TRANSCRIPTS[host]}
    assert "not connected" in li.run("disconnect", host)


def test_with_a_key_the_lines_are_sent_and_the_key_names_the_caller(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    cli = Cli(tmp_path / "data")
    key = cli.json("keys", "create", "--user-id", "li")["key"]
    # Another home: this server cannot find the transcript.
    with run_server(tmp_path / "data", KNOWHUB_AUTH="api-key", HOME=str(tmp_path)) as server:
        Person(home, server, cli).run("connect", "codex", "--url", server.url, "--with-key")
        assert key not in "".join(path.read_text("utf-8") for path in home.rglob("*") if path.is_file())
        run_session(home, "codex", "first", (DATA / "codex.jsonl").read_text("utf-8"), KNOWHUB_API_KEY=key)
        assert recalls(home, "codex", KNOWHUB_API_KEY=key)


@pytest.mark.parametrize("host", sorted(FILES))
def test_an_agent_goes_on_if_the_server_is_down_or_stuck(host: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stuck:
        port = stuck.getsockname()[1]
        Cli(tmp_path / "data")("connect", host, "--url", f"http://127.0.0.1:{port}", HOME=str(tmp_path))
        hooks = find_hooks(tmp_path, host)
        for event in EVENTS[host][:2]:
            answer, seconds = run_hook(hooks[event], PAYLOADS[host][event], tmp_path)
            assert (answer, seconds < 5) == ("", True)
    for event in EVENTS[host]:
        answer, seconds = run_hook(hooks[event], PAYLOADS[host][event], tmp_path)
        assert (answer, seconds < 3) == ("", True)


def test_an_unreadable_transcript_does_not_stop_a_hook(tmp_path: Path) -> None:
    Cli(tmp_path / "data")("connect", "codex", "--url", "http://127.0.0.1:9", HOME=str(tmp_path))
    words = shlex.split(find_hooks(tmp_path, "codex")["Stop"]["command"])
    for sent in (b"", b"nonsense", b"[]", b'{"transcript_path": "/nowhere"}'):
        done = subprocess.run([*words, "--send-transcript"], input=sent, capture_output=True, check=True, timeout=20)
        assert (done.stdout, done.stderr.startswith(b"KnowHub: ")) == (b"", True)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("connect", "emacs"), "emacs"),
        (("connect", "claude", "--hooks-only", "--mcp-only"), "leave nothing"),
        (("connect", "vscode", "--hooks-only"), "no hooks of VS Code"),
        (("connect", "claude", "--project", "atlas"), "needs --user"),
        (("connect", "claude", "--url", "hub.example"), "--url must be an address"),
        (("connect", "claude", "--url", "http://h/?user=eve"), "without a query"),
    ],
)
def test_a_wrong_option_ends_with_2_and_says_what_is_wrong(words: tuple[str, ...], error: str, tmp_path: Path) -> None:
    ended = Cli(tmp_path / "data")(*words, HOME=str(tmp_path))

    assert (ended.code, error in " ".join(ended.err.split())) == (2, True), ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--mcp-only",), ("--dry-run",)])
def test_a_foreign_server_is_named_and_kept(options: tuple[str, ...], tmp_path: Path) -> None:
    foreign = '{"mcpServers":{"knowhub":{"type":"http","url":"https://hub.example/mcp","headers":{"X":"mine"}}}}'
    path = tmp_path / ".claude.json"
    path.write_text(foreign, "utf-8")
    cli = Cli(tmp_path / "data")
    ended = cli("connect", "claude", "--user", "li", *options, HOME=str(tmp_path))
    assert (ended.code, "another server has the name knowhub" in " ".join(ended.err.split())) == (1, True), ended
    assert "already" not in ended.out

    ended = cli("disconnect", "claude", HOME=str(tmp_path))
    assert (ended.code, f"{path}: mcpServers.knowhub stays" in " ".join(ended.out.split())) == (0, True), ended
    assert ([path], path.read_text("utf-8")) == (list(tmp_path.rglob("*")), foreign)


@pytest.mark.parametrize("host", ["claude-code", "codex", "cursor", "vscode"])
def test_the_page_of_a_host_is_followed_in_an_empty_home(
    host: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = (DATA.parents[2] / "docs" / "how-to" / f"connect-{host}.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "project"
    folder.mkdir()
    done = subprocess.run(
        ["sh", "-eu", "-c", "".join(blocks)], capture_output=True, check=True, cwd=folder, timeout=120,
        env=environment(tmp_path / "data", HOME=str(tmp_path)) | variables_for_scripts(tmp_path_factory.mktemp("bin")),
    )  # fmt: skip

    written = done.stdout.decode()
    assert len(blocks) >= 2
    assert ("user=li" in written, "hub.example" in written) == (True, host == "claude-code")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_reader_that_stops_reading_stops_no_change(tmp_path: Path) -> None:
    for command, is_there in (("connect", True), ("disconnect", False)):
        reader, writer = os.pipe()
        os.close(reader)
        words = (sys.executable, "-m", "knowhub", command, "cursor")
        subprocess.run(
            words,
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(tmp_path / "data", HOME=str(tmp_path)),
            timeout=60,
            check=False,
        )
        os.close(writer)
        assert (tmp_path / FILES["cursor"]).exists() is is_there
