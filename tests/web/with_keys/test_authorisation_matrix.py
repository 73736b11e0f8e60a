"""Every route × every kind of caller: who gets an answer, who is refused, and that a refusal reveals nothing."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from knowhub.bootstrap import Hub
from knowhub.core.clock import iso
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from tests.authorisation import INFOS, KEYWORDS, KNOWLEDGE, ROWS, Ids, Need, RouteRequest
from tests.authorised_rows import RowMaker, headers
from tests.builders import FakeClock
from tests.keys import ROOT_KEY, issue_key, root_caller, text_of

pytestmark = pytest.mark.anyio

UNKNOWN = ("nobody", "forged", "expired", "revoked")
Body: TypeAlias = Callable[[Ids], dict[str, object]]
SEEING = ("reader", "writer", "owner", "admin", "root")
STRANGERS = ("stranger", "of another account")
EVERYBODY = (*UNKNOWN, *STRANGERS, *SEEING)
# Whoever may do it, and what the others are answered.
REFUSED: Mapping[Need, Mapping[str, int]] = {
    Need.NOTHING: {},
    Need.KEY: dict.fromkeys(UNKNOWN, 401),
    Need.SIGHT: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys(STRANGERS, 404),
    Need.WRITER: dict.fromkeys(UNKNOWN, 401) | {"reader": 403},
    Need.REVEAL: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys(STRANGERS, 404) | {"reader": 403},
    Need.OWNERSHIP: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys(STRANGERS, 404) | {"reader": 403, "writer": 403},
    Need.PRIVATE: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys((*STRANGERS, "reader", "writer"), 404),
    Need.PRIVATE_OWNERSHIP: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys((*STRANGERS, "writer"), 404) | {"reader": 403},
    Need.OWN_SPACE: dict.fromkeys(UNKNOWN, 401)
    | dict.fromkeys((*STRANGERS, "writer", "admin", "root"), 404)
    | {"reader": 403},
    Need.OWN_SESSION: dict.fromkeys(UNKNOWN, 401)
    | dict.fromkeys((*STRANGERS, "reader", "writer", "admin", "root"), 404),
    Need.ADMIN: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys((*STRANGERS, "reader", "writer", "owner"), 403),
    Need.ROOT: dict.fromkeys(UNKNOWN, 401) | dict.fromkeys((*STRANGERS, "reader", "writer", "owner", "admin"), 403),
}
CASES = [
    pytest.param(method, path, item, id=f"{method} {path}{f' #{index}' if index else ''}")
    for (method, path), several in ROWS.items()
    for index, item in enumerate(several)
]


@pytest.fixture
async def keys(hub: Hub, clock: FakeClock) -> dict[str, str | None]:
    """Return a key for every kind of caller; the owner owns the rows that the project `atlas` sees."""
    atlas = KeyHolder("li", project_ids=("atlas",))
    revoked = await issue_key(hub, atlas)
    await hub.identity.revoke(root_caller(), revoked.key.key_id)
    expired = text_of(await issue_key(hub, atlas, expires_at=iso(clock.now() + 60)))
    clock.advance(120)
    owner = text_of(await issue_key(hub, atlas))
    return {
        "nobody": None,
        "forged": owner[:-1] + ("A" if owner[-1] != "A" else "B"),
        "expired": expired,
        "revoked": text_of(revoked),
        "of another account": text_of(await issue_key(hub, atlas, account="another")),
        "stranger": text_of(await issue_key(hub, KeyHolder("zhou"))),
        "reader": text_of(await issue_key(hub, KeyHolder("kai", project_ids=("atlas",)), Role.READER)),
        "writer": text_of(await issue_key(hub, KeyHolder("chen", project_ids=("atlas",)))),
        "owner": owner,
        "admin": text_of(await issue_key(hub, KeyHolder("ada"), Role.ADMIN)),
        "root": ROOT_KEY,
    }


@pytest.fixture
async def row_maker(api: httpx.AsyncClient, hub: Hub, keys: dict[str, str | None]) -> RowMaker:
    return RowMaker(api, hub, str(keys["owner"]))


async def test_every_route_has_its_row(app: FastAPI) -> None:
    routes = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in set(route.methods or ()) - {"HEAD"}
    }

    assert routes == set(ROWS)


@pytest.mark.parametrize(("method", "path", "row"), CASES)
async def test_each_route_answers_exactly_the_allowed_callers(
    method: str, path: str, row: RouteRequest, row_maker: RowMaker, keys: dict[str, str | None]
) -> None:
    ids: dict[str, str] = {}

    for who in EVERYBODY:
        # Rows that are only read are shared; each request that writes gets new rows.
        only_reads = method == "GET" or path == "/mcp"
        ids = ids if ids and only_reads else await row_maker.rows(path, row)
        answer = await row_maker.ask(method, path, row, ids, keys[who])
        refused = REFUSED[row.need].get(who)

        assert answer.status_code == (refused or row.status), (who, answer.text)
        if refused is None and row.need is not Need.NOTHING:
            sees = who not in ({*STRANGERS, "reader", "writer"} if row.is_private else STRANGERS)
            assert row.tells is None or (ids[row.tells] in answer.text) is sees, who
            assert sees or not any(row_id in answer.text for row_id in ids.values() if method == "GET"), who


@pytest.mark.parametrize(("method", "path", "row"), CASES)
async def test_hidden_and_missing_rows_get_the_same_refusal(
    method: str, path: str, row: RouteRequest, row_maker: RowMaker, keys: dict[str, str | None]
) -> None:
    ids = await row_maker.rows(path, row)
    missing = {name: _make_unknown_id(row_id) for name, row_id in ids.items()}
    # A caller with access to a row that may not change it gets 403, not 404.
    answer = {"writer", *(("reader",) if row.reader_is_told else ())} if row.need is Need.OWNERSHIP else set()

    for who in REFUSED[row.need].keys() - answer:
        existing_answer = await row_maker.ask(method, path, row, ids, keys[who])
        missing_answer = await row_maker.ask(method, path, row, missing, keys[who])

        assert existing_answer.status_code == missing_answer.status_code, who
        assert _replace_ids(existing_answer.content, ids) == _replace_ids(missing_answer.content, missing), who
        assert existing_answer.headers == missing_answer.headers, who


async def test_references_to_hidden_and_missing_rows_get_the_same_answer(
    row_maker: RowMaker, keys: dict[str, str | None]
) -> None:
    hidden = {
        name: (await row_maker.rows(f"{{{name}}}", RouteRequest(Need.KEY)))[name]
        for name in ("knowledge_id", "keyword_id")
    }
    own = await RowMaker(row_maker.api, row_maker.hub, str(keys["stranger"]), ("user:owner",)).rows(
        "{keyword_id}{info_id}", RouteRequest(Need.KEY)
    )
    missing = {name: _make_unknown_id(row_id) for name, row_id in hidden.items()}

    for method, path, body in _references(own):
        answers = [
            await row_maker.api.request(
                method,
                path.format(**ids),
                json=None if body is None else body(ids),
                headers=headers(keys["stranger"]),
            )
            for ids in (hidden, missing)
        ]

        assert answers[0].status_code == answers[1].status_code in {200, 404, 409, 422}, (path, answers[0].text)
        assert _replace_ids(answers[0].content, hidden) == _replace_ids(answers[1].content, missing), path
        assert (answers[0].status_code == 200) == (path in {f"{KNOWLEDGE}/batch_update", f"{KNOWLEDGE}/outcome"}), path


def _references(own: Ids) -> list[tuple[str, str, Body | None]]:
    """Return requests on own or new rows; each request refers to another row by id."""
    keyword, info = f"{KEYWORDS}/{own['keyword_id']}", f"{INFOS}/{own['info_id']}"
    named = {"name": "refers", "llm_auto_place": False}

    def step(ids: Ids) -> dict[str, object]:
        return {"kind": "describe", "node": {"id": ids["keyword_id"], "version": 1}, "description": "x"}

    return [
        ("POST", KNOWLEDGE, lambda ids: {"content": "x", "supersedes": ids["knowledge_id"]}),
        ("POST", f"{KNOWLEDGE}/batch", lambda ids: {"items": [{"content": "x", "supersedes": ids["knowledge_id"]}]}),
        ("POST", f"{KNOWLEDGE}/batch_update", lambda ids: {"feedback_list": [_vote(ids["knowledge_id"])]}),
        ("POST", KEYWORDS, lambda ids: {**named, "parent_id": ids["keyword_id"]}),
        ("POST", f"{KEYWORDS}/batch", lambda ids: {"items": [{"name": "refers", "parent_id": ids["keyword_id"]}]}),
        ("POST", f"{keyword}/move", lambda ids: {"new_parent_id": ids["keyword_id"]}),
        ("POST", f"{keyword}/merge", lambda ids: {"into": ids["keyword_id"]}),
        ("POST", f"{KEYWORDS}/reorganize", lambda ids: {"scope_id": ids["keyword_id"]}),
        ("POST", f"{KEYWORDS}/reorganize/apply", lambda ids: {"plan": {"steps": [step(ids)]}}),
        ("POST", INFOS, lambda ids: {"content": "x", "keyword_ids": [ids["keyword_id"]]}),
        ("POST", f"{INFOS}/batch", lambda ids: {"items": [{"content": "x", "keyword_ids": [ids["keyword_id"]]}]}),
        ("PUT", info + "/keywords/{keyword_id}", lambda _ids: {}),
        ("DELETE", info + "/keywords/{keyword_id}", None),
        ("GET", INFOS + "?keyword_id={keyword_id}", None),
    ]


def _vote(knowledge_id: str) -> dict[str, object]:
    return {"knowledge_id": knowledge_id, "is_helpful": True}


def _make_unknown_id(row_id: str) -> str:
    return row_id[:-1] + ("0" if row_id[-1] != "0" else "1")


def _replace_ids(content: bytes, ids: Ids) -> bytes:
    for name, row_id in ids.items():
        content = content.replace(row_id.encode(), name.encode())
    return content
