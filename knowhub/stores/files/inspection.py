"""Looking at a data directory without opening it, for `knowhub doctor`."""

import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.errors import Unavailable
from knowhub.stores.files.change_log import ChangeLog, Header
from knowhub.stores.files.data_directory import FORMAT_VERSION, PUT_LOG_BACK, DataDirectory, check_format, log_witness
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.inspected_log import LogEnd, LogRead, ReadOnlyLock
from knowhub.stores.files.lock import Position, try_flock
from knowhub.stores.files.recovery import Judged, judge

_LOCK_TRIES, _LOCK_POLL_S = 1000, 0.001
_MEGABYTE = 1024 * 1024
_SPACE_NEEDED, _SPACE_WANTED = 128 * _MEGABYTE, 1024 * _MEGABYTE

_RESTORE = (
    "the good records stay readable and nothing more is written; stop every KnowHub on this directory, "
    "keep a copy of it, and put this file back from a backup"
)
_REINDEX = "run `knowhub reindex`; searching goes on meanwhile, by reading what the index lacks"


class Severity(StrEnum):
    """`ok` for what was looked at and is well, `note` for what needs nobody, `problem` for what does."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what, where, and what to do about it."""

    severity: Severity
    subject: str
    detail: str
    advice: str = ""


def inspect(files: FileSystem, directory: DataDirectory) -> list[Finding]:
    """Check the directory's format, lock, log, quarantine, indexes and record files; writes nothing."""
    unreachable = _unreachable(directory.root)
    if unreachable:
        return [unreachable]
    findings = [*_directory(directory.root), _format(files, directory)]
    if findings[-1].severity is Severity.PROBLEM:
        # Nobody knows what the rest of it would mean.
        return findings
    # What is derived is read before the log: a running server may bring both on, and the log is to be ahead.
    checkpoint = _json(directory.records / "checkpoint.json")
    notes = {path: _json(path) for path in sorted(directory.indexes.glob("*/*/built.json"))}
    read = LogRead(rows_up_to=_number(checkpoint, "seq"))
    log = ChangeLog(files, directory.change_log)
    checks: Sequence[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("change_log", lambda: _log(files, directory, log, read)),
        ("KEEPER", lambda: _keeper(files, directory)),
        ("records", lambda: _records(directory, checkpoint, read)),
        ("indexes", lambda: _indexes(directory, notes, read)),
        ("quarantine", lambda: _quarantine(directory)),
    ]
    for subject, check in checks:
        try:
            findings += check()
        except OSError as problem:
            advice = "see to the disk or to the rights of the file, then look again"
            findings.append(Finding(Severity.PROBLEM, subject, f"could not be read: {problem}", advice))
    log.close()
    return findings


def _unreachable(root: Path) -> Finding | None:
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "there is no such directory"
        advice = "name the right one with --data-dir or KNOWHUB_DATA_DIR; `knowhub serve` makes one that is missing"
        return Finding(Severity.PROBLEM, str(root), what, advice)
    if not os.access(root, os.R_OK | os.X_OK):
        return Finding(Severity.PROBLEM, str(root), "is not readable", "run this as the user that runs the server")
    return None


def _directory(root: Path) -> Iterator[Finding]:
    if os.access(root, os.W_OK):
        yield Finding(Severity.OK, str(root), "is readable and writable")
    else:
        advice = "run this as the user that runs the server, or give that user the right to write"
        yield Finding(Severity.PROBLEM, str(root), "is not writable for this user", advice)
    disk = os.statvfs(root)
    free = disk.f_bavail * disk.f_frsize
    if free < _SPACE_NEEDED:
        yield Finding(Severity.PROBLEM, "disk", f"{_size(free)} free", "make room: writes will soon answer 507")
    elif free < _SPACE_WANTED:
        yield Finding(Severity.NOTE, "disk", f"{_size(free)} free", "make room before it is needed")
    else:
        yield Finding(Severity.OK, "disk", f"{_size(free)} free")


def _format(files: FileSystem, directory: DataDirectory) -> Finding:
    try:
        check_format(files, directory)
    except (Unavailable, OSError) as problem:
        advice = "nothing else was looked at; use the KnowHub that wrote it, or put FORMAT back from a backup"
        return Finding(Severity.PROBLEM, "FORMAT", str(problem), advice)
    if directory.format.exists():
        return Finding(Severity.OK, "FORMAT", f"data format {FORMAT_VERSION}")
    return Finding(Severity.NOTE, "FORMAT", "is missing; the next start writes it")


