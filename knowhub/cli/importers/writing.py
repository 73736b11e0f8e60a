"""Writes conversations as sessions and notes as records, under one import that is undone as a whole."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from pydantic import ValidationError

from agent_tools.fences import remove_fenced
from knowhub.bootstrap import Hub
from knowhub.cli.importers.model import Conversation, Item, Note
from knowhub.context import uri
from knowhub.context.commit.commit_checks import MAX_MESSAGES, MAX_NAME_CHARS
from knowhub.context.commit_model import SessionCommit
from knowhub.conversations.messages import Message
from knowhub.core.errors import Conflict
from knowhub.core.operation import Group
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.exchange import ImportRun
from knowhub.knowledge.model import ImportedKnowledge, OnConflict
from knowhub.web.hooks.transcripts import LINES_LEFT_OUT
from knowhub.web.schemas.exchange import ImportLine

_MAX_COMMIT_CHARS: Final = 8 * 1024 * 1024
_MAX_ID_CHARS: Final = 150
_ID_CHARS: Final = 32


class ImportWriter:
    """Writes what importers read, as one import. `report` gets the number of messages and notes that are written.

    `left_out` counts what is not written, `messages` and `records` what is.
    """

    def __init__(self, hub: Hub, ctx: RequestContext, left_out: Counter[str], report: Callable[[int], None]) -> None:
        self._hub = hub
        self._ctx = ctx
        self._report = report
        self.import_id = hub.knowledge.exchange.make_import_id()
        self.left_out = left_out
        self.messages: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self.operations = 0

    async def write_notes(self, name: str, notes: Sequence[Note], on_conflict: OnConflict) -> None:
        """Write all notes as records, or none. Raises as the import of records."""
        lines = list(self._make_lines(name, notes))
        if lines:
            run = ImportRun(self.import_id, self._report)
            done = await self._hub.knowledge.exchange.import_lines(self._ctx, lines, on_conflict, run=run)
            self.records.update(imported=done.imported, replaced=done.replaced, skipped=done.skipped)
            self.operations += len(done.operation_ids)

    async def write_conversations(self, items: Iterable[Item]) -> None:
        """Write each conversation as a session. What a session has already is not written again."""
        written = sum(self.records.values())
        for item in items:
            if isinstance(item, Conversation):
                for messages in self._split(item.messages):
                    await self._commit(SessionCommit(_make_id(item.session_id), messages))
                    written += len(messages)
                    self._report(written)

    async def _commit(self, commit: SessionCommit) -> None:
        """Commit what can be committed. A message that is stored with another text stays as it is."""
        commit = replace(commit, group=Group(self.import_id, self.operations, self.operations + 1))
        while commit.messages:
            try:
                done = await self._hub.memories.commits.commit(self._ctx, commit)
            except Conflict as conflict:
                changed = conflict.extra.get("message_id")
                if changed is None:
                    raise
                self.left_out["messages that are stored with another text"] += 1
                commit = replace(commit, messages=[item for item in commit.messages if item.message_id != changed])
            else:
                self.operations += done.operation_id is not None
                counts: Mapping[str, Any] = done.stats["messages"]
                self.messages.update({name: counts.get(name, 0) for name in ("added", "known", "forgotten")})
                return

    def _split(self, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """Yield what goes into one operation. A message that comes a second time is left out."""
        seen: set[str] = set()
        part: list[Message] = []
        chars = 0
        for message in messages:
            message_id = message.message_id and _make_id(message.message_id)
            if message_id in seen:
                self.left_out["messages that come twice"] += 1
                continue
            seen.update([message_id] if message_id else [])
            if part and (len(part) == MAX_MESSAGES or chars + len(message.content) > _MAX_COMMIT_CHARS):
                yield part
                part, chars = [], 0
            part.append(replace(message, message_id=message_id, name=message.name[:MAX_NAME_CHARS]))
            chars += len(message.content)
        if part:
            yield part

    def _make_lines(self, name: str, notes: Sequence[Note]) -> Iterator[ImportedKnowledge]:
        seen: Counter[str] = Counter()
        for note in notes:
            text, recalled = remove_fenced(_clean(note.text))
            text = text.strip()
            self.left_out.update({LINES_LEFT_OUT: recalled} if recalled else {})
            title = _clean(note.title).strip()
            if not text and (note.text.strip() or not title):
                self.left_out["notes without text, or with recalled text only"] += 1
                continue
            seen[note.key] += 1
            # Two users may import the same notes: each gets records of their own.
            key = "\n".join((self._ctx.default_owner, name, note.key, str(seen[note.key])))
            line = {
                "id": f"{name}-{sha256(key.encode('utf-8', 'replace')).hexdigest()[:_ID_CHARS]}",
                "task": title,
                "content": text,
                "type": note.type,
                "tags": {_clean(tag): _clean_tag(value) for tag, value in note.tags.items() if tag},
                "source": {"name": name, "category": "import", "timestamp": note.created_at},
                "created_at": note.created_at,
            }
            try:
                yield ImportLine.model_validate(line).to_imported()
            except ValidationError as error:
                self.left_out[f"notes with a wrong {error.errors()[0]['loc'][0]}"] += 1


def _make_id(text: str) -> str:
    """Return an id as a URI takes it: the same where it can be, else its hash."""
    try:
        is_possible = len(uri.encode_segment(text)) <= _MAX_ID_CHARS
    except ValueError:
        is_possible = False
    return text if is_possible else sha256(text.encode("utf-8", "replace")).hexdigest()[:_ID_CHARS]


def _clean(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _clean_tag(value: str | list[str]) -> str | list[str]:
    return [_clean(word) for word in value] if isinstance(value, list) else _clean(value)
