"""What keys of each role may share, undo and see of the log, and that visible rows never name hidden ones."""

from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from tests.keys import ROOT_KEY, issue_key, issue_key_text, text_of

pytestmark = pytest.mark.anyio

KNOWLEDGE, KEYWORDS, INFOS, OPERATIONS = "/api/knowledge", "/api/keywords", "/api/infos", "/api/operations"


class RoleCaller:
    """Sends requests with one key."""

    def __init__(self, api: httpx.AsyncClient, key: str) -> None:
        self._api = api
        self._headers = {"X-API-Key": key}

    async def ask(self, method: str, path: str, expected: int = 200, **body: object) -> dict[str, Any]:
        answer = await self._api.request(method, path, json=body or None, headers=self._headers)
        assert answer.status_code == expected, answer.text
        reply: dict[str, Any] = answer.json()
        return reply

    async def lines(self, *rows: dict[str, object]) -> dict[str, Any]:
        """Import rows."""
        headers = self._headers | {"Content-Type": "application/x-ndjson"}
        answer = await self._api.post(
            f"{KNOWLEDGE}/import", content=b"\n".join(map(orjson.dumps, rows)), headers=headers
        )
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body


@pytest.fixture
async def li(api: httpx.AsyncClient, hub: Hub) -> RoleCaller:
    return RoleCaller(api, text_of(await issue_key(hub, KeyHolder("li", "coder", ("atlas",), ("web",)))))


@pytest.fixture
async def chen(api: httpx.AsyncClient, hub: Hub) -> RoleCaller:
    return RoleCaller(api, text_of(await issue_key(hub, KeyHolder("chen", project_ids=("atlas",)))))


@pytest.fixture
async def reader(api: httpx.AsyncClient, hub: Hub) -> RoleCaller:
    return RoleCaller(api, text_of(await issue_key(hub, KeyHolder("kai", project_ids=("atlas",)), Role.READER)))


@pytest.fixture
async def admin(api: httpx.AsyncClient, hub: Hub) -> RoleCaller:
    return RoleCaller(api, await issue_key_text(hub, "ada", Role.ADMIN))


@pytest.fixture
def root(api: httpx.AsyncClient) -> RoleCaller:
    return RoleCaller(api, ROOT_KEY)


# ── what may be given ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "item"),
    [
        (KNOWLEDGE, {"content": "x"}),
        (KEYWORDS, {"name": "x", "llm_auto_place": False}),
        (INFOS, {"content": "x"}),
        (f"{KNOWLEDGE}/batch", {"content": "x"}),
        (f"{KEYWORDS}/batch", {"name": "x"}),
        (f"{INFOS}/batch", {"content": "x"}),
    ],
)
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"scopes": ["project:atlas", "team:web", "user:li", "agent:coder", "public", "user:owner"]}, 201),
        ({"owner": "user:li"}, 201),
        ({"owner": "agent:coder"}, 201),
        ({"owner": "user:chen"}, 403),
        ({"owner": "user:coder"}, 403),
        ({"scopes": ["user:li", "project:other"]}, 403),
        ({"scopes": ["user:chen"]}, 403),
        ({"scopes": ["org:acme"]}, 403),
    ],
)
async def test_a_key_can_give_only_its_own_owner_and_scopes(
    li: RoleCaller, path: str, item: dict[str, object], given: dict[str, object], status: int
) -> None:
    body = {"items": [item | given]} if path.endswith("batch") else item | given

    await li.ask("POST", path, status, **body)

    assert (await li.ask("GET", OPERATIONS))["count"] >= (status == 201)
    assert status == 201 or (await li.ask("GET", f"{KNOWLEDGE}?limit=1000"))["count"] == 0


