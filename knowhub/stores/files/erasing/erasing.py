"""Erasing on disk: what must be overwritten, noted in a journal first, then overwritten where it stands.

No offset moves and no file is replaced, so what other processes have open stays right. A crash leaves the journal:
whoever opens the directory next carries it out when the operation that it names is in the log, and throws it away when
it is not.
"""

import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.erasing import EraseRules, Found
from knowhub.core.errors import Unavailable
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.erased_lines import Target, Traces, erased_line, record_of, versions_in
from knowhub.stores.files.filesystem import FileSystem, replace_file, write_all
from knowhub.stores.files.lock import try_flock, unlock
from knowhub.stores.files.log.change_log import JOURNAL, ChangeLog
from knowhub.stores.files.log.log_line import parsed, seal
from knowhub.stores.files.snapshots.restore_work import remove_tree
from knowhub.stores.files.snapshots.snapshots import SCRATCH

_TEMPORARY = ".tmp"
_LOG_SUFFIX = ".jsonl"
_ASKED, _REPLIED = b'"agent_io":[', b'"reply":{'
# A shorter text stands within others by chance.
_WORTH_FINDING = 24
_TEXTS_SOUGHT = 50


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Bytes for a place in a file, compressed: most of them are spaces. `name` is its path below the directory."""

    name: str
    offset: int
    packed: bytes

    @property
    def data(self) -> bytes:
        return zlib.decompress(self.packed)


@dataclass(frozen=True, slots=True)
class Survey:
    """What an erasing overwrites, and what was found of the row."""

    overwrites: Sequence[Overwrite]
    found: Found


def survey(files: FileSystem, directory: DataDirectory, target: Target, rules: EraseRules) -> Survey:
    """Look through the whole log and the quarantine for what tells of a row. Under the writers' lock.

    Bytes of a segment behind its durable end are looked at too: nobody reads them, and they are there. Raises OSError.
    """
    with closing(ChangeLog(files, directory.change_log)) as log:
        numbers = [*log.bases(), *log.segments()]
        needle = _beginning(target) if target.below else orjson.dumps(target.id)
        lines = (data for number in numbers for _, data in _lines_with(log, number, [needle]))
        versions = [row for data in lines for row in versions_in(record_of(data) or {}, target)]
        traces = Traces.of(target.id, versions, rules)
        texts = list(dict.fromkeys(rules.says(row) for row in reversed(versions)))[:_TEXTS_SOUGHT]
        needles = [needle for text in texts for needle in _needle(text)]
        overwrites: list[Overwrite] = []
        holders: dict[tuple[str, str], None] = {}
        joined: dict[tuple[str, str], None] = {}
        below: dict[tuple[str, str], None] = {}
        quoting = [] if target.quoted_by is None else [orjson.dumps(target.quoted_by[1])]
        joins = [] if rules.joined is None else [b'"%b":"' % rules.joined.encode()]
        for number in numbers:
            for offset, data in _lines_with(log, number, [needle, _ASKED, _REPLIED, *needles, *joins, *quoting]):
                new = _erased(data, target, rules, traces)
                if new is not None:
                    overwrites.append(_overwrite(directory, log.path(number), offset, new))
                holders |= dict.fromkeys(_holders(data, target, needles))
                below |= dict.fromkeys(_below(data, target))
                if any(join in data for join in joins):
                    joined |= dict.fromkeys(_joined(data, target, rules.joined))
    found = Found(texts, list(holders), _parts(target.id, joined), list(below), traces.are_quoted_in)
    return Survey([*overwrites, *_of_quarantine(files, directory, traces)], found)


def note(files: FileSystem, directory: DataDirectory, found: Survey, operation: Operation) -> None:
    """Write the journal of an erasing, durable, before its operation is. Raises OSError."""
    header = {"knowhub_erase": 1, "account": operation.account, "operation_id": operation.operation_id}
    lines = [seal(orjson.dumps({**header, "overwrites": len(found.overwrites)})[:-1])]
    for one in found.overwrites:
        entry = {"file": one.name, "offset": one.offset, "bytes": b64encode(one.packed).decode()}
        lines.append(seal(orjson.dumps(entry)[:-1]))
    replace_file(files, _journal(directory), b"".join(lines))


def is_noted(files: FileSystem, directory: DataDirectory) -> bool:
    """Tell whether an erasing is going on, or was broken off: what is read now may still tell of the row."""
    return files.inode_at(_journal(directory)) is not None


def carry_out(files: FileSystem, directory: DataDirectory, has_operation: Callable[[str, str], bool]) -> None:
    """Overwrite what the journal says, if there is one, and remove it; doing it twice does no harm.

    Nothing is overwritten unless `has_operation(account, operation_id)`: then the operation never came to stand. Under
    the writers' lock. Raises OSError, and Unavailable for a journal that is damaged.
    """
    if not is_noted(files, directory):
        return
    header, overwrites = _read(files, _journal(directory))
    if has_operation(header["account"], header["operation_id"]):
        for name, group in groupby(overwrites, key=lambda one: one.name):
            _overwrite_file(files, directory.root / name, list(group))
        _remove_leftovers(files, directory)
    files.remove(_journal(directory))
    # Before the next one is written: an old journal over newer bytes would bring back what those have erased.
    files.sync_folder(directory.change_log)


def remove_scratches(files: FileSystem, directory: DataDirectory) -> None:
    """Remove what restores have unpacked and left. Only with the claim on the folder of snapshots. Raises OSError."""
    for name in _scratches(files, directory):
        remove_tree(files, directory.snapshots / name)


def resume(files: FileSystem, directory: DataDirectory) -> None:
    """Carry out an erasing that was broken off while it overwrote: a line may be half old, half new.

    To be called before the log is read, under the writers' lock. Nothing was overwritten before the operation was
    durable, so that the log need not be read to know that it stands. Raises as `carry_out`.
    """
    if not is_noted(files, directory):
        return
    header, overwrites = _read(files, _journal(directory))
    with closing(ChangeLog(files, directory.change_log)) as log:
        has_begun = any(not _is_as_it_was(files, directory.root / one.name, one) for one in overwrites)
        stands = has_begun and _is_written(log, header["operation_id"])
    if stands:
        carry_out(files, directory, lambda _account, _operation_id: True)


def tells(line: bytes, target: Target) -> bool:
    """Tell whether a line of some log, such as one in a snapshot, holds a version of a row that is not erased."""
    return orjson.dumps(target.id) in line and any(versions_in(record_of(line) or {}, target))


def _journal(directory: DataDirectory) -> Path:
    return directory.change_log / JOURNAL


def _lines_with(log: ChangeLog, number: int, needles: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each line that has one of `needles` in it, in their order."""
    for start, piece in log.pieces(number, 0, log.size(number)):
        begins: set[int] = set()
        for needle in needles:
            at = piece.find(needle)
            while at >= 0:
                begins.add(piece.rfind(b"\n", 0, at) + 1)
                end = piece.find(b"\n", at)
                at = piece.find(needle, end) if end >= 0 else -1
        for begin in sorted(begins):
            end = piece.find(b"\n", begin) + 1
            yield start + begin, piece[begin : end or len(piece)]


