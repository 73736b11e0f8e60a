"""Hundreds of sealed bodies pass a real server with a model; then every file, log and answer is searched."""

import asyncio
import base64
import gzip
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.forking import fork_command
from tests.e2e.scripted_llm import ScriptedLLM, running_llm
from tests.e2e.server_process import COMMAND, WAIT_S, environment

pytestmark = pytest.mark.anyio

MARK = "public-marker-that-is-sealed-nowhere"


def make_canary(number: int) -> str:
    return f"canary{number:05d}七{number * 7919 % 100003:06d}{'quokka'}{number:05d}"


def make_body(number: int) -> dict[str, Any]:
    return {
        "id": f"credentials/site_{number}",
        "title": f"account {number}",
        "body": f"{MARK} {number}",
        "secure_body": f"账号：{make_canary(number)}\n密码：pw-{make_canary(number)}",
        "content_type": "credential",
        "scopes": ["public"] if number % 3 else ["user:owner"],
    }


def list_forms(number: int) -> list[bytes]:
    """Return the forms of a secret: plain, escaped, quoted in a URL, in hexadecimal, in base64."""
    text = make_canary(number)
    raw = text.encode()
    # In base64 a text has a form for each of three offsets; its inner part does not depend on its neighbours.
    packed = [base64.b64encode(b"x" * shift + raw)[4:-4] for shift in range(3)]
    ascii_part = text.partition("七")[0].encode()
    return [raw, ascii_part, quote(text).encode(), raw.hex().encode(), *packed]


def find_occurrences(texts: dict[str, bytes], count: int) -> list[str]:
    """Return the places that contain any of `count` secrets in any form."""
    sought = {form: number for number in range(count) for form in list_forms(number)}
    # All share this beginning, or its forms: a place without it needs no closer look.
    starts = {form[:6] for form in sought}
    suspects = {name: data for name, data in texts.items() if any(start in data for start in starts)}
    return [
        f"{name}: canary {number}" for name, data in suspects.items() for form, number in sought.items() if form in data
    ]


@contextmanager
def run_logged_server(data: Path, log: Path, **variables: str) -> Iterator[str]:
    """Run a server that logs at debug level into a file."""
    options = {"KNOWHUB_LOG_LEVEL": "debug", "KNOWHUB_REVEALS_PER_HOUR": "0", **variables}
    with log.open("wb") as err:
        process = fork_command(COMMAND[3:], environment(data, **options), stderr=err)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.close()
            assert process.wait(WAIT_S) == 0


