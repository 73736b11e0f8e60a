"""A session of the OpenAI Agents SDK at a real server."""

from typing import Any

import pytest
from agents import SessionSettings, SQLiteSession
from agents.memory import Session

from agent_tools.integrations.openai_session import KnowHubSession

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

ITEMS: list[Any] = [
    {"role": "user", "content": "登录 website_a"},
    {"type": "function_call", "call_id": "c1", "name": "login", "arguments": '{"wait": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "ok\0\ud800"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]},
]


@pytest.fixture
def session(user: str) -> KnowHubSession:
    return KnowHubSession("conversation/1", user_id=user)


async def test_it_is_a_session_of_the_sdk(session: KnowHubSession) -> None:
    assert isinstance(session, Session)


async def test_it_answers_as_the_sdks_own_session_does(session: KnowHubSession) -> None:
    own = SQLiteSession("conversation/1")
    for part in (ITEMS[:1], [], ITEMS[1:3], ITEMS[3:]):
        for kept in (own, session):
            await kept.add_items(part)

    for limit in (None, 0, 1, 3, 4, 99):
        assert await session.get_items(limit) == await own.get_items(limit), limit
    for _ in range(2):
        assert await session.pop_item() == await own.pop_item()
    assert await session.get_items() == await own.get_items() == ITEMS[:2]
    for kept in (own, session):
        await kept.clear_session()
    assert await session.get_items() == await own.get_items() == []
    assert (await session.pop_item(), await own.pop_item()) == (None, None)
    own.close()


async def test_the_settings_limit_what_is_read(user: str) -> None:
    session = KnowHubSession("s", user_id=user, session_settings=SessionSettings(limit=2))
    await session.add_items(ITEMS)

    assert await session.get_items() == ITEMS[-2:]
    assert await session.get_items(3) == ITEMS[-3:]
