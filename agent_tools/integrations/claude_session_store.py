"""A session store of the Claude Agent SDK on KnowHub: transcripts are kept with a user, to be resumed anywhere.

Needs the extra `claude-agent`. See docs/how-to/use-claude-agent-sdk.md.
"""

import asyncio
from datetime import datetime
from typing import Any, Final

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from agent_tools.integrations.documents import TRIES, Document, DocumentFolder, ItemLog, to_json
from agent_tools.results import ToolFailure

# The folders of a project: its sessions, the transcripts of their subagents, and a summary of each session.
_MAIN: Final = "main"
_SUBAGENTS: Final = "subagents"
_SUMMARIES: Final = "summaries"


class KnowHubSessionStore:
    """A `SessionStore` with the transcripts of a user. An entry with a `uuid` that was appended twice is read once.

    Errors of the server are `ToolFailure`; the SDK tries again.
    """

    def __init__(self, user_id: str) -> None:
        self._folder = DocumentFolder("claude-sessions", user_id)
        self._logs: dict[tuple[str, ...], ItemLog] = {}
        # The SDK expects the entries of a process in the order of its calls.
        self._order = asyncio.Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries of a transcript; all of them or none."""
        if not entries:
            return
        path = _locate(key)
        async with self._order:
            await self._logs.setdefault(path, ItemLog(self._folder, path)).append(entries)
            if not key.get("subpath"):
                await self._summarize(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return a transcript, None if there is none."""
        path = _locate(key)
        entries: dict[object, SessionStoreEntry] = {}
        for position, entry in enumerate(await ItemLog(self._folder, path).read()):
            entries.setdefault(entry.get("uuid") or position, entry)
        return list(entries.values()) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, and when each was changed, in milliseconds since the epoch."""
        found = await self._folder.scan((project_key, _SUMMARIES))
        return [{"session_id": summary.path[-1], "mtime": _mtime(summary)} for summary in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of the sessions of a project."""
        return [_parse_summary(summary) for summary in await self._folder.scan((project_key, _SUMMARIES))]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with the transcripts of its subagents, or one of these."""
        subpath = key.get("subpath")
        async with self._order:
            if subpath:
                await self._clear(_locate(key))
                return
            for name in await self.list_subkeys({"project_key": key["project_key"], "session_id": key["session_id"]}):
                await self._clear(_locate({**key, "subpath": name}))
            await self._clear(_locate(key))
            await self._folder.delete((key["project_key"], _SUMMARIES, key["session_id"]))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session: its subagents."""
        found = await self._folder.scan((key["project_key"], _SUBAGENTS, key["session_id"]))
        return sorted({document.path[-2] for document in found})

    async def _clear(self, path: tuple[str, ...]) -> None:
        self._logs.pop(path, None)
        await ItemLog(self._folder, path).clear()

    async def _summarize(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        path = (key["project_key"], _SUMMARIES, key["session_id"])
        for _ in range(TRIES):
            before = await self._folder.read(path)
            summary = fold_session_summary(before and _parse_summary(before), key, entries)
            # Counted, so that each append changes the summary and with it the time of its change.
            writes = 1 if before is None else 1 + int(before.parse().get("writes", 0))
            text = to_json({"data": summary["data"], "writes": writes})
            if await (self._folder.change(before, body=text) if before else self._folder.create(path, text)):
                return
        raise ToolFailure("Others write to this session without a pause. Its summary lacks what was added.")


def _locate(key: SessionKey) -> tuple[str, ...]:
    subpath = key.get("subpath")
    if subpath:
        return (key["project_key"], _SUBAGENTS, key["session_id"], subpath)
    return (key["project_key"], _MAIN, key["session_id"])


def _parse_summary(document: Document) -> SessionSummaryEntry:
    data: dict[str, Any] = document.parse()["data"]
    return {"session_id": document.path[-1], "mtime": _mtime(document), "data": data}


def _mtime(document: Document) -> int:
    return int(datetime.fromisoformat(document.updated_at).timestamp() * 1000)
