"""Transcripts: which files may be read, what is new in them, and its commit.

A transcript may be sent whole, in parts, or again: nothing is stored twice.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from knowhub.bootstrap import Hub
from knowhub.context.commit.commit_checks import MAX_MESSAGES
from knowhub.context.commit_model import SessionCommit
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import keep_own_words
from knowhub.core import clock
from knowhub.core.errors import Forbidden, InvalidInput, NotFound
from knowhub.core.request_context import RequestContext
from knowhub.web.hooks.hosts import Host

MAX_BYTES: Final = 10 * 1024 * 1024
"""So much of a transcript is read at once, the newest."""
LINES_LEFT_OUT: Final = "lines that came from KnowHub"
_MAX_CHARS: Final = 100_000
# Outputs of tools are mostly files and logs.
_MAX_TOOL_CHARS: Final = 8_000
_KEY_CHARS: Final = 8

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


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Bytes of a transcript, and where they begin in it; `skipped` bytes before them were too many to read."""

    text: bytes
    start: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """The messages of an excerpt, where the next one begins, and how many lines of it could not be read.

    `recalled` counts the lines of messages that KnowHub said.
    """

    messages: Sequence[Message]
    end: int
    unreadable: int
    recalled: int


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
            if read.recalled:
                _log.info("recalled_text_left_out", host=host.name, session_id=session_id, lines=read.recalled)
            operation_id = None
            for start in range(0, len(read.messages), MAX_MESSAGES):
                if self._is_ending and start:
                    # The messages have ids: whoever sends them again stores what is missing.
                    left = len(read.messages) - start
                    _log.warning("capture_stopped", host=host.name, session_id=session_id, messages_left=left)
                    return operation_id
                commit = SessionCommit(session_id, read.messages[start : start + MAX_MESSAGES])
                done = await self._hub.memories.commits.commit(ctx, commit)
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


def read_file(written: str, folders: Sequence[Path], start: int) -> Excerpt:
    """Return what a transcript has from `start` on, at most the newest MAX_BYTES.

    Raises Forbidden for a file outside the folders, NotFound where there is none, and InvalidInput for no file.
    """
    path = Path(written)
    if not path.is_absolute():
        raise InvalidInput.of("transcript_path", "must be an absolute path")
    try:
        whole = path.resolve(strict=True)
    except (OSError, RuntimeError):
        whole = None
    if not any((whole or path).is_relative_to(folder.expanduser().resolve()) for folder in folders):
        # Whether it exists is said of no other file.
        raise Forbidden(
            "this file may not be read: KNOWHUB_HOOK_TRANSCRIPTS names the folders of transcripts, which are read "
            "where no keys are used; else send the lines as `transcript`"
        )
    if whole is None:
        raise NotFound(f"there is no transcript {written}")
    if not whole.is_file():
        raise InvalidInput.of("transcript_path", "must be a file")
    with whole.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # A file that became shorter was written anew.
        begin = start if start <= size else 0
        skipped = max(0, size - begin - MAX_BYTES)
        file.seek(begin + skipped)
        return Excerpt(file.read(MAX_BYTES), begin + skipped, skipped)


def parse_excerpt(host: Host, excerpt: Excerpt, tools: MutableMapping[str, str]) -> ReadTranscript:
    """Return the messages of an excerpt. A last line that is not whole yet is left for the next time."""
    messages: dict[str, Message] = {}
    left_out: Counter[str] = Counter()
    unreadable = 0
    at = excerpt.start
    lines = excerpt.text.split(b"\n")
    if excerpt.skipped:
        # The first line lost its beginning.
        at += len(lines[0]) + 1
        lines = lines[1:]
    for number, line in enumerate(lines, 1):
        entry = parse_entry(line)
        if entry is None and line.strip():
            if number == len(lines):
                break
            unreadable += 1
        cleaned = clean_messages(host.read_entry(entry or {}, tools), left_out, line, at)
        messages.update((message.message_id or "", message) for message in cleaned)
        at += len(line) + (number < len(lines))
    return ReadTranscript(list(messages.values()), at, unreadable, left_out[LINES_LEFT_OUT])


def parse_entry(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; None if it is none."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            # It takes half a surrogate pair too.
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return entry if isinstance(entry, dict) else None


def clean_messages(messages: Iterable[Message], left_out: Counter[str], line: bytes, at: int) -> list[Message]:
    """Return the messages of a line that begins at byte `at` as `clean_message` does. Each has an id."""
    whole = line.removesuffix(b"\n")
    cleaned = (
        clean_message(message, left_out, f"{at:x}-{sha256(whole).hexdigest()[:_KEY_CHARS]}-{place}")
        for place, message in enumerate(messages)
    )
    return [message for message in cleaned if message is not None]


def clean_message(message: Message, left_out: Counter[str], own_id: str | None = None) -> Message | None:
    """Return a message as it can be stored, or None if it is empty or KnowHub itself said it.

    `left_out` counts the lines that KnowHub said. `own_id` is its id where it has none.
    """
    content = message.content.replace("\0", "").encode("utf-8", "replace").decode()
    content, recalled = keep_own_words(replace(message, content=content))
    left_out.update({LINES_LEFT_OUT: recalled} if recalled else {})
    max_chars = _MAX_TOOL_CHARS if message.is_tool else _MAX_CHARS
    if len(content) > max_chars:
        content = f"{content[:max_chars]} […{len(content) - max_chars} more characters]"
    if not content.strip():
        return None
    said_at = message.timestamp if _is_moment(message.timestamp or "") else None
    return replace(message, content=content, message_id=message.message_id or own_id, timestamp=said_at)


def _is_moment(text: str) -> bool:
    try:
        clock.normalize_iso(text)
    except ValueError:
        return False
    return True