@pytest.mark.parametrize("path", [KNOWLEDGE, KEYWORDS, INFOS])
async def test_an_owner_can_keep_or_drop_but_not_add_foreign_scopes(
    li: RoleCaller, root: RoleCaller, path: str
) -> None:
    named = {"name": "x", "llm_auto_place": False} if path == KEYWORDS else {"content": "x"}
    row = await root.ask("POST", path, 201, **named, owner="user:li", scopes=["user:li", "org:acme"])
    at = f"{path}/{row['id']}"

    await li.ask("PATCH", at, 403, scopes=["user:li", "org:acme", "user:chen"])
    kept = await li.ask("PATCH", at, scopes=["user:li", "org:acme", "project:atlas"])
    without = await li.ask("PATCH", at, scopes=["project:atlas"])
    await li.ask("PATCH", at, 403, scopes=["project:atlas", "org:acme"])

    assert kept["scopes"] == ["user:li", "org:acme", "project:atlas"]
    assert without["scopes"] == ["project:atlas"]


async def test_an_undo_cannot_add_a_scope_that_the_key_cannot_give(li: RoleCaller, root: RoleCaller) -> None:
    row = await root.ask("POST", KNOWLEDGE, 201, content="x", owner="user:li", scopes=["user:li", "org:acme"])
    narrowed = await li.ask("PATCH", f"{KNOWLEDGE}/{row['id']}", scopes=["user:li"])

    await li.ask("POST", f"{OPERATIONS}/{narrowed['operation_id']}/undo", 403)
    await root.ask("POST", f"{OPERATIONS}/{narrowed['operation_id']}/undo")


async def test_records_extracted_by_an_admin_belong_to_the_admin(admin: RoleCaller) -> None:
    spoken = [{"role": "user", "content": "请以后都用中文回答我。"}]

    saved = (await admin.ask("POST", f"{KNOWLEDGE}/extract", messages=spoken, trigger="user_expression"))["saved"]

    assert [(item["owner"], item["scopes"]) for item in saved] == [("user:ada", ["user:ada"])]


async def test_the_profile_of_an_admin_has_only_own_records(admin: RoleCaller, li: RoleCaller) -> None:
    await li.ask("POST", KNOWLEDGE, 201, content="prefers tabs", type="user_profile", owner="user:li")
    await admin.ask("POST", KNOWLEDGE, 201, content="prefers spaces", type="user_profile")

    profile = await admin.ask("GET", f"{KNOWLEDGE}/profile")

    assert [result["content"] for result in profile["results"]] == ["prefers spaces"]


async def test_access_lists_the_rights_of_each_role(
    li: RoleCaller, reader: RoleCaller, admin: RoleCaller, root: RoleCaller
) -> None:
    row = await li.ask("POST", KNOWLEDGE, 201, content="x", scopes=["project:atlas"])

    seen = [(await item.ask("GET", f"{KNOWLEDGE}/{row['id']}/access"))["caller"] for item in (reader, li, admin, root)]

    assert [item["seen_by"] for item in seen] == ["project:atlas", "user:li", "admin", "local_principal"]
    assert ["edit" in item["rights"] for item in seen] == [False, True, True, True]
    assert all("add_evidence" in item["rights"] for item in seen)


# ── what may be taken back ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reader_can_undo_its_own_evidence(li: RoleCaller, reader: RoleCaller) -> None:
    row = await li.ask("POST", KNOWLEDGE, 201, content="x", scopes=["project:atlas"])
    at = f"{KNOWLEDGE}/{row['id']}"
    vote = await reader.ask("PUT", at, add_harmful_case={"reason": "stale"})

    await reader.ask("POST", f"{OPERATIONS}/{vote['operation_id']}/undo")

    assert (await reader.ask("GET", at))["eval"]["harmful"] == 0


async def test_a_reader_cannot_undo_its_own_earlier_writes(api: httpx.AsyncClient, hub: Hub) -> None:
    writer = RoleCaller(api, await issue_key_text(hub, "kai"))
    demoted = RoleCaller(api, await issue_key_text(hub, "kai", Role.READER))
    saved = await writer.ask("POST", KNOWLEDGE, 201, content="x")

    await demoted.ask("POST", f"{OPERATIONS}/{saved['operation_id']}/undo", 403)
    await writer.ask("POST", f"{OPERATIONS}/{saved['operation_id']}/undo")


