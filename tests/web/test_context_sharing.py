"""An agent with many users: no user sees anything of another, not even that there was a session."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.identity.model import KeyHolder
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.wiring.adapters import Overrides
from tests.keys import issue_key, make_keyed_settings, text_of
from tests.web.sessions import COMMIT, NODES

pytestmark = pytest.mark.anyio

AGENT = "shared"
# Words of Wang's session, of the note on a call in it, and the name of a tool that was called.
THEIRS = (b"wang", b"311 rows", b"wet ledger", b"psql")
LEARNT = (
    ("user", "The payroll export fails. Always restart the database before exporting."),
    ("tool", "error: timeout of the payroll export"),
    ("assistant", "The database was down. I restart it and set a longer timeout for the payroll export."),
    ("tool", "exported 311 rows"),
    ("assistant", "That fixed the payroll export."),
)


@dataclass
class AgentUser:
    """One user of the agent, with a key or with ids; keeps the bytes of every answer."""

    api: httpx.AsyncClient
    ids: dict[str, str]
    headers: dict[str, str]
    answers: list[bytes] = field(default_factory=list)

    async def ask(self, method: str, path: str, json: dict[str, Any] | None = None, **params: Any) -> httpx.Response:  # noqa: ANN401 -- any value
        body = None if json is None else {**json, **self.ids}
        sent = {**params, **self.ids} if json is None else params
        response = await self.api.request(method, path, params=sent, json=body, headers=self.headers)
        self.answers += [response.content, str(response.headers).encode()]
        return response

    async def commit(self, user: str, *, dry_run: bool = False, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
        messages = [
            {
                "role": role,
                "content": text,
                "message_id": f"{user}-msg-{number}",
                "name": "psql" if role == "tool" else "",
            }
            for number, (role, text) in enumerate(LEARNT)
        ]
        tools = [{"name": "grep", "ok": False, "note": f"a wet ledger of {user}"}]
        body = {
            "session_id": f"{user}-talk",
            "messages": messages,
            "used_tools": tools,
            "options": {"dry_run": dry_run},
        }
        response = await self.ask("POST", COMMIT, {**body, **fields})
        assert response.status_code < 300, response.text
        answer: dict[str, Any] = response.json()
        return answer


@pytest.fixture(params=["names", "keys"])
def has_keys(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "keys")


@pytest.fixture
def settings(tmp_path: Path, has_keys: bool) -> Settings:
    return (
        make_keyed_settings(tmp_path / "data") if has_keys else Settings(data_dir=tmp_path / "data", owner="user:local")
    )


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Hub]:
    async with open_hub(settings, Overrides(files=FileSystem()), maintain=False) as opened:
        yield opened


@pytest.fixture
async def callers(api: httpx.AsyncClient, hub: Hub, has_keys: bool) -> tuple[AgentUser, AgentUser]:
    """Return li and wang, who both call as the shared agent."""
    users = []
    for user in ("li", "wang"):
        key = {"X-API-Key": text_of(await issue_key(hub, KeyHolder(user, AGENT)))} if has_keys else {}
        users.append(AgentUser(api, {} if has_keys else {"user_id": user, "agent_id": AGENT}, key))
    return users[0], users[1]


async def list_agent_memories(who: AgentUser) -> list[str]:
    """Return the URIs of the tools that a caller may see."""
    listed = (await who.ask("GET", "/api/context/children", recursive="true")).json()["results"]
    return [item["uri"] for item in listed if item["uri"].startswith("ctx://default/agents/") and item["category"]]


async def look_at_all(who: AgentUser, uris: list[str]) -> None:
    for uri in uris:
        await who.ask("GET", NODES, uri=uri)
        await who.ask("GET", "/api/context/read", uri=uri, level="L2", expand_relations="true")
        await who.ask("PATCH", NODES, {"uri": uri, "overview": "corrected"})
        await who.ask("PATCH", NODES, {"uri": uri, "overview": "again", "version": 1})
    for q in ("payroll export timeout", "restart the database", "grep psql"):
        await who.ask("GET", "/api/context/search", q=q)
        await who.ask("GET", "/api/recall", q=q)


async def look_at_operations(who: AgentUser, **filters: Any) -> None:  # noqa: ANN401 -- any value
    listed = (await who.ask("GET", "/api/operations", limit=100, **filters)).json()["results"]
    for item in listed:
        await who.ask("GET", f"/api/operations/{item['operation_id']}")
        await who.ask("POST", f"/api/operations/{item['operation_id']}/undo", {"dry_run": True})


async def test_users_of_an_agent_see_nothing_of_each_others_sessions(
    callers: tuple[AgentUser, AgentUser],
) -> None:
    li, wang = callers
    await wang.commit("wang")
    await wang.ask("POST", "/api/knowledge", {"content": "Wang keeps a wet ledger."})
    tools = await list_agent_memories(wang)

    before = await list_agent_memories(li)
    await look_at_all(li, tools)
    operations = (await li.ask("GET", "/api/operations", limit=100)).json()["results"]
    await look_at_operations(wang)
    theirs = (await wang.ask("GET", "/api/operations", limit=100)).json()["results"]
    for item in theirs:
        hidden = await li.ask("GET", f"/api/operations/{item['operation_id']}")
        assert hidden.status_code == 404
    leaks = [
        answer for answer in li.answers if any(word in answer.lower().replace(b"grep psql", b"") for word in THEIRS)
    ]

    assert {uri.split("/")[4] for uri in tools} == {"~wang"}
    assert (before, operations) == ([], [])
    assert {item["op"] for item in theirs} >= {"commit_session", "save_knowledge"}
    # A problem repeats the address that was asked for.
    assert [answer for answer in leaks if b"not-found" not in answer and b'"q"' not in answer] == []


async def test_the_tools_of_a_user_do_not_name_other_users(
    callers: tuple[AgentUser, AgentUser],
) -> None:
    li, wang = callers
    await wang.commit("wang")
    await li.commit("li", dry_run=True)
    await li.commit("li")
    await li.commit("li")

    uris = await list_agent_memories(li)
    await look_at_all(li, uris)
    await look_at_operations(li)
    await li.ask("POST", "/api/context/sessions/li-talk/distill", {"dry_run": True})
    await li.ask("POST", "/api/context/sessions/li-talk/distill", {})

    assert {uri.split("/")[-2] for uri in uris} == {"tools"}
    assert [answer for answer in li.answers if b"wang" in answer.lower()] == []


async def test_records_of_an_agent_do_not_name_sessions_of_other_users(
    callers: tuple[AgentUser, AgentUser],
) -> None:
    li, wang = callers
    await wang.commit("wang")

    distilled = await wang.ask("POST", "/api/context/sessions/wang-talk/distill", {})
    await li.ask("GET", "/api/knowledge", limit=100)
    await li.ask("GET", "/api/knowledge/search", q="payroll export timeout")
    await look_at_operations(li)

    assert distilled.json()["count"] > 0
    assert [
        answer for answer in li.answers if b"payroll export" in answer and b"payroll export timeout" not in answer
    ] == []
    assert [answer for answer in li.answers if b"wang" in answer.lower()] == []


async def save_everything(who: AgentUser, user: str, **owner: str) -> list[str]:
    """Save a record and a resource, and return their paths."""
    secret = f"The payroll export of {user} needs a restart."
    record = await who.ask("POST", "/api/knowledge", {"task": "payroll export", "content": secret, **owner})
    resource = await who.ask("POST", "/api/resource", {"id": "payroll/export", "body": secret, **owner})
    assert [record.status_code, resource.status_code] == [201, 201]
    return [f"/api/knowledge/{record.json()['id']}", "/api/resource/payroll/export"]


async def look_at_rows(who: AgentUser, paths: list[str]) -> None:
    for path in paths:
        await who.ask("GET", path)
        await who.ask("PATCH", path, {"scopes": ["public"]})
    for path in ("/api/knowledge", "/api/knowledge/profile", "/api/resource", "/api/recall", "/api/knowledge/search"):
        searched: dict[str, Any] = (
            {"q": "payroll export restart"} if path.rpartition("/")[2] in {"recall", "search"} else {}
        )
        assert (await who.ask("GET", path, **searched)).status_code == 200
    await look_at_operations(who)


async def test_a_record_saved_for_one_user_is_hidden_from_the_others(callers: tuple[AgentUser, AgentUser]) -> None:
    li, wang = callers
    paths = await save_everything(wang, "wang")
    messages = [
        {"role": role, "content": text, "message_id": f"wang-msg-{number}"}
        for number, (role, text) in enumerate((*LEARNT, ("user", "I am Wang, and I prefer tabs.")))
    ]
    extracted = (await wang.ask("POST", "/api/knowledge/extract", {"messages": messages})).json()
    paths += [f"/api/knowledge/{record['id']}" for record in extracted["saved"]]

    await look_at_rows(li, paths)
    seen = [(await wang.ask("GET", path)).json() for path in paths]
    changed = [
        await wang.ask("PATCH", path, {"metadata": {}} if "resource" in path else {"tags": {}}) for path in paths
    ]

    assert len(paths) > 3
    assert {row["owner"] for row in seen} == {"user:wang"}
    assert [answer.status_code for answer in changed] == [200] * len(paths)
    assert [(await li.ask("GET", path)).status_code for path in paths] == [404] * len(paths)
    assert [answer for answer in li.answers if b"wang" in answer.lower()] == []


async def test_rows_of_the_agent_are_visible_to_all_its_users(callers: tuple[AgentUser, AgentUser]) -> None:
    li, wang = callers
    paths = await save_everything(wang, "everyone", owner=f"agent:{AGENT}")

    assert [(await li.ask("GET", path)).status_code for path in paths] == [200, 200]
    assert [(await li.ask("PATCH", path, {"scopes": ["public"]})).status_code for path in paths] == [200, 200]


async def test_searches_of_one_user_are_hidden_from_the_others(callers: tuple[AgentUser, AgentUser]) -> None:
    li, wang = callers
    await save_everything(wang, "everyone", owner=f"agent:{AGENT}")
    asked: dict[str, Any] = {"session_id": "wang-run", "goal_id": "wang-goal"}
    found = await wang.ask("GET", "/api/knowledge/search", q="payroll export", **asked)
    used = found.json()["results"][0]["id"]
    done = await wang.ask("POST", "/api/knowledge/outcome", {**asked, "outcome": "success", "used": [used]})

    for op in ("note_showing", "report_outcome"):
        await look_at_operations(li, op=op)

    assert done.status_code == 200
    assert [answer for answer in li.answers if b"wang" in answer.lower()] == []


async def test_users_see_their_own_sessions_as_sources(callers: tuple[AgentUser, AgentUser]) -> None:
    li, wang = callers
    await wang.commit("wang")
    await li.commit("li")

    nodes = [(await li.ask("GET", NODES, uri=uri)).json() for uri in await list_agent_memories(li)]
    theirs = [(await wang.ask("GET", NODES, uri=uri)).json() for uri in await list_agent_memories(wang)]
    psql = next(node for node in nodes if node["uri"].endswith("/tools/psql"))

    assert psql["metadata"]["sessions"] == ["li-talk"]
    assert psql["metadata"]["message_ids"] == ["li-msg-1", "li-msg-3"]
    assert [edge["to_uri"].split("/")[-1] for edge in psql["relations"]] == ["li-talk"]
    assert all(ref.split("/")[-2] == "li-talk" for node in nodes for ref in node["metadata"]["source_refs"])
    assert ["wang-talk"] in [their["metadata"]["sessions"] for their in theirs]


async def test_a_blocked_undo_does_not_name_rows_another_user_erased(
    callers: tuple[AgentUser, AgentUser],
) -> None:
    li, wang = callers
    done = await wang.commit("wang")
    part = f"{done['archive']['archive_uri']}/wang-msg-0"
    erased = await wang.ask("DELETE", NODES, uri=part, erase="true")

    undone = await li.ask("POST", f"/api/operations/{done['operation_id']}/undo", {"dry_run": True})
    own = await wang.ask("POST", f"/api/operations/{done['operation_id']}/undo", {"dry_run": True})

    assert (erased.status_code, undone.status_code, own.status_code) == (200, 404, 409)
    assert own.json()["erased"][0]["id"] == part
    assert [answer for answer in li.answers if b"wang" in answer.lower()] == []
