"""A real server over real sockets: what only a socket shows, two servers, a full disk."""

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.server_process import WAIT_S, read_start_messages, run_server

MIB = 1024 * 1024
TMPFS_BYTES = 2 * MIB


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_server(tmp_path_factory.mktemp("server") / "data") as server:
        yield server.url


def connection(url: str) -> "closing[http.client.HTTPConnection]":
    return closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=WAIT_S))


def test_an_unknown_setting_is_named_at_the_start_with_the_most_similar_one(tmp_path: Path) -> None:
    names = {"KNOWHUB_EMBEDING": "off", "KNOWHUB_llm_model": "m", "KNOWHUB_ZZZ": "1", "KNOWHUB_API_URL": "http://a"}
    warned = read_start_messages(tmp_path, **names)

    assert "KNOWHUB_EMBEDING is no setting and is ignored; did you mean KNOWHUB_EMBEDDING?" in warned
    assert "KNOWHUB_llm_model is no setting and is ignored; did you mean KNOWHUB_LLM_MODEL?" in warned
    assert "KNOWHUB_ZZZ is no setting and is ignored\n" in warned
    assert "KNOWHUB_API_URL" not in warned


@pytest.mark.parametrize("mebibytes", [2, 17, 40])
def test_a_body_that_is_too_large_gets_an_answer_that_can_be_read(url: str, mebibytes: int) -> None:
    with connection(url) as client:
        client.request("POST", "/api/knowledge", b"x" * mebibytes * MIB, {"Content-Type": "application/json"})
        answer = client.getresponse()

        assert answer.status == 413
        assert b'"status":413' in answer.read()


def test_a_body_of_unknown_length_is_limited_too(url: str) -> None:
    with connection(url) as client:
        chunks = (b"x" * MIB for _ in range(20))
        headers = {"Content-Type": "application/json"}
        client.request("POST", "/api/knowledge", chunks, headers, encode_chunked=True)
        answer = client.getresponse()

        assert answer.status == 413
        assert b"at most 1048576 bytes" in answer.read()


def test_a_refused_body_gets_a_readable_answer_and_keeps_the_connection(
    url: str,
) -> None:
    path, body, headers = "/api/knowledge/batch", b"x" * 16 * MIB, {"Content-Type": "application/json"}
    place = urlsplit(url)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with ExitStack() as halves, httpx.Client(base_url=url) as staying, connection(url) as leaving:
        for _ in range(2):
            half = halves.enter_context(socket.create_connection((place.hostname, place.port)))
            half.sendall(head.encode())
        time.sleep(0.5)

        refused = staying.post(path, content=body, headers=headers)
        leaving.request("POST", path, body, headers | {"Connection": "close"})

        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert leaving.getresponse().status == 503
        assert staying.get("/health").is_success
    time.sleep(0.5)

    # Who held them has left; that it is no JSON is all that is wrong with it now.
    assert httpx.post(url + path, content=body, headers=headers).status_code == 400


def test_an_interrupted_import_writes_nothing(url: str) -> None:
    place = urlsplit(url)
    head = "POST /api/knowledge/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection((place.hostname, place.port)) as broken:
        broken.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"id":"half","content":"half"}}\n'.encode())

    assert httpx.get(f"{url}/api/knowledge").is_success
    assert httpx.get(f"{url}/api/knowledge/half").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"), [("/api/knowledge/a%2Fb", 404), ("/api/knowledge/%2e%2e", 404), ("/api/knowledge/%ff%00", 404)]
)
def test_a_path_of_any_bytes_is_answered(url: str, path: str, status: int) -> None:
    with connection(url) as client:
        client.request("GET", path)

        assert client.getresponse().status == status


def test_two_servers_lose_no_vote_and_let_one_of_two_changes_win(tmp_path: Path) -> None:
    with run_server(tmp_path / "data") as first, run_server(tmp_path / "data") as two:
        record = httpx.post(f"{first.url}/api/knowledge", json={"content": "voted on"}).json()
        path = f"/api/knowledge/{record['id']}"
        for _ in range(10):
            for server in (first, two):
                assert httpx.put(server.url + path, json={"add_helpful_case": {}}).is_success
        version = httpx.get(two.url + path).json()["version"]

        body = {"content": "changed", "version": version}
        statuses = [httpx.patch(server.url + path, json=body).status_code for server in (first, two)]

        assert httpx.get(first.url + path).json()["eval"]["helpful"] == 21
        assert statuses == [200, 409]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system that is soon full; without the right to, there is nothing to be shown."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_refuses_writes_until_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with run_server(small_disk / "data", KNOWHUB_INDEX_INTERVAL_S="3600") as server, httpx.Client() as client:
        api = f"{server.url}/api/knowledge"
        saved = client.post(api, json={"content": "登录 before the disk was full"}).json()
        fill(ballast)

        refused = [client.post(api, json={"content": f"number {n} " + "x" * 50_000}) for n in range(5)]
        read = client.get(f"{api}/{saved['id']}")
        found = client.get(f"{api}/search", params={"q": "登录"})
        ballast.unlink()
        resumed = client.post(api, json={"content": "after there was room"})

        assert [answer.status_code for answer in refused] == [507] * 5
        assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
        assert all("retry-after" in answer.headers for answer in refused)
        assert (read.status_code, found.json()["count"]) == (200, 1)
        assert resumed.status_code == 201
        server.kill()
    with run_server(small_disk / "data") as server:
        listed = httpx.get(f"{server.url}/api/knowledge").json()["results"]
        assert [record["content"] for record in listed] == ["after there was room", "登录 before the disk was full"]


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as full:
                assert full.strerror == os.strerror(28)  # noqa: PT017 -- the disk being full is how this ends
