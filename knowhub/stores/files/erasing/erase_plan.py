"""Find what the log and the quarantine say of a row, and which files must be rewritten to erase it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import orjson

from knowhub.core.erasing import EraseRules, RowTraces
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.line_eraser import Fingerprints, Target, erase_from_line, find_versions, parse_record
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.change_log import ChangeLog

_PROMPTS, _REPLY = b'"agent_io":[', b'"reply":{'
# A shorter text occurs within other texts by chance.
_MIN_TEXT_BYTES: Final = 24
_MAX_TEXTS: Final = 50


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What was found of a row. `numbers` are the files of the log that have to be rewritten.

    `search_terms` are byte strings. A line without any of them says nothing of the row, apart from what a model was
    asked or what an operation answered.
    """

    target: Target
    rules: EraseRules
    fingerprints: Fingerprints
    search_terms: Sequence[bytes]
    found: RowTraces
    numbers: Sequence[int] = ()

    def transform(self, line: bytes) -> bytes:
        """Return a line of the log without what the row said; most lines as they are."""
        return self.erase_from(line) or line

    def affects(self, line: bytes) -> bool:
        """Return whether a line that was written after the search says something of the row or of similar rows."""
        return _has_any(line, self.search_terms) or self.erase_from(line) is not None

    def erase_from(self, line: bytes) -> bytes | None:
        """Return a line of the log without what the row said; None if it says nothing of the row."""
        if not _has_any(line, [*self.search_terms, _PROMPTS, _REPLY]):
            return None
        if parse_record(line) is not None:
            return erase_from_line(line, self.target, self.rules, self.fingerprints)
        # The bytes of a write that was never acknowledged.
        text = line.rstrip(b"\n")
        return b" " * len(text) + line[len(text) :] if self.fingerprints.matches_bytes(line) else None


def plan_erase(
    files: FileSystem, directory: DataDirectory, target: Target, rules: EraseRules, end: Position
) -> ErasePlan:
    """Search the log for a row, up to a position in the current segment. Raises OSError.

    In closed segments it also searches the bytes after the durable end: nobody reads them, but they are on the disk.
    """
    with closing(ChangeLog(files, directory.change_log)) as log:
        numbers = [number for number in log.numbers() if number <= end.segment or number == log.base]

        def find_lines(number: int, terms: Sequence[bytes]) -> Iterator[bytes]:
            lines = log.lines(number, 0, end.offset if number == end.segment else log.size(number))
            return (line.data for line in lines if _has_any(line.data, terms))

        id_term = _id_prefix(target) if target.below else orjson.dumps(target.id)
        lines = (line for number in numbers for line in find_lines(number, [id_term]))
        versions = [row for line in lines for row in find_versions(parse_record(line) or {}, target)]
        texts = list(dict.fromkeys(rules.main_text(row) for row in reversed(versions)))[:_MAX_TEXTS]
        text_terms = [_search_term(text) for text in texts if text.strip()]
        terms = [id_term, *text_terms]
        if rules.merge_field is not None:
            terms.append(b'"%b":"' % rules.merge_field.encode())
        if target.quoted_by is not None:
            terms.append(orjson.dumps(target.quoted_by[1]))
        fingerprints = Fingerprints.of(target.id, versions, rules)
        plan = ErasePlan(target, rules, fingerprints, terms, RowTraces(texts, []))
        related = _RelatedRows(target, rules, text_terms)
        affected: dict[int, None] = {}
        for number in numbers:
            for line in find_lines(number, [*terms, _PROMPTS, _REPLY]):
                if plan.erase_from(line) is not None:
                    affected[number] = None
                related.add(line)
        found = RowTraces(
            texts,
            list(related.with_same_text),
            related.list_merged(),
            list(related.children),
            fingerprints.matches_quote,
        )
        return replace(plan, found=found, numbers=list(affected))


def erase_from_quarantine(files: FileSystem, directory: DataDirectory, plan: ErasePlan) -> None:
    """Overwrite with spaces the lines in the quarantine that say something of the row. Raises OSError."""
    for name in files.names(directory.quarantine):
        path = directory.quarantine / name
        lines = files.read(path).split(b"\n")
        new = [b" " * len(line) if plan.fingerprints.matches_bytes(line) else line for line in lines]
        if new != lines:
            replace_file(files, path, b"\n".join(new))


def contains_row(line: bytes, target: Target) -> bool:
    """Return whether a line of a log, such as one in a snapshot, holds a version of a row that is not erased."""
    return orjson.dumps(target.id) in line and any(find_versions(parse_record(line) or {}, target))


class _RelatedRows:
    """Rows that have something to do with the target, collected line by line."""

    def __init__(self, target: Target, rules: EraseRules, text_terms: Sequence[bytes]) -> None:
        self._target = target
        self._merge_field = rules.merge_field
        self._text_terms = text_terms
        self._prefix = _id_prefix(target) + b"/"
        self._merges: dict[tuple[str, str], None] = {}
        self.with_same_text: dict[tuple[str, str], None] = {}
        self.children: dict[tuple[str, str], None] = {}

    def add(self, line: bytes) -> None:
        target, field = self._target, self._merge_field
        has_text = _has_any(line, self._text_terms)
        has_merge = field is not None and b'"%b":"' % field.encode() in line
        has_children = target.below is not None and self._prefix in line
        record = (parse_record(line) or {}) if has_text or has_merge or has_children else {}
        if record.get("account") != target.account:
            return
        for change in record.get("changes", ()):
            key, row = (change["collection"], change["id"]), change["after"]
            if target.is_row(change):
                if has_children and key != (target.collection, target.id):
                    self.children[key] = None
            elif has_text and _has_any(orjson.dumps(row), self._text_terms):
                self.with_same_text[key] = None
            if field is not None and has_merge and key[0] == target.collection and row.get(field) is not None:
                self._merges[key[1], row[field]] = None

    def list_merged(self) -> list[str]:
        """Return the ids of all rows that were merged into the target, directly or through others; nearest first."""
        merged_into: dict[str, list[str]] = {}
        for row_id, into in self._merges:
            merged_into.setdefault(into, []).append(row_id)
        reached = {self._target.id: None}
        queue = [self._target.id]
        for into in queue:
            new = [row_id for row_id in merged_into.get(into, ()) if row_id not in reached]
            reached |= dict.fromkeys(new)
            queue += new
        return list(reached)[1:]


def _has_any(data: bytes, terms: Iterable[bytes]) -> bool:
    return any(term in data for term in terms)


def _search_term(text: str) -> bytes:
    """Return how a text is written in a line; a short text only as the whole of a value."""
    written = orjson.dumps(text)
    return written if len(written) < _MIN_TEXT_BYTES else written[1:-1]


def _id_prefix(target: Target) -> bytes:
    """Return how the ids of a row and of all rows below it begin in a line."""
    return orjson.dumps(target.id)[:-1]
