"""A server of chat played by respx, the client that asks it, and a time that only a test moves."""

from collections.abc import AsyncIterator

import httpx
import pytest
import respx

from knowhub.providers.http import make_client
from tests.builders import FakeClock
from tests.fakes.model_server import MATCH, URL, FakeTime, completion


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as shared:
        yield shared


@pytest.fixture
async def server() -> AsyncIterator[respx.Route]:
    """Play a model that answers what fits; a file on another server, or an ill one, plays that in its place."""
    async with respx.mock(assert_all_called=False) as router:
        yield router.post(URL).mock(return_value=completion(MATCH))


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
