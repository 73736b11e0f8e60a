"""Every agent tool against a real server process, in English and in Chinese."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from agent_tools.knowledge import (
    get_knowledge,
    knowledge_save,
    knowledge_search,
)
from agent_tools.registry import call_tool
from agent_tools.resources import resource_get, resource_save
from agent_tools.run import running
from tests.e2e.server_process import run_server

pytestmark = pytest.mark.anyio

UNKNOWN = "knowledge-20260101-0000"


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_server(tmp_path_factory.mktemp("tools") / "data") as server:
        yield server.url


@pytest.fixture(autouse=True)
async def empty_server(url: str) -> AsyncIterator[None]:
    """Let the server start empty in each test: what a test saves is taken back."""
    yield
    async with httpx.AsyncClient(base_url=url) as client:
        for record in (await client.get("/api/knowledge", params={"limit": 1000})).json()["results"]:
            await client.delete(f"/api/knowledge/{record['id']}")


async def record_of(url: str, knowledge_id: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=url) as client:
        record: dict[str, Any] = (await client.get(f"/api/knowledge/{knowledge_id}")).json()
        return record


async def save_record(content: str, **fields: object) -> str:
    arguments: dict[str, Any] = {"task": "登录网站", "content": content, "types": ["tool"], **fields}
    result = await knowledge_save(**arguments)
    assert result.error is None
    return str(result.metadata["id"])


async def test_search_finds_in_chinese_and_shows_what_it_found() -> None:
    wanted = await save_record("undetected_chromedriver 可以绕过大部分检测")
    await save_record("pnpm, not npm", task="Install packages", types=["strategy"])

    result = await knowledge_search("怎样登錄网站", top_k=3, types=["tool", "plan"])
    empty = await get_knowledge("量子力学")

    assert result.error is None
    assert [item["id"] for item in result.metadata["items"]] == [wanted]
    assert len(result) == 1
    assert wanted in result.output
    assert "可以绕过大部分检测" in result.output
    assert (empty.error, empty.metadata["items"], bool(empty)) == (None, [], True)


async def test_a_run_reads_deletes_and_undoes_records_of_its_user(url: str) -> None:
    with running(caller={"user_id": "li", "agent_id": "crawler"}):
        made = await call_tool("knowledge_save", {"task": "登录", "content": "先等待", "types": ["user_profile"]})
        read = await call_tool("knowledge_get", {"knowledge_id": made.metadata["id"]})
        profile = await call_tool("profile_get", {})
        gone = await call_tool("knowledge_delete", {"knowledge_id": made.metadata["id"]})
        missing = await call_tool("knowledge_get", {"knowledge_id": made.metadata["id"]})
        undone = await call_tool("undo", {"operation_id": gone.metadata["operation_id"]})
        again = await call_tool("knowledge_get", {"knowledge_id": made.metadata["id"]})
    with running(caller={"user_id": "li", "agent_id": "another"}):
        await resource_save("code/of_a_run", body="x")
    with running(caller={"user_id": "li", "agent_id": "crawler"}):
        shared = await resource_get("code/of_a_run")
        found = await call_tool("knowledge_search", {"query": "登录"})
    with running(caller={"user_id": "ann"}):
        foreign = await call_tool("knowledge_get", {"knowledge_id": made.metadata["id"]})

    record = await record_of(url, made.metadata["id"])
    assert (record["owner"], record["scopes"]) == ("user:li", ["user:li"])
    assert [item["content"] for item in profile.metadata["items"]] == ["先等待"]
    assert "| content: 先等待" in read.output
    assert [result.error for result in (made, read, profile, gone, undone, again)] == [None] * 6
    assert str(gone) == f"Deleted. To take it back: undo {gone.metadata['operation_id']}."
    assert "Use an id from knowledge_search" in (missing.error or "")
    assert foreign.metadata["status"] == 404
    # What one agent of the user saved, the next one finds.
    assert (shared.error, [item["owner"] for item in shared.metadata["items"]]) == (None, ["user:li"])
    assert [item["id"] for item in found.metadata["items"]] == [made.metadata["id"]]
