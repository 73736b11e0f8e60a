"""How much one caller may ask, how many are answered at once, and how long a request may take to arrive."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.allowances import DailyCounts, TokenBuckets
from knowhub.identity.model import KeyHolder
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.middleware import ConcurrencyLimit
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import ROOT_KEY, issue_key, issue_key_text, text_of
from tests.web.conftest import URL, client_of, make_post_scope, open_server
from tests.web.mcp_api import HEADERS, McpApi

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"
NOON = 1_772_712_000.0


@asynccontextmanager
async def open_hub_with(settings: Settings, **limited: object) -> AsyncIterator[Hub]:
    async with open_hub(settings.model_copy(update=limited), Overrides(clock=FakeClock(NOON)), maintain=False) as hub:
        yield hub


def open_root_client(hub: Hub, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(hub.settings, hub))
    return httpx.AsyncClient(transport=transport, base_url=URL, headers={"X-API-Key": ROOT_KEY} | headers)


# allowances


class FakeTimer:
    """A timer whose time the test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def test_a_bucket_holds_a_minute_of_requests_and_fills_up_evenly() -> None:
    time = FakeTimer()
    buckets = TokenBuckets(60, 60.0, time)

    at_once = [await buckets.take("ann") for _ in range(61)]

    assert at_once[:60] == [0.0] * 60
    assert at_once[60] == pytest.approx(1.0)
    time.now = 0.5
    assert await buckets.take("ann") == pytest.approx(0.5)
    time.now = 1.0
    assert await buckets.take("ann") == 0.0
    assert await buckets.take("ann") > 0
    assert await buckets.take("bob") == 0.0
    time.now = 1_000.0
    assert [await buckets.take("ann") for _ in range(61)].count(0.0) == 60


async def test_a_refused_request_takes_nothing_from_the_bucket() -> None:
    time = FakeTimer()
    buckets = TokenBuckets(1, 60.0, time)
    await buckets.take("ann")

    for second in range(1, 60):
        time.now = float(second)
        assert await buckets.take("ann") > 0

    time.now = 60.0
    assert await buckets.take("ann") == 0.0


async def test_memory_for_many_callers_is_bounded() -> None:
    time = FakeTimer()
    buckets, days = TokenBuckets(2, 60.0, time, max_callers=100), DailyCounts(2, time, max_callers=100)

    for number in range(1_000):
        time.now = number / 1e6
        for counted in (buckets, days):
            assert await counted.take("who asks all the time") == 0.0 or number >= 2
            await counted.take(f"caller {number}")

    time.now = 1.0
    # Who asks on is not forgotten, however many others there are.
    assert await buckets.take("who asks all the time") > 0
    assert await days.take("who asks all the time") > 0
    assert (len(buckets), len(days)) == (100, 100)


async def test_writes_are_counted_by_day_and_the_answer_shows_the_rest() -> None:
    midnight = 20_000 * 86_400.0
    time = FakeTimer(midnight + 100)
    days = DailyCounts(2, time)

    waits = [await days.take("ann") for _ in range(3)]

    assert waits == [0.0, 0.0, 86_300.0]
    assert await days.take("bob") == 0.0
    time.now = midnight + 86_400
    assert await days.take("ann") == 0.0


# over HTTP


async def test_without_a_limit_nothing_is_counted(api: httpx.AsyncClient) -> None:
    assert {(await api.get("/api/knowledge")).status_code for _ in range(200)} == {200}


async def test_an_address_over_its_limit_gets_retry_after(settings: Settings) -> None:
    async with open_hub_with(settings, rate_limit_per_minute=2) as hub, client_of(create_app(hub.settings, hub)) as api:
        answers = [await api.get("/api/knowledge") for _ in range(3)]
        beside = [(await api.get(path)).status_code for path in ("/health", "/ready", "/metrics", "/docs")]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    refused = answers[2]
    assert (refused.headers["content-type"], refused.headers["retry-after"]) == (PROBLEM, "30")
    assert refused.json()["title"] == "Too Many Requests"
    assert "2 times a minute" in refused.json()["detail"]
    assert beside == [200] * 4


async def test_the_write_limit_resets_at_midnight(settings: Settings) -> None:
    clock = FakeClock(NOON)
    limited = settings.model_copy(update={"writes_per_day": 1})
    async with open_server(limited, Overrides(clock=clock), maintain=False) as api:
        first = await api.post("/api/knowledge", json={"content": "one"})
        second = await api.post("/api/knowledge", json={"content": "two"})
        read = await api.get("/api/knowledge")
        clock.advance(float(second.headers["retry-after"]))
        third = await api.post("/api/knowledge", json={"content": "three"})

    assert [first.status_code, second.status_code, third.status_code] == [201, 429, 201]
    assert (read.status_code, read.json()["count"]) == (200, 1)


