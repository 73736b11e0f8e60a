"""A model server that is down, late, expensive or hostile: retries and errors of the chat provider."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from time import tzset

import httpx
import pytest
import respx

from knowhub.core.language_models import FailureReason
from knowhub.providers.http import make_client
from tests.builders import START
from tests.fakes.model_server import MATCH, QUESTION, FakeTime, chat_client, completion, failure_of, refusal

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_temporary_errors_are_retried_with_growing_pauses(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime, status: int
) -> None:
    server.side_effect = [refusal(status, "later"), refusal(status, "later"), completion(MATCH)]

    reply = await chat_client(http, time).chat(QUESTION, 60)

    assert reply.data == MATCH
    assert len(time.pauses) == 2
    assert 0.25 <= time.pauses[0] <= 0.5 <= time.pauses[1] <= 1.0


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("gone"), OSError(5, "io")],
)
async def test_a_broken_connection_is_retried_and_then_reported(
    http: httpx.AsyncClient, server: respx.Route, error: Exception
) -> None:
    server.mock(side_effect=error)

    failed = await failure_of(chat_client(http, max_attempts=3))

    assert failed.reason is FailureReason.FAILURE
    assert failed.detail.startswith(f"the server cannot be reached: {type(error).__name__}")
    assert server.call_count == 3


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 413, 422, 501])
async def test_permanent_errors_are_not_retried(http: httpx.AsyncClient, server: respx.Route, status: int) -> None:
    server.mock(return_value=refusal(status, "no", location="http://elsewhere.test/"))

    failed = await failure_of(chat_client(http))

    assert failed.reason is FailureReason.FAILURE
    assert failed.detail == f"the server answered {status}: no"
    assert server.call_count == 1


@pytest.mark.parametrize(
    ("error", "calls"), [({"code": 429, "message": "slow"}, 3), ({"code": 401, "message": "who"}, 1), ("ill", 3)]
)
async def test_an_error_inside_a_200_is_handled_as_that_error(
    http: httpx.AsyncClient, server: respx.Route, error: object, calls: int
) -> None:
    server.mock(return_value=httpx.Response(200, json={"error": error}))

    await failure_of(chat_client(http, max_attempts=3))

    assert server.call_count == calls


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("Thu, 05 Mar 2026 12:00:09 GMT", 9.0),
        ("Thu, 05 Mar 2020 12:00:00 GMT", 0.0),
    ],
)
async def test_retry_after_is_obeyed(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime, retry_after: str, pause_s: float
) -> None:
    assert START == 1_772_712_000.0
    server.side_effect = [refusal(429, "slow", **{"retry-after": retry_after}), completion(MATCH)]

    await chat_client(http, time).chat(QUESTION, 60)

    assert time.pauses == [pause_s]


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Shanghai")
        tzset()
        yield
    tzset()


@pytest.mark.usefixtures("in_shanghai")
@pytest.mark.parametrize("retry_after", ["Thu Mar  5 12:00:09 2026", "Thu, 05 Mar 2026 12:00:09 -0000"])
async def test_a_retry_date_without_a_zone_is_utc(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime, retry_after: str
) -> None:
    server.side_effect = [refusal(429, "slow", **{"retry-after": retry_after}), completion(MATCH)]

    await chat_client(http, time).chat(QUESTION, 60)

    assert time.pauses == [9.0]


@pytest.mark.parametrize(
    "retry_after", ["soon", "-5", "nan", "inf", "9" * 5000, "٣", "Thu, 99 Mar 2026 12:00:00 GMT", ""]
)
async def test_an_invalid_retry_after_is_ignored(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime, retry_after: str
) -> None:
    answer = httpx.Response(429, headers=[(b"retry-after", retry_after.encode())])
    server.side_effect = [answer, completion(MATCH)]

    await chat_client(http, time).chat(QUESTION, 60)

    assert 0.25 <= time.pauses[0] <= 0.5


async def test_a_pause_beyond_the_deadline_is_not_started(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime
) -> None:
    server.mock(return_value=refusal(429, "slow", **{"retry-after": "61"}))

    failed = await failure_of(chat_client(http, time), 60)

    assert failed.reason is FailureReason.FAILURE
    assert failed.detail == "the server answered 429: slow"
    assert time.pauses == []


async def test_the_deadline_covers_all_attempts_and_turns(http: httpx.AsyncClient, server: respx.Route) -> None:
    begun: list[httpx.Request] = []

    async def slowly(request: httpx.Request) -> httpx.Response:
        begun.append(request)
        await asyncio.sleep(0.1)
        return completion("not what was asked") if len(begun) == 1 else refusal(503, "ill", **{"retry-after": "0"})

    server.mock(side_effect=slowly)
    model = chat_client(http, max_attempts=1000)

    async with asyncio.timeout(5):
        failed = await failure_of(model, 0.35)

    assert failed.reason is FailureReason.TIMEOUT
    assert failed.detail == "the model did not answer within 0.35 s"
    assert 2 <= len(begun) <= 4


async def test_each_attempt_has_its_share_of_the_time_limit(http: httpx.AsyncClient, server: respx.Route) -> None:
    begun: list[httpx.Request] = []

    async def slowly_then_not(request: httpx.Request) -> httpx.Response:
        begun.append(request)
        await asyncio.sleep(10 if len(begun) == 1 else 0)
        return completion(MATCH)

    server.mock(side_effect=slowly_then_not)

    reply = await chat_client(http, attempt_timeout_s=0.05, max_attempts=3).chat(QUESTION, 6)

    assert reply.data == MATCH
    assert len(begun) == 2


async def test_an_attempt_of_long_work_may_take_longer_than_an_attempt_of_a_search(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    async def slowly(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.2)
        return completion(MATCH)

    server.mock(side_effect=slowly)
    impatient = chat_client(http, attempt_timeout_s=0.05, max_attempts=1)

    assert (await impatient.chat(QUESTION, 60)).data == MATCH


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"])
async def test_the_timeout_may_be_infinite(http: httpx.AsyncClient, server: respx.Route) -> None:
    reply = await chat_client(http).chat(QUESTION, float("inf"))

    assert reply.data == MATCH


async def test_a_long_odd_error_body_is_one_short_line(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(return_value=httpx.Response(418, content=b"\x00\x1b[31m\xff bad\r\nthing " * 100_000))

    failed = await failure_of(chat_client(http))

    assert failed.detail.isprintable()
    assert len(failed.detail) == 200


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "model.test/v1",
        "ftp://model.test",
        "http://",
        "http://model.test:99999",
        "http://me:secret@model.test",
        "http://m.test/v1?key=secret",
    ],
)
async def test_an_invalid_base_url_is_refused_and_not_repeated(http: httpx.AsyncClient, base_url: str) -> None:
    with pytest.raises(ValueError, match="base URL is an http address") as caught:
        chat_client(http, base_url=base_url)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-编程", "sk-a\nb", "sk-\x00"])
async def test_an_invalid_key_is_refused_and_not_repeated(http: httpx.AsyncClient, key: str) -> None:
    with pytest.raises(ValueError, match="holds characters that a header cannot carry") as caught:
        chat_client(http, api_key=key)

    assert "sk-" not in str(caught.value)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async with make_client() as http, socket_server([ok_response(MATCH_BODY)]) as base_url:
        reply = await chat_client(http, base_url=base_url).chat(QUESTION, 10)

    assert reply.data == MATCH


async def test_a_configured_proxy_is_used() -> None:
    async with socket_server([ok_response(MATCH_BODY)]) as proxy, make_client(proxy.removesuffix("/v1")) as http:
        reply = await chat_client(http, base_url="http://model.invalid/v1").chat(QUESTION, 10)

    assert reply.data == MATCH


HOSTILE: list[tuple[bytes, str]] = [
    (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", "compressed answer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000, "over 1000 bytes"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"fff\r\n" + b"x" * 4095 + b"\r\n", "over 1000 bytes"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "RemoteProtocolError"),
    (b"\x00\x01\x02 not HTTP\r\n\r\n", "RemoteProtocolError"),
    (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 500_000, "RemoteProtocolError"),
    (b"", "RemoteProtocolError"),
]


@pytest.mark.parametrize(("sent", "told"), HOSTILE)
async def test_any_bytes_over_the_socket_are_a_failure(http: httpx.AsyncClient, sent: bytes, told: str) -> None:
    async with socket_server([sent]) as base_url:
        model = chat_client(http, base_url=base_url, max_attempts=1, max_answer_bytes=1000)
        failed = await failure_of(model, 10)

    assert failed.reason is FailureReason.FAILURE
    assert told in failed.detail


MATCH_BODY = completion(MATCH).content


def ok_response(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def socket_server(answers: Sequence[bytes]) -> AsyncIterator[str]:
    """Answer each connection with the next of these bytes, and close it."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
