"""A memory store of Strands Agents on KnowHub: the server learns from messages, and finds what fits a question.

Needs the extra `strands`. See docs/how-to/use-strands.md.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from strands.memory.types import MemoryEntry

from agent_tools import arguments, client
from agent_tools.integrations.session_memory import DEFAULT_RESULTS, commit_messages, find_memories

DESCRIPTION = "What was said in earlier sessions with this user, and what was learnt from them."


class KnowHubMemoryStore:
    """A `MemoryStore` with the memories of a user; `session_id` names the conversation that it is given.

    Errors of the server are `ToolFailure`.
    """

    def __init__(self, user_id: str, session_id: str, *, writable: bool = True, extraction: bool = False) -> None:
        self.name = "knowhub"
        self.description: str | None = DESCRIPTION
        self.max_search_results: int | None = DEFAULT_RESULTS
        self.writable = writable
        self.extraction = extraction
        self._user_id = user_id
        self._session_id = session_id

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[MemoryEntry]:
        """Return what fits a question, best first. The texts are fenced, as a model reads them."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or DEFAULT_RESULTS
        return [
            MemoryEntry(
                memory.text, metadata={"id": memory.uri, "relevance": memory.relevance, "said_at": memory.said_at}
            )
            for memory in await find_memories(self._user_id, query, limit)
        ]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Store a fact. `metadata["category"]` is a category of memories, `entities` by default.

        A fact that is stored stays as it is.
        """
        category = (metadata or {}).get("category", "entities")
        body = {"user_id": self._user_id, "category": category, "content": arguments.clean_text(content)}
        # The address is made of the text: where it is taken, it is this fact that is there.
        await client.await_unless_refused(client.request("POST", "/api/context/nodes", body=body), HTTPStatus.CONFLICT)

    async def add_messages(self, messages: Sequence[Mapping[str, Any]], context: object = None) -> None:  # noqa: ARG002 -- as the protocol: numbers begin anew with each run
        """Store the texts of messages, and the memories in them."""
        sent = [
            {
                "role": message["role"],
                "content": "\n".join(str(block["text"]) for block in message["content"] if "text" in block),
            }
            for message in messages
        ]
        await commit_messages(self._user_id, self._session_id, [message for message in sent if message["content"]])
