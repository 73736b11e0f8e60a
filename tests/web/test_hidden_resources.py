"""A reference to a resource is answered the same whether the resource is hidden or does not exist."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import open_hub
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.builders import CountedIds, FakeClock
from tests.keys import ROOT_KEY, issue_key_text
from tests.web.conftest import client_of

pytestmark = pytest.mark.anyio

# Of the same length: the two hubs differ only in which of the two ids exists.
ASKED, ELSEWHERE = "credentials/hidden_a", "credentials/hidden_b"
SECRET_KEY = "a master key for two worlds that are alike"
LINES = {"Content-Type": "application/x-ndjson"}

Ask = Callable[..., Awaitable[httpx.Response]]
Prepare = Callable[[Ask, str], Awaitable[None]]


class AnswerLog:
    """The answers to Wang, in order: status, headers and every byte."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.answers: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}

    async def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:  # noqa: ANN401 -- a body, or fields of a query
        answer = await self._ask("wang", method, path, **sent)
        log = (answer.status_code, sorted(answer.headers.items()), answer.content)
        self.answers[f"{len(self.answers)} {method} {path} {sorted(sent)}"] = log
        return answer


async def send_all_requests(told: AnswerLog) -> None:
    """Send every request with the id that Wang can send: refer to it, read that back, read the resource."""
    saving: dict[str, Any] = {"content": "Log in with it.", "resource_ids": [ASKED], "scopes": ["public"]}
    knowledge = "/api/knowledge"
    saved = (await told.ask("POST", knowledge, json=saving)).json()
    await told.ask("POST", knowledge, json=saving)
    await told.ask("POST", knowledge, json={"content": "As one.", "secure_resource_id": ASKED})
    await told.ask(
        "POST", knowledge, json={"content": "As a newer one.", "supersedes": saved["id"], "resource_ids": []}
    )
    batch = [{"content": f"One of many, {number}.", "resource_ids": [ASKED, "none/such"]} for number in range(2)]
    made = (await told.ask("POST", f"{knowledge}/batch", json={"items": batch})).json()["results"][0]["id"]
    await told.ask("PATCH", f"{knowledge}/{made}", json={"resource_ids": []})
    await told.ask("PATCH", f"{knowledge}/{made}", json={"resource_ids": [ASKED]})
    await told.ask("PUT", f"{knowledge}/{made}", json={"add_helpful_case": {"task": ASKED}})
    line = orjson.dumps({"id": "knowledge-imported", "content": "Brought along.", "resource_ids": [ASKED]})
    for how in ("fail", "fail", "skip", "replace"):
        await told.ask("POST", f"{knowledge}/import?on_conflict={how}", content=line, headers=LINES)
    await told.ask(
        "POST", f"{knowledge}/extract", json={"messages": [{"role": "user", "content": f"以后都用 {ASKED}。"}]}
    )
    for path in (f"{knowledge}/{made}", f"{knowledge}/{made}/history", f"{knowledge}/{made}/access"):
        await told.ask("GET", path)
    await told.ask("GET", knowledge)
    await told.ask("GET", f"{knowledge}/export")
    await told.ask("GET", f"{knowledge}/search", q="log in credentials hidden_a", explain="true")
    await told.ask("GET", "/api/keywords/search", q=ASKED)
    for query in ({}, {"subject": ASKED}, {"op": "save_resource"}, {"op": "reveal_resource", "subject": ASKED}):
        await told.ask("GET", "/api/operations", **query)
    for query in (
        {},
        {"prefix": "credentials/"},
        {"prefix": ASKED},
        {"expired": "true"},
        {"content_type": "credential"},
    ):
        await told.ask("GET", "/api/resource", **query)
    path = f"/api/resource/{ASKED}"
    await told.ask("GET", path)
    await told.ask("GET", path, reveal="true")
    await told.ask("PATCH", path, json={"title": "mine"})
    await told.ask("PATCH", path, json={"secure_body": "mine"}, headers={"If-Match": '"1"'})
    await told.ask("DELETE", path)
    await told.ask("DELETE", path, erase="true")
    await told.ask("GET", "/api/operations", op="edit_knowledge")


