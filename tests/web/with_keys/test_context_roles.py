"""Memories where keys are asked for: a reader of one's own changes nothing; a key remembers as its holder."""

from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from tests.keys import ROOT_KEY, issue_key, key_headers, text_of
from tests.web.sessions import COMMIT, NODES, user_messages

pytestmark = pytest.mark.anyio

SESSION = "ctx://default/users/li/sessions/s-1"
BODY = {"session_id": "s-1", "messages": user_messages("请以后都用中文回答我。")}
READS: list[tuple[str, dict[str, str]]] = [
    ("/api/context/search", {"q": "中文"}),
    ("/api/context/read", {"uri": SESSION}),
    (NODES, {"uri": SESSION}),
    ("/api/context/children", {"uri": SESSION}),
    ("/api/context/outbox", {}),
    ("/api/recall", {"q": "中文"}),
]
WRITES: list[tuple[str, str, dict[str, str], dict[str, Any] | None]] = [
    ("POST", COMMIT, {}, BODY),
    ("POST", COMMIT, {}, BODY | {"options": {"dry_run": True}}),
    ("PATCH", NODES, {"uri": SESSION}, {"abstract": "x"}),
    ("DELETE", NODES, {"uri": SESSION}, None),
    ("DELETE", NODES, {"uri": SESSION, "erase": "true"}, None),
    ("POST", "/api/context/sessions/s-1/distill", {}, {}),
    ("POST", "/api/context/sessions/s-1/distill", {}, {"dry_run": True}),
    ("POST", "/api/context/outbox/x/retry", {}, {}),
]


@pytest.fixture
async def writer(api: httpx.AsyncClient, hub: Hub) -> dict[str, str]:
    """Return the header of li's writer, who has committed a session."""
    key = key_headers(text_of(await issue_key(hub, KeyHolder("li"))))
    assert (await api.post(COMMIT, json=BODY, headers=key)).status_code == 201
    return key


async def test_a_readers_key_of_the_owner_reads_all_and_changes_nothing(
    api: httpx.AsyncClient, hub: Hub, writer: dict[str, str]
) -> None:
    reader = key_headers(text_of(await issue_key(hub, KeyHolder("li"), Role.READER)))
    before = hub.store.last_seq

    reads = [await api.get(path, params=params, headers=reader) for path, params in READS]
    writes = [
        await api.request(method, path, params=params, json=body, headers=reader)
        for method, path, params, body in WRITES
    ]

    assert writer
    assert [read.status_code for read in reads] == [200] * len(READS)
    assert reads[0].json()["blocks"] != []
    assert [write.status_code for write in writes] == [403] * len(WRITES)
    assert hub.store.last_seq == before


@pytest.mark.parametrize("path", ["/api/context/search", "/api/recall", "/api/knowledge/search"])
async def test_index_lag_is_shown_only_to_callers_who_see_the_whole_account(
    api: httpx.AsyncClient, hub: Hub, writer: dict[str, str], path: str
) -> None:
    admin, root = key_headers(text_of(await issue_key(hub, KeyHolder("zhou"), Role.ADMIN))), key_headers(ROOT_KEY)
    assert (await api.post(COMMIT, json=BODY | {"session_id": "s-2"}, headers=admin)).status_code == 201
    assert (await api.post("/api/knowledge", json={"content": "another"}, headers=admin)).status_code == 201

    answers = [await api.get(path, params={"q": "中文"}, headers=who) for who in (writer, admin, root)]

    assert [answer.json()["index_lag"] > 0 for answer in answers] == [False, True, True]
