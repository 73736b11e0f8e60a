"""The frame around every route: request ids, hosts and origins, methods, limits, health, docs, long work."""

import asyncio
import re

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from knowhub.bootstrap import Hub
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.route import Route
from tests.web.conftest import SaveRecord, client_of, make_post_scope

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"
MIB = 1024 * 1024


async def test_a_request_id_is_echoed_or_made(api: httpx.AsyncClient) -> None:
    sent = await api.get("/health", headers={"X-Request-ID": "trace-7"})
    made = [(await api.get("/nowhere")).headers["x-request-id"] for _ in range(2)]
    refused = await api.get("/health", headers={"X-Request-ID": "x" * 201})

    assert sent.headers["x-request-id"] == "trace-7"
    assert len(set(made)) == 2
    assert re.fullmatch("[0-9a-f]{32}", refused.headers["x-request-id"])


async def test_an_unexpected_error_is_a_problem_with_the_request_id(settings: Settings, hub: Hub) -> None:
    app = create_app(settings, hub)

    async def broken() -> None:
        raise RuntimeError("a secret of the inside")

    app.add_api_route("/api/broken", broken, include_in_schema=False)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        response = await client.get("/api/broken", headers={"X-Request-ID": "trace-7"})

    assert (response.status_code, response.headers["content-type"]) == (500, PROBLEM)
    assert response.headers["x-request-id"] == "trace-7"
    assert "secret" not in response.text
    assert (response.headers["cache-control"], response.headers["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:9", "[::1]:8000", "a.localhost", "hub.lan"])
async def test_a_loopback_or_allowed_host_is_answered(hub: Hub, settings: Settings, host: str) -> None:
    app = create_app(settings.model_copy(update={"allowed_hosts": ("hub.lan",)}), hub)

    async with client_of(app) as client:
        assert (await client.get("/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "10.0.0.7:8000", "localhost.evil.example", "", "[::1", "127.0.0.1:x"],
)
async def test_a_foreign_host_is_refused_on_every_route(api: httpx.AsyncClient, host: str) -> None:
    for path in ("/health", "/docs", "/openapi.json", "/api/knowledge"):
        response = await api.get(path, headers={"Host": host})
        assert (response.status_code, response.headers["content-type"]) == (403, PROBLEM)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("http://localhost:8000", 200),
        ("http://localhost:3000", 403),
        ("https://evil.example", 403),
        ("http://127.0.0.1.evil.example:8000", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
    ],
)
async def test_a_page_of_a_foreign_origin_is_refused(api: httpx.AsyncClient, origin: str, status: int) -> None:
    assert (await api.get("/api/knowledge", headers={"Origin": origin})).status_code == status


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_foreign_page_without_an_origin_writes_no_log_line(api: httpx.AsyncClient, hub: Hub, site: str) -> None:
    saved = await api.post("/api/resource", json={"id": "vault", "secure_body": "canary"})
    before = hub.store.last_seq
    as_image = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}

    answers = [
        await api.get(path, headers=as_image)
        for path in ("/api/resource/vault?reveal=true", "/metrics", "/openapi.json")
    ]

    assert saved.status_code == 201
    assert [answer.status_code for answer in answers] == [403] * 3
    assert "canary" not in answers[0].text
    assert hub.store.last_seq == before


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/docs", {"Sec-Fetch-Site": "cross-site"}),
        ("/api/knowledge", {"Sec-Fetch-Site": "same-origin"}),
        ("/api/knowledge", {"Sec-Fetch-Site": "none"}),
        ("/api/knowledge", {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:8000"}),
    ],
)
async def test_own_pages_links_to_the_docs_and_typed_addresses_are_answered(
    api: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    assert (await api.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/knowledge", "GET, HEAD, POST"),
        ("POST", "/api/knowledge/knowledge-1", "DELETE, GET, HEAD, PATCH, PUT"),
        ("PUT", "/api/knowledge/batch", None),
        ("POST", "/api/knowledge/search", "DELETE, GET, HEAD, PATCH, PUT"),
        ("POST", "/api/knowledge/a%2F1", "DELETE, GET, HEAD, PATCH, PUT"),
        ("POST", "/api/knowledge/x/history", "GET, HEAD"),
        ("GET", "/api/knowledge/import", None),
        ("PUT", "/api/operations", "GET, HEAD"),
        ("GET", "/api/operations/x/undo", "POST"),
        ("OPTIONS", "/api/jobs/x", "DELETE, GET, HEAD"),
        ("GET", "/api/maintenance/reindex", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("DELETE", "/docs/assets/swagger-ui.css", "GET, HEAD"),
    ],
)
async def test_a_405_names_every_method_that_the_path_has(
    api: httpx.AsyncClient, method: str, path: str, allowed: str | None
) -> None:
    response = await api.request(method, path)

    if allowed is None:
        assert response.status_code in {404, 422}
    else:
        assert (response.status_code, response.headers["allow"]) == (405, allowed)
        assert response.headers["content-type"] == PROBLEM


@pytest.mark.parametrize("path", ["/api/knowledge/", "/nowhere", "/api", "/docs/assets/../app.py", "/docs/assets/none"])
async def test_an_unknown_path_is_a_problem(api: httpx.AsyncClient, path: str) -> None:
    response = await api.get(path, params={"secret": "x"})

    assert (response.status_code, response.headers["content-type"]) == (404, PROBLEM)
    assert response.json()["instance"] == httpx.URL(f"http://h{path}").path


@pytest.mark.parametrize("path", ["/api/resources", "/api/context/commit", "/api/sessions"])
async def test_an_unimplemented_route_is_404(api: httpx.AsyncClient, path: str) -> None:
    assert (await api.post(path, json={})).status_code == 404


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/api/knowledge", MIB, 201),
        ("/api/knowledge", MIB + 1, 413),
        ("/api/knowledge", 2 * MIB, 413),
        ("/api/knowledge/batch", 2 * MIB, 201),
        ("/api/knowledge/batch", 16 * MIB + 1, 413),
        ("/api/knowledge/x", 2 * MIB, 413),
    ],
)
async def test_a_body_may_have_the_documented_size(api: httpx.AsyncClient, path: str, size: int, status: int) -> None:
    around = b'{"items":[{"content":"%s"}]}' if path.endswith("batch") else b'{"content":"%s"}'
    body = around % (b"x" * (size - len(around) + 2))
    method = "PATCH" if path.endswith("/x") else "POST"

    response = await api.request(method, path, content=body, headers={"Content-Type": "application/json"})

    assert len(body) == size
    assert response.status_code == status
    assert status == 201 or f"at most {16 * MIB if path.endswith('batch') else MIB} bytes" in response.json()["detail"]


