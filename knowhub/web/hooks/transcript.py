"""Transcripts: which files may be read, and what is new in them."""

import json
import os
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import is_recall_answer, without_recalled
from knowhub.core import clock
from knowhub.core.errors import Forbidden, InvalidInput, NotFound
from knowhub.web.hooks.host import Host
from knowhub.web.mcp.fenced_text import FENCE_NOTE

MAX_BYTES: Final = 10 * 1024 * 1024
"""So much of a transcript is read at once, the newest."""
_MAX_CHARS: Final = 100_000
# Outputs of tools are mostly files and logs.
_MAX_TOOL_CHARS: Final = 8_000
_KEY_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Bytes of a transcript, and where they begin in it; `skipped` bytes before them were too many to read."""

    text: bytes
    start: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """The messages of an excerpt, where the next one begins, and how many lines could not be read."""

    messages: Sequence[Message]
    end: int
    unreadable: int


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
        cleaned = clean_messages(host.read_entry(entry or {}, tools), line, at)
        messages.update((message.message_id or "", message) for message in cleaned)
        at += len(line) + (number < len(lines))
    return ReadTranscript(list(messages.values()), at, unreadable)


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


def clean_messages(messages: Iterable[Message], line: bytes, at: int) -> list[Message]:
    """Return the messages of a line that begins at byte `at`, as they can be stored. Each has an id."""
    whole = line.removesuffix(b"\n")
    cleaned = (
        clean_message(message, f"{at:x}-{sha256(whole).hexdigest()[:_KEY_CHARS]}-{place}")
        for place, message in enumerate(messages)
    )
    return [message for message in cleaned if message is not None]


def clean_message(message: Message, own_id: str | None = None) -> Message | None:
    """Return a message as it can be stored, or None if it is empty or KnowHub itself said it.

    `own_id` is its id where it has none.
    """
    if is_recall_answer(message):
        return None
    content = message.content.replace("\0", "").encode("utf-8", "replace").decode()
    if FENCE_NOTE in content:
        content = without_recalled(content)
    most = _MAX_TOOL_CHARS if message.is_tool else _MAX_CHARS
    if len(content) > most:
        content = f"{content[:most]} […{len(content) - most} more characters]"
    if not content.strip():
        return None
    said_at = message.timestamp if _is_moment(message.timestamp or "") else None
    return replace(message, content=content, message_id=message.message_id or own_id, timestamp=said_at)


def _is_moment(text: str) -> bool:
    try:
        clock.normalize_iso(text)
    except (ValueError, OverflowError):
        return False
    return True