def _needle(text: str) -> list[bytes]:
    """Return how a text stands in a line: a short one only as the whole of some value, one that is empty not at all."""
    written = orjson.dumps(text)
    if not text.strip():
        return []
    return [written if len(written) < _WORTH_FINDING else written[1:-1]]


def _erased(data: bytes, target: Target, rules: EraseRules, traces: Traces) -> bytes | None:
    if record_of(data) is not None:
        return erased_line(data, target, rules, traces)
    # No line that counts: nobody was told of it, or it is damaged and named so, and is so when it is blank.
    return _blank(data) if traces.stand_in_bytes(data) else None


def _blank(data: bytes) -> bytes:
    text = data.rstrip(b"\n")
    return b" " * len(text) + data[len(text) :]


def _holders(data: bytes, target: Target, needles: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    if not any(needle in data for needle in needles):
        return
    record = record_of(data) or {}
    if record.get("account") != target.account:
        return
    for change in record.get("changes", ()):
        if not target.is_row(change):
            row = orjson.dumps(change["after"])
            if any(needle in row for needle in needles):
                yield change["collection"], change["id"]


def _beginning(target: Target) -> bytes:
    """Return how the id of a row begins, and of all those below it."""
    return orjson.dumps(target.id)[:-1]


def _below(data: bytes, target: Target) -> Iterator[tuple[str, str]]:
    """Yield the rows of a line that are erased with the one that is."""
    if target.below is None or _beginning(target) + b"/" not in data:
        return
    record = record_of(data) or {}
    if record.get("account") == target.account:
        places = ((change["collection"], change["id"]) for change in record.get("changes", ()) if target.is_row(change))
        yield from (place for place in places if place != (target.collection, target.id))


def _joined(data: bytes, target: Target, name: str | None) -> Iterator[tuple[str, str]]:
    """Yield the id of each row of the target's collection that becomes part of another, and of that other."""
    record = record_of(data) or {}
    if record.get("account") != target.account:
        return
    for change in record.get("changes", ()):
        if change["collection"] == target.collection and (into := change["after"].get(name)) is not None:
            yield change["id"], into


def _parts(row_id: str, joined: Iterable[tuple[str, str]]) -> list[str]:
    """Return the ids of all rows that became part of one, or of a part of it, those nearest to it first."""
    parts_of: dict[str, list[str]] = {}
    for part, into in joined:
        parts_of.setdefault(into, []).append(part)
    reached = {row_id: None}
    waiting = [row_id]
    for whole in waiting:
        fresh = [part for part in parts_of.get(whole, ()) if part not in reached]
        reached |= dict.fromkeys(fresh)
        waiting += fresh
    return list(reached)[1:]


def _of_quarantine(files: FileSystem, directory: DataDirectory, traces: Traces) -> Iterator[Overwrite]:
    for name in files.names(directory.quarantine):
        path, start = directory.quarantine / name, 0
        for line in files.read(path).split(b"\n"):
            if traces.stand_in_bytes(line):
                yield _overwrite(directory, path, start, _blank(line))
            start += len(line) + 1


def _overwrite(directory: DataDirectory, path: Path, offset: int, data: bytes) -> Overwrite:
    return Overwrite(path.relative_to(directory.root).as_posix(), offset, zlib.compress(data, 1))


def _read(files: FileSystem, path: Path) -> tuple[Mapping[str, Any], list[Overwrite]]:
    records = [parsed(line) for line in files.read(path).splitlines(keepends=True)]
    whole = [record for record in records if record is not None]
    if len(whole) == len(records) and whole and whole[0].get("overwrites") == len(whole) - 1:
        return whole[0], [Overwrite(one["file"], one["offset"], b64decode(one["bytes"])) for one in whole[1:]]
    raise Unavailable(f"{path} is damaged, and an erasing was broken off: remove it, and erase the record again")


def _is_as_it_was(files: FileSystem, path: Path, wanted: Overwrite) -> bool:
    """Tell whether a line of the log was not overwritten yet, not even in part."""
    if path.suffix != _LOG_SUFFIX or files.inode_at(path) is None:
        return True
    descriptor, data = files.open(path, os.O_RDONLY), wanted.data
    try:
        stands = files.read_at(descriptor, len(data), wanted.offset)
    finally:
        files.close(descriptor)
    return stands != data and parsed(stands) is not None


def _is_written(log: ChangeLog, operation_id: str) -> bool:
    needle = orjson.dumps(operation_id)
    lines = (data for number in reversed(log.segments()) for _, data in _lines_with(log, number, [needle]))
    return any((parsed(data) or {}).get("operation_id") == operation_id for data in lines)


def _overwrite_file(files: FileSystem, path: Path, overwrites: Sequence[Overwrite]) -> None:
    if files.inode_at(path) is None:
        # A compaction has dropped it since, with all that it said.
        return
    descriptor = files.open(path, os.O_WRONLY)
    try:
        for one in overwrites:
            # A line at a time, in one write: who reads meanwhile finds all of it old, or all new, nearly always.
            write_all(files, descriptor, one.data, one.offset)
        files.sync_data(descriptor)
    finally:
        files.close(descriptor)


def _remove_leftovers(files: FileSystem, directory: DataDirectory) -> None:
    """Remove what was being written, by a process that died or by one that lives: the latter has to begin anew."""
    for folder in (directory.change_log, directory.snapshots, directory.cache):
        for name in files.names(folder):
            if name.endswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    files.remove(folder / name)
    if _scratches(files, directory):
        descriptor = files.open(directory.snapshots, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # A restore that goes on holds the folder, and removes its own.
            if try_flock(descriptor):
                remove_scratches(files, directory)
                unlock(descriptor)
        finally:
            files.close(descriptor)


def _scratches(files: FileSystem, directory: DataDirectory) -> list[str]:
    return [name for name in files.names(directory.snapshots) if name.startswith(SCRATCH)]