async def test_batches_files_and_sessions_may_have_larger_bodies(app: FastAPI, api: httpx.AsyncClient) -> None:
    routes = [item for item in app.routes if isinstance(item, Route) and item.options.get("is_large")]
    for route in routes:
        kind = "application/x-ndjson" if route.takes_lines else "application/json"
        path = route.path.format(host="claude", event="Stop")
        answer = await api.post(path, content=b" " * 2 * MIB + b"[]", headers={"Content-Type": kind})
        assert answer.status_code == 422, (path, answer.text[:200])
    assert len(routes) == 10


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/x-ndjson"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
async def test_a_body_of_another_type_is_415(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    response = await api.post("/api/knowledge", content=b'{"content":"x"}', headers=headers)

    assert (response.status_code, response.headers["content-type"]) == (415, PROBLEM)
    assert (await api.get("/api/knowledge")).json()["count"] == 0


async def test_a_truncated_body_is_not_accepted(app: FastAPI, api: httpx.AsyncClient) -> None:
    body = b'{"id":"a","content":"one"}\n'
    messages: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": body, "more_body": True}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = make_post_scope("/api/knowledge/import", "application/x-ndjson")
    await app(scope, receive, send)

    assert sent == []
    assert (await api.get("/api/knowledge")).json()["count"] == 0


async def test_health_version_and_readiness_answer(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record()

    ready = (await api.get("/ready")).json()

    assert (await api.get("/health")).json() == {"status": "ok"}
    assert (await api.get("/version")).json()["name"] == "knowhub"
    assert (ready["status"], ready["writable"], ready["reason"], ready["last_seq"]) == ("ready", True, None, 1)


async def test_metrics_count_requests_by_route(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record()
    await api.get("/api/knowledge/x")
    await api.get("/nowhere/中文")

    response = await api.get("/metrics")

    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'knowhub_http_requests_total{method="POST",route="/api/knowledge",status="201"} 1.0',
        'knowhub_http_requests_total{method="GET",route="/api/knowledge/{knowledge_id}",status="404"} 1.0',
        'knowhub_http_requests_total{method="any",route="unmatched",status="404"} 1.0',
        "knowhub_log_sequence 1.0",
        "knowhub_writable 1.0",
    ):
        assert line in response.text
    assert "中文" not in response.text


async def test_the_docs_page_loads_nothing_from_other_hosts(api: httpx.AsyncClient) -> None:
    page = (await api.get("/docs")).text
    named = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)""", page)

    assert {"/openapi.json", "/docs/assets/swagger-ui-bundle.js", "/docs/assets/swagger-ui.css"} <= set(named)
    for address in named:
        assert address.startswith("/")
        assert (await api.get(address)).status_code == 200
    assert "://" not in page
    assert '"validatorUrl": "none"' in page
    assert (await api.get("/")).headers["location"] == "/docs"


async def test_reindexing_waits_or_runs_as_a_job(api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord) -> None:
    await save_record("wait for the table")

    waited = await api.post("/api/maintenance/reindex")
    started = await api.post("/api/maintenance/reindex", params={"wait": "false"})
    path = f"/api/jobs/{started.json()['job_id']}"
    await hub.operations.jobs.finish(await hub.operations.jobs.get("default", started.json()["job_id"]))
    job = (await api.get(path)).json()

    assert (waited.status_code, waited.json()) == (200, {"records": 1})
    assert started.status_code == 202
    assert (job["kind"], job["status"], job["stage"], job["error"]) == ("reindex", "done", "reindex", None)
    assert (job["result"], job["progress"]) == ({"records": 1}, {"done": 1, "total": 1})
    assert job["finished_at"] >= job["started_at"]
    assert (await api.delete(path)).json()["status"] == "done"
    assert (await api.get("/api/knowledge/search", params={"q": "table"})).json()["count"] == 1


async def test_a_job_is_cancelled_and_a_second_of_its_kind_refused(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord
) -> None:
    await save_record("wait for the table")

    async def for_ever(_progress: object) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    job = await hub.operations.jobs.start("reindex", "default", for_ever)
    await asyncio.sleep(0)
    refused = await api.post("/api/maintenance/reindex")
    cancelled = await api.delete(f"/api/jobs/{job.job_id}")

    assert (refused.status_code, refused.json()["job_id"]) == (409, job.job_id)
    assert (cancelled.json()["status"], cancelled.json()["result"]) == ("cancelled", None)
    assert (await api.post("/api/maintenance/reindex")).status_code == 200


@pytest.mark.parametrize("failure", [OSError("no such device"), RuntimeError("a bug")])
async def test_a_failed_job_reports_its_reason_and_allows_the_next(
    api: httpx.AsyncClient, hub: Hub, failure: Exception
) -> None:
    async def fails(_progress: object) -> dict[str, object]:
        raise failure

    job = await hub.operations.jobs.start("reindex", "default", fails)
    task = next(task for task in asyncio.all_tasks() if task.get_name() == job.job_id)
    await asyncio.wait([task])
    assert task.exception() is (failure if isinstance(failure, RuntimeError) else None)

    answer = (await api.get(f"/api/jobs/{job.job_id}")).json()
    assert answer["status"] == "failed"
    assert str(failure) in answer["error"]
    assert (await api.post("/api/maintenance/reindex")).status_code == 200


async def test_a_job_of_another_account_and_an_unknown_one_are_missing(api: httpx.AsyncClient) -> None:
    started = (await api.post("/api/maintenance/reindex", params={"wait": "false"})).json()
    path = f"/api/jobs/{started['job_id']}"

    for item, params in ((path, {"account": "other"}), ("/api/jobs/none", {})):
        assert (await api.get(item, params=params)).status_code == 404
        assert (await api.delete(item, params=params)).status_code == 404
