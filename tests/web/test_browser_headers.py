"""The headers for browsers: which origins may read answers, which scripts the docs page may run, and no caching."""

import re
from base64 import b64encode
from hashlib import sha256

import httpx
import pytest
from fastapi import FastAPI

from knowhub.bootstrap import Hub
from knowhub.settings import Settings
from knowhub.web.app import create_app
from tests.keys import ROOT_KEY
from tests.web.conftest import URL

pytestmark = pytest.mark.anyio

PAGE = "https://studio.example"
ASKS = {"Origin": PAGE, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "x-api-key"}


def open_unchecked_client(app: FastAPI) -> httpx.AsyncClient:
    """Return a client whose answers are not checked: a preflight belongs to no route."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=URL)


@pytest.fixture
def app_with_origin(settings: Settings, hub: Hub) -> FastAPI:
    return create_app(settings.model_copy(update={"cors_origins": (PAGE,)}), hub)


# what every answer carries


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/docs", 200),
        ("/openapi.json", 200),
        ("/metrics", 200),
        ("/nowhere", 404),
        ("/api/knowledge", 200),
        ("/api/knowledge/none", 404),
        ("/api/knowledge?limit=x", 422),
    ],
)
async def test_every_answer_has_the_security_headers(api: httpx.AsyncClient, path: str, status: int) -> None:
    answer = await api.get(path)

    assert answer.status_code == status
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("referrer-policy") == ["no-referrer"]
    assert answer.headers.get_list("cache-control") == (["no-store"] if path.startswith("/api/") else [])


# the docs page


async def test_the_docs_page_runs_only_its_own_scripts_and_forbids_framing(api: httpx.AsyncClient) -> None:
    page = await api.get("/docs")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))

    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert page.headers["x-frame-options"] == "DENY"
    inline = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in inline]
    assert policy["script-src"].split() == ["'self'", *hashes]
    assert len(inline) == 1
    assert "unsafe" not in policy["script-src"]
    for address in re.findall(r"""<(?:script|link|img)[^>]*(?:src|href)=["']([^"']+)""", page.text):
        assert address.startswith("/"), address
    # Swagger UI loads its files from 'self'; its images are data: URLs in its style sheet.
    sheet = (await api.get("/docs/assets/swagger-ui.css")).text
    assert set(re.findall(r"url\(\s*[\"']?([a-z]+:)", sheet)) <= {"data:"}
    assert "data:" in policy["img-src"]


# pages of other origins


async def test_without_an_allow_list_no_origin_is_allowed(api: httpx.AsyncClient) -> None:
    answers = [
        await api.get("/api/knowledge", headers={"Origin": PAGE}),
        await api.options("/api/knowledge", headers=ASKS),
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert not any(name.startswith("access-control") for answer in answers for name in answer.headers)


async def test_a_listed_origin_passes_the_preflight_and_reads_the_answer(app_with_origin: FastAPI) -> None:
    async with open_unchecked_client(app_with_origin) as client:
        asked = await client.options("/api/knowledge/x", headers=ASKS)
        read = await client.get("/api/knowledge", headers={"Origin": PAGE})
        failed = await client.get("/api/knowledge/none", headers={"Origin": PAGE})

    assert (asked.status_code, asked.content) == (204, b"")
    assert "PATCH" in asked.headers["access-control-allow-methods"]
    assert "X-API-Key" in asked.headers["access-control-allow-headers"]
    assert [read.status_code, failed.status_code] == [200, 404]
    for answer in (asked, read, failed):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["vary"] == "Origin"
        # No cookies: nothing that a browser would send by itself opens anything.
        assert "access-control-allow-credentials" not in answer.headers
    assert "ETag" in read.headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", f"{PAGE}.evil.example", "null", "http://studio.example"])
async def test_an_unlisted_origin_is_refused(app_with_origin: FastAPI, origin: str) -> None:
    async with open_unchecked_client(app_with_origin) as client:
        answers = [
            await client.get("/api/knowledge", headers={"Origin": origin}),
            await client.options("/api/knowledge", headers=ASKS | {"Origin": origin}),
        ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert not any(name.startswith("access-control") for answer in answers for name in answer.headers)


async def test_a_listed_origin_still_needs_a_key_if_keys_are_required(settings: Settings, hub: Hub) -> None:
    asking = {"auth": "api-key", "root_key": ROOT_KEY, "cors_origins": (PAGE,)}
    async with open_unchecked_client(create_app(settings.model_copy(update=asking), hub)) as client:
        asked = await client.options("/api/knowledge", headers=ASKS)
        refused = await client.get("/api/knowledge", headers={"Origin": PAGE})

    assert (asked.status_code, refused.status_code) == (204, 401)
    # The page can read why.
    assert refused.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("origins", ["*", "studio.example", "https://studio.example/", "file://x", "null"])
def test_an_invalid_origin_in_the_settings_is_refused_at_start(origins: str) -> None:
    with pytest.raises(ValueError, match="is no origin"):
        Settings.model_validate({"cors_origins": origins})


# metrics


async def test_callers_cannot_add_metric_labels(app: FastAPI, api: httpx.AsyncClient) -> None:
    async with open_unchecked_client(app) as client:
        for number in range(50):
            await client.request(f"VERB{number}", "/api/knowledge")
            await client.request("GET", f"/api/knowledge/secret-{number}", headers={"X-Request-ID": f"secret-{number}"})
            await client.get(f"/nowhere/secret-{number}", params={"user_id": f"secret-{number}"})

    answer = (await api.get("/metrics")).text

    assert "secret" not in answer
    assert "VERB" not in answer
    assert 'knowhub_http_requests_total{method="any",route="/api/knowledge",status="405"} 50.0' in answer
