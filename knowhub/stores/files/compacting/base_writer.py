"""Writing a base: every row as it was before a segment, out of a log that is read twice, with every check."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.context.l0 import searched_text
from knowhub.context.model import NODES, PARTS
from knowhub.core.operation import Row, is_live
from knowhub.knowledge.heads import signature, tag_facets
from knowhub.knowledge.model import COLLECTION
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_base import BaseHeader, end_line, header_line
from knowhub.stores.files.log.log_line import seal
from knowhub.stores.files.log.log_reading import DamagedLog, LogEnd, read_log
from knowhub.stores.files.log.sliced_line import SlicedChange, row_text
from knowhub.stores.files.rows.state import text_number

# A line is parsed in one step while others wait.
_LINE_BYTES: Final = 64 * 1024
_WRITE_BYTES: Final = 1024 * 1024
# Whoever saves meanwhile waits until the disk has taken what is synced here: a little at a time.
_SYNC_BYTES: Final = 8 * 1024 * 1024
_SEARCHED: Final = frozenset({COLLECTION, NODES, PARTS})


def write_base(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write the base that the `header` of the arguments describes to their `path`, durable but not yet in place.

    Returns how many `rows` and `bytes` it has. Raises OSError, and DamagedLog when the log is not what the header says.
    """
    header, path = BaseHeader(**arguments["header"]), Path(arguments["path"])
    folder = DataDirectory(root).change_log
    end = _end(files, folder, header.segment)
    newest = _Newest()
    told = read_log(files, folder, newest.take, end=end)
    if (told.log_id, told.last_seq, told.checksum) != (header.log_id, header.last_seq, header.checksum):
        log = ChangeLog(files, folder)
        raise DamagedLog(log.path(header.segment), 0, f"operation {header.last_seq} was to stand before it")
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        base = _Base(files, descriptor, newest)
        base.write(header_line(header))
        read_log(files, folder, base.take, end=end)
        base.end()
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    return {"rows": base.rows, "bytes": base.size}


def check_base(files: FileSystem, path: Path, header: BaseHeader, made: Mapping[str, Any]) -> None:
    """Make sure that a file is the base that `write_base` has made, from its first line to its last.

    Raises DamagedLog and OSError. Whoever puts it in place drops what it stands for.
    """
    first, last = header_line(header), end_line(made["rows"])
    descriptor = files.open(path, os.O_RDONLY)
    try:
        size = files.size(descriptor)
        begins = files.read_at(descriptor, len(first), 0) == first
        ends = size == made["bytes"] and files.read_at(descriptor, len(last), size - len(last)) == last
    finally:
        files.close(descriptor)
    if not (begins and ends):
        raise DamagedLog(path, size, "it is not the base that was written; the log was not compacted")


def _end(files: FileSystem, folder: Path, segment: int) -> LogEnd:
    """Return where the segment before this one ends."""
    log = ChangeLog(files, folder)
    try:
        header, _ = log.header(segment)
        if header is None or header.previous_length is None:
            raise DamagedLog(log.path(segment), 0, "the segment's header is damaged")
        return LogEnd(segment - 1, header.previous_length)
    finally:
        log.close()


class _Newest:
    """What the log is read for first: the keys of all rows, and the texts of those only that were written again.

    By account, collection and id; None stands for a text that is where the row first stood. `numbers` holds the text
    number of each row that is searched.
    """

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, dict[str, bytes | None]]] = {}
        self.numbers: dict[str, dict[str, dict[str, int]]] = {}
        self._signatures: dict[tuple[str, str, str], int] = {}

    def take(self, account: str, changes: Sequence[SlicedChange], seq: int) -> None:
        """Take in the rows of a line. There are millions: nothing is called that need not be."""
        collections = self.texts.setdefault(account, {})
        for index, change in enumerate(changes):
            collection, row_id = change.collection, change.id
            texts = collections.get(collection)
            if texts is None:
                texts = collections[collection] = {}
            texts[row_id] = row_text(change) if row_id in texts else None
            if collection in _SEARCHED:
                self._take_number(account, change, text_number(seq, index) if change.number is None else change.number)

    def _take_number(self, account: str, change: SlicedChange, number: int) -> None:
        # As in memory: the number stays while the text is the same.
        row = orjson.loads(row_text(change))
        text = _signature(change.collection, row)
        if self._signatures.get((account, change.collection, change.id)) != text:
            self._signatures[account, change.collection, change.id] = text
            self.numbers.setdefault(account, {}).setdefault(change.collection, {})[change.id] = number


class _Line:
    """A line of a base in the making, of one account."""

    def __init__(self, account: str) -> None:
        self._head = b'{"account":%s,"changes":[' % orjson.dumps(account)
        self.clear()

    def clear(self) -> None:
        self.parts, self.size, self.rows = [self._head], 0, 0

    def sealed(self) -> bytes:
        self.parts[-1] = self.parts[-1][:-1] + b"]"
        return seal(b"".join(self.parts))


class _Base:
    """What the log is read for again: each row where it first stood, with its newest text, is written to a base."""

    def __init__(self, files: FileSystem, descriptor: int, newest: _Newest) -> None:
        self.rows, self.size, self._synced = 0, 0, 0
        self._files = files
        self._descriptor = descriptor
        self._newest = newest
        self._lines: dict[str, _Line] = {}
        self._begins: dict[str, bytes] = {}
        self._unwritten: list[bytes] = []

    def write(self, line: bytes) -> None:
        """Write a line, about a megabyte of them at a time."""
        self._unwritten.append(line)
        self.size += len(line)
        if sum(map(len, self._unwritten)) >= _WRITE_BYTES:
            self._flush()

    def take(self, account: str, changes: Sequence[SlicedChange], _seq: int) -> None:
        """Write the rows of a line that first stand in it. Those that were written are forgotten."""
        collections, numbers = self._newest.texts[account], self._newest.numbers.get(account, {})
        line = self._lines.get(account) or self._lines.setdefault(account, _Line(account))
        for change in changes:
            collection, row_id = change.collection, change.id
            texts = collections[collection]
            if row_id not in texts:
                continue
            text = texts.pop(row_id) or row_text(change)
            number = numbers[collection].get(row_id) if collection in numbers else None
            end = b"}," if number is None else b',"number":%d},' % number
            begin = self._begins.get(collection) or self._begin(collection)
            line.parts += (begin, orjson.dumps(row_id), b',"after":', text, end)
            line.rows, line.size = line.rows + 1, line.size + len(text)
            if line.size >= _LINE_BYTES:
                self._put(line)

    def end(self) -> None:
        """Write what is left, and the last line."""
        for line in self._lines.values():
            if line.rows:
                self._put(line)
        self.write(end_line(self.rows))
        self._flush()

    def _put(self, line: _Line) -> None:
        self.write(line.sealed())
        self.rows += line.rows
        line.clear()

    def _begin(self, collection: str) -> bytes:
        begin = self._begins[collection] = b'{"collection":%s,"id":' % orjson.dumps(collection)
        return begin

    def _flush(self) -> None:
        data = b"".join(self._unwritten)
        write_all(self._files, self._descriptor, data, self.size - len(data))
        self._unwritten.clear()
        if self.size - self._synced >= _SYNC_BYTES:
            self._files.sync_data(self._descriptor)
            self._synced = self.size


def _signature(collection: str, row: Row) -> int:
    if collection == COLLECTION:
        return signature(row, tag_facets(row["tags"]))
    return hash((is_live(row), searched_text(collection, row)))