async def test_an_admins_change_to_a_foreign_record_is_undone_only_as_admin(
    api: httpx.AsyncClient, hub: Hub, li: RoleCaller, admin: RoleCaller
) -> None:
    row = await li.ask("POST", KNOWLEDGE, 201, content="x", scopes=["public"])
    edited = await admin.ask("PATCH", f"{KNOWLEDGE}/{row['id']}", content="y")
    demoted = RoleCaller(api, await issue_key_text(hub, "ada"))

    await demoted.ask("POST", f"{OPERATIONS}/{edited['operation_id']}/undo", 403)
    await admin.ask("POST", f"{OPERATIONS}/{edited['operation_id']}/undo")


async def test_an_admin_can_undo_an_import_of_foreign_records(admin: RoleCaller, li: RoleCaller) -> None:
    done = await admin.lines({"content": "x", "owner": "user:li"})

    await li.ask("POST", f"{OPERATIONS}/{done['import_id']}/undo", 403)
    await admin.ask("POST", f"{OPERATIONS}/{done['import_id']}/undo")


# ── what operations show ────────────────────────────────────────────────────────────────────────────────────────────


async def test_operations_are_listed_for_actors_admins_and_readers_of_all_rows(
    li: RoleCaller, chen: RoleCaller, admin: RoleCaller
) -> None:
    hidden = await li.ask("POST", KNOWLEDGE, 201, content="hidden")
    shared = await li.ask("POST", KNOWLEDGE, 201, content="shared", scopes=["project:atlas"])
    both = await li.ask(
        "POST", f"{KNOWLEDGE}/batch", 201, items=[{"content": "1", "scopes": ["public"]}, {"content": "2"}]
    )
    written = [item["operation_id"] for item in (both, shared, hidden)]

    async def list_operations(who: RoleCaller) -> list[str]:
        results = (await who.ask("GET", OPERATIONS))["results"]
        return [result["operation_id"] for result in results if result["op"].startswith("save_knowledge")]

    assert [await list_operations(item) for item in (li, chen, admin)] == [written, [shared["operation_id"]], written]
    for operation_id in (both["operation_id"], hidden["operation_id"]):
        await chen.ask("GET", f"{OPERATIONS}/{operation_id}", 404)
        await chen.ask("POST", f"{OPERATIONS}/{operation_id}/undo", 404)


async def test_key_operations_are_listed_for_admins(api: httpx.AsyncClient, hub: Hub, admin: RoleCaller) -> None:
    made = await admin.ask("POST", "/api/admin/keys", 201, user_id="li")
    demoted = RoleCaller(api, await issue_key_text(hub, "ada"))
    li = RoleCaller(api, made["key"])

    for who in (demoted, li):
        answer = await who.ask("GET", f"{OPERATIONS}?subject={made['key_id']}")
        assert made["key_id"] not in str(answer)
    assert (await admin.ask("GET", f"{OPERATIONS}?subject={made['key_id']}"))["count"] == 1


async def test_a_record_does_not_name_hidden_records(li: RoleCaller, chen: RoleCaller, reader: RoleCaller) -> None:
    older = await li.ask("POST", KNOWLEDGE, 201, content="older")
    newer = await li.ask("POST", KNOWLEDGE, 201, content="newer", supersedes=older["id"], scopes=["project:atlas"])
    at = f"{KNOWLEDGE}/{newer['id']}"

    async def everything(who: RoleCaller) -> str:
        paths = (at, KNOWLEDGE, f"{at}/history", OPERATIONS, f"{OPERATIONS}/{newer['operation_id']}")
        voted = await who.ask("PUT", at, add_helpful_case={})
        batch = await who.ask(
            "POST", f"{KNOWLEDGE}/batch_update", feedback_list=[{"knowledge_id": newer["id"], "is_helpful": True}]
        )
        return str([voted, batch, *[await who.ask("GET", path) for path in paths]])

    for who in (chen, reader):
        answer = await everything(who)
        assert older["id"] not in answer
        assert newer["id"] in answer
    assert older["id"] in await everything(li)
    assert (await li.ask("GET", at))["supersedes"] == older["id"]


