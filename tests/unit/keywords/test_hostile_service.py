"""Hostile models against the whole service, over ASGI and on real files.

Whatever a model answers: no 5xx, nothing changed but what the verb is for, nobody waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.language_models import ChatModel, ChatReply, ChatRequest
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID
from knowhub.keywords.tree import BY_INFO, INFO_TABLE, list_keywords
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.hostile_answers import HostileAnswers
from tests.fakes.queued_chat import QueuedChat, read_fenced
from tests.web.conftest import client_of

pytestmark = pytest.mark.anyio

# Long enough for answers that do come, and short enough to meet many that do not.
BUDGET_S = 0.1
WAIT_S = 10.0
# As many operations as one answer lists.
A_PAGE = 1_000
ANN, BOB = {"user_id": "ann"}, {"user_id": "bob"}
Snapshot = dict[tuple[str, str], bytes]


@dataclass
class Service:
    """The app on an open hub, as ann asks it."""

    api: httpx.AsyncClient
    hub: Hub
    made: dict[str, str] = field(default_factory=dict)

    async def post(self, path: str, body: dict[str, Any], who: dict[str, str] | None = None) -> httpx.Response:
        response = await self.api.post(path, json={**(who or ANN), **body})
        assert response.status_code < 500, response.text
        return response

    async def keyword(
        self, name: str, parent: str | None = None, who: dict[str, str] | None = None, **more: object
    ) -> str:
        parent_id = ROOT_ID if parent is None else self.made[parent]
        response = await self.post(
            "/api/keywords", {"name": name, "parent_id": parent_id, "allow_duplicate": True, **more}, who
        )
        assert response.status_code == 201, response.text
        self.made.setdefault(name, response.json()["id"])
        return str(response.json()["id"])

    async def search(self, q: str, **params: str) -> dict[str, Any]:
        response = await self.api.get("/api/keywords/search", params={"q": q, **ANN, **params})
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def snapshot(self) -> Snapshot:
        """Return every live row of the tree as JSON text."""
        view = self.hub.store.view("default")
        keys = [(KEYWORDS, node.id) for node in list_keywords(view)]
        for summary in view.newest(INFO_TABLE):
            keys += [
                (INFOS, summary.id),
                *((LINKS, f"{summary.id}:{link.keyword_id}") for link in view.lookup(BY_INFO, summary.id)),
            ]
        return {(collection, row_id): view.raw(collection, row_id) or b"" for collection, row_id in keys}


@asynccontextmanager
async def service_with(chat: ChatModel, folder: Path, **settings: object) -> AsyncIterator[Service]:
    """Open the service with a tree in which ann and bob have their own, and bob hides a branch."""
    options = Settings(data_dir=folder / "data", owner="user:local").model_copy(update=settings)
    async with (
        open_hub(options, Overrides(llm=chat), maintain=False) as hub,
        client_of(create_app(options, hub)) as api,
    ):
        yield Service(api, hub)


async def plant_tree(service: Service) -> None:
    for name, parent in (
        ("技术", None),
        ("编程语言", "技术"),
        ("Python", "编程语言"),
        ("Django", "Python"),
        ("生活", None),
    ):
        await service.keyword(name, parent, description="kept" if name == "Python" else "")
    for parent in ("技术", "生活"):
        await service.keyword("苹果", parent)
    for number in range(20):
        await service.keyword(f"leaf {number}", "生活", BOB)
    for parent in ("技术", "编程语言", "生活"):
        await service.keyword("Python", parent, BOB, description="bob's own")
        await service.keyword("Python", parent)
    await service.keyword("secret", "技术", BOB, scopes=["user:bob"])
    await service.keyword("below secret", "secret", BOB, scopes=["user:bob"])
    await service.keyword("Python", "secret", BOB, scopes=["user:bob"])


# hostile answers


@pytest.mark.parametrize(
    ("seed", "replies"),
    [(7, 300), (8, 100), *(pytest.param(seed, 1_000, marks=pytest.mark.nightly) for seed in range(200, 210))],
)
async def test_hostile_replies_do_no_harm(tmp_path: Path, seed: int, replies: int) -> None:
    await send_hostile_replies(tmp_path, seed, replies, auto_link_creates=seed % 2 == 0)


async def send_hostile_replies(folder: Path, seed: int, replies: int, **settings: object) -> None:
    """Send verbs in turn until the model has given so many hostile replies."""
    ids: list[str] = []
    chat = QueuedChat(iter_hostile_answers(seed, ids))
    budgets = {"descent_budget_s": BUDGET_S, "llm_write_budget_s": BUDGET_S}
    async with service_with(chat, folder, uncategorized_name=None, **budgets, **settings) as service:
        await plant_tree(service)
        assert chat.questions == []
        ids += [row_id for _, row_id in service.snapshot()]
        statuses: set[tuple[str, str]] = set()
        turn = 0
        # Continue until every outcome has occurred at least once.
        while (given := len(chat.questions)) < replies or (given < 5 * replies and not statuses >= HOPED_FOR):
            verb = VERBS[turn % len(VERBS)]
            statuses.add((verb.__name__, await verb(service, turn)))
            turn += 1
        await service.hub.decisions.close()
        # Not everything was refused: there were answers to choose by.
        assert {item for item in HOPED_FOR if item not in statuses} == set()
        assert (service.hub.decisions.dropped, service.hub.decisions.failed) == (0, 0)
    shown = orjson.dumps([read_fenced(question) for question in chat.questions]).decode()
    assert "Python" in shown
    assert "secret" not in shown
    # Every written row can be read again.
    async with service_with(QueuedChat(), folder) as reopened:
        listed = (await reopened.api.get("/api/operations", params={"limit": A_PAGE})).json()["results"]
        assert len(listed) >= min(turn // 2 + 1, A_PAGE)


def iter_hostile_answers(seed: int, ids: list[str]) -> Iterator[object]:
    # One generator for the whole storm, made when the ids are known.
    answers: HostileAnswers | None = None
    while True:
        answers = answers or HostileAnswers(seed, ids)
        yield answers.answer()


async def searching(service: Service, turn: int) -> str:
    before = service.snapshot()

    found = await service.search(f"那个东西 {turn}")

    assert service.snapshot() == before
    shown = [found["node"]] if found["node"] else found["candidates"]
    assert {item["id"] for item in shown} <= visible_ids(before)
    assert all(item["name"] != "secret" for item in found["path"])
    return str(found["status"])


async def disambiguating(service: Service, turn: int) -> str:
    before = service.snapshot()

    found = await service.search("苹果", llm_disambiguate="true")

    assert service.snapshot() == before
    shown = [found["node"]] if found["node"] else found["candidates"]
    assert {item["name"] for item in shown} == {"苹果"}
    return str(found["status"])


async def placing(service: Service, turn: int) -> str:
    before = service.snapshot()

    response = await service.post("/api/keywords", {"name": f"fresh {turn}"})

    assert response.status_code == 201, response.text
    (made,) = added_rows(before, service.snapshot())
    assert (made["id"], made["owner"], made["scopes"]) == (response.json()["id"], "user:ann", ["public"])
    assert made["parent_id"] in visible_ids(before)
    await undo_response(service, response, before)
    return str(response.json()["decided"]["placed"])


async def doubling(service: Service, turn: int) -> str:
    before = service.snapshot()
    body = {"name": "PYTHON", "aliases": [f"py {turn}"], "description": "new", "llm_dedup_check": True}

    response = await service.post("/api/keywords", {**body, "parent_id": service.made["生活"], "allow_duplicate": True})

    answer, after = response.json(), service.snapshot()
    if response.status_code == 201:
        (made,) = added_rows(before, after)
        assert (made["parent_id"], made["owner"]) == (service.made["生活"], "user:ann")
        await undo_response(service, response, before)
        return "created"
    assert response.status_code == 200, response.text
    assert after.keys() == before.keys()
    for key in after:
        if after[key] != before[key]:
            was, now = orjson.loads(before[key]), orjson.loads(after[key])
            assert (key, was["owner"]) == ((KEYWORDS, answer["id"]), "user:ann")
            fixed = {"id", "name", "parent_id", "owner", "scopes", "created_at"}
            assert {name: now[name] for name in fixed} == {name: was[name] for name in fixed}
            assert set(was["aliases"]) <= set(now["aliases"])
    if answer["operation_id"] is not None:
        await undo_response(service, response, before)
    return "stood"


async def linking(service: Service, turn: int) -> str:
    before = service.snapshot()

    response = await service.post("/api/infos", {"content": f"Python and Django, {turn}", "auto_link": True})

    assert response.status_code == 201, response.text
    made = added_rows(before, service.snapshot())
    fresh = [row for row in made if "parent_id" in row]
    assert len(fresh) <= (5 if service.hub.settings.auto_link_creates else 0)
    assert all((row["parent_id"], row["owner"]) == (ROOT_ID, "user:ann") for row in fresh)
    links = [row for row in made if "relation" in row]
    assert {link["keyword_id"] for link in links} <= visible_ids(before) | {row["id"] for row in fresh}
    if not fresh:
        linked = {orjson.loads(before[KEYWORDS, link["keyword_id"]])["name"].lower() for link in links}
        assert service.hub.settings.auto_link_creates or linked <= {"python", "django"}
    await undo_response(service, response, before)
    return "linked" if links else "unlinked"


async def planning(service: Service, turn: int) -> str:
    before = service.snapshot()

    plan = (await service.post("/api/keywords/reorganize", {"scope_id": service.made["技术"]})).json()

    assert service.snapshot() == before
    if not plan["steps"]:
        return "nothing"
    applied = await service.post("/api/keywords/reorganize/apply", {"plan": plan})
    if applied.status_code != 200:
        assert (applied.status_code, service.snapshot()) == (409, before), applied.text
        return "refused"
    for key, row in service.snapshot().items():
        was, now = orjson.loads(before.get(key, row)), orjson.loads(row)
        assert [was.get(name) for name in ("owner", "scopes")] == [now.get(name) for name in ("owner", "scopes")]
        # Only rows of ann change, and no text that a user wrote.
        assert was == now or now.get("owner", "user:ann") == "user:ann"
        assert was.get("description", "") in {"", now.get("description")}
    await undo_response(service, applied, before)
    return "applied"


async def undo_response(service: Service, done: httpx.Response, before: Snapshot) -> None:
    """Undo the request, so that the tree stays the same."""
    undone = await service.post(f"/api/operations/{done.json()['operation_id']}/undo", {})
    assert undone.status_code == 200, undone.text
    assert contents(service.snapshot()) == contents(before)


VERBS = (searching, disambiguating, placing, doubling, linking, planning)
HOPED_FOR = {
    *(("searching", status) for status in ("matched", "ambiguous", "not_found")),
    *(("disambiguating", status) for status in ("matched", "ambiguous")),
    *(("placing", placed) for placed in ("suggested", "root")),
    *(("doubling", how) for how in ("created", "stood")),
    ("linking", "linked"),
    ("planning", "applied"),
}


def visible_ids(rows: Snapshot) -> set[str]:
    """Return the ids of the keywords that ann sees."""
    keywords = {row_id: orjson.loads(row) for (collection, row_id), row in rows.items() if collection == KEYWORDS}
    return {ROOT_ID, *(row_id for row_id, row in keywords.items() if row["scopes"] != ["user:bob"])}


def added_rows(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """Return the new rows; fails if an old row was changed or removed."""
    assert {key: after.get(key) for key in before} == before
    return [orjson.loads(row) for key, row in after.items() if key not in before]


def contents(rows: Snapshot) -> dict[tuple[str, str], dict[str, Any]]:
    """Return rows without version and time of update."""
    return {
        key: {name: value for name, value in orjson.loads(row).items() if name not in {"version", "updated_at"}}
        for key, row in rows.items()
    }


# a model that thinks


class WaitingChat:
    """A model that answers when `go` is set; `asked` is set when it is asked."""

    model = "thinking"

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        self.asked.set()
        await self.go.wait()
        return ChatReply({"action": "missing", "node_id": None, "links": [], "reason": "nothing"}, self.model, 0.0)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/keywords/search", None),
        ("/api/keywords", {"name": "fresh"}),
        ("/api/keywords", {"name": "python", "llm_dedup_check": True}),
        ("/api/infos", {"content": "Python", "auto_link": True}),
        ("/api/keywords/reorganize", {}),
    ],
)
async def test_a_slow_model_does_not_block_other_requests(
    tmp_path: Path, path: str, body: dict[str, Any] | None
) -> None:
    model = WaitingChat()
    async with service_with(model, tmp_path) as service, asyncio.timeout(WAIT_S):
        await service.keyword("Python")
        asking = service.search("那个东西") if body is None else service.post(path, body)
        waiting: asyncio.Task[object] = asyncio.ensure_future(asking)
        await model.asked.wait()

        await service.keyword("meanwhile")
        found = await service.search("meanwhile")
        writable = (await service.api.get("/ready")).json()["writable"]
        is_waiting = not waiting.done()
        model.go.set()
        await waiting

    assert (found["status"], writable, is_waiting) == ("matched", True, True)
