"""No text holds up the event loop: hostile and honest texts through every route that reads them.

Run the nightly ones with `-s` to see the table: seconds and the longest stall of each route, text and size. Other
programs on the machine only slow things down: times are bounded by the processor time of the server (`Stopwatch`).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from tests.e2e.server_process import Server, Stopwatch, environment
from tests.hostile_texts import HOSTILE_TEXTS

MIB = 1024 * 1024
KINDS = (
    *("capitals", "base64", "DNA", "quotes", "brackets", "newlines", "digits"),
    *("log", "base64 lines", "DNA lines", "JSON", "novel"),
)
# A record is at most two mebibytes; a thousand of them is a batch.
PIECE_CHARS = 20_000
STALL_MS = 50
# Tests run side by side, and share a processor's caches: processor time is up to twice what it is alone.
STALL_AMONG_OTHERS_MS = 120
LARGE_BODY = str(96 * MIB)
LIMITS = {
    "KNOWHUB_MAX_BODY_BYTES": LARGE_BODY,
    "KNOWHUB_MAX_BATCH_BODY_BYTES": LARGE_BODY,
    "KNOWHUB_MAX_HELD_BODY_BYTES_PER_CALLER": "0",
    "KNOWHUB_MAX_HELD_BODY_BYTES": "0",
}
JSON, LINES = {"content-type": "application/json"}, {"content-type": "application/x-ndjson"}
SKOS = {"content-type": "application/rdf+xml"}
QUESTION = {"q": "deploy token 窗外 failed"}


@dataclass(frozen=True)
class RouteTiming:
    """How long a route took, in seconds, and how long its longest stall was, in milliseconds."""

    seconds: float
    stall_ms: float
    loop_ms: float
    stack: str


@contextmanager
def run_watched_server(data: Path) -> Iterator[Server]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.heartbeat_server"],
        stdout=subprocess.PIPE,
        env=environment(data, **LIMITS),
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, trust_env=False) as client:
                while not answers(client):
                    time.sleep(0.05)
            yield Server(url, process)
        finally:
            process.kill()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False


def pieces_of(text: str, chars: int) -> list[str]:
    return [text[start : start + chars] for start in range(0, len(text), chars)]


def requests_with(client: httpx.Client, text: str, name: str) -> dict[str, Callable[[], httpx.Response]]:
    """Return what to send, by route; `name` is new for each text."""
    pieces = pieces_of(text, PIECE_CHARS)
    messages = [{"role": "user", "content": piece} for piece in pieces]
    records = [{"task": f"{name} {number}", "content": piece} for number, piece in enumerate(pieces)]
    infos = [{"content": f"{name} {piece}"} for piece in pieces]
    keywords = [
        {"name": f"{name} {number}", "description": piece} for number, piece in enumerate(pieces_of(text, 4_000)[:1000])
    ]

    def post(path: str, body: object) -> httpx.Response:
        return client.post(path, content=orjson.dumps(body), headers=JSON)

    def settle() -> httpx.Response:
        while (answer := client.get("/ready")).json().get("index_lag"):
            time.sleep(0.05)
        return answer

    def restore() -> httpx.Response:
        newest = client.get("/api/maintenance/snapshots").json()["results"][0]
        return client.post(f"/api/maintenance/snapshots/{newest['ts']}/restore")

    session = {"session_id": name, "user_id": "li", "messages": messages}
    lines = b"\n".join(orjson.dumps({**record, "task": f"{record['task']} again"}) for record in records)
    return {
        "commit": lambda: post("/api/context/sessions/commit", session),
        "extract": lambda: post("/api/knowledge/extract", {"user_id": "li", "messages": messages}),
        "save": lambda: post("/api/knowledge/batch", {"items": records}),
        "search": lambda: client.get("/api/knowledge/search", params=QUESTION),
        "recall": lambda: client.get("/api/recall", params=QUESTION),
        "index": settle,
        "one text": lambda: post("/api/knowledge/batch", {"items": [{"task": name, "content": text[: 2 * MIB - 1]}]}),
        "list": lambda: client.get("/api/knowledge", params={"limit": 1000}),
        "infos": lambda: post("/api/infos/batch", {"items": infos}),
        "keywords": lambda: post("/api/keywords/batch", {"items": keywords}),
        "index tree": settle,
        "snapshot": lambda: client.post("/api/maintenance/snapshots"),
        "import": lambda: client.post("/api/knowledge/import", content=lines, headers=LINES),
        "audit": lambda: client.get("/api/maintenance/audit"),
        "restore": restore,
    }


def time_request(
    server: Server, client: httpx.Client, send: Callable[[], httpx.Response]
) -> tuple[httpx.Response, RouteTiming]:
    client.get("/_heartbeat")
    watch = Stopwatch(server.process.pid)
    answer = send()
    seconds = watch.read()
    assert answer.status_code < 300, (answer.url, answer.text[:500])
    return answer, RouteTiming(seconds, **client.get("/_heartbeat").json())


def measure(server: Server, text: str, name: str) -> dict[str, RouteTiming]:
    """Send a text through every route, one after another."""
    with httpx.Client(base_url=server.url, timeout=600, trust_env=False) as client:
        requests = requests_with(client, text, name)
        return {route: time_request(server, client, send)[1] for route, send in requests.items()}


def add_indexing(measured: dict[str, RouteTiming]) -> dict[str, float]:
    """Return the seconds of each route. Searches wait for the index up to two seconds: all of it is one work."""
    seconds = {route: found.seconds for route, found in measured.items()}
    return seconds | {"index": sum(seconds.pop(route) for route in ("search", "recall", "index", "index tree"))}


def list_stalls(measured: dict[str, RouteTiming], limit_ms: float) -> list[str]:
    return [
        f"{route}: {found.stall_ms:.0f} ms, {found.loop_ms:.0f} of them in the loop\n{found.stack}"
        for route, found in measured.items()
        if found.stall_ms > limit_ms
    ]


def make_text(kind: str, size: int) -> str:
    """Return a text of so many bytes."""
    return HOSTILE_TEXTS[kind](size).encode()[:size].decode(errors="ignore")


@pytest.mark.timeout(300)
def test_half_a_mebibyte_of_text_does_not_stall_the_server(tmp_path: Path) -> None:
    with run_watched_server(tmp_path) as server:
        found = [
            f"{kind}: {stall}"
            for kind in ("quotes", "log", "novel")
            for stall in list_stalls(measure(server, make_text(kind, MIB // 2), kind), STALL_AMONG_OTHERS_MS)
        ]

    assert not found, "\n".join(found)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_mebibytes_do_not_stall_the_server_and_take_linear_time(tmp_path: Path, kind: str) -> None:
    rounds: dict[int, dict[str, RouteTiming]] = {}
    for mebibytes in (4, 8, 16):
        with run_watched_server(tmp_path / str(mebibytes)) as server:
            rounds[mebibytes] = measure(server, make_text(kind, mebibytes * MIB), kind)
    for route in rounds[4]:
        figures = [f"{rounds[size][route].seconds:7.2f} s {rounds[size][route].stall_ms:5.0f} ms" for size in rounds]
        sys.stdout.write(f"{kind:13} {route:9} {' | '.join(figures)}\n")

    found = [stall for measured in rounds.values() for stall in list_stalls(measured, STALL_MS)]
    assert not found, "\n".join(found)
    for less, more in ((4, 8), (8, 16)):
        before, after = add_indexing(rounds[less]), add_indexing(rounds[more])
        for route, seconds in after.items():
            assert seconds < 3 * before[route] + 0.5, (route, less, more, rounds)


def make_concepts(count: int) -> bytes:
    """Make a SKOS document with a hundred concepts at the top and three levels."""
    head = (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:skos="http://www.w3.org/2004/02/skos/core#">'
    )
    parts = [head]
    for number in range(count):
        above = number % 100 if number < 1_100 else 100 + number % 1_000
        broader = f'<skos:broader rdf:resource="u:{above}"/>' if number >= 100 else ""
        label = (
            f"<skos:prefLabel>concept {number} of all</skos:prefLabel><skos:altLabel>概念 {number} 号</skos:altLabel>"
        )
        parts.append(f'<skos:Concept rdf:about="u:{number}">{label}{broader}</skos:Concept>')
    return "".join([*parts, "</rdf:RDF>"]).encode()


def measure_tree(data: Path, concepts: int) -> dict[str, RouteTiming]:
    """Import a tree, import it again, and export it."""
    document, path = make_concepts(concepts), "/api/keywords/import"
    found: dict[str, RouteTiming] = {}
    with run_watched_server(data) as server, httpx.Client(base_url=server.url, timeout=600, trust_env=False) as client:
        steps: dict[str, Callable[[], httpx.Response]] = {
            "import": lambda: client.post(path, content=document, headers=SKOS),
            "again": lambda: client.post(path, content=document, headers=SKOS),
            **{
                f"export {form}": partial(client.get, "/api/keywords/export", params={"format": form})
                for form in ("jsonl", "skos", "outline", "csv")
            },
        }
        for step, send in steps.items():
            answer, found[step] = time_request(server, client, send)
        assert answer.text.count("\n") == concepts + 1
    return found


@pytest.mark.parametrize(
    ("concepts", "limit_ms"),
    [
        (20_000, STALL_AMONG_OTHERS_MS),
        pytest.param(100_000, STALL_MS, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_a_large_tree_stalls_nobody(tmp_path: Path, concepts: int, limit_ms: float) -> None:
    measured = measure_tree(tmp_path, concepts)
    for step, figures in measured.items():
        sys.stdout.write(f"{step:15} {figures.seconds:7.2f} s {figures.stall_ms:5.0f} ms\n")

    found = list_stalls(measured, limit_ms)
    assert not found, "\n".join(found)


def measure_group_undo(data: Path, concepts: int) -> RouteTiming:
    """Import a tree, and undo the import as one group."""
    document = make_concepts(concepts)
    with run_watched_server(data) as server, httpx.Client(base_url=server.url, timeout=600, trust_env=False) as client:
        import_id = client.post("/api/keywords/import", content=document, headers=SKOS).json()["import_id"]
        while client.get("/ready").json().get("index_lag"):
            time.sleep(0.05)
        undone, found = time_request(server, client, lambda: client.post(f"/api/operations/{import_id}/undo"))
        answer = undone.json()
        assert len(answer["changes"]) == min(concepts, 10_000)
        assert answer.get("changes_total", concepts) >= concepts
        assert [row["id"] for row in client.get("/api/keywords").json()["results"]] in ([], ["root"])
    return found


@pytest.mark.parametrize(
    ("keywords", "limit_ms"),
    [
        (5_000, STALL_AMONG_OTHERS_MS),
        pytest.param(100_000, STALL_MS, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_an_undo_of_many_keywords_stalls_nobody(tmp_path: Path, keywords: int, limit_ms: float) -> None:
    figures = measure_group_undo(tmp_path, keywords)
    sys.stdout.write(f"undo {figures.seconds:7.2f} s {figures.stall_ms:5.0f} ms\n")

    found = list_stalls({"undo": figures}, limit_ms)
    assert not found, "\n".join(found)
