"""A save with a likely secret is stored as sent, with a warning that names a better place."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.anyio

SECRET = "hunter2-hunter2-hunter2"
TEXT = f"Log in with password={SECRET} first."
LONG = f"{'The deploy failed again. ' * 2_000}{TEXT}"


async def send_and_list_warnings(
    api: httpx.AsyncClient, method: str, path: str, body: dict[str, Any]
) -> list[dict[str, str]]:
    answer = await api.request(method, path, json=body)
    assert answer.is_success, answer.text
    warned: list[dict[str, str]] = answer.json().get("warnings", [])
    assert not any(SECRET in warning["message"] for warning in warned)
    return warned


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/knowledge", {"content": TEXT}, "content"),
        ("/api/knowledge", {"task": "说明", "content": f"登录用 password: {SECRET} ，以后不变"}, "content"),
        ("/api/knowledge", {"content": LONG}, "content"),
        ("/api/knowledge", {"content": "The wifi password at home is sunflower."}, "content"),
        ("/api/knowledge/batch", {"items": [{"content": "harmless"}, {"task": TEXT}]}, "items.1.task"),
        ("/api/resource", {"id": "site/login", "body": TEXT}, "body"),
        ("/api/context/nodes", {"category": "events", "content": TEXT}, "content"),
    ],
)
async def test_a_save_warns_about_a_secret_with_its_field_and_a_better_place(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], field: str
) -> None:
    (warning,) = await send_and_list_warnings(api, "POST", path, body)

    assert warning["field"] == field
    assert "password" in warning["message"]
    assert "secure_body" in warning["message"]


async def test_a_change_warns_about_a_secret(api: httpx.AsyncClient) -> None:
    saved = (await api.post("/api/knowledge", json={"content": "harmless"})).json()

    (warning,) = await send_and_list_warnings(api, "PATCH", f"/api/knowledge/{saved['id']}", {"content": TEXT})

    assert warning["field"] == "content"
    assert (await api.get(f"/api/knowledge/{saved['id']}")).json()["content"] == TEXT


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/knowledge", {"content": "The commit 3f786850e387550fdab836ed7e6dc881de23001b broke the build."}),
        ("/api/resource", {"id": "site/login", "body": "see secure_body", "secure_body": TEXT}),
    ],
)
async def test_harmless_or_sealed_text_gets_no_warning(api: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    assert await send_and_list_warnings(api, "POST", path, body) == []
