"""The statements of a memory: those that hold, which are the lines of its content, and those that held before.

Each statement is a JSON object in the metadata of its node: `text`, `said_at`, `by` (`rules`, `llm` or `person`),
`source_refs` (the messages that say it), `values` (its single-valued facts) and `ended` (those that it says are over).
A statement that is no longer true has `valid_to`, `reason` and `replaced_by`, too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from knowhub.context.commit import tool_calls
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.edits import BY_PERSON
from knowhub.context.model import COUNTED, HISTORY, STATEMENTS, MemoryCategory
from knowhub.context.texts import MAX_ABSTRACT, MAX_OVERVIEW, cut_at_word, join_texts, one_line
from knowhub.conversations.recalled import normalize_words
from knowhub.conversations.statements.reader import read_values
from knowhub.core import clock
from knowhub.core.operation import Row, is_live

MAX_CONTENT: Final = 200_000
_MAX_HISTORY: Final = 200
_MAX_SOURCES: Final = 200
# What is longer is a document and no statement: it is kept as it is, and read for no value.
_MAX_STATEMENT_CHARS: Final = 1_000
# As earlier versions wrote a statement: «- I live in Rome. (2026-05-08, session s1)».
_BULLET: Final = re.compile(r"^- (?P<text>.*?)(?: \((?P<day>\d{4}-\d\d-\d\d)?(?:, )?(?:session [^\s()]+)?\))?$")

StoredStatement: TypeAlias = Mapping[str, Any]
_normalize = lru_cache(maxsize=8_192)(normalize_words)


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """The statements of one node: the `current` ones in their order, and the ended ones, newest last."""

    current: tuple[StoredStatement, ...] = ()
    history: tuple[StoredStatement, ...] = ()

    def find(self, text: str) -> int | None:
        """Return the index of the current statement that says this, ignoring punctuation and filler words."""
        wanted = _normalize(text)
        return next((at for at, item in enumerate(self.current) if _normalize(item["text"]) == wanted), None)

    def find_replaced(self, candidate: CandidateMemory) -> list[int]:
        """Return the indexes of the statements that a candidate replaces."""
        facts, changes = candidate.facts, candidate.changes
        if changes is not None and changes.text is not None:
            index = self.find(changes.text)
            return [] if index is None else [index]
        if facts.is_single or changes is not None:
            return list(range(len(self.current)))
        return [
            at
            for at, item in enumerate(self.current)
            if any(_is_replaced(item, slot, value) for slot, value in facts.values.items())
            or any(item.get("values", {}).get(slot) == value for slot, value in facts.ended.items())
        ]

    def add(self, statement: StoredStatement, replaced: Sequence[int], reason: str) -> "MemoryPage":
        """Return the page with a statement, at the index of the first that it replaces, else at the end."""
        gone = [self._end(at, statement["said_at"], reason, statement["text"]) for at in replaced]
        same = self.find(statement["text"])
        left = [None if at in replaced or at == same else item for at, item in enumerate(self.current)]
        index = replaced[0] if replaced else len(left)
        kept = [*left[:index], statement, *left[index:]]
        return MemoryPage(tuple(item for item in kept if item is not None), self._extend_history(gone))

    def support(self, index: int, sources: Sequence[str]) -> "MemoryPage":
        """Return the page with more messages that say a statement."""
        item = self.current[index]
        known = list(dict.fromkeys((*item["source_refs"], *sources)))[-_MAX_SOURCES:]
        current = (*self.current[:index], {**item, "source_refs": known}, *self.current[index + 1 :])
        return MemoryPage(current, self.history)

    def end(self, indexes: Sequence[int], valid_to: str, reason: str) -> "MemoryPage":
        """Return the page without statements that ended."""
        gone = [self._end(at, valid_to, reason, None) for at in indexes]
        ended = frozenset(indexes)
        left = tuple(item for at, item in enumerate(self.current) if at not in ended)
        return MemoryPage(left, self._extend_history(gone))

    def make_layers(self) -> dict[str, str]:
        """Return abstract, overview and content."""
        return make_layers([(item["text"], item["said_at"] or "") for item in self.current])

    def make_metadata(self) -> dict[str, Any]:
        """Return what the metadata of the node say of its statements."""
        sources = [source for item in (*self.history, *self.current) for source in item["source_refs"]]
        said = [item["said_at"] for item in self.current if item["said_at"]]
        return {
            STATEMENTS: list(self.current),
            HISTORY: list(self.history),
            "source_refs": list(dict.fromkeys(sources))[-_MAX_SOURCES:],
            "said_at": max(said) if said else None,
        }

    def _end(self, index: int, valid_to: str, reason: str, replaced_by: str | None) -> StoredStatement:
        return {**self.current[index], "valid_to": valid_to, "reason": reason, "replaced_by": replaced_by}

    def _extend_history(self, gone: Iterable[StoredStatement]) -> tuple[StoredStatement, ...]:
        return (*self.history, *gone)[-_MAX_HISTORY:]


def read_page(row: Row | None) -> MemoryPage:
    """Return the statements of a node's row. A row that an earlier version wrote has them in its content."""
    if row is None or not is_live(row):
        return MemoryPage()
    metadata = row["metadata"]
    if STATEMENTS in metadata:
        return MemoryPage(tuple(metadata[STATEMENTS]), tuple(metadata.get(HISTORY, ())))
    sources, by = list(metadata.get("source_refs", ())), str(metadata.get("by") or "rules")
    statements: list[StoredStatement] = []
    for line in map(str.strip, str(row["content"]).split("\n")):
        if not line or line.startswith(("#", "---")):
            continue
        match = _BULLET.match(line)
        text, day = (match["text"], match["day"]) if match else (line, None)
        said_at = f"{day}T00:00:00Z" if day else metadata.get("said_at") or ""
        statements.append(make_statement(text, said_at, by, sources))
    return MemoryPage(tuple(statements))


