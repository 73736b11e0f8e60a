"""The context provider of Microsoft's Agent Framework. Started by test_upstream_suites.py, where the framework is."""

import logging
from uuid import uuid4

import pytest
from agent_framework import AgentResponse, AgentSession, Message, SessionContext

from agent_tools.integrations.agent_framework_provider import KnowHubContextProvider


async def run_turn(provider: KnowHubContextProvider, session: AgentSession, said: str, answer: str) -> list[str]:
    """Do what an agent does with its provider in a run. Return what the model was shown beside the input."""
    context = SessionContext(session_id=session.session_id, input_messages=[Message("user", [said])])
    await provider.before_run(agent=None, session=session, context=context, state={})
    shown = [message.text for message in context.get_messages()]
    context._response = AgentResponse(messages=[Message("assistant", [answer])])  # noqa: SLF001 -- as the agent sets it
    await provider.after_run(agent=None, session=session, context=context, state={})
    return shown


async def test_a_later_session_is_shown_what_was_said_fenced_and_for_its_user_only() -> None:
    user = f"li-{uuid4().hex[:8]}"
    provider = KnowHubContextProvider(user_id=user)

    assert (
        await run_turn(provider, AgentSession(), "Remember that I prefer tabs over spaces.", "I will use tabs.") == []
    )
    (shown,) = await run_turn(provider, AgentSession(), "Tabs or spaces?", "Tabs.")

    assert "tabs over spaces" in shown
    lines = [line for line in shown.split("\n") if line]
    assert all(line.startswith("|") for line in lines[1:])
    assert await run_turn(KnowHubContextProvider(f"{user}2"), AgentSession(), "Tabs or spaces?", "?") == []


async def test_turns_of_a_session_are_stored_once_each() -> None:
    provider, session = KnowHubContextProvider(user_id=f"li-{uuid4().hex[:8]}"), AgentSession()
    for number in range(3):
        await run_turn(provider, session, f"The deployment {number} was green.", "Good.")

    (shown,) = await run_turn(provider, AgentSession(), "Was the deployment green?", "Yes.")

    for number in range(3):
        assert shown.count(f"The deployment {number} was green.") == 1


async def test_an_agent_goes_on_without_a_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KNOWHUB_API_URL", "http://127.0.0.1:9")
    with caplog.at_level(logging.WARNING):
        assert await run_turn(KnowHubContextProvider(user_id="li"), AgentSession(), "Tabs?", "Tabs.") == []

    assert [record.message.split(":")[0] for record in caplog.records] == [
        "No memories are shown",
        "A turn was not stored",
    ]