async def answers_in_new_hub(folder: Path, prepare: Prepare, there: str, *, auth: str) -> AnswerLog:
    """Open a hub, prepare a resource, have Wang send every request about ASKED, and return the answers."""
    settings = Settings(
        data_dir=folder,
        owner="user:local",
        auth="api-key" if auth == "api-key" else "none",
        root_key=ROOT_KEY if auth == "api-key" else None,
        secret_key=SECRET_KEY,
    )
    world = Overrides(clock=FakeClock(), ids=CountedIds(), files=FileSystem())
    async with open_hub(settings, world, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        keys = {name: await issue_key_text(hub, name) for name in ("li", "wang")} if auth == "api-key" else {}

        async def ask(
            who: str,
            method: str,
            path: str,
            *,
            json: Mapping[str, Any] | None = None,
            content: bytes | None = None,
            headers: Mapping[str, str] | None = None,
            **query: str,
        ) -> httpx.Response:
            named = {} if auth == "api-key" or who == "root" else {"user_id": who}
            key = ROOT_KEY if who == "root" else keys.get(who)
            every = {"X-Request-ID": "the-same", **({"X-API-Key": str(key)} if auth == "api-key" else {})}
            return await api.request(
                method,
                path,
                json=None if json is None else {**json, **named},
                content=content,
                headers={**every, **(headers or {})},
                # A request without any has its own in the path.
                params=httpx.URL(path).params.merge({**query, **({} if json is not None else named)}),
            )

        await prepare(ask, there)
        log = AnswerLog(ask)
        await send_all_requests(log)
        return log


async def save_as_li(ask: Ask, resource_id: str, **fields: object) -> None:
    made = {"id": resource_id, "title": "密码", "content_type": "credential", "secure_body": "SecurePass123", **fields}
    answer = await ask("li", "POST", "/api/resource", json=made)
    assert answer.status_code == 201, answer.text


async def save_private(ask: Ask, resource_id: str) -> None:
    await save_as_li(ask, resource_id)


async def save_and_reveal(ask: Ask, resource_id: str) -> None:
    await save_as_li(ask, resource_id)
    answer = await ask("li", "GET", f"/api/resource/{resource_id}", reveal="true")
    assert answer.json()["secure_body"] == "SecurePass123"


async def save_and_erase(ask: Ask, resource_id: str) -> None:
    await save_as_li(ask, resource_id)
    answer = await ask("li", "DELETE", f"/api/resource/{resource_id}", erase="true")
    assert answer.status_code == 200, answer.text


async def save_in_another_account(ask: Ask, resource_id: str) -> None:
    made = {"id": resource_id, "secure_body": "SecurePass123", "scopes": ["public"], "account": "other"}
    answer = await ask("root", "POST", "/api/resource", json=made)
    assert answer.status_code == 201, answer.text


async def save_public(ask: Ask, resource_id: str) -> None:
    await save_as_li(ask, resource_id, scopes=["public"])


@pytest.mark.parametrize("auth", ["none", "api-key"])
@pytest.mark.parametrize(
    "prepare",
    [save_private, save_and_reveal, save_and_erase, save_in_another_account],
)
async def test_hidden_and_missing_resources_get_the_same_bytes(tmp_path: Path, prepare: Prepare, auth: str) -> None:
    hidden = await answers_in_new_hub(tmp_path / "hidden", prepare, ASKED, auth=auth)
    absent = await answers_in_new_hub(tmp_path / "absent", prepare, ELSEWHERE, auth=auth)

    assert hidden.answers == absent.answers
    assert any(b'"missing_resource_ids":["credentials/hidden_a"]' in body for _, _, body in hidden.answers.values())


async def test_a_visible_resource_changes_the_answers(tmp_path: Path) -> None:
    seen = await answers_in_new_hub(tmp_path / "seen", save_public, ASKED, auth="none")
    absent = await answers_in_new_hub(tmp_path / "absent", save_public, ELSEWHERE, auth="none")

    differing = [name for name, log in seen.answers.items() if log != absent.answers[name]]
    assert {name.split()[1] for name in differing} >= {"POST", "PATCH", "GET", "DELETE"}
    assert not any(b'"missing_resource_ids":["credentials/hidden_a"]' in body for _, _, body in seen.answers.values())


@pytest.mark.parametrize("scopes", [["user:owner"], ["public"]])
async def test_a_reader_sees_references_as_they_were_written(
    api: httpx.AsyncClient, save_record: Callable[..., Awaitable[dict[str, Any]]], scopes: list[str]
) -> None:
    await api.post("/api/resource", json={"id": ASKED, "user_id": "li", "scopes": scopes})
    record = await save_record("Shared.", user_id="li", scopes=["public"], resource_ids=[ASKED, "none/such"])

    seen = (await api.get(f"/api/knowledge/{record['id']}", params={"user_id": "wang"})).json()
    page = (await api.get("/api/knowledge", params={"user_id": "wang"})).json()["results"][0]
    found = (await api.get("/api/knowledge/search", params={"user_id": "wang", "q": "shared"})).json()["results"][0]

    assert record["missing_resource_ids"] == ["none/such"]
    for shown in (seen, page, found):
        assert shown["resource_ids"] == [ASKED, "none/such"]
        assert "missing_resource_ids" not in shown
