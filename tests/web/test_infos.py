"""Infos over HTTP: save, read, change, delete, link with relations, list, batches."""

from typing import Any

import httpx
import pytest

from tests.web.conftest import OpenServer, read_pages
from tests.web.trees import (
    create_info,
    create_keyword,
    drop_children,
    list_names,
    read_everything,
    strip_write_fields,
    undo,
)

pytestmark = pytest.mark.anyio


async def test_an_info_is_answered_whole_with_its_location(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    body = {"content": "GIL 可以关闭", "source": "PEP 703", "metadata": {"page": 7}, "keyword_ids": [python["id"]]}

    response = await api.post("/api/infos", json=body)

    made = response.json()
    assert (response.status_code, response.headers["etag"]) == (201, '"1"')
    assert response.headers["location"] == f"/api/infos/{made['id']}"
    assert response.headers["x-operation-id"] == made["operation_id"]
    expected = {
        "content": "GIL 可以关闭",
        "source": "PEP 703",
        "metadata": {"page": 7},
        "scopes": ["public"],
        "owner": "user:local",
        "version": 1,
        "degraded": [],
    }
    assert {name: made[name] for name in expected} == expected
    read = await api.get(f"/api/infos/{made['id']}")
    assert (read.json(), read.headers["etag"]) == (strip_write_fields(made), '"1"')


async def test_an_info_needs_no_keyword(api: httpx.AsyncClient) -> None:
    made = (await api.post("/api/infos", json={"content": "loose"})).json()

    assert await list_names(api, f"/api/infos/{made['id']}/keywords") == []
    assert await list_names(api, "/api/infos") == ["loose"]


async def test_an_info_finds_the_keywords_that_it_names(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")

    made = await create_info(api, "Python 3.13 可以关闭 GIL", auto_link=True)

    assert await list_names(api, f"/api/infos/{made['id']}/keywords") == ["Python"]
    (linked,) = made["decided"]["linked"]
    assert (linked["keyword_id"], linked["relation"], made["decided"]["created"]) == (python["id"], "RELATED", [])


async def test_an_answer_says_how_much_of_a_text_was_not_read_for_keywords(api: httpx.AsyncClient) -> None:
    await create_keyword(api, "Python")
    long = {"content": "x " * 4_096 + "Python", "auto_link": True}

    alone = (await api.post("/api/infos", json=long)).json()
    batch = (
        await api.post("/api/infos/batch", json={"items": [{"content": "Python", "auto_link": True}, long]})
    ).json()

    assert alone["decided"] == {"linked": [], "created": [], "unread_characters": 6}
    assert [info.get("decided") for info in batch["results"]] == [None, {"unread_characters": 6}]


async def test_the_keywords_of_an_info_have_their_relation(api: httpx.AsyncClient) -> None:
    python, rust = await create_keyword(api, "Python"), await create_keyword(api, "Rust")
    made = await create_info(api, "both", python["id"])

    linked = await api.put(
        f"/api/infos/{made['id']}/keywords/{rust['id']}", json={"relation": "EXAMPLE", "created_by": "agent"}
    )

    answer = linked.json()
    assert (linked.status_code, answer["relation"], answer["created_by"]) == (200, "EXAMPLE", "agent")
    assert (answer["info_id"], answer["keyword_id"], answer["version"]) == (made["id"], rust["id"], 1)
    keywords = (await api.get(f"/api/infos/{made['id']}/keywords")).json()
    assert keywords["results"] == [
        drop_children(python) | {"relation": "PRIMARY", "created_by": "user"},
        drop_children(rust) | {"relation": "EXAMPLE", "created_by": "agent"},
    ]
    assert (keywords["count"], keywords["next_cursor"]) == (2, None)


async def test_a_link_is_primary_by_default(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    made = await create_info(api, "loose")
    path = f"/api/infos/{made['id']}/keywords/{python['id']}"

    first, again = await api.put(path), await api.put(path, json={})

    assert (first.json()["relation"], again.json()) == ("PRIMARY", first.json() | {"operation_id": None})


async def test_a_pair_has_one_link_whose_relation_can_change(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    made = await create_info(api, "an example", python["id"])
    path = f"/api/infos/{made['id']}/keywords/{python['id']}"

    answer = await api.put(path, json={"relation": "EXAMPLE"}, headers={"If-Match": '"1"'})
    again = await api.put(path, json={"relation": "EXAMPLE", "version": 2})

    changed, page = answer.json(), f"/api/keywords/{python['id']}/infos"
    assert (changed["version"], answer.headers["etag"]) == (2, '"2"')
    assert (again.json()["operation_id"], again.headers["etag"]) == (None, '"2"')
    assert [await list_names(api, page, relation=item) for item in ("PRIMARY", "EXAMPLE")] == [[], ["an example"]]
    assert (await undo(api, changed["operation_id"])).status_code == 200
    assert [await list_names(api, page, relation=item) for item in ("PRIMARY", "EXAMPLE")] == [["an example"], []]


async def test_removing_a_link_keeps_both_ends(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    made = await create_info(api, "kept", python["id"])
    path = f"/api/infos/{made['id']}/keywords/{python['id']}"

    removed = await api.delete(path)
    again = await api.delete(path)

    assert removed.json() == {"operation_id": removed.headers["x-operation-id"]}
    assert again.status_code == 404
    assert await list_names(api, f"/api/keywords/{python['id']}/infos") == []
    assert await list_names(api, "/api/infos") == ["kept"]
    assert (await undo(api, removed.json()["operation_id"])).status_code == 200
    assert await list_names(api, f"/api/keywords/{python['id']}/infos") == ["kept"]


async def test_the_infos_of_a_keyword_are_paged_and_sorted(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    made = [await create_info(api, f"number {number}") for number in range(4)]
    for item, relation in zip(made, ("RELATED", "SOURCE", "EXAMPLE", "PRIMARY"), strict=True):
        await api.put(f"/api/infos/{item['id']}/keywords/{python['id']}", json={"relation": relation})
    late = await create_info(api, "late", python["id"])
    path = f"/api/keywords/{python['id']}/infos"

    page = (await api.get(path, params={"size": 2})).json()

    assert page["results"][0] == strip_write_fields(late) | {"relation": "PRIMARY", "created_by": "user"}
    assert (page["count"], page["next_cursor"]) == (2, None)
    assert await list_names(api, path) == ["late", "number 3", "number 2", "number 1", "number 0"]
    assert await list_names(api, path, sort="relevance") == ["late", "number 3", "number 2", "number 1", "number 0"]
    assert await list_names(api, path, size="2", page="1") == ["number 2", "number 1"]
    assert await list_names(api, path, size="2", page="9") == []
    assert await list_names(api, path, relation="SOURCE") == ["number 1"]
    await api.put(f"/api/infos/{late['id']}/keywords/{python['id']}", json={"relation": "RELATED"})
    assert (await list_names(api, path, sort="relevance"))[-2:] == ["late", "number 0"]


async def test_infos_are_listed_newest_first_page_by_page(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    for number in range(5):
        await create_info(api, f"number {number}", *([python["id"]] if number % 2 == 0 else []))

    everything = await read_pages(api, "/api/infos", limit=2)
    of_python = await read_pages(api, "/api/infos", limit=2, keyword_id=python["id"])

    assert [[row["content"][-1] for row in page] for page in everything] == [["4", "3"], ["2", "1"], ["0"]]
    assert [[row["content"][-1] for row in page] for page in of_python] == [["4", "2"], ["0"]]


async def test_a_patch_changes_only_the_fields_it_names(api: httpx.AsyncClient) -> None:
    made = await create_info(api, "old", source="kept", metadata={"a": 1})
    path = f"/api/infos/{made['id']}"

    response = await api.patch(path, json={"content": "new", "metadata": {"b": 2}})
    again = await api.patch(path, json={"content": "new"})

    changed = response.json()
    assert (response.status_code, response.headers["etag"]) == (200, '"2"')
    assert (changed["content"], changed["source"], changed["metadata"]) == ("new", "kept", {"b": 2})
    assert (await api.get(path)).json() == strip_write_fields(changed)
    assert again.json() == changed | {"operation_id": None}


async def test_deleting_an_info_deletes_its_links_and_undo_restores_both(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    made = await create_info(api, "gone", python["id"])
    path = f"/api/infos/{made['id']}"

    deleted = await api.delete(path)

    assert deleted.json() == {"operation_id": deleted.headers["x-operation-id"]}
    assert [(await api.get(item)).status_code for item in (path, f"{path}/keywords")] == [404, 404]
    assert await list_names(api, f"/api/keywords/{python['id']}/infos") == []
    assert (await undo(api, deleted.json()["operation_id"])).status_code == 200
    assert await list_names(api, f"/api/keywords/{python['id']}/infos") == ["gone"]


async def test_a_batch_is_one_operation(api: httpx.AsyncClient) -> None:
    python = await create_keyword(api, "Python")
    items = [
        {"content": "one", "keyword_ids": [python["id"]], "created_by": "crawler-7"},
        {"content": "two"},
        {"content": "x" * 1_500_000},
    ]

    response = await api.post("/api/infos/batch", json={"items": items}, headers={"Idempotency-Key": "k"})
    again = await api.post("/api/infos/batch", json={"items": items}, headers={"Idempotency-Key": "k"})

    answer = response.json()
    assert (response.status_code, answer["count"], answer["degraded"]) == (201, 3, [])
    assert [result["content"][:3] for result in answer["results"]] == ["one", "two", "xxx"]
    assert again.json() == answer
    (linked,) = (await api.get(f"/api/infos/{answer['results'][0]['id']}/keywords")).json()["results"]
    assert linked["created_by"] == "crawler-7"
    assert (await undo(api, answer["operation_id"])).status_code == 200
    assert await list_names(api, "/api/infos") == []


async def test_an_equal_info_is_answered_and_gets_another_link(api: httpx.AsyncClient) -> None:
    first, second = await create_keyword(api, "first"), await create_keyword(api, "second")
    saved = await create_info(api, "Pin the version.", first["id"])

    async def again(content: str, *keyword_ids: str, **fields: object) -> tuple[int, dict[str, Any]]:
        response = await api.post("/api/infos", json={"content": content, "keyword_ids": keyword_ids, **fields})
        return response.status_code, response.json()

    status, known = await again("Ｐin  the VERSION. ", first["id"])
    assert (status, known["id"], known["duplicate_of"]) == (200, saved["id"], saved["id"])
    assert (known["content"], known["operation_id"]) == ("Pin the version.", None)
    status, linked = await again("Pin the version.", second["id"])
    assert (status, linked["id"], linked["version"]) == (200, saved["id"], 1)
    assert await list_names(api, f"/api/infos/{saved['id']}/keywords") == ["first", "second"]
    await undo(api, linked["operation_id"])
    assert await list_names(api, f"/api/infos/{saved['id']}/keywords") == ["first"]
    # Another owner, scope or text, or a request for it, makes a separate info.
    for fields in ({"dedup": False}, {"scopes": ["user:li"]}, {"owner": "user:li"}):
        status, other = await again("Pin the version.", **fields)
        assert (status, "duplicate_of" in other) == (201, False), fields
    assert (await again("Pin the versions."))[0] == 201


async def test_an_equal_info_is_matched_by_its_newest_text_unless_deleted(
    api: httpx.AsyncClient, open_second_server: OpenServer
) -> None:
    saved = await create_info(api, "old")
    await api.patch(f"/api/infos/{saved['id']}", json={"content": "new"})

    async with open_second_server() as later:
        for client in (api, later):
            known = await client.post("/api/infos", json={"content": "new"})
            assert (known.status_code, known.json()["duplicate_of"]) == (200, saved["id"])
    assert (await api.post("/api/infos", json={"content": "old"})).status_code == 201
    await api.delete(f"/api/infos/{saved['id']}")
    assert (await api.post("/api/infos", json={"content": "new"})).status_code == 201


async def test_a_batch_of_infos_sent_twice_changes_nothing(api: httpx.AsyncClient) -> None:
    go = await create_keyword(api, "Go")
    batch = {"items": [{"content": text, "keyword_ids": [go["id"]]} for text in ("a", "b", "a")]}

    first = (await api.post("/api/infos/batch", json=batch)).json()
    before = await read_everything(api)
    second = await api.post("/api/infos/batch", json=batch)

    ids = [row["id"] for row in first["results"]]
    assert (ids[0] == ids[2], first["results"][2]["duplicate_of"], len(set(ids))) == (True, ids[0], 2)
    assert [row["duplicate_of"] for row in second.json()["results"]] == ids
    assert (second.json()["operation_id"], await read_everything(api)) == (None, before)