def _log(files: FileSystem, directory: DataDirectory, log: ChangeLog, read: LogRead) -> Iterator[Finding]:
    try:
        found, end = _lock(files, directory, log)
    except ValueError:
        advice = "move files that KnowHub did not make out of change_log/"
        yield Finding(Severity.PROBLEM, "change_log", "holds a segment file whose name is no number", advice)
        return
    yield found
    if not end.segments:
        yield _without_log(files, directory)
        return
    findings = [finding for number in end.segments for finding in _segment(log, number, end, read)]
    findings += _missing(log, end.segments)
    if not any(finding.severity is Severity.PROBLEM for finding in findings):
        size = _size(sum(log.size(number) for number in end.segments))
        detail = f"segments: {len(end.segments)}, operations: {read.last_seq}, {size}; every checksum is right"
        yield Finding(Severity.OK, "change_log", detail)
    yield from findings


def _without_log(files: FileSystem, directory: DataDirectory) -> Finding:
    witness = log_witness(files, directory)
    if witness is None:
        return Finding(Severity.NOTE, "change_log", "there is none yet; the first start makes it")
    return Finding(Severity.PROBLEM, "change_log", f"the log is gone, and {witness.name} tells of it", PUT_LOG_BACK)


def _lock(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> tuple[Finding, LogEnd]:
    """Read LOCK while no writer is within a batch, so that all that is told of the log's end is of one moment."""
    try:
        lock = ReadOnlyLock(files, directory.lock)
    except (FileNotFoundError, ValueError):
        detail = "is missing or too short; the next start makes it, and judges the end of the log from the log alone"
        return Finding(Severity.NOTE, "LOCK", detail), LogEnd.of(log, None)
    try:
        if not _acquired(lock):
            advice = "if writes hang: `fuser LOCK` names the process; a stopped one must go on or be ended"
            detail = "one process has held it for a second"
            return Finding(Severity.PROBLEM, "LOCK", detail, advice), LogEnd.of(log, None)
        published = lock.read()
        return _believed(lock, log, published[1] if published else None)
    finally:
        lock.close()


def _acquired(lock: ReadOnlyLock) -> bool:
    for _ in range(_LOCK_TRIES):
        if lock.try_acquire():
            return True
        time.sleep(_LOCK_POLL_S)
    return False


def _believed(lock: ReadOnlyLock, log: ChangeLog, position: Position | None) -> tuple[Finding, LogEnd]:
    alone = LogEnd.of(log, None)
    if position and position.segment not in alone.segments and lock.believed(None):
        detail = f"says that {log.path(position.segment).name} was written, which is not there"
        return Finding(Severity.PROBLEM, "LOCK", detail, _RESTORE), alone
    if not position or position.segment not in alone.segments or not lock.believed(log.inode(position.segment)):
        detail = "is of another boot, another directory or a dead writer; the end of the log is judged from the log"
        return Finding(Severity.NOTE, "LOCK", detail), alone
    detail = f"the log is durable up to offset {position.offset} of {log.path(position.segment).name}"
    if lock.suspect:
        detail += "; a write behind it failed, so the next one begins a fresh segment"
        return Finding(Severity.NOTE, "LOCK", detail), LogEnd.of(log, position)
    return Finding(Severity.OK, "LOCK", detail), LogEnd.of(log, position)


def _segment(log: ChangeLog, number: int, end: LogEnd, read: LogRead) -> Iterator[Finding]:
    path, is_last = str(log.path(number)), number == end.segments[-1]
    wrong: list[tuple[int, str]] = []
    header, start = log.header(number)
    if header is None:
        wrong.append((0, "the segment's header is damaged"))
    else:
        wrong += ((0, what) for what in _header(number, header, read))
    size = end.size if is_last else log.size(number)
    durable = end.durable(log, number, start)
    data = log.read(number, start, size if durable is None else min(size, durable))
    judged = judge(Path(path), data, start, read.last_seq + 1, durable=durable is not None)
    for line in judged.lines:
        read.take(line.record["seq"] if line.record else 0, line.data)
    wrong += ((damage.offset, damage.reason) for damage in judged.damage)
    if durable is not None and size < durable:
        wrong.append((size, f"the file ends here, {durable - size} acknowledged bytes are gone"))
    read.damaged = read.damaged or bool(wrong)
    for offset, what in wrong:
        yield Finding(Severity.PROBLEM, path, f"offset {offset}: {what}", _RESTORE)
    yield from _behind(path, size, judged, is_last=is_last)


def _header(number: int, header: Header, read: LogRead) -> Iterator[str]:
    if header.segment != number:
        yield f"by its header this is segment {header.segment}"
    if read.log_id and header.log_id != read.log_id:
        yield "by its header it is of another log than the segment before it"
    elif header.first_seq != read.last_seq + 1 and not read.damaged:
        yield f"it begins with operation {header.first_seq}, and {read.last_seq + 1} was to follow"
    read.log_id = read.log_id or header.log_id


def _behind(path: str, size: int, judged: Judged, *, is_last: bool) -> Iterator[Finding]:
    if size > judged.end:
        becomes = "the next opening keeps them in quarantine/" if is_last else "they are never read"
        detail = f"offset {judged.end}: {size - judged.end} bytes of a write that was never acknowledged; {becomes}"
        yield Finding(Severity.NOTE, path, detail)


def _missing(log: ChangeLog, segments: Sequence[int]) -> Iterator[Finding]:
    for number in sorted(set(range(1, segments[-1])) - set(segments)):
        yield Finding(Severity.PROBLEM, str(log.path(number)), "is missing; later segments are there", _RESTORE)


def _keeper(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    nobody = Finding(Severity.NOTE, "KEEPER", "no server keeps the directory up now; search and reads need none")
    try:
        descriptor = files.open(directory.keeper, os.O_RDONLY)
    except FileNotFoundError:
        yield nobody
        return
    try:
        yield nobody if try_flock(descriptor) else Finding(Severity.OK, "KEEPER", "a running process keeps it up")
    finally:
        files.close(descriptor)


def _records(directory: DataDirectory, checkpoint: Any, read: LogRead) -> Iterator[Finding]:  # noqa: ANN401 -- JSON
    seq, lengths = _number(checkpoint, "seq"), _part(checkpoint, "lengths", dict)
    if checkpoint is None or not read.last_seq:
        yield Finding(Severity.NOTE, "records", "not written yet; the keeper writes them")
        return
    if read.damaged:
        yield Finding(Severity.NOTE, "records", "not compared, as the log is damaged")
        return
    short = [name for name, length in lengths.items() if _length(directory.records / name) < length]
    if short or not read.holds(_part(checkpoint, "log_id", str), seq, _part(checkpoint, "checksum", str)):
        yield Finding(Severity.NOTE, "records", "do not fit the log; the keeper writes them anew")
        return
    for name in sorted(lengths.keys() | read.rows.keys()):
        if _checksum(directory.records / name, lengths.get(name, 0)) != read.rows.get(name, 0):
            advice = f"nothing is lost: delete {directory.records}, and the next server writes it anew from the log"
            yield Finding(Severity.PROBLEM, str(directory.records / name), "does not say what the log says", advice)
    yield _lag("records", seq, read, "as the log says")


def _indexes(directory: DataDirectory, notes: Mapping[Path, Any], read: LogRead) -> Iterator[Finding]:
    if not notes and read.last_seq:
        yield Finding(Severity.NOTE, "indexes", "not built yet; the keeper builds them, search reads the records")
    for path, built in notes.items():
        subject, seq = str(path.parent.relative_to(directory.root)), _number(built, "seq")
        if built is None or not (path.parent / f"build-{_number(built, 'build')}").is_dir():
            yield Finding(Severity.PROBLEM, subject, "is damaged", _REINDEX)
        elif not read.damaged and not read.holds(_part(built, "log_id", str), seq, _part(built, "checksum", str)):
            yield Finding(Severity.PROBLEM, subject, "was built for another log", _REINDEX)
        else:
            yield _lag(subject, seq, read, f"{_number(built, 'documents')} records")


def _lag(subject: str, seq: int, read: LogRead, detail: str) -> Finding:
    behind = read.last_seq - seq
    if behind <= 0:
        return Finding(Severity.OK, subject, detail)
    return Finding(Severity.NOTE, subject, f"{detail}; {behind} operations behind the log, which the keeper brings in")


def _quarantine(directory: DataDirectory) -> Iterator[Finding]:
    kept = sorted(directory.quarantine.iterdir()) if directory.quarantine.is_dir() else []
    for path in kept:
        detail = f"{_size(path.stat().st_size)} that were cut from the log; nobody was told that they were saved"
        yield Finding(Severity.NOTE, str(path), detail, "look at it, and delete it when you no longer want it")


def _json(path: Path) -> Any:  # noqa: ANN401 -- whatever a damaged file says
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _part(value: Any, name: str, kind: type) -> Any:  # noqa: ANN401 -- JSON, of the kind that is asked for
    part = value.get(name) if value is not None else None
    return part if isinstance(part, kind) else kind()


def _number(value: Any, name: str) -> int:  # noqa: ANN401 -- JSON
    return int(_part(value, name, int))


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _checksum(path: Path, length: int) -> int:
    checksum = 0
    with path.open("rb") as file:
        while length > 0 and (piece := file.read(min(length, _MEGABYTE))):
            checksum = zlib.crc32(piece, checksum)
            length -= len(piece)
    return checksum


def _size(count: int) -> str:
    return f"{count} bytes" if count < _MEGABYTE else f"{count // _MEGABYTE} MiB"
