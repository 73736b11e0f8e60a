"""The client of the tools: one per event loop, and every failure has advice."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx

from agent_tools.client import ANSWER_LIMIT_BYTES, aclose_client, encode_segment, get_client, has_api_key, request
from agent_tools.results import ToolFailure
from tests.tools.routes import PATH, get_failure

pytestmark = pytest.mark.anyio


def test_a_loop_that_ended_without_closing_its_client_is_forgotten() -> None:
    async def leave_open() -> "weakref.ref[asyncio.AbstractEventLoop]":
        loop = asyncio.get_running_loop()
        # An open connection holds its loop like this.
        get_client().event_hooks = {"request": [lambda _request: loop]}
        return weakref.ref(loop)

    async def come_later() -> None:
        get_client()
        await aclose_client()

    first_loop = asyncio.run(leave_open())

    asyncio.run(come_later())
    gc.collect()

    assert first_loop() is None


async def test_a_proxy_in_the_environment_does_not_capture_the_calls(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.get(PATH).respond(json={"count": 0})
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")

    reply = await request("GET", PATH)

    assert reply == {"count": 0}


@pytest.mark.parametrize(
    ("configured", "called"),
    [
        (None, "http://127.0.0.1:8000"),
        ("", "http://127.0.0.1:8000"),
        (" ", "http://127.0.0.1:8000"),
        ("https://tools.test/knowhub/", "https://tools.test/knowhub"),
    ],
)
async def test_an_address_may_be_missing_or_have_a_prefix(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, configured: str | None, called: str
) -> None:
    if configured is None:
        monkeypatch.delenv("KNOWHUB_API_URL")
    else:
        monkeypatch.setenv("KNOWHUB_API_URL", configured)
    hub.get(f"{called}{PATH}").respond(json={"ours": True})

    assert await request("GET", PATH) == {"ours": True}


async def test_a_change_of_address_counts_at_the_next_call(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.get(PATH).respond(json={"server": "first"})
    hub.get(f"http://second.test{PATH}").respond(json={"server": "second"})
    await request("GET", PATH)
    monkeypatch.setenv("KNOWHUB_API_URL", "http://second.test")

    reply = await request("GET", PATH)

    assert reply == {"server": "second"}


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8000", "localhost:8000", "ftp://hub.test", "http://", "http://h:99999", "http://h:x"],
)
async def test_an_invalid_address_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("KNOWHUB_API_URL", address)

    failure = await get_failure()

    assert failure.advice.startswith("KNOWHUB_API_URL is not an http address.")


async def test_a_key_is_sent_as_a_header(hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    route = hub.get(PATH).respond(json={})
    monkeypatch.setenv("KNOWHUB_API_KEY", "secret-key\n")

    await request("GET", PATH)

    assert route.calls.last.request.headers["X-API-Key"] == "secret-key"
    assert has_api_key()


@pytest.mark.parametrize("key", ["密钥", "two\nlines"])
async def test_an_invalid_key_is_refused_and_not_shown(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("KNOWHUB_API_KEY", key)

    failure = await get_failure()

    assert "KNOWHUB_API_KEY" in failure.advice
    assert key not in failure.advice
    assert not hub.calls


@pytest.mark.parametrize(
    ("row_id", "encoded"),
    [
        ("knowledge-20260305-a1b2", b"knowledge-20260305-a1b2"),
        ("a b", b"a%20b"),
        ("a/b?c#d", b"a%2Fb%3Fc%23d"),
        ("50%", b"50%25"),
        ("知识", b"%E7%9F%A5%E8%AF%86"),
        ("..", b"%2E%2E"),
        (".", b"%2E"),
        ("half\ud800", b"half%3F"),
    ],
)
async def test_an_id_is_encoded_as_a_segment_of_the_path(hub: respx.MockRouter, row_id: str, encoded: bytes) -> None:
    route = hub.route().respond(json={})

    await request("GET", f"{PATH}/{encode_segment(row_id)}")

    assert route.calls.last.request.url.raw_path == PATH.encode() + b"/" + encoded


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ToolFailure, match="The id is empty"):
        encode_segment("")


@pytest.mark.parametrize("error", [httpx.ConnectError("Connection refused"), httpx.ConnectTimeout("")])
async def test_without_a_server_the_advice_is_to_start_it(hub: respx.MockRouter, error: httpx.TransportError) -> None:
    hub.get(PATH).mock(side_effect=error)

    failure = await get_failure()

    assert "not reachable at http://hub.test:9000" in failure.advice
    assert "`knowhub serve`" in failure.advice
    assert "KNOWHUB_API_URL" in failure.advice


async def test_a_password_in_the_address_is_not_shown(hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWHUB_API_URL", "http://ann:hunter2@hub.test:9000")
    hub.get(PATH).mock(side_effect=httpx.ConnectError("refused"))

    failure = await get_failure()

    assert "hub.test:9000" in failure.advice
    assert "hunter2" not in failure.advice


async def test_an_answer_that_comes_byte_by_byte_ends_with_a_timeout(hub: respx.MockRouter) -> None:
    class Drip(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.001)

    hub.get(PATH).mock(return_value=httpx.Response(200, stream=Drip()))

    # Longer than the limit by far, and shorter than any other limit there is.
    async with asyncio.timeout(3):
        failure = await get_failure(request("GET", PATH, timeout_s=0.05))

    assert "did not answer GET /api/knowledge within 0.05 s" in failure.advice
    assert "check before you repeat it" in failure.advice


async def test_a_cancelled_call_is_cancelled_and_not_a_failure(hub: respx.MockRouter) -> None:
    started = asyncio.Event()

    async def hang(_request: httpx.Request) -> httpx.Response:
        started.set()
        await asyncio.sleep(60)
        return httpx.Response(200, json={})

    hub.get(PATH).mock(side_effect=hang)
    call = asyncio.create_task(request("GET", PATH))
    await started.wait()

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_an_answer_that_is_too_large_is_refused(hub: respx.MockRouter) -> None:
    hub.get(PATH).respond(200, content=b" " * (ANSWER_LIMIT_BYTES + 1))

    failure = await get_failure()

    assert "Ask for fewer records" in failure.advice


@pytest.mark.parametrize(
    "arguments",
    [
        {"body": {"score": float("nan")}},
        {"body": {"task": "half\ud800"}},
        {"body": {"tags": {"when": object()}}},
        {"params": {"q": "x" * 100_000}},
        {"params": {"q": "half\ud800"}},
    ],
)
async def test_arguments_that_cannot_be_sent_are_refused(hub: respx.MockRouter, arguments: dict[str, Any]) -> None:
    failure = await get_failure(request("GET", PATH, **arguments))

    assert failure.advice.startswith("These arguments cannot be sent (")
    assert not hub.calls