def make_statement(
    text: str,
    said_at: str,
    by: str,
    sources: Sequence[str],
    values: Mapping[str, str] | None = None,
    ended: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a statement that holds; `said_at` is ISO 8601 or empty."""
    return {
        "text": one_line(text),
        "said_at": said_at,
        "by": by,
        "source_refs": list(sources),
        "values": dict(values or {}),
        "ended": dict(ended or {}),
    }


def make_layers(lines: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the layers of statements, each with when it was said: the newest come first in the abstract."""
    order = sorted(range(len(lines)), key=lambda at: (lines[at][1], at), reverse=True)
    room, shown = MAX_OVERVIEW, set[int]()
    for at in order:
        room -= len(lines[at][0]) + 1
        if room < 0 and shown:
            break
        shown.add(at)
    return {
        "abstract": join_texts((lines[at][0] for at in order), MAX_ABSTRACT) if lines else "",
        "overview": cut_at_word("\n".join(lines[at][0] for at in sorted(shown)), MAX_OVERVIEW),
        "content": "\n".join(text for text, _ in lines),
    }


def complete_layers(category: MemoryCategory, row: Row, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a patch of the content with new layers above it, unless it has its own.

    Otherwise the old abstract and overview would still be found and shown.
    """
    content = patch.get("content", row["content"])
    if content == row["content"] or category is MemoryCategory.SESSIONS:
        return patch
    if category in COUNTED:
        made = tool_calls.split_layers(content)
    else:
        made = make_layers([(one_line(line), "") for line in reversed(content.split("\n")) if line.strip()])
        made["overview"] = cut_at_word(content.strip(), MAX_OVERVIEW)
    return {**{name: text for name, text in made.items() if name != "content"}, **patch}


def edit_page(before: Row, after: Row, now: float) -> Row:
    """Return a memory with another content: a line that stays keeps its evidence, a new one is the person's own."""
    if before["content"] == after["content"]:
        return after
    page, moment = read_page(before), clock.iso(now)
    lines = [line.strip() for line in str(after["content"]).split("\n") if line.strip()]
    indexes = {_normalize(item["text"]): at for at, item in enumerate(page.current)}
    kept = [indexes.get(_normalize(line)) for line in lines]
    gone = sorted(set(range(len(page.current))) - set(kept))
    current = [
        page.current[at] if at is not None else _make_edited(line, moment) for line, at in zip(lines, kept, strict=True)
    ]
    ended = page.end(gone, moment, "a person edited the memory")
    edited = MemoryPage(tuple(current), ended.history)
    return {**after, "metadata": {**after["metadata"], **edited.make_metadata()}}


def is_edited(page: MemoryPage, indexes: Iterable[int]) -> bool:
    """Return whether a person wrote any of these statements: no extraction ends one."""
    return any(page.current[at]["by"] == BY_PERSON for at in indexes)


def _make_edited(line: str, moment: str) -> dict[str, Any]:
    values = dict(read_values(line)[0]) if len(line) <= _MAX_STATEMENT_CHARS else {}
    return {**make_statement(line, moment, BY_PERSON, (), values), "text": line}


def _is_replaced(item: StoredStatement, slot: str, value: str) -> bool:
    """Return whether a statement gives another value of a slot, or says that it has none."""
    known = item.get("values", {}).get(slot)
    return slot in item.get("ended", {}) if known is None else not (known in value or value in known)
