"""The node of a session, and the archive of its messages."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from knowhub.context.commit.parts import TranscriptPart
from knowhub.context.commit_model import SessionArchive, UsedTool, WriteAction, WritePlan
from knowhub.context.edits import BY, BY_PERSON
from knowhub.context.extraction import summaries, tool_uses
from knowhub.context.extraction.summaries import SessionLine
from knowhub.context.extraction.wording import join_texts, one_line, shorten
from knowhub.context.index_model import EventType
from knowhub.context.model import ContextSummary, ContextType, MemoryCategory, MemoryContext
from knowhub.context.uri import session_uri
from knowhub.conversations.dates import moment_of
from knowhub.conversations.messages import Message, list_readable
from knowhub.conversations.secrets import COVER, contains_secret, cover_secrets
from knowhub.conversations.sentences import Fold, is_chinese, split_sentences
from knowhub.core.operation import Row, is_live

MAX_ABSTRACT: Final = 300
MAX_OVERVIEW: Final = 1_500
MAX_OVERVIEW_ZH: Final = 600
"""A Chinese character says more than a letter, and takes three bytes of every line of the log that holds it."""
RECENT_MESSAGES: Final = 10
OVERVIEW: Final = "overview"
"""The key of the overview in the stats of an archive; the abstract is the summary."""
SUMMARISED_MESSAGES: Final = 2_000
"""Of a longer session the newest so many messages say what it is about, as far as they are read."""
SUMMARISED: Final = "summarised"
"""The key of a session's metadata for the number of messages that it had when its summary was made."""
_LEAST_GROWTH: Final = 10
_EXCERPT_CHARS: Final = 160
_LEAST_LINE_CHARS: Final = 4
_MOST_SPEAKERS: Final = 8
# Text in brackets describes a message; nobody said it.
_ASIDE: Final = re.compile(r"\[[^\]\n]{3,200}\]|^\s*\[[^\n]*$")
_NAMES: Final = ("messages", "who", "when", "topics", "first", "last")
_LABELS: Final = {
    True: dict(zip(_NAMES, ("{} 条消息", "参与者", "时间", "话题", "开头", "结尾"), strict=True)),
    False: dict(zip(_NAMES, ("{} messages", "Who", "When", "Topics", "First", "Last"), strict=True)),
}