async def test_a_keyword_does_not_name_a_hidden_parent(li: RoleCaller, chen: RoleCaller, root: RoleCaller) -> None:
    seen = {"llm_auto_place": False, "scopes": ["public"]}
    top = await li.ask("POST", KEYWORDS, 201, name="top", **seen)
    hidden = await li.ask("POST", KEYWORDS, 201, name="between", parent_id=top["id"], llm_auto_place=False)
    below = await li.ask("POST", KEYWORDS, 201, name="below", parent_id=hidden["id"], **seen)
    at = f"{KEYWORDS}/{below['id']}"
    paths = (at, f"{at}/path", f"{at}/subtree", f"{at}/children", f"{KEYWORDS}/search?q=below", f"{KEYWORDS}/metrics")

    answer = [await chen.ask("GET", path) for path in (*paths, OPERATIONS, f"{OPERATIONS}/{below['operation_id']}")]
    seen, path, found = answer[0], answer[1], answer[4]

    assert hidden["id"] not in str(answer)
    assert (seen["parent_id"], seen["level"]) == (None, 2)
    assert [(result["name"], result["level"]) for result in path["results"]] == [("root", 0), ("top", 1), ("below", 2)]
    assert found["path"] == [
        {name: value for name, value in result.items() if name != "children"} for result in path["results"]
    ]
    assert answer[5]["depths"] == {"0": 1, "1": 1, "2": 1}
    for who in (li, root):
        whole = await who.ask("GET", at)
        assert (whole["parent_id"], whole["level"]) == (hidden["id"], 3)


async def test_admins_of_an_agent_have_separate_retry_keys(api: httpx.AsyncClient, hub: Hub) -> None:
    holders = [KeyHolder(user, "crawler") for user in ("li", "wang")]
    keys = [text_of(await issue_key(hub, holder, Role.ADMIN)) for holder in holders]
    body = {"session_id": "s-1", "messages": [{"role": "user", "content": "请以后都用中文回答我。"}]}

    saved = [
        await api.post(KNOWLEDGE, json={"content": "known", "dedup": False}, headers=headers)
        for headers in ({"X-API-Key": key, "Idempotency-Key": "1"} for key in (*keys, keys[0]))
    ]
    committed = [
        await api.post("/api/context/sessions/commit", json=body, headers=headers)
        for headers in ({"X-API-Key": key, "Idempotency-Key": "2"} for key in keys)
    ]

    first, other, again = [answer.json() for answer in saved]
    assert (first["id"] != other["id"], again) == (True, first)
    assert committed[0].json()["operation_id"] != committed[1].json()["operation_id"]


async def test_a_deleted_resource_keeps_its_id_for_its_owner(api: httpx.AsyncClient, hub: Hub) -> None:
    first, other = [{"X-API-Key": await issue_key_text(hub, user)} for user in ("li", "wang")]
    body = {"id": "cred/z", "body": "what li noted"}
    await api.post("/api/resource", json=body, headers=first)
    gone = (await api.delete("/api/resource/cred/z", headers=first)).json()

    taken = await api.post("/api/resource", json={"id": "cred/z", "body": "wang's"}, headers=other)
    undone = await api.post(f"{OPERATIONS}/{gone['operation_id']}/undo", json={}, headers=first)

    assert (taken.status_code, taken.json()["detail"]) == (409, "resource id 'cred/z' is taken")
    assert undone.status_code == 200
    assert (await api.get("/api/resource/cred/z", headers=first)).json()["body"] == "what li noted"
