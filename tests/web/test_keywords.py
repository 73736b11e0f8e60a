"""The keyword tree over HTTP: create, read, change, move, merge, delete, aliases, batches."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.web.conftest import OpenServer, read_pages
from tests.web.trees import create_info, create_keyword, list_names, read_everything, strip_write_fields, undo

pytestmark = pytest.mark.anyio


async def test_a_keyword_is_answered_whole_with_its_location(api: httpx.AsyncClient) -> None:
    response = await api.post(
        "/api/keywords",
        json={
            "name": "异步编程",
            "parent_id": "root",
            "aliases": ["Async", "asyncio"],
            "description": "事件循环",
            "metadata": {"icon": "loop", "weight": 0.5, "tags": [1, None, True]},
        },
    )

    made = response.json()
    assert (response.status_code, response.headers["etag"]) == (201, '"1"')
    assert response.headers["location"] == f"/api/keywords/{made['id']}"
    assert response.headers["x-operation-id"] == made["operation_id"]
    assert len(made["id"]) == 36
    expected = {
        "name": "异步编程",
        "aliases": ["Async", "asyncio"],
        "parent_id": "root",
        "description": "事件循环",
        "metadata": {"icon": "loop", "weight": 0.5, "tags": [1, None, True]},
        "scopes": ["public"],
        "owner": "user:local",
        "version": 1,
        "level": 1,
        "children": [],
        "child_count": 0,
        "degraded": [],
    }
    assert {name: made[name] for name in expected} == expected
    assert "decided" not in made
    assert {"async", "asyncio", "异步编程"} <= set(made["normalized"])


async def test_the_root_exists_before_the_first_write(api: httpx.AsyncClient) -> None:
    root = (await api.get("/api/keywords/root")).json()
    elsewhere = (await api.get("/api/keywords/root", params={"account": "other", "user_id": "li"})).json()

    assert (root["id"], root["parent_id"], root["level"], root["version"]) == ("root", None, 0, 1)
    assert elsewhere == root
    assert (await api.get("/api/operations")).json()["count"] == 0


async def test_the_root_is_created_once(api: httpx.AsyncClient, open_second_server: OpenServer) -> None:
    await create_keyword(api, "one")
    async with open_second_server() as later:
        await create_keyword(later, "two")

    operations = (await api.get("/api/operations")).json()["results"]
    assert [operation["op"] for operation in reversed(operations)] == [
        "create_root",
        "create_keyword",
        "create_keyword",
    ]


async def test_a_keyword_without_parent_hangs_below_the_root(api: httpx.AsyncClient) -> None:
    made = (await api.post("/api/keywords", json={"name": "Python"})).json()

    assert (made["parent_id"], made["level"], made["degraded"]) == ("root", 1, [])


async def test_children_and_path_are_lists_in_order(api: httpx.AsyncClient) -> None:
    languages = await create_keyword(api, "languages")
    python = await create_keyword(api, "Python", languages["id"])
    await create_keyword(api, "C#", languages["id"])
    asyncio = await create_keyword(api, "asyncio", python["id"])

    children = (await api.get(f"/api/keywords/{languages['id']}/children")).json()
    path = (await api.get(f"/api/keywords/{asyncio['id']}/path")).json()

    assert [result["name"] for result in children["results"]] == ["Python", "C#"]
    assert (children["count"], children["next_cursor"]) == (2, None)
    assert children["results"][0] == strip_write_fields(python) | {"children": [asyncio["id"]], "child_count": 1}
    assert [(result["name"], result["level"], result["child_count"]) for result in path["results"]] == [
        ("root", 0, 1),
        ("languages", 1, 2),
        ("Python", 2, 1),
        ("asyncio", 3, 0),
    ]
    assert (path["count"], path["next_cursor"]) == (4, None)


async def test_a_subtree_has_the_requested_depth(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "top")
    middle = await create_keyword(api, "middle", top["id"])
    leaf = await create_keyword(api, "leaf", middle["id"])

    async def subtree(**params: str) -> dict[str, Any]:
        answer: dict[str, Any] = (await api.get(f"/api/keywords/{top['id']}/subtree", params=params)).json()
        return answer

    whole, shallow, none = await subtree(), await subtree(depth="1"), await subtree(depth="0")

    assert whole["children_nodes"][0]["children_nodes"][0] == strip_write_fields(leaf) | {"children_nodes": []}
    assert (shallow["children_nodes"][0]["id"], shallow["children_nodes"][0]["children_nodes"]) == (middle["id"], [])
    assert shallow["children_nodes"][0]["children"] == [leaf["id"]]
    assert (none["children_nodes"], none["child_count"]) == ([], 1)


async def test_a_too_large_subtree_is_refused_with_advice(api: httpx.AsyncClient) -> None:
    for batch in range(10):
        items = [{"name": f"{batch}-{number}"} for number in range(1000)]
        assert (await api.post("/api/keywords/batch", json={"items": items})).status_code == 201

    response = await api.get("/api/keywords/root/subtree")

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "depth")
    assert (await api.get("/api/keywords/root/subtree", params={"depth": 0})).status_code == 200


async def test_a_patch_changes_only_the_fields_it_names(api: httpx.AsyncClient) -> None:
    made = await create_keyword(api, "Pyton", aliases=["py"], description="kept", metadata={"a": 1})
    patch = {"name": "Python", "aliases": ["蟒蛇"], "metadata": {"b": 2}}

    response = await api.patch(f"/api/keywords/{made['id']}", json=patch)

    changed = response.json()
    assert (response.status_code, response.headers["etag"]) == (200, '"2"')
    assert {name: changed[name] for name in patch} == patch
    assert (changed["description"], changed["version"], changed["scopes"]) == ("kept", 2, ["public"])
    assert set(changed["normalized"]) == {"python", "蟒蛇"}
    assert (await api.get(f"/api/keywords/{made['id']}")).json() == strip_write_fields(changed)


@pytest.mark.parametrize("patch", [{}, {"name": "same"}, {"metadata": {}}, {"scopes": ["public"]}])
async def test_a_patch_that_changes_nothing_writes_nothing(api: httpx.AsyncClient, patch: dict[str, Any]) -> None:
    made = await create_keyword(api, "same")

    response = await api.patch(f"/api/keywords/{made['id']}", json=patch)

    assert response.json() == strip_write_fields(made) | {"operation_id": None}
    assert "x-operation-id" not in response.headers


async def test_the_root_can_be_renamed(api: httpx.AsyncClient) -> None:
    response = await api.patch("/api/keywords/root", json={"name": "知识", "description": "everything"})

    assert (response.status_code, response.json()["name"]) == (200, "知识")
    assert (await api.get("/api/keywords/root")).json() == strip_write_fields(response.json())


async def test_a_move_takes_the_whole_branch_along(api: httpx.AsyncClient) -> None:
    old, new = await create_keyword(api, "old"), await create_keyword(api, "new")
    deeper = await create_keyword(api, "deeper", new["id"])
    branch = await create_keyword(api, "branch", old["id"])
    leaf = await create_keyword(api, "leaf", branch["id"])

    response = await api.post(f"/api/keywords/{branch['id']}/move", json={"new_parent_id": deeper["id"]})

    moved = response.json()
    assert (response.status_code, response.headers["etag"]) == (200, '"2"')
    assert (moved["parent_id"], moved["level"], moved["children"]) == (deeper["id"], 3, [leaf["id"]])
    assert await list_names(api, f"/api/keywords/{leaf['id']}/path") == ["root", "new", "deeper", "branch", "leaf"]
    assert await list_names(api, f"/api/keywords/{old['id']}/children") == []
    assert (await undo(api, moved["operation_id"])).status_code == 200
    assert await list_names(api, f"/api/keywords/{leaf['id']}/path") == ["root", "old", "branch", "leaf"]


async def test_a_merge_moves_names_infos_and_children(api: httpx.AsyncClient) -> None:
    kept, gone = (
        await create_keyword(api, "Python", aliases=["py"]),
        await create_keyword(api, "蟒蛇", aliases=["CPython"]),
    )
    await create_keyword(api, "asyncio", gone["id"])
    shared = await create_info(api, "of both", kept["id"], gone["id"])
    await create_info(api, "of the one that goes", gone["id"])
    before = await read_everything(api)

    response = await api.post(f"/api/keywords/{gone['id']}/merge", json={"into": kept["id"]})

    merged = response.json()
    assert (response.status_code, merged["id"]) == (200, kept["id"])
    assert set(merged["aliases"]) == {"py", "蟒蛇", "CPython"}
    assert await list_names(api, f"/api/keywords/{kept['id']}/children") == ["asyncio"]
    assert sorted(await list_names(api, f"/api/keywords/{kept['id']}/infos")) == ["of both", "of the one that goes"]
    assert await list_names(api, f"/api/infos/{shared['id']}/keywords") == ["Python"]
    assert (await api.get(f"/api/keywords/{gone['id']}")).status_code == 404
    assert (await undo(api, merged["operation_id"])).status_code == 200
    after = await read_everything(api)
    assert await list_names(api, f"/api/keywords/{gone['id']}/children") == ["asyncio"]
    assert [link["count"] for link in after["links"]] == [link["count"] for link in before["links"]]


async def test_a_cascade_deletes_the_branch_and_undo_restores_it(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "top")
    leaf = await create_keyword(api, "leaf", top["id"])
    kept = await create_info(api, "kept", leaf["id"])
    path = f"/api/keywords/{top['id']}"

    refused = await api.delete(path)
    deleted = await api.delete(path, params={"cascade": "true"})

    assert refused.status_code == 409
    assert deleted.json() == {"operation_id": deleted.headers["x-operation-id"]}
    assert [(await api.get(f"/api/keywords/{item['id']}")).status_code for item in (top, leaf)] == [404, 404]
    assert await list_names(api, f"/api/infos/{kept['id']}/keywords") == ["root"]
    assert (await undo(api, deleted.json()["operation_id"])).status_code == 200
    assert await list_names(api, f"/api/infos/{kept['id']}/keywords") == ["leaf"]
    assert await list_names(api, f"/api/keywords/{leaf['id']}/path") == ["root", "top", "leaf"]


@pytest.mark.parametrize(("policy", "status", "left"), [("reattach", 200, ["top"]), ("detach", 200, [])])
@pytest.mark.parametrize("in_body", [False, True])
async def test_the_policy_decides_about_the_infos_of_a_deleted_keyword(
    api: httpx.AsyncClient, policy: str, status: int, left: list[str], in_body: bool
) -> None:
    top = await create_keyword(api, "top")
    leaf = await create_keyword(api, "leaf", top["id"])
    kept = await create_info(api, "kept", leaf["id"])
    asked: dict[str, Any] = {"json": {"info_policy": policy}} if in_body else {"params": {"info_policy": policy}}

    response = await api.request("DELETE", f"/api/keywords/{leaf['id']}", **asked)

    assert response.status_code == status
    assert await list_names(api, f"/api/infos/{kept['id']}/keywords") == left


@pytest.mark.parametrize("alias", ["asyncio", "异步 编程", "TCP/IP", "a%b", "C++", "q?x=1#y"])
async def test_an_alias_of_any_script_can_be_added_and_removed(api: httpx.AsyncClient, alias: str) -> None:
    made = await create_keyword(api, "topic")
    path = f"/api/keywords/{made['id']}/aliases"

    added = await api.post(path, json={"alias": alias})
    again = await api.post(path, json={"alias": alias})
    found = (await api.get("/api/keywords/search", params={"q": alias})).json()
    encoded = "".join(f"%{byte:02X}" for byte in alias.encode())
    removed = await api.delete(f"{path}/{encoded}")

    assert (added.status_code, added.json()["aliases"], added.headers["etag"]) == (200, [alias], '"2"')
    assert again.json()["operation_id"] is None
    assert (found["status"], found["node"]["id"]) == ("matched", made["id"])
    assert (removed.status_code, removed.json()["aliases"], removed.headers["etag"]) == (200, [], '"3"')
    assert (await api.delete(f"{path}/{encoded}")).status_code == 404


async def test_a_batch_is_one_operation_and_may_refer_to_its_earlier_items(api: httpx.AsyncClient) -> None:
    items = [
        {"name": "编程语言", "ref": "languages"},
        {"name": "Python", "ref": "py", "parent_ref": "languages", "aliases": ["蟒蛇"]},
        {"name": "asyncio", "parent_ref": "py"},
        {"name": "top", "parent_id": "root"},
    ]

    response = await api.post("/api/keywords/batch", json={"items": items})

    answer = response.json()
    assert (response.status_code, answer["count"], answer["degraded"]) == (201, 4, [])
    assert [result["name"] for result in answer["results"]] == ["编程语言", "Python", "asyncio", "top"]
    assert [result["level"] for result in answer["results"]] == [1, 2, 3, 1]
    assert await list_names(api, f"/api/keywords/{answer['results'][2]['id']}/path") == [
        "root",
        "编程语言",
        "Python",
        "asyncio",
    ]
    operation = (await api.get(f"/api/operations/{answer['operation_id']}")).json()
    assert (operation["op"], len(operation["subjects"])) == ("batch_create_keywords", 4)
    assert (await undo(api, answer["operation_id"])).status_code == 200
    assert await list_names(api, "/api/keywords/root/children") == []


@pytest.mark.parametrize("since", ["renamed", "deleted"])
async def test_a_retried_merge_without_changes_gets_the_first_answer(api: httpx.AsyncClient, since: str) -> None:
    # Names with the same normal form: the merge adds no alias.
    kept, gone = await create_keyword(api, "Python"), await create_keyword(api, "python")
    path, body, key = f"/api/keywords/{gone['id']}/merge", {"into": kept["id"]}, {"Idempotency-Key": "k"}
    first = await api.post(path, json=body, headers=key)
    if since == "renamed":
        await api.patch(f"/api/keywords/{kept['id']}", json={"name": "Snake"})
    else:
        await api.delete(f"/api/keywords/{kept['id']}")

    again = await api.post(path, json=body, headers=key)

    assert (first.json()["version"], first.headers["etag"]) == (2, '"2"')
    assert (again.status_code, again.json(), again.headers["etag"]) == (200, first.json(), first.headers["etag"])


async def test_a_merge_with_too_much_metadata_is_refused(api: httpx.AsyncClient) -> None:
    kept = await create_keyword(api, "Python", metadata={"mine": "x" * 40_000})
    gone = await create_keyword(api, "CPython", metadata={"theirs": "x" * 40_000})
    before = await read_everything(api)

    refused = await api.post(f"/api/keywords/{gone['id']}/merge", json={"into": kept["id"]})

    assert refused.status_code == 409
    assert "metadata" in refused.json()["detail"]
    assert await read_everything(api) == before


async def test_a_path_is_accepted_wherever_an_id_is(api: httpx.AsyncClient) -> None:
    travel, languages = await create_keyword(api, "旅行"), await create_keyword(api, "编程语言")
    places = await create_keyword(api, "目的地", travel["id"])
    island, java = await create_keyword(api, "Java", places["id"]), await create_keyword(api, "Java", languages["id"])
    protocol = await create_keyword(api, "TCP/IP", languages["id"])

    async def read(path: str) -> httpx.Response:
        return await api.get(f"/api/keywords/{quote(path, safe='')}")

    for path, found in (
        ("旅行/目的地/Java", island),
        ("目的地/java", island),
        ("编程语言/Java", java),
        ("编程语言/TCP/IP", protocol),
        ("旅行", travel),
    ):
        assert (await read(path)).json()["id"] == found["id"], path
    unclear, unknown = await read("Java"), await read("旅行/Java")
    assert (unclear.status_code, [row["path"] for row in unclear.json()["keyword"]]) == (
        409,
        ["旅行/目的地/Java", "编程语言/Java"],
    )
    assert unknown.status_code == 404
    saved = await api.post("/api/infos", json={"content": "雨季", "keyword_ids": ["目的地/Java"]})
    made = await api.post("/api/keywords", json={"name": "万隆", "parent_id": "目的地/Java"})
    assert (saved.status_code, made.json()["parent_id"]) == (201, island["id"])
    infos = (await api.get(f"/api/keywords/{quote('目的地/Java', safe='')}/infos")).json()
    assert [row["content"] for row in infos["results"]] == ["雨季"]


async def test_a_duplicate_name_under_one_parent_must_be_allowed(api: httpx.AsyncClient) -> None:
    first = (await api.post("/api/keywords", json={"name": "Go", "parent_id": "root"})).json()

    refused = await api.post("/api/keywords", json={"name": "go", "parent_id": "root"})
    allowed = await api.post("/api/keywords", json={"name": "go", "parent_id": "root", "allow_duplicate": True})
    elsewhere = await api.post("/api/keywords", json={"name": "go", "parent_id": first["id"]})

    assert (refused.status_code, refused.json()["ids"]) == (409, [first["id"]])
    assert (allowed.status_code, elsewhere.status_code) == (201, 201)


async def test_a_batch_that_is_sent_twice_changes_nothing_and_a_richer_one_adds(api: httpx.AsyncClient) -> None:
    items: list[dict[str, Any]] = [
        {"name": "语言", "ref": "l"},
        {"name": "Go", "parent_ref": "l", "aliases": ["golang"]},
    ]

    first = (await api.post("/api/keywords/batch", json={"items": items})).json()
    again = (await api.post("/api/keywords/batch", json={"items": items})).json()
    items[1] |= {"aliases": ["golang", "go lang 2"], "description": "A language."}
    richer = (await api.post("/api/keywords/batch", json={"items": items})).json()

    assert again["operation_id"] is None
    assert [row["id"] for row in again["results"]] == [row["id"] for row in first["results"]]
    assert [row["version"] for row in richer["results"]] == [1, 2]
    assert (richer["results"][1]["description"], richer["results"][1]["aliases"]) == (
        "A language.",
        ["golang", "go lang 2"],
    )
    assert (await api.get("/api/keywords/metrics")).json()["nodes"] == 2


async def test_candidates_have_path_counts_and_on_request_infos(api: httpx.AsyncClient) -> None:
    fruit, firm = await create_keyword(api, "水果"), await create_keyword(api, "公司")
    apple, other = await create_keyword(api, "苹果", fruit["id"]), await create_keyword(api, "苹果", firm["id"])
    await create_keyword(api, "红富士", apple["id"])
    await create_info(api, "泡盐水", apple["id"])

    plain = (await api.get("/api/keywords/search", params={"q": "苹果"})).json()
    expanded = (await api.get("/api/keywords/search", params={"q": "苹果", "expand": "true"})).json()
    by_id = (await api.get("/api/keywords/search", params={"q": other["id"]})).json()
    by_path = (await api.get("/api/keywords/search", params={"q": "水果/苹果"})).json()

    assert (plain["status"], plain["node"], plain["path"], plain["infos"]) == ("ambiguous", None, [], [])
    assert [row["id"] for row in plain["candidates"]] == [apple["id"], other["id"]]
    assert all("children" not in row for row in plain["candidates"])
    shown = [(row["path"], row["children_count"], row["infos_count"]) for row in plain["candidates"]]
    assert shown == [("水果/苹果", 1, 1), ("公司/苹果", 0, 0)]
    assert [[item["content"] for item in row["infos"]] for row in expanded["candidates"]] == [["泡盐水"], []]
    assert (by_id["node"]["id"], by_id["reason"]) == (other["id"], "id")
    assert (by_path["node"]["id"], by_path["reason"]) == (apple["id"], "path")


async def test_keywords_are_listed_by_prefix_page_by_page(api: httpx.AsyncClient) -> None:
    for name in ("Python", "数据库", "PyTorch", "Go", "蟒蛇"):
        await create_keyword(api, name, aliases=["pyth"] if name == "蟒蛇" else [])
    await create_keyword(api, "pyramid", user_id="li", scopes=["user:li"])

    async def list_page(**params: str | int | None) -> tuple[list[str], str | None]:
        page = (await api.get("/api/keywords", params={"user_id": "chen", **params})).json()
        return [row["name"] for row in page["results"]], page["next_cursor"]

    assert await list_page() == (["蟒蛇", "Go", "PyTorch", "数据库", "Python"], None)
    first, cursor = await list_page(prefix="ＰＹ", limit=2)
    assert (first, await list_page(prefix="ＰＹ", limit=2, cursor=cursor)) == (["蟒蛇", "PyTorch"], (["Python"], None))
    assert await list_page(prefix="shuju") == (["数据库"], None)
    assert await list_page(prefix="…") == ([], None)
    wrong = await api.get("/api/keywords", params={"cursor": "A" * 32})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "cursor")


async def test_children_come_in_pages(api: httpx.AsyncClient) -> None:
    above = await create_keyword(api, "above")
    for number in range(5):
        await create_keyword(api, f"child {number}", above["id"])

    pages = await read_pages(api, "/api/keywords/above/children", limit=2)

    assert [[row["name"][-1] for row in page] for page in pages] == [["0", "1"], ["2", "3"], ["4"]]


async def test_infos_roll_up_from_the_keywords_below(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "top")
    below = await create_keyword(api, "below", top["id"])
    deep = await create_keyword(api, "deep", below["id"])
    hidden = await create_keyword(api, "hidden", top["id"], user_id="li", scopes=["user:li"])
    both = await create_info(api, "both", top["id"])
    await api.put(f"/api/infos/{both['id']}/keywords/{deep['id']}", json={"relation": "RELATED"})
    await create_info(api, "on deep", deep["id"])
    await create_info(api, "on hidden", hidden["id"], user_id="li")
    await create_info(api, "on below", below["id"])

    async def list_descendant_infos(**params: str | int) -> list[tuple[str, str, str]]:
        query = {"user_id": "chen", "descendants": True, **params}
        page = (await api.get("/api/keywords/top/infos", params=query)).json()
        return [(row["content"], row["relation"], row["keyword_id"]) for row in page["results"]]

    assert await list_descendant_infos() == [
        ("on below", "PRIMARY", below["id"]),
        ("on deep", "PRIMARY", deep["id"]),
        ("both", "PRIMARY", top["id"]),
    ]
    assert await list_descendant_infos(relation="RELATED") == [("both", "RELATED", deep["id"])]
    assert await list_descendant_infos(size=1, page=1, sort="relevance") == [("on deep", "PRIMARY", deep["id"])]


async def test_a_rename_or_move_to_a_duplicate_name_must_be_allowed(api: httpx.AsyncClient) -> None:
    first, other = [
        (await api.post("/api/keywords", json={"name": name, "parent_id": "root"})).json() for name in ("Go", "Rust")
    ]
    below = (await api.post("/api/keywords", json={"name": "go", "parent_id": other["id"]})).json()

    renamed = await api.patch(f"/api/keywords/{other['id']}", json={"name": "GO"})
    moved = await api.post(f"/api/keywords/{below['id']}/move", json={"new_parent_id": "root"})
    kept = [(await api.get(f"/api/keywords/{row['id']}")).json() for row in (other, below)]

    assert [(answer.status_code, answer.json()["ids"]) for answer in (renamed, moved)] == [(409, [first["id"]])] * 2
    assert [(row["name"], row["parent_id"]) for row in kept] == [("Rust", "root"), ("go", other["id"])]

    spelt = await api.patch(f"/api/keywords/{first['id']}", json={"name": "go"})
    allowed = [
        await api.patch(f"/api/keywords/{other['id']}", json={"name": "GO", "allow_duplicate": True}),
        await api.post(f"/api/keywords/{below['id']}/move", json={"new_parent_id": "root", "allow_duplicate": True}),
    ]
    assert spelt.status_code == 200
    assert [(answer.status_code, answer.json()["parent_id"]) for answer in allowed] == [(200, "root")] * 2


async def test_a_reader_may_create_below_a_keyword_but_only_own_rows(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "top", user_id="li")

    made = await create_keyword(api, "his", top["id"], user_id="chen")
    refused = await api.post("/api/keywords", json={"name": "x", "owner": "user:li", "user_id": "chen"})

    assert made["owner"] == "user:chen"
    assert refused.status_code == 403