class ArchiveBuilder:
    """Summarises sessions by their own sentences."""

    def __init__(self, fold: Fold = str) -> None:
        self.fold = fold

    async def build_archive(
        self,
        ctx: MemoryContext,
        messages: Sequence[Message],
        used_tools: Sequence[UsedTool] = (),
    ) -> SessionArchive:
        """Return the archive of a session with these messages, and a summary of them."""
        summarised = [message for message in messages if message.content.strip()][-SUMMARISED_MESSAGES:]
        abstract, overview = await asyncio.to_thread(self.extract_summary, summarised)
        archive = make_archive(ctx, used_tools)
        stats = {**archive.stats, OVERVIEW: overview, "by": "rules", "messages": len(messages)}
        return replace(archive, summary=abstract, recent_messages=list(messages[-RECENT_MESSAGES:]), stats=stats)

    def extract_summary(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Return an abstract and an overview of non-empty messages, made of their own sentences."""
        read = list_readable(messages)
        lines = [line for number, message in enumerate(read) for line in self._lines(number, message)]
        lines = lines or [line for number, message in enumerate(read) for line in self._first_words(number, message)]
        abstract = summaries.summary(lines, MAX_ABSTRACT)
        return abstract, self._overview(messages, lines)

    def _overview(self, messages: Sequence[Message], lines: Sequence[SessionLine]) -> str:
        chinese = is_chinese(" ".join(line.text for line in lines[:50]))
        labels, limit = _LABELS[chinese], MAX_OVERVIEW_ZH if chinese else MAX_OVERVIEW
        spoken = Counter(_speaker(message) for message in messages)
        who = ", ".join(f"{name} ({count})" for name, count in spoken.most_common(_MOST_SPEAKERS))
        times = [message.timestamp for message in messages if message.timestamp]
        head = [f"{labels['messages'].format(len(messages))} · {labels['who']}: {who}"]
        if times:
            head.append(f"{labels['when']}: {times[0]}" + (f" – {times[-1]}" if times[-1] != times[0] else ""))
        topics = summaries.topics(lines)
        if topics:
            head.append(f"{labels['topics']}: {', '.join(topics)}")
        ends = [
            f"{labels[label]}: {shorten(summaries.format_line(line), _EXCERPT_CHARS)}"
            for label, line in (("first", lines[0]), ("last", lines[-1]))
        ] if lines else []  # fmt: skip
        used = "\n".join([*head, *ends])
        room = limit - len(used) - 2
        chosen = summaries.key_lines(lines, room)
        body = join_texts([f"- {summaries.format_line(line)}" for line in chosen], max(room, 1), "\n")
        return "\n".join([*head, *([body] if chosen else []), *ends])[:limit]

    def _lines(self, number: int, message: Message) -> list[SessionLine]:
        if message.is_tool or message.is_system:
            return []
        content = cover_secrets(message.content)
        said = (_strip_label(item.text, message.name) for item in split_sentences(content, self.fold))
        is_safe = content == message.content
        kept = (item for item in said if len(item) >= _LEAST_LINE_CHARS and (is_safe or self._is_safe(item)))
        return [SessionLine(_speaker(message), item, number) for item in kept]

    def _first_words(self, number: int, message: Message) -> list[SessionLine]:
        """Return the beginning of a message in which nobody speaks: code, data, the answer of a tool."""
        first = message.content.strip().splitlines()[0][:_EXCERPT_CHARS]
        return [SessionLine(_speaker(message), first, number)] if not contains_secret(message.content) else []

    def _is_safe(self, sentence: str) -> bool:
        return COVER not in sentence and not contains_secret(sentence)


def make_archive(whose: MemoryContext, used_tools: Sequence[UsedTool] = ()) -> SessionArchive:
    """Return the archive of a session that keeps its summary."""
    uses = {tool_uses.USES: tool_uses.list_named_uses(used_tools)}
    return SessionArchive(whose.session_id, session_uri(whose), "", stats=uses)


def _speaker(message: Message) -> str:
    # A name of several lines would read as lines of the overview.
    return one_line(message.name or message.role)


def _strip_label(text: str, name: str) -> str:
    label = f"{name}:"
    said = text[len(label) :] if name and text.startswith(label) else text
    return _ASIDE.sub("", said).strip()


COUNTED_CALLS: Final = "counted_calls"
"""The key of a session's metadata for the calls that were counted without a message, the newest 2,000."""
_MAX_COUNTED: Final = 2_000
_MAX_ROLES: Final = 20
_COMMITTED: Final = "committed"


def has_summary(row: Row | None) -> bool:
    """Return whether a session says what it is about."""
    return row is not None and is_live(row) and bool(row["abstract"])


def is_summary_recent(row: Row | None, count: int) -> bool:
    """Return whether the summary of a session serves for `count` messages: a person's, or it grew by under a tenth."""
    if row is None or not has_summary(row):
        return False
    summarised = int(row["metadata"].get(SUMMARISED, 0))
    return row["metadata"].get(BY) == BY_PERSON or (count - summarised) * _LEAST_GROWTH < summarised


def session_plan(
    whose: MemoryContext,
    archive: SessionArchive,
    stored: Row | None,
    heads: Sequence[ContextSummary],
    fresh: Sequence[TranscriptPart],
    calls: Sequence[str],
) -> WritePlan:
    """Return the plan for the session's own node, given its live parts, those that are new, and calls without a part.

    An archive without an overview leaves the summary as it is.
    """
    before: Mapping[str, Any] = {} if stored is None else stored["metadata"]
    times = [before.get("first_at"), before.get("last_at"), *(part.message.timestamp for part in fresh)]
    roles = dict.fromkeys((*before.get("roles", ()), *(part.message.role for part in fresh)))
    count = len(heads) + len(fresh)
    is_new = OVERVIEW in archive.stats
    metadata = {
        **before,
        "confidence": 1.0,
        **({BY: archive.stats["by"], SUMMARISED: count} if is_new else {}),
        "session_id": whose.session_id,
        "message_count": count,
        **_get_speaking_metadata(times, roles),
        _COMMITTED: before.get(_COMMITTED, 0) + 1,
        COUNTED_CALLS: [*before.get(COUNTED_CALLS, ()), *calls][-_MAX_COUNTED:],
    }
    patch = {
        "context_type": ContextType.SESSION.value,
        "category": MemoryCategory.SESSIONS.value,
        **({"abstract": archive.summary, "overview": str(archive.stats[OVERVIEW])} if is_new else {}),
        "content": "",
        "metadata": metadata,
    }
    action = WriteAction.CREATE if stored is None else WriteAction.MERGE
    return WritePlan(
        action, archive.archive_uri, patch, (), (EventType.UPSERT_CONTEXT,), f"messages added: {len(fresh)}"
    )


def _get_speaking_metadata(times: Iterable[str | None], roles: Iterable[str]) -> dict[str, Any]:
    """Return who speaks in a session, and from when to when."""
    said = [time for time in times if time]
    known = sorted((moment, time) for time in said if (moment := moment_of(time)))
    # If the times cannot be ordered, the first and the last are returned as they were sent.
    ordered: Sequence[str | None] = [time for _, time in known] or said or [None]
    return {
        "first_at": ordered[0],
        "last_at": ordered[-1],
        "said_at": known[-1][0] if known else None,
        "roles": list(roles)[:_MAX_ROLES],
    }
