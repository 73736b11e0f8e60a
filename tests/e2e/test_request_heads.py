"""How much a real server reads of a request before it knows the caller: bytes, headers, trailers, seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server_process import Server, run_server
from tests.e2e.wire import Wire

KIB = 1024
BYTES, FIELDS = 64 * KIB, 100
PROBLEM = "application/problem+json"
TOO_LARGE = (431, PROBLEM, "urn:knowhub:problem:headers-too-large")
GET = b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
RECORD = b'24\r\n{"content":"in parts","dedup":false}\r\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("heads"), KNOWHUB_REQUEST_TIMEOUT_S="1") as running:
        yield running


def head_of(size: int) -> bytes:
    """Return a request of that many bytes, most of them one header."""
    return GET + b"A: " + b"b" * (size - len(GET) - len(b"A: \r\n\r\n")) + b"\r\n\r\n"


def ask(server: Server, text: bytes) -> tuple[int, str, str | None]:
    with Wire(server) as wire:
        status, kind, answer = wire.ask(text)
    return status, kind, answer.get("type")


def test_a_head_of_64_kib_is_read_and_a_byte_more_is_not(server: Server) -> None:
    assert ask(server, head_of(BYTES))[0] == 200
    assert ask(server, head_of(BYTES + 1)) == TOO_LARGE


def test_a_hundred_headers_are_read_and_one_more_is_not(server: Server) -> None:
    # `Host` is one of them.
    assert ask(server, GET + b"A: b\r\n" * (FIELDS - 1) + b"\r\n")[0] == 200
    assert ask(server, GET + b"A: b\r\n" * FIELDS + b"\r\n") == TOO_LARGE


def test_each_request_of_a_connection_has_the_whole_limit(server: Server) -> None:
    with Wire(server) as wire:
        assert [wire.ask(head_of(BYTES))[0] for _ in range(3)] == [200] * 3
        assert wire.ask(head_of(BYTES + 1))[0] == 431
        assert wire.line() == b""


@pytest.mark.parametrize(
    "start",
    [b"", b"GET /", b"GET /version HTTP/1.1\r\nA: ", b"GET /version HTTP/1.1\r\nA", b"GET /version HTTP/1.1\r\nA:"],
    ids=["empty lines", "an address", "a value", "a name", "blanks"],
)
def test_an_endless_head_is_refused_while_it_arrives(server: Server, start: bytes) -> None:
    filling = b" " if start.endswith(b":") else b"A" if start else b"\r\n"

    assert ask(server, start + filling * (4 * BYTES)) == TOO_LARGE


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (b"0\r\n\r\n", 201),
        (b"0\r\nA: b\r\n\r\n", 201),
        (b"0\r\n" + b"A: b\r\n" * (FIELDS - 3) + b"\r\n", 201),
        (b"0\r\n" + b"A: b\r\n" * (FIELDS - 2) + b"\r\n", 431),
        (b"0\r\nA: " + b"b" * 2 * BYTES, 431),
        (b"0\r\nA" + b"b" * 2 * BYTES, 431),
        (b"1;a=" + b"b" * 2 * BYTES, 431),
        (b"0" * 2 * BYTES, 431),
    ],
    ids=["none", "one", "many", "too many", "a value", "a name", "an extension", "a size"],
)
def test_chunk_extensions_and_trailers_are_limited(server: Server, end: bytes, status: int) -> None:
    assert ask(server, CHUNKED + b"\r\n" + RECORD + end)[0] == status


def test_a_body_in_chunks_of_a_byte_is_read(server: Server) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"content":"' + b"x" * 20 * KIB + b'"}')

    assert ask(server, CHUNKED + b"\r\n" + chunks + b"0\r\n\r\n")[0] == 201


def test_a_trailer_is_not_a_header(server: Server) -> None:
    chunks = b'10\r\n{"content":"twi"\r\n1\r\n}\r\n0\r\nIdempotency-Key: trailing\r\n\r\n'

    with Wire(server) as wire:
        first = wire.ask(CHUNKED + b"\r\n" + chunks)
        again = wire.ask(CHUNKED + b"\r\n" + chunks.replace(b"twi", b"two"))

    # As a header, it would be the key of another body: 422.
    assert (first[0], again[0]) == (201, 201)


def test_a_client_that_keeps_sending_gets_the_answer(server: Server) -> None:
    with Wire(server) as wire:
        wire.write(GET + b"A: b\r\n" * 2 * 1024 * KIB)

        assert wire.answer()[0] == 431
        assert wire.line() == b""


def test_a_head_times_out_like_a_body(server: Server) -> None:
    with Wire(server) as wire:
        assert wire.ask(GET)[:2] == (408, PROBLEM)
        assert wire.line() == b""


def test_pipelined_requests_are_answered_in_order_up_to_a_limit(server: Server) -> None:
    with Wire(server) as wire:
        wire.write((GET + b"\r\n") * 100)
        assert [wire.answer()[0] for _ in range(100)] == [200] * 100

        wire.write((GET + b"\r\n") * 10_000)
        assert wire.answer()[0] == 400
        assert wire.line() == b""


def test_the_limits_are_settings(server: Server, tmp_path: Path) -> None:
    limits = {"KNOWHUB_MAX_HEADER_BYTES": str(8 * KIB), "KNOWHUB_MAX_HEADER_FIELDS": "200"}
    with run_server(tmp_path / "data", **limits) as other:
        assert ask(other, head_of(8 * KIB))[0] == 200
        assert ask(other, head_of(8 * KIB + 1)) == TOO_LARGE
        assert ask(other, GET + b"A: b\r\n" * 199 + b"\r\n")[0] == 200
        assert ask(other, GET + b"A: b\r\n" * 200 + b"\r\n") == TOO_LARGE
