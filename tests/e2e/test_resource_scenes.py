"""Four scenes of an agent against a real server: it saves a resource, then the knowledge that refers to it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.knowledge import KnowledgeType, knowledge_save, knowledge_search
from agent_tools.resources import resource_get, resource_list, resource_save
from agent_tools.results import ToolResult
from tests.e2e.server_process import run_server
from tests.sealing import find_texts_in_files

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

CODE_ID, CREDENTIAL_ID, COOKIE_ID = "code/selenium/undetected_login", "credentials/website_a", "cookies/website_a"
CODE = "import undetected_chromedriver as uc\n\ndriver = uc.Chrome()\ndriver.get('https://website-a.example')"
ACCOUNT = "账号：user@example.com\n密码：SecurePass123"
COOKIE = "session_id=abc123; auth_token=xyz789"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server_url(data: Path) -> Iterator[str]:
    with run_server(data) as server:
        yield server.url


async def save_and_find(task: str, content: str, types: list[KnowledgeType], resource_ids: list[str]) -> ToolResult:
    """Save the lesson and find it again, as the agent that needs it does."""
    saved = await knowledge_save(task, content, types, resource_ids=resource_ids)
    assert saved.error is None
    assert "missing_resource_ids" not in saved.metadata["items"][0]
    found = await knowledge_search(task)
    assert resource_ids in [item["resource_ids"] for item in found.metadata["items"]]
    return found


async def test_scene_2_an_account_is_sealed_and_revealed_on_request(data: Path) -> None:
    saved = await resource_save(
        resource_id=CREDENTIAL_ID,
        title="某网站测试账号",
        body="使用方法:直接登录即可,每天限额 100 次",
        secure_body=ACCOUNT,
        content_type="credential",
        metadata={"acquired_at": "2026-03-06T10:00:00Z"},
    )
    found = await save_and_find(
        "登录某网站进行数据采集",
        "使用测试账号登录,注意:1) 每天限额 100 次 2) 需要在工作时间访问 3) 登录后 session 有效期 2 小时",
        ["tool", "usecase"],
        [CREDENTIAL_ID],
    )

    read, listed = await resource_get(CREDENTIAL_ID), await resource_list("credentials/", "credential")
    revealed = await resource_get(CREDENTIAL_ID, reveal=True)

    assert revealed.metadata["items"][0]["secure_body"] == ACCOUNT
    assert "SecurePass123" in revealed.output
    for result in (saved, found, read, listed):
        assert "SecurePass123" not in result.output + json.dumps(result.metadata, ensure_ascii=False)
    assert read.metadata["items"][0]["has_secure_body"] is True
    assert [item["id"] for item in listed.metadata["items"]] == [CREDENTIAL_ID]
    assert find_texts_in_files(data, ["SecurePass123"]) == []


async def test_scene_3_a_cookie_says_when_it_has_expired(data: Path) -> None:
    await resource_save(
        resource_id=COOKIE_ID,
        title="某网站 Cookie",
        body="适用于:已登录状态的 API 调用",
        secure_body=COOKIE,
        content_type="cookie",
        metadata={"acquired_at": "2026-03-06T10:00:00Z", "expires_at": "2026-03-07T10:00:00Z"},
    )
    await save_and_find(
        "使用已登录的 Cookie 访问某网站 API",
        "Cookie 获取方法:手动登录后从浏览器导出。使用时直接设置到请求头。注意检查过期时间。",
        ["tool"],
        [COOKIE_ID],
    )

    old = await resource_get(COOKIE_ID, reveal=True)
    expired = await resource_list(expired=True)
    renewed = await resource_save(
        COOKIE_ID, "某网站 Cookie", "", "session_id=new", "cookie", expires_at="2100-01-01", upsert=True
    )
    fresh = await resource_get(COOKIE_ID, reveal=True)

    assert (old.metadata["items"][0]["expired"], old.metadata["items"][0]["secure_body"]) == (True, COOKIE)
    assert old.metadata["items"][0]["expires_at"] == "2026-03-07T10:00:00Z"
    assert "has expired" in old.output
    assert [item["id"] for item in expired.metadata["items"]] == [COOKIE_ID]
    assert renewed.metadata["items"][0]["version"] == 2
    assert (fresh.metadata["items"][0]["expired"], fresh.metadata["items"][0]["secure_body"]) == (
        False,
        "session_id=new",
    )
    assert find_texts_in_files(data, ["abc123", "xyz789", "session_id"]) == []
