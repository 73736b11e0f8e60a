"""A memory service of Google's ADK on KnowHub: the server learns from sessions, and finds what fits a question.

Needs the extra `google-adk`. See docs/how-to/use-google-adk.md.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from agent_tools.integrations.session_memory import commit_messages, find_memories


class KnowHubMemoryService(BaseMemoryService):
    """Memories of users. A session that is added again adds its new events only. Errors are `ToolFailure`.

    An app's sessions are apart by their names. A search finds what the server knows of the user, whoever stored it.
    """

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the texts of a session, and the memories in them."""
        name = f"{session.app_name}/{session.id}"
        await commit_messages(session.user_id, name, _list_messages(session.events))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 -- as the base class; nothing reads it
    ) -> None:
        """Store the texts of new events of a session, and the memories in them."""
        await commit_messages(user_id, f"{app_name}/{session_id or 'events'}", _list_messages(events))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:  # noqa: ARG002 -- as the base class
        """Return what fits a question, best first. The texts are fenced, as a model reads them."""
        found = await find_memories(user_id, query)
        entries = [
            MemoryEntry(
                id=memory.uri,
                content=types.Content(role="user", parts=[types.Part(text=memory.text)]),
                author=memory.category,
                timestamp=memory.said_at,
                custom_metadata={"relevance": memory.relevance},
            )
            for memory in found
        ]
        return SearchMemoryResponse(memories=entries)


def _list_messages(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [
        {
            "role": "user" if event.author == "user" else "assistant",
            "message_id": event.id,
            "content": text,
            "timestamp": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        }
        for event in events
        if (text := _join_texts(event))
    ]


def _join_texts(event: Event) -> str:
    parts = (event.content.parts if event.content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)
