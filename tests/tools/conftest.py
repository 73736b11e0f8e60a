"""A server played by respx: the tools' own HTTP client is real, and nothing leaves the process."""

from collections.abc import AsyncIterator

import pytest
import respx

from agent_tools.client import aclose_client

HUB_URL = "http://hub.test:9000"


@pytest.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[respx.MockRouter]:
    """Answer for the server at KNOWHUB_API_URL; a request without a route fails the test."""
    monkeypatch.setenv("KNOWHUB_API_URL", HUB_URL)
    monkeypatch.delenv("KNOWHUB_API_KEY", raising=False)
    async with respx.mock(base_url=HUB_URL, assert_all_called=False) as router:
        yield router
    await aclose_client()
