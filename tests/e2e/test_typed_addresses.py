"""Addresses as people type them, sent byte by byte to a real server: the client of the other tests encodes its own."""

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.server_process import Server, run_server
from tests.e2e.wire import Wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("typed")) as first:
        yield first


def create_keyword(server: Server, name: str) -> None:
    made = httpx.post(f"{server.url}/api/keywords", json={"name": name}, trust_env=False)
    assert made.status_code == 201, made.text


def test_a_chinese_query_is_read_as_it_was_typed_again_and_again_on_one_connection(server: Server) -> None:
    create_keyword(server, "索引")

    with Wire(server) as wire:
        answers = [
            wire.ask(f"GET /api/keywords/search?q={name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            for name in ("索引", "%E7%B4%A2%E5%BC%95", "索引")
        ]

    assert [(status, found["node"]["name"]) for status, _, found in answers] == [(200, "索引")] * 3


def test_a_chinese_id_in_a_path_is_read_as_it_was_typed(server: Server) -> None:
    body = {"id": "工具/登录", "title": "Login", "body": "看文档"}
    saved = httpx.post(f"{server.url}/api/resource", json=body, trust_env=False)
    assert saved.status_code == 201, saved.text

    with Wire(server) as wire:
        status, _, found = wire.ask("GET /api/resource/工具/登录 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

    assert (status, found["id"]) == (200, "工具/登录")


def test_a_body_that_looks_like_a_request_stays_as_it_is(server: Server) -> None:
    body = "GET /索引 HTTP/1.1\r\n".encode()
    head = (
        "POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )

    with Wire(server) as wire:
        wire.write(head)
        # The server waits for the body, which so comes in a piece of its own.
        continued = wire.line() + wire.line()
        refused = wire.ask(body)
        # A longer body would run into the next request.
        after = wire.ask("GET /api/keywords/root HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

    assert continued == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (refused[0], refused[2]["type"]) == (400, "urn:knowhub:problem:malformed-json")
    assert (after[0], after[2]["id"]) == (200, "root")


def test_a_typed_address_is_read_after_an_unread_body(server: Server) -> None:
    head = (
        "POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Length: 2\r\n\r\n"
    )

    with Wire(server) as wire:
        refused = wire.ask(head)
        wire.write("{}")
        time.sleep(0.2)
        after = wire.ask("GET /api/keywords/search?q=未有 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

    assert (refused[0], after[0], after[2]["status"]) == (403, 200, "not_found")


def test_bytes_that_are_no_utf_8_are_refused_by_name(server: Server) -> None:
    typed = "索引".encode("gbk")

    with Wire(server) as wire:
        status, kind, result = wire.ask(
            b"GET /api/keywords/search?q=" + typed + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        )

    assert (status, kind) == (422, "application/problem+json")
    assert result["errors"] == [{"field": "query", "message": "is not UTF-8"}]


@pytest.mark.parametrize(
    "text",
    [b"hello\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\xff" * 99],
    ids=["no request", "a NUL", "TLS", "no text"],
)
def test_a_request_that_is_not_http_gets_a_problem(server: Server, text: bytes) -> None:
    with Wire(server) as wire:
        status, kind, result = wire.ask(text)

    assert (status, kind, result["type"]) == (400, "application/problem+json", "urn:knowhub:problem:malformed-request")
    assert "percent-encoded" in result["detail"]
