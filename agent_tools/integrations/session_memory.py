"""Sessions that the server learns from, and a search of the memories, for frameworks that have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent_tools import fences, memory
from agent_tools.results import ToolFailure, ToolResult

DEFAULT_RESULTS: Final = 10


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory, or a part of a transcript. `said_at` is ISO 8601, `relevance` from 0 to 1.

    `quoted` has a bar before each line, and `text` also the sentence that says what the bars mean.
    """

    uri: str
    category: str
    quoted: str
    said_at: str | None
    relevance: float

    @property
    def text(self) -> str:
        """Return the text as a model may read it by itself."""
        return f"{fences.FENCE_NOTE}\n\n{self.quoted}"


async def commit_messages(user_id: str, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Store messages of a user's session, and the memories in them; those that it has stay as they are.

    What the server itself showed is left out. Raises ToolFailure.
    """
    if any(fences.remove_fenced(str(message.get("content") or ""))[0].strip() for message in messages):
        _check(await memory.commit_session(session_id, [*messages], user_id=user_id))  # type: ignore[list-item] # any host's


async def find_memories(user_id: str, query: str, top_k: int = DEFAULT_RESULTS) -> list[FoundMemory]:
    """Return what fits a question, best first. Nothing for a question without words. Raises ToolFailure."""
    if not query.strip():
        return []
    blocks = _check(await memory.search_memory(query, top_k=top_k, user_id=user_id)).metadata["items"]
    return [
        FoundMemory(
            uri=str(block.get("uri")),
            category=str(block.get("category")),
            quoted=fences.quote("memory", str(block.get("abstract") or "")),
            said_at=block.get("said_at"),
            relevance=float(block.get("relevance") or 0.0),
        )
        for block in blocks
    ]


def _check(result: ToolResult) -> ToolResult:
    if result.error is not None:
        raise ToolFailure(result.error, result.metadata)
    return result
