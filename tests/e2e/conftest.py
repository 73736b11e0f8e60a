"""What tests share that talk to the scripted server, or use the tools or the command line."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent_tools.client import aclose_client
from knowhub.providers.http import make_client
from tests.e2e.command_line import Cli
from tests.e2e.scripted_llm import ScriptedLLM, running_llm


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The scripted server is started once for a module, so the loop is the module's too."""
    return "asyncio"


@pytest.fixture(scope="module")
async def llm() -> AsyncIterator[ScriptedLLM]:
    async with running_llm() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as shared:
        yield shared


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture
async def url(server_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Point the tools at the server that a file starts."""
    monkeypatch.setenv("KNOWHUB_API_URL", server_url)
    monkeypatch.delenv("KNOWHUB_API_KEY", raising=False)
    yield server_url
    await aclose_client()