class RecordingClient:
    """A client that records every answer, head and body, but not those of `reveal`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.answers: dict[str, bytes] = {}

    async def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401 -- httpx's own
        response = await self._http.request(method, path, **options)
        head = repr(response.headers).encode()
        self.answers[f"{len(self.answers)} {method} {path} {response.status_code}"] = head + response.content
        assert response.status_code < 500, response.text
        return response

    async def reveal(self, number: int) -> str:
        response = await self._http.get(f"/api/resource/credentials/site_{number}", params={"reveal": "true"})
        return str(response.json()["secure_body"])


async def use_every_feature(call: RecordingClient, llm: ScriptedLLM, count: int) -> None:
    """Save, refer, find, change, undo, fail, erase, snapshot and restore, and have a model asked wherever it can be."""
    for number in range(count):
        assert (await call("POST", "/api/resource", json=make_body(number))).status_code == 201
    for number in range(0, count, 5):
        path = f"/api/resource/credentials/site_{number}"
        assert make_canary(number) in await call.reveal(number)
        lesson = {
            "task": f"log in to site {number}",
            "content": f"{MARK} use it",
            "resource_ids": [f"credentials/site_{number}"],
        }
        record = (await call("POST", "/api/knowledge", json=lesson)).json()
        await call("PUT", f"/api/knowledge/{record['id']}", json={"evolve_feedback": "say it shorter"})
        changed = (await call("PATCH", path, json={"secure_body": f"new {make_canary(number)}"})).json()
        await call("GET", f"/api/operations/{changed['operation_id']}")
        await call("POST", f"/api/operations/{changed['operation_id']}/undo")
        await call("POST", "/api/resource", json=make_body(number), headers={"Idempotency-Key": f"again-{number}"})
    await use_failing_model(call)
    for path in (
        "/api/resource?limit=1000",
        "/api/operations?limit=1000",
        "/api/knowledge?limit=1000",
        "/metrics",
        "/ready",
    ):
        await call("GET", path)
    await llm.script(*({"missing": None} for _ in range(20)))
    for query in ("log in to site 5", "credentials site_5", "密码"):
        await call("GET", "/api/knowledge/search", params={"q": query, "explain": "true"})
        await call("GET", "/api/keywords/search", params={"q": query})
    talk = [{"role": "user", "content": "以后登录 site 5 都用 credentials/site_5，请记住。"}]
    await call("POST", "/api/knowledge/extract", json={"messages": talk, "trigger": "user_expression"})
    await call("POST", "/api/knowledge/slim", json={"dry_run": True})
    await call("GET", "/api/knowledge/export")
    ts = (await call("POST", "/api/maintenance/snapshots")).json()["ts"]
    await call("DELETE", "/api/resource/credentials/site_1")
    await call("DELETE", "/api/resource/credentials/site_2?erase=true")
    await call("POST", f"/api/maintenance/snapshots/{ts}/restore")
    await call("POST", "/api/maintenance/compact")
    await call("POST", "/api/maintenance/reindex")
    assert make_canary(1) in await call.reveal(1)


async def use_failing_model(call: RecordingClient) -> None:
    wrong: list[dict[str, Any]] = [
        {"id": "../x"}, {"id": "credentials/site_1"}, {"scopes": ["nobody"]}, {"expires_at": "soon"}, {"version": 7},
        {"metadata": {"expires_at": 1}}, {"secure_body": [make_canary(3)]}, {"secure_body": make_canary(3) + "\0"},
        {"content_type": "", "owner": "nobody:x"}, {"secure_body": {"password": make_canary(3)}},
    ]  # fmt: skip
    for fields in wrong:
        assert (
            await call("POST", "/api/resource", json={**make_body(3), "id": "other/one", **fields})
        ).status_code >= 400
    torn = f'{{"id":"a/b","secure_body":"{make_canary(3)}'.encode()
    await call("POST", "/api/resource", content=torn, headers={"Content-Type": "application/json"})
    await call("POST", "/api/resource", content=torn, headers={"Content-Type": "text/plain"})
    await call("POST", "/api/resource", json={**make_body(3), "body": "x" * 2_000_000})
    await call("PATCH", "/api/resource/credentials/site_3", json={"secure_body": make_canary(3), "version": 99})
    await call("PATCH", "/api/resource/none/such", json={"secure_body": make_canary(3)})
    await call("GET", "/api/resource/credentials/site_3", params={"reveal": "true", "user_id": "wang"})


def read_files(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file; gzip files are unpacked."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found[str(path)] = data
            if path.suffix == ".gz":
                found[f"{path} unpacked"] = gzip.decompress(data)
    return found


async def check(tmp_path: Path, count: int) -> None:
    data, log = tmp_path / "data", tmp_path / "server.log"
    async with running_llm(*({"missing": None} for _ in range(count))) as llm:
        variables = {"KNOWHUB_LLM_BASE_URL": llm.url, "KNOWHUB_LLM_BREAKER_FAILURES": "0", "KNOWHUB_LLM_ATTEMPTS": "1"}
        with run_logged_server(data, log, **variables) as url:
            async with httpx.AsyncClient(base_url=url, timeout=WAIT_S, trust_env=False) as http:
                call = RecordingClient(http)
                await use_every_feature(call, llm, count)
                # Upkeep writes derived files a second later.
                await asyncio.sleep(1.5)
                alive = read_files(data)
        prompts = {f"prompt {number}": repr(request).encode() for number, request in enumerate(await llm.requests())}

    files = read_files(data) | {f"{name}, while it ran": text for name, text in alive.items()}
    places = {"log": log.read_bytes()} | files | call.answers | prompts
    assert find_occurrences(places, count) == []
    # The search works: it finds the public half in the log, the snapshots, the record files and the answers.
    with_mark = [name for name, text in places.items() if MARK.encode() in text]
    for kind in ("change_log/", "snapshots/", "records/resources.jsonl", "GET /api/resource?"):
        assert any(kind in name for name in with_mark), kind
    assert find_occurrences({"planted": b"..." + make_canary(7).encode() + b"..."}, count) != []
    assert find_occurrences({"planted": base64.b64encode(b"12" + make_canary(7).encode() + b"...")}, count) != []
    assert len(prompts) > 5
    assert any(MARK.encode() in prompt for prompt in prompts.values())
    assert b"master_key_made" in places["log"]


@pytest.mark.parametrize("count", [200, pytest.param(1_000, marks=pytest.mark.nightly)])
async def test_no_secret_is_in_any_file_log_answer_or_prompt(tmp_path: Path, count: int) -> None:
    await check(tmp_path, count)
