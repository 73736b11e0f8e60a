"""What each keyword tool makes of the answer of the API."""

from typing import Any

import pytest
import respx

from agent_tools.fences import FENCE_NOTE
from agent_tools.keywords import info_save, keyword_create, keyword_search

pytestmark = pytest.mark.anyio

ROOT = {"id": "root", "name": "root", "aliases": [], "description": ""}
LANGUAGES = {"id": "k-1", "name": "编程语言", "aliases": [], "description": ""}
JAVA = {"id": "k-2", "name": "Java", "aliases": ["JDK"], "description": "运行在 JVM 上", "parent_id": "k-1"}
ISLAND = {"id": "k-3", "name": "Java", "aliases": ["爪哇岛"], "description": "印度尼西亚的岛", "parent_id": "k-9"}
INFO = {"id": "i-1", "content": "Integer 用 equals 比较\n不要用 ==", "source": "JLS"}


def answer(status: str, **fields: object) -> dict[str, Any]:
    empty: dict[str, Any] = {"node": None, "path": [], "infos": [], "candidates": []}
    suggested: dict[str, Any] = {"suggested_parent_id": None, "suggested_name": None, "reason": "exact", "degraded": []}
    return {"status": status, **empty, **suggested, **fields}


async def test_a_match_is_shown_with_its_path_and_infos_as_data(hub: respx.MockRouter) -> None:
    matched = answer("matched", node=JAVA, path=[ROOT, LANGUAGES, JAVA], infos=[INFO])
    hub.get("/api/keywords/search").respond(json=matched)

    result = await keyword_search("java")

    assert result.error is None
    assert (result.metadata["status"], result.metadata["items"]) == ("matched", [JAVA])
    assert (result.metadata["infos"], result.metadata["reason"]) == ([INFO], "exact")
    assert result.output.startswith(f"Found, with 1 infos.\n\n{FENCE_NOTE}")
    assert "| keyword id: k-2\n| path: 编程语言/Java\n| aliases: JDK\n| description: 运行在 JVM 上" in result.output
    # A line break in stored text must not begin a line that could pass for ours.
    assert "| info id: i-1\n| content: Integer 用 equals 比较\n|   不要用 ==\n| source: JLS" in result.output


async def test_keywords_of_one_name_are_shown_with_their_ids(hub: respx.MockRouter) -> None:
    hub.get("/api/keywords/search").respond(json=answer("ambiguous", candidates=[JAVA, ISLAND]))

    result = await keyword_search("java")

    assert result.error is None
    assert (result.metadata["status"], len(result)) == ("ambiguous", 2)
    assert "ask keyword_search for its id" in result.output
    assert "| keyword id: k-2\n| name: Java" in result.output
    assert "| keyword id: k-3\n| name: Java\n| aliases: 爪哇岛\n| description: 印度尼西亚的岛" in result.output


async def test_an_empty_search_shows_similar_keywords_and_a_suggested_parent(hub: respx.MockRouter) -> None:
    near = answer(
        "not_found",
        candidates=[JAVA],
        suggested_parent_id="k-1",
        suggested_name="Scala\nIgnore this",
        reason="no such language",
        degraded=["llm"],
    )
    hub.get("/api/keywords/search").respond(json=near)

    result = await keyword_search("scala")

    assert result.error is None
    assert (result.metadata["status"], result.metadata["items"], len(result)) == ("not_found", [], 0)
    assert result.metadata["candidates"] == [JAVA]
    assert result.metadata["suggested_parent_id"] == "k-1"
    assert "keyword_create" in result.output
    assert "| suggested parent_id: k-1\n| suggested name: Scala\n|   Ignore this" in result.output
    assert "| keyword id: k-2" in result.output
    assert result.output.endswith("The server had to do without: llm.")


async def test_create_names_the_new_keyword_and_its_parent(hub: respx.MockRouter) -> None:
    made = {**JAVA, "operation_id": "op-1", "decided": {"placed": "suggested"}, "degraded": []}
    hub.post("/api/keywords").respond(201, json=made)

    result = await keyword_create("Java")

    assert result.output == "Created as k-2 below k-1. Save infos under it with info_save."
    assert (result.metadata["id"], result.metadata["status"]) == ("k-2", "created")
    assert (result.metadata["operation_id"], result.metadata["decided"]) == ("op-1", {"placed": "suggested"})
    assert result.metadata["items"] == [made]


async def test_save_names_missing_parts_and_links_that_were_left_out(hub: respx.MockRouter) -> None:
    dropped = [{"what": "links", "why": "not_shown", "count": 1}]
    route = hub.post("/api/infos").respond(201, json={**INFO, "operation_id": "op-2", "degraded": ["llm"]})
    saved = await info_save("Integer 用 equals 比较", ["k-2"])
    route.respond(201, json={**INFO, "degraded": [], "dropped": dropped})
    linked = await info_save("Integer 用 equals 比较", auto_link=True)

    assert saved.output == "Saved as i-1.\nThe server had to do without: llm."
    assert (saved.metadata["id"], saved.metadata["status"]) == ("i-1", "saved")
    assert linked.output == "Saved as i-1. Left out: 1 links (not_shown)."
    assert linked.metadata["dropped"] == dropped
