"""The list of operations for a caller with partial access: which ids it shows, and what is undoable."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from tests.keys import ROOT_KEY, issue_key, issue_key_text, text_of

pytestmark = pytest.mark.anyio

KNOWLEDGE, KEYWORDS, INFOS, RESOURCES = "/api/knowledge", "/api/keywords", "/api/infos", "/api/resource"
OPERATIONS = "/api/operations"

Key = Mapping[str, str]


async def ask(
    api: httpx.AsyncClient, who: Key, method: str, path: str, body: Mapping[str, object] | None = None
) -> dict[str, Any]:
    answer = await api.request(method, path, json=body, headers=dict(who))
    assert answer.status_code < 300, answer.text
    reply: dict[str, Any] = answer.json()
    return reply


async def issue_agent_keys(hub: Hub) -> tuple[Key, Key]:
    li, wang = [text_of(await issue_key(hub, KeyHolder(user, "coder"))) for user in ("li", "wang")]
    return {"X-API-Key": li}, {"X-API-Key": wang}


async def save_row_of_each_kind(api: httpx.AsyncClient, who: Key, user: str) -> list[str]:
    """Save a row of each kind that only `user` sees, and return the ids."""
    own = {"owner": f"user:{user}", "scopes": [f"user:{user}"]}
    record = await ask(api, who, "POST", KNOWLEDGE, {"content": "secret", **own})
    keyword = await ask(api, who, "POST", KEYWORDS, {"name": "secret", "llm_auto_place": False, **own})
    info = await ask(api, who, "POST", INFOS, {"content": "secret", "keyword_ids": [keyword["id"]], **own})
    resource = await ask(api, who, "POST", RESOURCES, {"id": "secret/thing", "body": "secret", **own})
    return [record["id"], keyword["id"], info["id"], f"{info['id']}:{keyword['id']}", resource["id"]]


@pytest.mark.parametrize("more", ["", "&limit=1", "&actor=agent:coder", "&op=save_knowledge", "&since=1"])
async def test_a_hidden_id_filters_operations_like_an_unknown_one(api: httpx.AsyncClient, hub: Hub, more: str) -> None:
    li, wang = await issue_agent_keys(hub)
    secret = await save_row_of_each_kind(api, li, "li")
    path = f"{KNOWLEDGE}/{(await ask(api, li, 'POST', KNOWLEDGE, {'content': 'x', 'owner': 'user:li'}))['id']}"
    await ask(api, li, "PATCH", path, {"scopes": ["public"]})
    await ask(api, wang, "PUT", path, {"add_helpful_case": {}})
    seen = await ask(api, wang, "GET", f"{OPERATIONS}?subject={path.rpartition('/')[2]}")
    await ask(api, li, "PATCH", path, {"scopes": ["user:li"]})
    secret.append(path.rpartition("/")[2])

    async def list_operations(who: Key, subject: str) -> bytes:
        return (await api.get(f"{OPERATIONS}?subject={subject}{more}", headers=dict(who))).content

    unknown_answer = await list_operations(wang, "knowledge-20200101-0000")
    answers = {subject: await list_operations(wang, subject) for subject in secret}

    assert seen["count"] >= 1
    assert [(await ask(api, li, "GET", f"{OPERATIONS}?subject={item}"))["count"] >= 1 for item in secret] == [True] * 6
    assert answers == dict.fromkeys(secret, unknown_answer)


async def test_actors_see_their_own_operations_without_hidden_ids(api: httpx.AsyncClient, hub: Hub) -> None:
    li, wang = [{"X-API-Key": await issue_key_text(hub, user)} for user in ("li", "wang")]
    path = f"{KNOWLEDGE}/{(await ask(api, li, 'POST', KNOWLEDGE, {'content': 'x', 'scopes': ['public']}))['id']}"
    vote = await ask(api, wang, "PUT", path, {"add_helpful_case": {}})
    await ask(api, li, "PATCH", path, {"scopes": ["user:li"]})

    listed = (await ask(api, wang, "GET", OPERATIONS))["results"]
    read = await ask(api, wang, "GET", f"{OPERATIONS}/{vote['operation_id']}")

    assert [(item["operation_id"], item["actor"], item["subjects"]) for item in listed] == [
        (vote["operation_id"], "user:wang", [])
    ]
    assert (read["changes"], read["subjects"]) == ([], [])
    assert (listed[0]["undoable"], (await preview_undo(api, wang, listed[0])).status_code) == (False, 404)


async def preview_undo(api: httpx.AsyncClient, who: Key, entry: Mapping[str, Any]) -> httpx.Response:
    path = f"{OPERATIONS}/{entry['operation_id']}/undo"
    return await api.post(path, json={"dry_run": True}, headers=dict(who))


async def test_undoable_is_true_exactly_for_callers_who_may_undo(api: httpx.AsyncClient, hub: Hub) -> None:
    names = {"li": Role.WRITER, "chen": Role.WRITER, "kai": Role.READER, "ada": Role.ADMIN}
    keys: dict[str, Key] = {name: {"X-API-Key": await issue_key_text(hub, name, role)} for name, role in names.items()}
    keys["root"] = {"X-API-Key": ROOT_KEY}
    keys["demoted"] = {"X-API-Key": await issue_key_text(hub, "ada")}
    await make_undoable_operations(api, keys)

    answer = {
        (name, entry["seq"]): (entry["undoable"], await preview_undo(api, who, entry))
        for name, who in keys.items()
        for entry in (await ask(api, who, "GET", OPERATIONS))["results"]
    }

    # A newer operation that blocks the undo is not a question of rights.
    may = {
        key: tried.status_code == 200
        or (tried.status_code == 409 and {"undone_by", "undoable", "erased"}.isdisjoint(tried.json()))
        for key, (_, tried) in answer.items()
    }
    assert {tried.status_code for _, tried in answer.values()} == {200, 403, 404, 409}
    assert len(answer) > 60
    assert {item: is_told for item, (is_told, _) in answer.items()} == may


async def make_undoable_operations(api: httpx.AsyncClient, keys: Mapping[str, Key]) -> None:
    """Make operations that nothing blocks, each on its own rows."""
    li, chen, kai, ada, root = (keys[name] for name in ("li", "chen", "kai", "ada", "root"))
    for who in (li, chen, ada):
        await ask(api, who, "POST", KNOWLEDGE, {"content": "saved", "scopes": ["public"]})
        await ask(api, who, "POST", INFOS, {"content": "saved"})
        await ask(api, who, "POST", KEYWORDS, {"name": "saved", "llm_auto_place": False, "allow_duplicate": True})
        await ask(api, who, "POST", RESOURCES, {"id": f"saved/{len(str(who))}/{who['X-API-Key'][-4:]}", "body": "x"})
    for voter, editor in product((chen, kai, ada), (ada, root)):
        record = await ask(api, li, "POST", KNOWLEDGE, {"content": "judged", "scopes": ["public"], "dedup": False})
        path = f"{KNOWLEDGE}/{record['id']}"
        await ask(api, voter, "PUT", path, {"add_harmful_case": {"reason": "stale"}})
        await ask(api, editor, "PATCH", path, {"tags": {"edited": "yes"}})
    wide = {"content": "wide", "owner": "user:li", "scopes": ["user:li", "org:acme"]}
    row = await ask(api, root, "POST", KNOWLEDGE, wide)
    await ask(api, li, "PATCH", f"{KNOWLEDGE}/{row['id']}", {"scopes": ["user:li"]})
    shown = await ask(api, li, "POST", KNOWLEDGE, {"content": "shown", "scopes": ["public"]})
    await ask(api, chen, "PUT", f"{KNOWLEDGE}/{shown['id']}", {"add_helpful_case": {}})
    await ask(api, li, "PATCH", f"{KNOWLEDGE}/{shown['id']}", {"scopes": ["user:li"]})
    gone = await ask(api, li, "POST", KNOWLEDGE, {"content": "gone", "scopes": ["public"]})
    await ask(api, li, "DELETE", f"{KNOWLEDGE}/{gone['id']}")
