"""The app on a real hub, in this process; every answer is held against what its route declares."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from fastapi import FastAPI

from knowhub.bootstrap import Hub, open_hub
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.pure_decisions import run_twice
from tests.web.declared import checked

URL = "http://127.0.0.1:8000"
Saved: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", owner="user:local")


@pytest.fixture
def world() -> Overrides:
    """Return what takes the place of the real thing in the hub: nothing, unless a file puts it here."""
    return Overrides()


@pytest.fixture
async def hub(settings: Settings, world: Overrides) -> AsyncIterator[Hub]:
    async with open_hub(settings, replace(world, run_decision=run_twice)) as opened:
        yield opened


@pytest.fixture
def app(settings: Settings, hub: Hub) -> FastAPI:
    return create_app(settings, hub)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


@pytest.fixture
def another(settings: Settings) -> Opened:
    """Open the same data directory once more, as a second process or a later one would."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[httpx.AsyncClient]:
        async with open_hub(settings) as hub, client_of(create_app(settings, hub)) as client:
            yield client

    return opened


@pytest.fixture
async def beside(api: httpx.AsyncClient, another: Opened) -> AsyncIterator[httpx.AsyncClient]:
    """Return a second server on the directory, which runs before anything is written."""
    del api
    async with another() as client:
        yield client


@pytest.fixture
def saved(api: httpx.AsyncClient) -> Saved:
    """Save a record and return it as it was answered."""

    async def save(content: str = "Wait for the element.", **fields: object) -> dict[str, Any]:
        response = await api.post("/api/knowledge", json={"content": content, **fields})
        assert response.status_code == 201, response.text
        answer: dict[str, Any] = response.json()
        return answer

    return save


@asynccontextmanager
async def client_of(app: FastAPI, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx.AsyncClient]:
    async def check(response: httpx.Response) -> None:
        await response.aread()
        checked(app, response)

    transport = httpx.ASGITransport(app)
    hooks = {"response": [check]}
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers, event_hooks=hooks) as client:
        yield client
