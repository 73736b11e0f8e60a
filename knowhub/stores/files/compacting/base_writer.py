"""Write a base: the newest version of every row before a segment. The log is read twice, with every check."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import orjson

from knowhub.core.table_schema import TableSchemas
from knowhub.engine.account import BaseNumbers, LoadedChange, change_number
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, FileWriter, create_file
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BaseHeader, end_line, header_line, seal
from knowhub.stores.files.log.log_reader import DamagedLog, read_log
from knowhub.stores.files.log.partial_line import PartialWrite, row_text

# A line of a base is parsed in one step while requests wait.
_LINE_BYTES: Final = 64 * 1024


def name_searched_values(schemas: TableSchemas) -> dict[str, str]:
    """Return the names of the `searched_value` functions by collection, for the arguments of `write_base`."""
    functions = {name: schema.searched_value for name, schema in schemas.items()}
    return {name: f"{get.__module__}:{get.__name__}" for name, get in functions.items() if get is not None}


def write_base(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write and sync the base that `header` describes to `path`; it is not published yet.

    `searched` names functions as `name_searched_values` does. Returns the number of `rows` and `bytes`. Raises OSError,
    and DamagedLog if the log is not what the header says.
    """
    header, path = BaseHeader(**arguments["header"]), Path(arguments["path"])
    folder = DataDirectory(root).change_log
    with closing(ChangeLog(files, folder)) as log:
        following, _ = log.header(header.segment)
        if following is None or following.previous_length is None:
            raise DamagedLog(log.path(header.segment), 0, "the segment's header is damaged")
        end = (header.segment - 1, following.previous_length)
        newest = _NewestRows(arguments.get("searched", {}))
        summary = read_log(files, folder, newest.load, end=end)
        if (summary.log_id, summary.last_seq, summary.checksum) != (header.log_id, header.last_seq, header.checksum):
            raise DamagedLog(log.path(header.segment), 0, f"operation {header.last_seq} was to stand before it")
    with create_file(files, path) as writer:
        rows = _RowWriter(writer, newest)
        writer.write(header_line(header))
        read_log(files, folder, rows.load, end=end)
        rows.finish()
    return {"rows": rows.count, "bytes": writer.size}


def check_base(files: FileSystem, path: Path, header: BaseHeader, result: Mapping[str, Any]) -> None:
    """Check the first line, the last line and the size of a base that `write_base` has written.

    To be called before the base replaces older files. Raises DamagedLog and OSError.
    """
    first, last = header_line(header), end_line(result["rows"])
    descriptor = files.open(path, os.O_RDONLY)
    try:
        size = files.size(descriptor)
        is_complete = (
            size == result["bytes"]
            and files.read_at(descriptor, len(first), 0) == first
            and files.read_at(descriptor, len(last), size - len(last)) == last
        )
    finally:
        files.close(descriptor)
    if not is_complete:
        raise DamagedLog(path, size, "it is not the base that was written; the log was not compacted")


class _NewestRows:
    """The first pass: the keys of all rows, and the texts of the rows that were written more than once.

    `texts` is by account, collection and id; None means that the row was written once. `numbers` holds the change
    number of each row of a searched collection.
    """

    def __init__(self, searched: Mapping[str, str]) -> None:
        self.texts: dict[str, dict[str, dict[str, bytes | None]]] = {}
        self.numbers: dict[str, dict[str, dict[str, int]]] = {}
        self._searched = {collection: resolve_name(name) for collection, name in searched.items()}
        self._searched_values: dict[tuple[str, str, str], int] = {}
        self._base_numbers: defaultdict[str, BaseNumbers] = defaultdict(BaseNumbers)

    def load(self, account: str, changes: Sequence[LoadedChange], seq: int) -> None:
        """Load the rows of a line. There are millions of them, so this calls as little as possible."""
        collections = self.texts.setdefault(account, {})
        if changes and isinstance(changes[0], PartialWrite):
            numbers = [change_number(seq, index) for index in range(len(changes))]
        else:
            numbers = self._base_numbers[account].list(changes)
        for change, number in zip(changes, numbers, strict=True):
            collection, row_id = change.collection, change.id
            texts = collections.get(collection)
            if texts is None:
                texts = collections[collection] = {}
            texts[row_id] = row_text(change) if row_id in texts else None
            if collection in self._searched:
                # As in memory: the number stays while the searched value is the same.
                value = hash(self._searched[collection](orjson.loads(row_text(change))))
                if self._searched_values.get((account, collection, row_id)) != value:
                    self._searched_values[account, collection, row_id] = value
                    self.numbers.setdefault(account, {}).setdefault(collection, {})[row_id] = number


class _Line:
    """A line of a base that is being filled with rows of one account."""

    def __init__(self, account: str) -> None:
        self._head = b'{"account":%s,"changes":[' % orjson.dumps(account)
        self.clear()

    def clear(self) -> None:
        self.parts, self.size, self.rows = [self._head], 0, 0

    def to_bytes(self) -> bytes:
        self.parts[-1] = self.parts[-1][:-1] + b"]"
        return seal(b"".join(self.parts))


class _RowWriter:
    """The second pass: writes each row where it was first written, with its newest text."""

    def __init__(self, writer: FileWriter, newest: _NewestRows) -> None:
        self.count = 0
        self._writer = writer
        self._newest = newest
        self._lines: dict[str, _Line] = {}
        self._starts: dict[str, bytes] = {}

    def load(self, account: str, changes: Sequence[LoadedChange], _seq: int) -> None:
        """Write the rows that occur first in this line, and forget them."""
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
            start = self._starts.get(collection)
            if start is None:
                start = self._starts[collection] = b'{"collection":%s,"id":' % orjson.dumps(collection)
            line.parts += (start, orjson.dumps(row_id), b',"after":', text, end)
            line.rows, line.size = line.rows + 1, line.size + len(text)
            if line.size >= _LINE_BYTES:
                self._put(line)

    def finish(self) -> None:
        """Write what is left, and the last line."""
        for line in self._lines.values():
            if line.rows:
                self._put(line)
        self._writer.write(end_line(self.count))

    def _put(self, line: _Line) -> None:
        self._writer.write(line.to_bytes())
        self.count += line.rows
        line.clear()
