"""Hidden rows below a keyword: no answer about the keyword reveals them, and they are never lost."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.keys import issue_key_text

pytestmark = pytest.mark.anyio

KEYWORDS, INFOS, OPERATIONS = "/api/keywords", "/api/infos", "/api/operations"
VARYING = re.compile(r'"?[0-9a-f]{8}-[0-9a-f-]{27}"?|"\d{4}-\d\d-\d\dT[^"]*"|"(?:seq|next_cursor)":"?\d+')

# The requests of li on her keyword, in order; TOP is the keyword, LAST the newest operation.
JOURNEYS: dict[str, list[tuple[str, str, dict[str, object]]]] = {
    "delete": [("DELETE", KEYWORDS + "/TOP", {})],
    "delete all below": [("DELETE", KEYWORDS + "/TOP", {"cascade": True})],
    "delete and detach": [("DELETE", KEYWORDS + "/TOP", {"info_policy": "detach"})],
    "delete where infos forbid it": [("DELETE", KEYWORDS + "/TOP", {"info_policy": "forbid"})],
    "merge": [("POST", KEYWORDS + "/TOP/merge", {"into": "OTHER"})],
    "delete and bring back": [
        ("DELETE", KEYWORDS + "/TOP", {}),
        ("GET", OPERATIONS + "/LAST", {}),
        ("POST", OPERATIONS + "/LAST/undo", {}),
    ],
    "merge and bring back": [
        ("POST", KEYWORDS + "/TOP/merge", {"into": "OTHER"}),
        ("POST", OPERATIONS + "/LAST/undo", {"dry_run": True}),
        ("POST", OPERATIONS + "/LAST/undo", {}),
    ],
    "undo the making": [
        ("POST", OPERATIONS + "/MADE/undo", {"dry_run": True}),
        ("POST", OPERATIONS + "/MADE/undo", {}),
    ],
    "undo the making, and redo it": [
        ("POST", OPERATIONS + "/MADE/undo", {}),
        ("POST", OPERATIONS + "/LAST/undo", {}),
    ],
    "delete, bring back, delete again": [
        ("DELETE", KEYWORDS + "/TOP", {}),
        ("POST", OPERATIONS + "/LAST/undo", {}),
        ("POST", OPERATIONS + "/LAST/undo", {}),
    ],
}


class TreeCaller:
    """Sends requests with one key."""

    def __init__(self, api: httpx.AsyncClient, key: str) -> None:
        self._api = api
        self._headers = {"X-API-Key": key}

    async def try_to(self, method: str, path: str, body: dict[str, object] | None = None) -> httpx.Response:
        return await self._api.request(method, path, json=body, headers=self._headers)

    async def ask(self, method: str, path: str, **body: object) -> dict[str, Any]:
        answer = await self.try_to(method, path, body or None)
        assert answer.status_code < 300, answer.text
        reply: dict[str, Any] = answer.json()
        return reply

    async def publish(self, path: str, **body: object) -> dict[str, Any]:
        """Create a keyword or an info; it is public unless `body` has scopes."""
        return await self.ask("POST", path, **{"scopes": ["public"], **body})

    async def names(self, path: str) -> list[str]:
        return [result["name"] for result in (await self.ask("GET", path))["results"]]


@pytest.fixture
async def li(api: httpx.AsyncClient, hub: Hub) -> TreeCaller:
    return TreeCaller(api, await issue_key_text(hub, "li"))


@pytest.fixture
async def chen(api: httpx.AsyncClient, hub: Hub) -> TreeCaller:
    return TreeCaller(api, await issue_key_text(hub, "chen"))


async def run_journey(li: TreeCaller, journey: str, hang: Callable[[str], Awaitable[None]]) -> list[str]:
    """Return the answers to li at each step, without ids and times."""
    area = await li.publish(KEYWORDS, name=f"area of {journey}", llm_auto_place=False)
    top, other = [
        await li.publish(KEYWORDS, name=name, parent_id=area["id"], llm_auto_place=False)
        for name in (f"top of {journey}", f"other of {journey}")
    ]
    await hang(top["id"])
    named = {"TOP": top["id"], "OTHER": other["id"], "MADE": top["operation_id"], "LAST": ""}
    replies = []
    for method, path, body in JOURNEYS[journey]:
        sent = {name: named.get(str(value), value) for name, value in body.items()}
        for name, value in named.items():
            path = path.replace(f"/{name}", f"/{value}")  # noqa: PLW2901 -- the path as it is asked for
        answer = await li.try_to(method, path, sent)
        replies.append(f"{answer.status_code} {VARYING.sub('#', answer.text)}")
        named["LAST"] = answer.json().get("operation_id") or named["LAST"]
    listed = await li.try_to("GET", f"{OPERATIONS}?limit=1")
    return [*replies, VARYING.sub("#", listed.text)]


async def hang_nothing(_keyword_id: str) -> None:
    """Add nothing below the keyword."""


@pytest.mark.parametrize("journey", JOURNEYS)
async def test_hidden_rows_below_a_keyword_change_no_answer_and_survive(
    li: TreeCaller, chen: TreeCaller, journey: str
) -> None:
    own = {"scopes": ["user:chen"], "owner": "user:chen"}
    hung: dict[str, str] = {}

    async def chens_own(keyword_id: str) -> None:
        child = await chen.publish(KEYWORDS, name="chen's", parent_id=keyword_id, llm_auto_place=False, **own)
        await chen.publish(KEYWORDS, name="deeper", parent_id=child["id"], llm_auto_place=False, **own)
        info = await chen.publish(INFOS, content="chen's", keyword_ids=[keyword_id], **own)
        hung.update(child=child["id"], info=info["id"])

    with_it = await run_journey(li, journey, chens_own)
    await li.ask("DELETE", f"{KEYWORDS}/{(await find_area(li, journey))}", cascade=True)
    without = await run_journey(li, journey, hang_nothing)

    assert with_it == without
    assert "chen" not in str(with_it)
    path = await chen.names(f"{KEYWORDS}/{hung['child']}/path")
    assert (path[0], path[-1]) == ("root", "chen's")
    assert await chen.names(f"{KEYWORDS}/{hung['child']}/children") == ["deeper"]
    assert len(await chen.names(f"{INFOS}/{hung['info']}/keywords")) == (journey != "delete and detach")


async def find_area(li: TreeCaller, journey: str) -> str:
    found = await li.ask("GET", f"{KEYWORDS}/search?q=area of {journey}&llm_expand_query=false")
    node: dict[str, str] = found["node"]
    return node["id"]


@pytest.mark.parametrize(
    ("journey", "above"),
    [
        ("delete", ["root", "area of delete"]),
        ("delete all below", ["root", "area of delete all below"]),
        ("merge", ["root", "area of merge", "other of merge"]),
        ("merge and bring back", ["root", "area of merge and bring back", "top of merge and bring back"]),
        ("undo the making", ["root", "area of undo the making"]),
        (
            "undo the making, and redo it",
            ["root", "area of undo the making, and redo it", "top of undo the making, and redo it"],
        ),
    ],
)
async def test_hidden_rows_follow_the_keyword_they_hang_on(
    li: TreeCaller, chen: TreeCaller, journey: str, above: list[str]
) -> None:
    own = {"scopes": ["user:chen"], "owner": "user:chen"}
    hung: list[str] = []

    async def chens_own(keyword_id: str) -> None:
        child = await chen.publish(KEYWORDS, name="chen's", parent_id=keyword_id, llm_auto_place=False, **own)
        info = await chen.publish(INFOS, content="chen's", keyword_ids=[keyword_id], **own)
        hung.extend([child["id"], info["id"]])

    answer = await run_journey(li, journey, chens_own)

    assert [item[:3] for item in answer[:-1]] == ["200"] * len(JOURNEYS[journey])
    assert await chen.names(f"{KEYWORDS}/{hung[0]}/path") == [*above, "chen's"]
    assert await chen.names(f"{INFOS}/{hung[1]}/keywords") == [above[-1]]


async def test_undo_keeps_hidden_rows_where_their_owner_moved_them(li: TreeCaller, chen: TreeCaller) -> None:
    plain: dict[str, Any] = {"llm_auto_place": False}
    own = {"scopes": ["user:chen"], "owner": "user:chen"}
    top = await li.publish(KEYWORDS, name="top", **plain)
    place = await chen.publish(KEYWORDS, name="place", **plain)
    moved, gone = [
        await chen.publish(KEYWORDS, name=name, parent_id=top["id"], **plain, **own) for name in ("moved", "gone")
    ]
    kept, lost = [await chen.publish(INFOS, content=name, keyword_ids=[top["id"]], **own) for name in ("kept", "lost")]
    deleted = await li.ask("DELETE", f"{KEYWORDS}/{top['id']}")
    await chen.ask("POST", f"{KEYWORDS}/{moved['id']}/move", new_parent_id=place["id"])
    await chen.ask("DELETE", f"{KEYWORDS}/{gone['id']}")
    await chen.ask("DELETE", f"{INFOS}/{lost['id']}")

    (entry,) = (await li.ask("GET", f"{OPERATIONS}?limit=1"))["results"]
    undone = await li.ask("POST", f"{OPERATIONS}/{deleted['operation_id']}/undo", dry_run=False)

    assert (entry["operation_id"], entry["subjects"], entry["undoable"]) == (deleted["operation_id"], [top["id"]], True)
    assert [change["id"] for change in undone["changes"]] == [top["id"]]
    assert await chen.names(f"{KEYWORDS}/{moved['id']}/path") == ["root", "place", "moved"]
    assert await chen.names(f"{INFOS}/{kept['id']}/keywords") == ["top"]
    for path in (f"{KEYWORDS}/{gone['id']}", f"{INFOS}/{lost['id']}"):
        assert (await chen.try_to("GET", path)).status_code == 404


async def test_a_cascaded_row_deleted_later_does_not_block_undo_and_redo(li: TreeCaller, chen: TreeCaller) -> None:
    plain: dict[str, Any] = {"llm_auto_place": False}
    own = {"scopes": ["user:chen"], "owner": "user:chen"}
    top = await li.publish(KEYWORDS, name="top", **plain)
    gone = await chen.publish(KEYWORDS, name="gone", parent_id=top["id"], **plain, **own)
    newest = await li.ask("DELETE", f"{KEYWORDS}/{top['id']}")
    taken = await chen.ask("DELETE", f"{KEYWORDS}/{gone['id']}")

    undone = []
    for _ in range(5):
        newest = await li.ask("POST", f"{OPERATIONS}/{newest['operation_id']}/undo", dry_run=False)
        undone.append(newest)

    assert [[change["id"] for change in item["changes"]] for item in undone] == [[top["id"]]] * 5
    stood = [change["after"].get("deleted", False) for item in undone for change in item["changes"]]
    assert stood == [False, True, False, True, False]
    await chen.ask("POST", f"{OPERATIONS}/{taken['operation_id']}/undo", dry_run=False)
    assert await chen.names(f"{KEYWORDS}/{gone['id']}/path") == ["root", "top", "gone"]


async def test_a_visible_child_blocks_a_deletion_and_a_merge(li: TreeCaller, chen: TreeCaller) -> None:
    plain: dict[str, Any] = {"llm_auto_place": False}
    top, other = [await li.publish(KEYWORDS, name=name, **plain) for name in ("top", "other")]
    child = await chen.publish(KEYWORDS, name="chen's", parent_id=top["id"], **plain)

    refused = [
        await li.try_to("DELETE", f"{KEYWORDS}/{top['id']}"),
        await li.try_to("DELETE", f"{KEYWORDS}/{top['id']}?cascade=true"),
        await li.try_to("POST", f"{KEYWORDS}/{top['id']}/merge", {"into": other["id"]}),
    ]

    assert [item.status_code for item in refused] == [409, 403, 403]
    assert all(child["id"] in item.text for item in refused)


async def test_undoing_a_creation_moves_its_children_to_the_parent(li: TreeCaller, chen: TreeCaller) -> None:
    top = await li.publish(KEYWORDS, name="top", llm_auto_place=False)
    child = await chen.publish(KEYWORDS, name="chen's", parent_id=top["id"], llm_auto_place=False)

    undone = await li.ask("POST", f"{OPERATIONS}/{top['operation_id']}/undo", with_later=True)
    path_after_undo = await chen.names(f"{KEYWORDS}/{child['id']}/path")
    await li.ask("POST", f"{OPERATIONS}/{undone['operation_ids'][-1]}/undo", with_later=True)

    assert path_after_undo == ["root", "chen's"]
    assert await chen.names(f"{KEYWORDS}/{child['id']}/path") == ["root", "top", "chen's"]


async def test_a_deletion_that_unlinked_a_foreign_info_can_be_undone(li: TreeCaller, chen: TreeCaller) -> None:
    top = await li.publish(KEYWORDS, name="top", llm_auto_place=False)
    info = await chen.publish(INFOS, content="seen by all", keyword_ids=[top["id"]])
    deleted = await li.ask("DELETE", f"{KEYWORDS}/{top['id']}")

    await li.ask("POST", f"{OPERATIONS}/{deleted['operation_id']}/undo", dry_run=False)

    assert await chen.names(f"{INFOS}/{info['id']}/keywords") == ["top"]


async def test_rows_below_several_removed_keywords_move_above_all_of_them(li: TreeCaller, chen: TreeCaller) -> None:
    seen = {"scopes": ["public"]}
    items = [{"name": "upper", "ref": "1", **seen}, {"name": "lower", "parent_ref": "1", **seen}]
    made = await li.ask("POST", f"{KEYWORDS}/batch", items=items)
    own = {"scopes": ["user:chen"], "owner": "user:chen"}
    upper, lower = (result["id"] for result in made["results"])
    child = await chen.publish(KEYWORDS, name="chen's", parent_id=lower, llm_auto_place=False, **own)
    info = await chen.publish(INFOS, content="chen's", keyword_ids=[upper, lower], **own)

    await li.ask("POST", f"{OPERATIONS}/{made['operation_id']}/undo", dry_run=False)

    assert await chen.names(f"{KEYWORDS}/{child['id']}/path") == ["root", "chen's"]
    assert await chen.names(f"{INFOS}/{info['id']}/keywords") == ["root"]


async def test_undoing_an_info_removes_its_link_to_a_keyword_hidden_later(li: TreeCaller, chen: TreeCaller) -> None:
    place = await chen.publish(KEYWORDS, name="place", llm_auto_place=False)
    info = await li.publish(INFOS, content="li's")
    await li.ask("PUT", f"{INFOS}/{info['id']}/keywords/{place['id']}", relation="PRIMARY")
    await chen.ask("PATCH", f"{KEYWORDS}/{place['id']}", scopes=["user:owner"])

    undone = await li.ask("POST", f"{OPERATIONS}/{info['operation_id']}/undo", dry_run=False)

    assert [change["id"] for change in undone["changes"]] == [info["id"]]
    assert (await chen.ask("GET", f"{KEYWORDS}/{place['id']}/infos"))["count"] == 0
    assert (await li.try_to("GET", f"{INFOS}/{info['id']}")).status_code == 404


@pytest.mark.parametrize("was_moved", [False, True])
async def test_a_hidden_deleted_parent_blocks_an_undo_and_is_only_counted(
    li: TreeCaller, chen: TreeCaller, *, was_moved: bool
) -> None:
    plain: dict[str, Any] = {"llm_auto_place": False}
    area, other = [await li.publish(KEYWORDS, name=name, **plain) for name in ("area", "other")]
    hidden = await chen.publish(KEYWORDS, name="chen's", parent_id=area["id"], **plain)
    below = await li.publish(KEYWORDS, name="li's", parent_id=hidden["id"], **plain)
    info = await li.publish(INFOS, content="li's", keyword_ids=[hidden["id"], below["id"]])
    await chen.ask("PATCH", f"{KEYWORDS}/{hidden['id']}", scopes=["user:owner"])
    move = ("POST", f"{KEYWORDS}/{below['id']}/move", {"new_parent_id": other["id"]})
    taken = await li.ask(*move[:2], **move[2]) if was_moved else await li.ask("DELETE", f"{KEYWORDS}/{below['id']}")
    gone = await li.ask("DELETE", f"{INFOS}/{info['id']}")
    deleted = await chen.ask("DELETE", f"{KEYWORDS}/{hidden['id']}")

    undo = f"{OPERATIONS}/{taken['operation_id']}/undo"
    refused = [await li.try_to("POST", undo, {"with_later": with_later}) for with_later in (False, True)]
    back = await li.ask("POST", f"{OPERATIONS}/{gone['operation_id']}/undo", dry_run=False)
    linked = await li.names(f"{INFOS}/{info['id']}/keywords")
    await chen.ask("POST", f"{OPERATIONS}/{deleted['operation_id']}/undo", dry_run=False)
    await li.ask("POST", undo, dry_run=False)

    assert [(item.status_code, item.json()["blocked_by"], item.json()["blocked_by_hidden"]) for item in refused] == [
        (409, [], 1)
    ] * 2
    for answer in (refused[0].text, str(back)):
        assert hidden["id"] not in answer
        assert "chen" not in answer
    assert "area" in linked
    assert await chen.names(f"{KEYWORDS}/{below['id']}/path") == ["root", "area", "chen's", "li's"]


async def test_a_hidden_blocking_operation_is_counted_but_not_named(li: TreeCaller, chen: TreeCaller) -> None:
    plain: dict[str, Any] = {"llm_auto_place": False}
    upper = await chen.publish(KEYWORDS, name="chen's", **plain)
    lower = await li.publish(KEYWORDS, name="li's", parent_id=upper["id"], **plain)
    moved = await li.ask("POST", f"{KEYWORDS}/{lower['id']}/move", new_parent_id="root")
    await chen.ask("POST", f"{KEYWORDS}/{upper['id']}/move", new_parent_id=lower["id"])
    await chen.ask("PATCH", f"{KEYWORDS}/{upper['id']}", scopes=["user:owner"])

    refused = await li.try_to("POST", f"{OPERATIONS}/{moved['operation_id']}/undo", {})

    answer = refused.json()
    assert (refused.status_code, answer["blocked_by"], answer["blocked_by_hidden"]) == (409, [], 1)
    assert answer["detail"] == "operations that you may not see are in the way; nothing was undone"
