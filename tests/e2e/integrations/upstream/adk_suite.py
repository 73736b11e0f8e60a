"""The memory service of Google's ADK. Started by test_upstream_suites.py, in an environment that has ADK."""

from uuid import uuid4

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.sessions.session import Session
from google.genai import types

from agent_tools.integrations.adk_memory import KnowHubMemoryService


def make_event(author: str, *texts: str, event_id: str) -> Event:
    parts = [types.Part(text=text) for text in texts]
    return Event(author=author, id=event_id, timestamp=1_790_000_000.0, content=types.Content(role=author, parts=parts))


def make_session(user: str) -> Session:
    said = make_event("user", "Remember that I prefer tabs over spaces.", event_id="e1")
    answered = make_event("helper", "I will use tabs.", event_id="e2")
    return Session(app_name="app", user_id=user, id="s1", events=[said, answered, Event(author="helper", id="e3")])


def list_texts(found: SearchMemoryResponse) -> list[str]:
    return [part.text or "" for memory in found.memories for part in memory.content.parts or []]


async def test_a_session_is_found_again_fenced_and_by_its_user_only() -> None:
    service, user = KnowHubMemoryService(), f"li-{uuid4().hex[:8]}"
    session = make_session(user)
    await service.add_session_to_memory(session)
    await service.add_session_to_memory(session)

    found = await service.search_memory(app_name="app", user_id=user, query="tabs or spaces")

    assert found.memories
    assert all("| memory: " in text for text in list_texts(found))
    assert any("tabs over spaces" in text for text in list_texts(found))
    assert len({memory.id for memory in found.memories}) == len(found.memories)
    assert not (await service.search_memory(app_name="app", user_id=f"{user}2", query="tabs or spaces")).memories
    assert not (await service.search_memory(app_name="app", user_id=user, query=" ")).memories


async def test_new_events_are_added_to_a_session_and_empty_ones_are_left_out() -> None:
    service, user = KnowHubMemoryService(), f"li-{uuid4().hex[:8]}"
    await service.add_session_to_memory(make_session(user))
    new = make_event("user", "Remember that website_a needs a pause.", event_id="e4")
    for events in ([new], [new], [Event(author="user", id="e5")], []):
        await service.add_events_to_memory(app_name="app", user_id=user, session_id="s1", events=events)

    found = await service.search_memory(app_name="app", user_id=user, query="what does website_a need")

    assert any("website_a needs a pause" in text for text in list_texts(found))
