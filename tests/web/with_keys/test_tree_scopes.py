"""Keywords and infos saved without scopes are visible only to the user of the key, like records."""

from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from knowhub.keywords.model import NewInfo
from knowhub.web.auth import make_local_context
from knowhub.web.schemas.parts import CallerIds
from tests.keys import ROOT_KEY, issue_key, issue_key_text, key_headers, text_of

pytestmark = pytest.mark.anyio

SAVES: dict[str, dict[str, Any]] = {
    "/api/knowledge": {"content": "about ants"},
    "/api/keywords": {"name": "ants", "llm_auto_place": False, "allow_duplicate": True},
    "/api/infos": {"content": "about ants"},
}
BATCHES = {
    "/api/keywords/batch": {"items": [{"name": "ants"}]},
    "/api/infos/batch": {"items": [{"content": "about ants"}]},
}


async def save(api: httpx.AsyncClient, key: str, path: str, **fields: object) -> dict[str, Any]:
    answer = await api.post(path, json={**SAVES[path], **fields}, headers=key_headers(key))
    assert answer.status_code == 201, answer.text
    row: dict[str, Any] = answer.json()
    return row


async def status_for(api: httpx.AsyncClient, key: str, path: str, row: dict[str, Any]) -> int:
    return (await api.get(f"{path}/{row['id']}", headers=key_headers(key))).status_code


@pytest.mark.parametrize("path", SAVES)
async def test_rows_without_scopes_are_visible_only_to_their_owner(api: httpx.AsyncClient, hub: Hub, path: str) -> None:
    li, chen = await issue_key_text(hub, "li"), await issue_key_text(hub, "chen")
    agent = text_of(await issue_key(hub, KeyHolder("li", "crawler")))
    admin = await issue_key_text(hub, "boss", Role.ADMIN)

    row = await save(api, li, path)

    assert (row["owner"], row["scopes"]) == ("user:li", ["user:owner"])
    seen_by = [await status_for(api, key, path, row) for key in (li, agent, admin, ROOT_KEY, chen)]
    assert seen_by == [200, 200, 200, 200, 404]


async def test_a_caller_on_the_machine_itself_shares_nothing_by_default(hub: Hub) -> None:
    ctx = make_local_context(hub, CallerIds(user_id="li"))

    saved = await hub.keywords.infos.create(ctx, NewInfo("about ants"))

    assert (saved.record["owner"], saved.record["scopes"]) == ("user:li", ["user:owner"])


@pytest.mark.parametrize("path", SAVES)
async def test_explicit_scopes_share_a_row(api: httpx.AsyncClient, hub: Hub, path: str) -> None:
    row = await save(api, await issue_key_text(hub, "li"), path, scopes=["public"])

    assert row["scopes"] == ["public"]
    assert await status_for(api, await issue_key_text(hub, "chen"), path, row) == 200


@pytest.mark.parametrize("path", SAVES)
async def test_the_root_key_shares_nothing_by_default_either(api: httpx.AsyncClient, hub: Hub, path: str) -> None:
    plain = await save(api, ROOT_KEY, path)
    named = await save(api, ROOT_KEY, path, user_id="li")

    assert (plain["owner"], plain["scopes"]) == ("user:root", ["user:owner"])
    assert (named["owner"], named["scopes"]) == ("user:li", ["user:owner"])
    li = await issue_key_text(hub, "li")
    assert [await status_for(api, li, path, row) for row in (plain, named)] == [404, 200]


@pytest.mark.parametrize("path", BATCHES)
async def test_a_batch_shares_nothing_by_default_either(api: httpx.AsyncClient, hub: Hub, path: str) -> None:
    answer = await api.post(path, json=BATCHES[path], headers=key_headers(await issue_key_text(hub, "li")))

    assert [row["scopes"] for row in answer.json()["results"]] == [["user:owner"]]
