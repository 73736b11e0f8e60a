"""Writing a base: every row as it was before a segment, read out of the log and checked once more."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.knowledge.model import COLLECTION
from knowhub.stores.files.change_log import ChangeLog
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.log_base import BaseHeader, end_line, header_line
from knowhub.stores.files.log_line import seal
from knowhub.stores.files.log_rows import DamagedLog, LogEnd, LogRows, latest_rows

# A line is parsed in one step while others wait.
_LINE_BYTES: Final = 64 * 1024
_WRITE_BYTES: Final = 1024 * 1024


def write_base(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write the base that the `header` of the arguments describes to their `path`, durable but not yet in place.

    Returns how many `rows` and `bytes` it has. Raises OSError, and DamagedLog when the log is not what the header says.
    """
    header, path = BaseHeader(**arguments["header"]), Path(arguments["path"])
    folder = DataDirectory(root).change_log
    found = latest_rows(files, folder, end=_end(files, folder, header.segment))
    if (found.log_id, found.last_seq, found.checksum) != (header.log_id, header.last_seq, header.checksum):
        log = ChangeLog(files, folder)
        raise DamagedLog(log.path(header.segment), 0, f"operation {header.last_seq} was to stand before it")
    count, size = 0, 0
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for piece, rows in _pieces(header, found):
            write_all(files, descriptor, piece, size)
            size, count = size + len(piece), count + rows
        end = end_line(count)
        write_all(files, descriptor, end, size)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    return {"rows": count, "bytes": size + len(end)}


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


def _pieces(header: BaseHeader, found: LogRows) -> Iterator[tuple[bytes, int]]:
    """Yield about a megabyte of lines at a time, with the number of rows in them."""
    lines, size, rows = [header_line(header)], 0, 0
    for line, count in _lines(found):
        lines.append(line)
        size, rows = size + len(line), rows + count
        if size >= _WRITE_BYTES:
            yield b"".join(lines), rows
            lines, size, rows = [], 0, 0
    yield b"".join(lines), rows


def _lines(found: LogRows) -> Iterator[tuple[bytes, int]]:
    for account, rows in found.rows.items():
        numbers = found.numbers.get(account, {})
        head = b'{"account":' + orjson.dumps(account) + b',"changes":['
        begins = {name: b'{"collection":"%s","id":' % name.encode() for name in {key[0] for key in rows}}
        parts, count, size = [head], 0, 0
        # Millions of rows: their texts are joined once a line, and nothing is called that need not be.
        for (collection, row_id), text in rows.items():
            number = numbers.get(row_id) if collection == COLLECTION else None
            end = b"}," if number is None else b',"number":%d},' % number
            parts += (begins[collection], orjson.dumps(row_id), b',"after":', text, end)
            count, size = count + 1, size + len(text)
            if size >= _LINE_BYTES:
                yield _line(parts), count
                parts, count, size = [head], 0, 0
        if count:
            yield _line(parts), count


def _line(parts: list[bytes]) -> bytes:
    parts[-1] = parts[-1][:-1] + b"]"
    return seal(b"".join(parts))