async def test_requests_over_mcp_count_and_of_its_tools_those_that_write(settings: Settings) -> None:
    async with (
        open_hub_with(settings, writes_per_day=1, rate_limit_per_minute=4) as hub,
        client_of(create_app(hub.settings, hub)) as api,
    ):
        mcp = McpApi(api)
        started = time.monotonic()
        await mcp.call("recall", query="anything")
        await mcp.call("save", content="one")
        second = await mcp.call_in_error("save", content="two")
        await mcp.call("recall", query="anything")
        refused = await api.post("/mcp", json={}, headers=HEADERS)
        elapsed_s = time.monotonic() - started

    assert second == "a caller may write 1 times a day (UTC) here"
    # The next of four requests a minute is allowed 15 s after the first, less the time that the calls took.
    assert refused.status_code == 429
    assert 15 - elapsed_s <= int(refused.headers["retry-after"]) <= 15
    assert refused.json()["error"]["message"] == "a caller may ask 4 times a minute here"


async def test_all_keys_of_a_principal_share_a_limit_and_root_has_none(settings: Settings) -> None:
    with_keys = {"auth": "api-key", "root_key": ROOT_KEY, "rate_limit_per_minute": 3}
    async with open_hub_with(settings, **with_keys) as hub, open_root_client(hub) as root:
        keys = [await issue_key_text(hub, user_id) for user_id in ("ann", "ann", "bob")]
        sent = [keys[0], keys[1], keys[0], keys[1], keys[2]]

        statuses = [(await root.get("/api/knowledge", headers={"X-API-Key": key})).status_code for key in sent]
        roots = {(await root.get("/api/knowledge")).status_code for _ in range(10)}
        forged = await root.get("/api/knowledge", headers={"X-API-Key": keys[0][:-1]})

    assert statuses == [200, 200, 200, 429, 200]
    assert (roots, forged.status_code) == ({200}, 401)


@pytest.mark.parametrize("limited", ["rate_limit_per_minute", "writes_per_day", "reveals_per_hour"])
async def test_users_of_the_same_agent_have_separate_limits(settings: Settings, limited: str) -> None:
    with_keys = {"auth": "api-key", "root_key": ROOT_KEY, "secret_key": "s" * 40, limited: 3}
    async with open_hub_with(settings, **with_keys) as hub, open_root_client(hub) as root:
        keys = [text_of(await issue_key(hub, KeyHolder(user, "crawler"))) for user in ("ann", "ann", "bob")]
        sealed = {"id": "vault", "secure_body": "canary", "owner": "agent:crawler"}
        assert (await root.post("/api/resource", json=sealed)).status_code == 201
        asked = {
            "rate_limit_per_minute": ("GET", "/api/knowledge", None),
            "writes_per_day": ("POST", "/api/knowledge", {"content": "one more"}),
            "reveals_per_hour": ("GET", "/api/resource/vault?reveal=true", None),
        }
        method, path, body = asked[limited]

        answers = [
            await root.request(method, path, json=body, headers={"X-API-Key": keys[number]})
            for number in (0, 1, 0, 1, 2)
        ]

    assert [answer.status_code < 300 for answer in answers] == [True, True, True, False, True]
    assert answers[3].status_code == 429


async def test_requests_over_the_concurrency_limit_are_refused(settings: Settings) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def busy(_scope: Scope, _receive: Receive, send: Send) -> None:
        entered.set()
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(ConcurrencyLimit(busy, max_running=1)), base_url=URL
    ) as client:
        first = asyncio.create_task(client.get("/api/knowledge"))
        await entered.wait()
        refused = await client.get("/api/knowledge")
        watched = asyncio.create_task(client.get("/health"))
        go.set()
        answered = [(await item).status_code for item in (first, watched)]
        again = await client.get("/api/knowledge")

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.headers["content-type"] == PROBLEM
    assert (answered, again.status_code) == ([200, 200], 200)


async def test_a_failed_request_frees_its_slot() -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("a bug")

    room = ConcurrencyLimit(broken, max_running=1)
    scope: Scope = {"type": "http", "method": "GET", "path": "/api/knowledge"}

    for _ in range(3):
        with pytest.raises(RuntimeError, match="a bug"):
            await room(scope, _nothing, _nowhere)


async def test_a_body_that_does_not_arrive_times_out(settings: Settings, hub: Hub) -> None:
    app = create_app(settings.model_copy(update={"request_timeout_s": 0.05}), hub)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = make_post_scope("/api/knowledge")
    async with asyncio.timeout(10):
        await app(scope, _slow(), send)

    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert b"urn:knowhub:problem:request-timeout" in sent[1]["body"]
    assert hub.store.status().last_seq == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate_limit_per_minute", -1), ("writes_per_day", -1), ("max_concurrent_requests", -1), ("request_timeout_s", 0)],
)
def test_an_invalid_limit_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        Settings.model_validate({name: value})


def _slow() -> Receive:
    """Receive one byte, and then nothing more."""
    pieces: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Message:
        if pieces:
            return pieces.pop()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets")

    return receive


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nowhere(_message: Message) -> None:
    return None
