"""The conformance suite of the Claude Agent SDK. Started by test_upstream_suites.py, in an environment that has it."""

from typing import Any
from uuid import uuid4

from claude_agent_sdk import SessionStore
from claude_agent_sdk.testing import run_session_store_conformance

from agent_tools.integrations.claude_session_store import KnowHubSessionStore

OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")
KEY: Any = {"project_key": "-home-li-atlas", "session_id": "s"}


def make_store() -> KnowHubSessionStore:
    return KnowHubSessionStore(user_id=f"li-{uuid4().hex[:8]}")


async def test_all_fourteen_contracts_hold() -> None:
    # The suite leaves out contracts on methods that a store lacks.
    for name in OPTIONAL:
        assert getattr(KnowHubSessionStore, name) is not getattr(SessionStore, name)

    await run_session_store_conformance(make_store)


async def test_an_entry_that_is_sent_again_is_read_once() -> None:
    store = make_store()
    first, title, last = [{"type": "user", "uuid": "1"}, {"type": "title"}, {"type": "user", "uuid": "2"}]
    for batch in ([first, title], [first, title, last]):
        await store.append(KEY, batch)

    assert await store.load(KEY) == [first, title, title, last]


async def test_another_process_goes_on_with_a_session() -> None:
    user = f"li-{uuid4().hex[:8]}"
    for number in range(4):
        await KnowHubSessionStore(user_id=user).append(KEY, [{"type": "user", "uuid": f"{number}"}])

    store = KnowHubSessionStore(user_id=user)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert [entry["uuid"] for entry in loaded] == ["0", "1", "2", "3"]
    assert [session["session_id"] for session in await store.list_sessions("-home-li-atlas")] == ["s"]
    assert await KnowHubSessionStore(user_id=f"{user}2").load(KEY) is None
