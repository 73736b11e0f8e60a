"""The app on a real hub, in this process. Every answer is checked against the declaration of its route."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
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
from tests.web.declared import check_response

URL = "http://127.0.0.1:8000"
SaveRecord: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
OpenServer: TypeAlias = Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", owner="user:local")


@pytest.fixture
def overrides() -> Overrides:
    """Return what replaces the real adapters of the hub: nothing, unless a file overrides this fixture."""
    return Overrides()


@pytest.fixture
async def hub(settings: Settings, overrides: Overrides) -> AsyncIterator[Hub]:
    async with open_hub(settings, replace(overrides, run_decision=run_twice)) as hub:
        yield hub


@pytest.fixture
def app(settings: Settings, hub: Hub) -> FastAPI:
    return create_app(settings, hub)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


@pytest.fixture
def open_second_server(settings: Settings) -> OpenServer:
    """Return a function that opens a second server on the same data directory, as another process would."""

    return partial(open_server, settings)


@pytest.fixture
async def second_server(api: httpx.AsyncClient, open_second_server: OpenServer) -> AsyncIterator[httpx.AsyncClient]:
    """Return a second server on the directory, started before anything is written."""
    del api
    async with open_second_server() as client:
        yield client


@pytest.fixture
def save_record(api: httpx.AsyncClient) -> SaveRecord:
    """Return a function that saves a record and returns the answer."""

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
        check_response(app, response)

    transport = httpx.ASGITransport(app)
    hooks = {"response": [check]}
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers, event_hooks=hooks) as client:
        yield client


@asynccontextmanager
async def open_server(
    settings: Settings,
    overrides: Overrides | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    maintain: bool = True,
) -> AsyncIterator[httpx.AsyncClient]:
    """Open a hub of its own, and a client of it."""
    async with (
        open_hub(settings, overrides, maintain=maintain) as hub,
        client_of(create_app(settings, hub), headers) as client,
    ):
        yield client


async def read_pages(api: httpx.AsyncClient, path: str, **params: str | int) -> list[list[dict[str, Any]]]:
    """Return the rows of every page of a list, to its end."""
    pages: list[list[dict[str, Any]]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await api.get(path, params=params | ({"cursor": cursor} if cursor else {}))).json()
        assert page["count"] == len(page["results"])
        pages.append(page["results"])
        cursor = page["next_cursor"]
    return pages


def make_post_scope(path: str, content_type: str = "application/json") -> dict[str, Any]:
    """Return the ASGI scope of a POST to a path, whose body is still to come."""
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", content_type.encode())],
    }
