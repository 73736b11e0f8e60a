"""A session as it is committed: its summary, for who looks for it, and counts (CE-063, CE-134)."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from knowhub.context import prompts
from knowhub.context.commit_model import SessionArchive, UsedTool
from knowhub.context.extraction import answers, shown, summaries, tool_uses
from knowhub.context.extraction.summaries import Line
from knowhub.context.extraction.wording import is_chinese, joined, one_line, shortened
from knowhub.context.model import MemoryContext
from knowhub.context.ports import SecretFinder, SpokenReader
from knowhub.context.spaces import session_uri
from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed
from knowhub.core.messages import Message

MAX_ABSTRACT: Final = 300
MAX_OVERVIEW: Final = 1_500
RECENT_MESSAGES: Final = 10
SUMMARISED_MESSAGES: Final = 2_000
"""Of a longer session the newest so many messages say what it is about."""
OVERVIEW: Final = "overview"
"""The key among an archive's stats under which its overview stands, beside the summary, which is the abstract."""
_EXCERPT_CHARS: Final = 160
_LEAST_LINE_CHARS: Final = 4
_MOST_SPEAKERS: Final = 8
# What stands in brackets tells of a message, and is not said in it.
_ASIDE: Final = re.compile(r"\[[^\]\n]{3,200}\]|^\s*\[[^\n]*$")
_NAMES: Final = ("messages", "who", "when", "topics", "first", "last")
_LABELS: Final = {
    True: dict(zip(_NAMES, ("{} 条消息", "参与者", "时间", "话题", "开头", "结尾"), strict=True)),
    False: dict(zip(_NAMES, ("{} messages", "Who", "When", "Topics", "First", "Last"), strict=True)),
}


class ArchiveBuilder:
    """Summarises sessions: a model says what one was about, or the session's own sentences do."""

    def __init__(self, reader: SpokenReader, find_secrets: SecretFinder) -> None:
        self._reader = reader
        self._find_secrets = find_secrets

    async def build_archive(
        self,
        ctx: MemoryContext,
        messages: Sequence[Message],
        used_contexts: Sequence[str] = (),
        used_tools: Sequence[UsedTool] = (),
        asking: Asking | None = None,
    ) -> SessionArchive:
        """Return the archive of a session with these messages; without an answer of a model it is made by rules."""
        summarised = [one for one in messages if one.content.strip()][-SUMMARISED_MESSAGES:]
        by_model = await self._asked(asking, summarised) if asking is not None and summarised else None
        told = by_model if by_model is not None else await asyncio.to_thread(self.extracted, summarised)
        stats = {
            OVERVIEW: told[1],
            "by": "llm" if by_model is not None else "rules",
            "messages": len(messages),
            "used_contexts": len(used_contexts),
            "used_tools": len(used_tools),
            tool_uses.USES: tool_uses.named_uses(used_tools),
        }
        return SessionArchive(
            session_id=ctx.session_id,
            archive_uri=session_uri(ctx),
            summary=told[0],
            recent_messages=list(messages[-RECENT_MESSAGES:]),
            stats=stats,
        )

    async def _asked(self, asking: Asking, messages: Sequence[Message]) -> tuple[str, str] | None:
        safe = await asyncio.to_thread(shown.without_secrets, messages, self._find_secrets)
        parts = shown.parts(safe, most=1)
        if not parts:
            return None
        try:
            abstract, overview = await asking.ask(
                prompts.summarise(parts[0]), {}, lambda said: answers.read_summary(said, MAX_ABSTRACT, MAX_OVERVIEW)
            )
        except ChatFailed:
            # The call stands in `asking.calls`, by which the answer names what was not there.
            return None
        is_safe = not shown.holds_secret(f"{abstract}\n{overview}", self._find_secrets)
        return (abstract, overview) if is_safe else None

    def extracted(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Return an abstract and an overview of messages in which something stands, made of their own sentences."""
        lines = [line for number, one in enumerate(messages) for line in self._lines(number, one)]
        lines = lines or [line for number, one in enumerate(messages) for line in self._first_words(number, one)]
        abstract = summaries.summary(lines, MAX_ABSTRACT)
        return abstract, self._overview(messages, lines)

    def _overview(self, messages: Sequence[Message], lines: Sequence[Line]) -> str:
        labels = _LABELS[is_chinese(" ".join(line.text for line in lines[:50]))]
        spoken = Counter(_speaker(one) for one in messages)
        who = ", ".join(f"{name} ({count})" for name, count in spoken.most_common(_MOST_SPEAKERS))
        times = [one.timestamp for one in messages if one.timestamp]
        head = [f"{labels['messages'].format(len(messages))} · {labels['who']}: {who}"]
        if times:
            head.append(f"{labels['when']}: {times[0]}" + (f" – {times[-1]}" if times[-1] != times[0] else ""))
        topics = summaries.topics(lines)
        if topics:
            head.append(f"{labels['topics']}: {', '.join(topics)}")
        ends = [
            f"{labels[label]}: {shortened(summaries.told(line), _EXCERPT_CHARS)}"
            for label, line in (("first", lines[0]), ("last", lines[-1]))
        ] if lines else []  # fmt: skip
        used = "\n".join([*head, *ends])
        chosen = summaries.key_lines(lines, MAX_OVERVIEW - len(used) - 2)
        body = joined([f"- {summaries.told(line)}" for line in chosen], max(MAX_OVERVIEW - len(used) - 2, 1), "\n")
        return "\n".join([*head, *([body] if chosen else []), *ends])[:MAX_OVERVIEW]

    def _lines(self, number: int, message: Message) -> list[Line]:
        if message.is_tool or message.is_system:
            return []
        content = shown.covered(message.content, self._find_secrets)
        said = (_unlabelled(one, message.name) for one in self._reader.sentences(content))
        is_safe = content == message.content
        kept = (one for one in said if len(one) >= _LEAST_LINE_CHARS and (is_safe or self._holds_none(one)))
        return [Line(_speaker(message), one, number) for one in kept]

    def _first_words(self, number: int, message: Message) -> list[Line]:
        """Return the beginning of a message in which nobody speaks: code, data, the answer of a tool."""
        first = message.content.strip().splitlines()[0][:_EXCERPT_CHARS]
        return [Line(_speaker(message), first, number)] if self._is_safe(message.content) else []

    def _holds_none(self, sentence: str) -> bool:
        return shown.COVER not in sentence and self._is_safe(sentence)

    def _is_safe(self, text: str) -> bool:
        return not shown.holds_secret(text, self._find_secrets)


def _speaker(message: Message) -> str:
    # A name of several lines would read as lines of the overview.
    return one_line(message.name or message.role)


def _unlabelled(text: str, name: str) -> str:
    label = f"{name}:"
    said = text[len(label) :] if name and text.startswith(label) else text
    return _ASIDE.sub("", said).strip()
