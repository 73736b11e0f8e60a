"""Commits what is new in a transcript. A transcript may be sent whole, in parts, or again: nothing is stored twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from knowhub.bootstrap import Hub
from knowhub.context.commit.commit_checks import MAX_MESSAGES
from knowhub.context.commit_model import SessionCommit
from knowhub.core.request_context import RequestContext
from knowhub.web.hooks.host import Host
from knowhub.web.hooks.transcript import MAX_BYTES, Excerpt, parse_excerpt, read_file

_log = structlog.get_logger("knowhub.hooks")


@dataclass(frozen=True, slots=True)
class SentTranscript:
    """A transcript: the path of a file, or lines with the offset at which they begin in it."""

    path: str = ""
    lines: str | None = None
    offset: int = 0


@dataclass(slots=True)
class CaptureState:
    """How far the file of a session was read, and the names of the tools by the ids of their calls."""

    path: str = ""
    end: int = 0
    tools: dict[str, str] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Capturer:
    """Commits transcripts. It reads files below `folders` only."""

    def __init__(self, hub: Hub, folders: Sequence[Path]) -> None:
        self._hub = hub
        self._folders = folders
        self._is_ending = False

    def end(self) -> None:
        """Let each capture finish its present commit only: all of them may take longer than a shutdown."""
        self._is_ending = True

    async def capture(
        self, ctx: RequestContext, host: Host, session_id: str, sent: SentTranscript, state: CaptureState
    ) -> str | None:
        """Commit the new messages of a session; return the last operation, None if nothing was new.

        Raises as `read_file` and a commit of a session.
        """
        async with state.lock:
            excerpt = await self._read(sent, state)
            read = await asyncio.to_thread(parse_excerpt, host, excerpt, state.tools)
            if excerpt.skipped or read.unreadable:
                _log.warning(
                    "transcript_not_read_whole",
                    host=host.name,
                    session_id=session_id,
                    skipped_bytes=excerpt.skipped,
                    unreadable_lines=read.unreadable,
                )
            operation_id = None
            for start in range(0, len(read.messages), MAX_MESSAGES):
                if self._is_ending and start:
                    # The messages have ids: whoever sends them again stores what is missing.
                    left = len(read.messages) - start
                    _log.warning("capture_stopped", host=host.name, session_id=session_id, messages_left=left)
                    return operation_id
                commit = SessionCommit(session_id, read.messages[start : start + MAX_MESSAGES])
                done = await self._hub.memories.nodes.commit_session(ctx, commit)
                operation_id = done.operation_id or operation_id
            if sent.lines is None:
                state.path, state.end = sent.path, read.end
            return operation_id

    async def _read(self, sent: SentTranscript, state: CaptureState) -> Excerpt:
        if sent.lines is None:
            start = state.end if state.path == sent.path else 0
            return await asyncio.to_thread(read_file, sent.path, self._folders, start)
        whole = sent.lines.encode("utf-8", "replace")
        skipped = max(0, len(whole) - MAX_BYTES)
        return Excerpt(whole[skipped:], sent.offset + skipped, skipped)
