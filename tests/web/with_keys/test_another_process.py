"""Keys with two servers on one directory: a key issued or revoked at one works or fails at the other at once."""

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.identity.model import KeyHolder
from tests.keys import ROOT_KEY, issue_key, key_headers, text_of

pytestmark = pytest.mark.anyio

KEYS = "/api/admin/keys"
ROOT = key_headers(ROOT_KEY)


async def test_a_new_key_works_at_once_in_another_process(hub: Hub, second_server: httpx.AsyncClient) -> None:
    key = await issue_key(hub, KeyHolder("li"))

    answer = await second_server.get("/api/knowledge", headers=key_headers(text_of(key)))

    assert answer.status_code == 200


async def test_a_revoked_key_fails_at_once_in_another_process(
    api: httpx.AsyncClient, hub: Hub, second_server: httpx.AsyncClient
) -> None:
    revoked, replaced = await issue_key(hub, KeyHolder("li")), await issue_key(hub, KeyHolder("chen"))
    texts = [text_of(revoked), text_of(replaced)]
    before = [(await second_server.get("/api/knowledge", headers=key_headers(text))).status_code for text in texts]

    await api.delete(f"{KEYS}/{revoked.key.key_id}", headers=ROOT)
    first = await second_server.get("/api/knowledge", headers=key_headers(texts[0]))
    await api.post(f"{KEYS}/{replaced.key.key_id}/rotate", headers=ROOT)
    second = await second_server.get("/api/knowledge", headers=key_headers(texts[1]))

    assert before == [200, 200]
    assert [first.status_code, second.status_code] == [401, 401]


async def test_keys_and_their_accounts_are_listed_by_another_process(
    hub: Hub, second_server: httpx.AsyncClient
) -> None:
    first = await issue_key(hub, KeyHolder("li"))
    listed = await second_server.get(KEYS, headers=ROOT)
    other = await issue_key(hub, KeyHolder("li"), account="acme")

    # The root key names a key without its account, which is looked up.
    ended = await second_server.delete(f"{KEYS}/{other.key.key_id}", headers=ROOT)

    assert [key["key_id"] for key in listed.json()["results"]] == [first.key.key_id]
    assert ended.status_code == 200
