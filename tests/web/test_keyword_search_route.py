"""Searching the tree over HTTP: exact, ambiguous, not found; each field as the contract has it."""

from typing import Any

import httpx
import pytest

from tests.web.conftest import OpenServer
from tests.web.trees import create_info, create_keyword, strip_write_fields

pytestmark = pytest.mark.anyio

FIELDS = {
    "status",
    "node",
    "path",
    "infos",
    "candidates",
    "suggested_parent_id",
    "suggested_name",
    "reason",
    "degraded",
}


async def search(api: httpx.AsyncClient, q: str, **params: str) -> dict[str, Any]:
    response = await api.get("/api/keywords/search", params={"q": q} | params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_name_is_answered_with_its_node_path_and_infos(api: httpx.AsyncClient) -> None:
    languages = await create_keyword(api, "编程语言")
    python = await create_keyword(api, "Python", languages["id"], description='says "so"\n')
    child = await create_keyword(api, "asyncio", python["id"])
    older = await create_info(api, "GIL 可以关闭", python["id"])
    newer = await create_info(api, 'a "quoted" text', python["id"])

    found = await search(api, "python")

    assert found.keys() == FIELDS
    assert (found["status"], found["reason"], found["degraded"]) == ("matched", "exact", [])
    assert found["node"] == strip_write_fields(python) | {"children": [child["id"]], "child_count": 1}
    assert [(item["name"], item["level"]) for item in found["path"]] == [("root", 0), ("编程语言", 1), ("Python", 2)]
    assert "children" not in found["path"][2]
    assert found["infos"] == [strip_write_fields(newer), strip_write_fields(older)]
    assert (found["candidates"], found["suggested_parent_id"], found["suggested_name"]) == ([], None, None)


@pytest.mark.parametrize("q", ["C++", "ｃ＋＋", " c ++ ", "Ｃ++", "cpp", "塞加加"])
async def test_a_name_is_found_however_it_is_typed(api: httpx.AsyncClient, q: str) -> None:
    made = await create_keyword(api, "C++", aliases=["cpp", "塞加加"])
    await create_keyword(api, "C")
    await create_keyword(api, "C#")

    found = await search(api, q, llm_expand_query="false")

    assert (found["status"], found["node"]["id"]) == ("matched", made["id"])


@pytest.mark.parametrize(
    ("params", "reason"), [({}, "exact_miss_no_llm"), ({"llm_expand_query": "false"}, "exact_miss_llm_disabled")]
)
async def test_an_unknown_name_is_not_found_and_not_degraded(
    api: httpx.AsyncClient, params: dict[str, str], reason: str
) -> None:
    near = await create_keyword(api, "asyncio tasks")

    found = await search(api, "asyncio loops", **params)

    assert (found["status"], found["reason"], found["degraded"]) == ("not_found", reason, [])
    assert [candidate["id"] for candidate in found["candidates"]] == [near["id"]]


@pytest.mark.parametrize("q", ["!!!", "。", "\u3000-\u3000"])
async def test_a_query_without_letters_is_not_found(api: httpx.AsyncClient, q: str) -> None:
    found = await search(api, q)

    assert (found["status"], found["reason"], found["candidates"]) == ("not_found", "empty_query", [])


async def test_full_pinyin_matches_and_initials_make_a_candidate(api: httpx.AsyncClient) -> None:
    made = await create_keyword(api, "编程")

    full, initials = [await search(api, q) for q in ("biancheng", "bc")]

    assert (full["status"], full["reason"], full["node"]["id"]) == ("matched", "pinyin", made["id"])
    assert (initials["status"], [row["id"] for row in initials["candidates"]]) == ("not_found", [made["id"]])


async def test_a_search_sees_each_write_at_once_here_and_in_another_process(
    api: httpx.AsyncClient, open_second_server: OpenServer
) -> None:
    async with open_second_server() as other:
        assert (await search(other, "Python"))["status"] == "not_found"
        made = await create_keyword(api, "Python")
        assert (await search(other, "Python"))["node"] == strip_write_fields(made)
        await api.patch(f"/api/keywords/{made['id']}", json={"name": "Rust"})
        assert (await search(other, "Python"))["status"] == "not_found"
        assert (await search(other, "rust"))["node"]["version"] == 2
        saved = await create_info(api, "borrow checker", made["id"])
        assert [item["id"] for item in (await search(other, "rust"))["infos"]] == [saved["id"]]
        await api.delete(f"/api/infos/{saved['id']}")
        assert (await search(other, "rust"))["infos"] == []


async def test_hidden_infos_are_left_out(api: httpx.AsyncClient) -> None:
    made = await create_keyword(api, "Python")
    await create_info(api, "secret", made["id"], user_id="li", scopes=["user:li"])

    hers, his = await search(api, "python", user_id="li"), await search(api, "python", user_id="chen")

    assert ([item["content"] for item in hers["infos"]], his["infos"]) == (["secret"], [])
