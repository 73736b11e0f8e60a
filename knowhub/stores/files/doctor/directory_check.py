"""Check a data directory without opening it, for `knowhub doctor`."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from knowhub.core.collection import Collections
from knowhub.core.data_keys import WrappedKey
from knowhub.core.errors import Unavailable
from knowhub.core.row_check import RowCheck
from knowhub.stores.files.data_directory import (
    FORMAT_VERSION,
    PUT_LOG_BACK,
    DataDirectory,
    check_format,
    find_log_trace,
)
from knowhub.stores.files.doctor.findings import (
    REPAIR,
    RESTORE,
    Finding,
    Severity,
    format_names,
    format_ranges,
    format_size,
)
from knowhub.stores.files.doctor.log_contents import LogContents, ProjectionsOf, check_projections
from knowhub.stores.files.filesystem import PRIVATE_MODE, TEMPORARY, FileSystem
from knowhub.stores.files.keys import read_keyring
from knowhub.stores.files.lock import LockFile, is_free
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_reader import LogBounds
from knowhub.stores.files.snapshots.archive import DamagedSnapshot, check_snapshot

_MEGABYTE = 1024 * 1024
_SPACE_NEEDED, _SPACE_WANTED = 128 * _MEGABYTE, 1024 * _MEGABYTE
_ARCHIVE = ".tar.gz"


def inspect(
    files: FileSystem,
    directory: DataDirectory,
    collections: Collections,
    projections: ProjectionsOf,
    row_checks: Sequence[RowCheck],
) -> list[Finding]:
    """Check format, lock, log, rows, derived files, keys, snapshots and quarantine; write nothing."""
    unreachable = _check_access(files, directory.root)
    if unreachable:
        return [unreachable]
    findings = [*_check_directory(files, directory.root), _check_format_file(files, directory)]
    if findings[-1].severity is Severity.PROBLEM:
        # The rest cannot be understood.
        return findings
    log = ChangeLog(files, directory.change_log)
    read = LogContents(log, collections, row_checks)
    checks: Sequence[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("change_log", lambda: _check_log(files, directory, log, read)),
        ("rows", lambda: _check_rows(row_checks)),
        ("KEEPER", lambda: _check_leader(files, directory)),
        ("derived", lambda: (finding for _, finding, _ in check_projections(projections(read), read))),
        ("keys", lambda: _check_keys(files, directory, read)),
        ("snapshots", lambda: _check_snapshots(files, directory)),
        ("quarantine", lambda: _list_quarantined(directory)),
    ]
    for subject, check in checks:
        try:
            findings += check()
        except OSError as problem:
            advice = "see to the disk or to the rights of the file, then look again"
            findings.append(Finding(Severity.PROBLEM, subject, f"could not be read: {problem}", advice))
    log.close()
    return findings


def _check_access(files: FileSystem, root: Path) -> Finding | None:
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "there is no such directory"
        advice = "name the right one with --data-dir or KNOWHUB_DATA_DIR; `knowhub serve` makes one that is missing"
        return Finding(Severity.PROBLEM, str(root), what, advice)
    if not files.has_access(root, os.R_OK | os.X_OK):
        return Finding(Severity.PROBLEM, str(root), "is not readable", "run this as the user that runs the server")
    return None


def _check_directory(files: FileSystem, root: Path) -> Iterator[Finding]:
    if files.has_access(root, os.W_OK):
        yield Finding(Severity.OK, str(root), "is readable and writable")
    else:
        advice = "run this as the user that runs the server, or give that user the right to write"
        yield Finding(Severity.PROBLEM, str(root), "is not writable for this user", advice)
    free = files.free(root)
    if free < _SPACE_NEEDED:
        yield Finding(Severity.PROBLEM, "disk", f"{format_size(free)} free", "make room: writes will soon answer 507")
    elif free < _SPACE_WANTED:
        yield Finding(Severity.NOTE, "disk", f"{format_size(free)} free", "make room before it is needed")
    else:
        yield Finding(Severity.OK, "disk", f"{format_size(free)} free")


def _check_format_file(files: FileSystem, directory: DataDirectory) -> Finding:
    try:
        check_format(files, directory)
    except (Unavailable, OSError) as problem:
        advice = "nothing else was looked at; use the KnowHub that wrote it, or put FORMAT back from a backup"
        return Finding(Severity.PROBLEM, "FORMAT", str(problem), advice)
    if directory.format.exists():
        return Finding(Severity.OK, "FORMAT", f"data format {FORMAT_VERSION}")
    return Finding(Severity.NOTE, "FORMAT", "is missing; the next start writes it")


def _check_rows(row_checks: Sequence[RowCheck]) -> Iterator[Finding]:
    for check in row_checks:
        problems = list(check.find_problems())
        for problem in problems:
            detail = f"{problem.detail}: {format_names(list(problem.rows))}"
            severity = Severity.NOTE if problem.is_note else Severity.PROBLEM
            yield Finding(severity, problem.subject, detail, problem.advice)
        if all(problem.is_note for problem in problems) and (summary := check.summarize()) is not None:
            yield Finding(Severity.OK, check.name, summary)


def _check_leader(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    if files.inode(directory.leader_lock) is None or is_free(files, directory.leader_lock):
        yield Finding(Severity.NOTE, "KEEPER", "no server keeps the directory up now; search and reads need none")
    else:
        yield Finding(Severity.OK, "KEEPER", "a running process keeps it up")


def _check_snapshots(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    intact = []
    for name in files.names(directory.snapshots):
        path = directory.snapshots / name
        if name.endswith(TEMPORARY):
            yield Finding(Severity.NOTE, str(path), "is left over from a snapshot that was broken off", REPAIR)
        elif name.endswith(_ARCHIVE):
            try:
                intact.append(check_snapshot(files, path))
            except DamagedSnapshot as problem:
                advice = "it cannot be restored: make another with `knowhub snapshot create`, and delete this one"
                detail = f"does not open: {problem.member}: {problem.reason}"
                yield Finding(Severity.PROBLEM, str(path), detail, advice)
    if intact:
        newest = max(intact, key=lambda manifest: manifest.ts)
        detail = f"snapshots: {len(intact)}, the newest of {newest.created_at}; every sum is right"
        yield Finding(Severity.OK, "snapshots", detail)


def _list_quarantined(directory: DataDirectory) -> Iterator[Finding]:
    for path in directory.list_quarantine():
        size = format_size(path.stat().st_size)
        if "-damaged-" in path.name:
            detail = f"{size} that `knowhub doctor --repair` took out of the log, as they were"
        elif path.name.startswith("records-"):
            detail = f"{size} of a record file as it was when the log was damaged; it may tell of what is lost"
        else:
            detail = f"{size} that were cut from the log; nobody was told that they were saved"
        yield Finding(Severity.NOTE, str(path), detail, "look at it, and delete it when you no longer want it")


_LOCK_WAIT_S = 1.0


def _check_log(files: FileSystem, directory: DataDirectory, log: ChangeLog, read: LogContents) -> Iterator[Finding]:
    """Load the newest base and all segments after it into `read`; yield what is wrong. Raises OSError."""
    try:
        found, end = _check_lock(files, directory, log)
    except ValueError:
        advice = "move files that KnowHub did not make out of change_log/"
        yield Finding(Severity.PROBLEM, "change_log", "holds a segment file whose name is no number", advice)
        return
    yield found
    if not end.segments and end.base is None:
        witness = find_log_trace(files, directory)
        if witness is None:
            yield Finding(Severity.NOTE, "change_log", "there is none yet; the first start makes it")
        else:
            detail = f"the log is gone, and {witness.name} tells of it"
            yield Finding(Severity.PROBLEM, "change_log", detail, PUT_LOG_BACK)
        return
    yield from _check_lines(log, read, end)
    for left in log.list_unused():
        detail = "is not in force any more, or never was; the next rewrite of the log removes it"
        yield Finding(Severity.NOTE, str(log.folder / str(left)), detail)
    for name in files.names(directory.change_log):
        if name.endswith(TEMPORARY):
            detail = "is left over from a write that was broken off; nothing reads it"
            yield Finding(Severity.NOTE, str(directory.change_log / name), detail, REPAIR)


def _check_lines(log: ChangeLog, read: LogContents, end: LogBounds) -> Iterator[Finding]:
    reader = read.read(end)
    for damage in reader.damage:
        # All of a file that is missing, or has another place, is meant.
        where = f"offset {damage.offset}: " if damage.offset else ""
        yield Finding(Severity.PROBLEM, damage.path, f"{where}{damage.reason}", RESTORE)
    if not reader.damage:
        size = format_size(sum(map(log.size, log.numbers())))
        since = f" since operation {read.history.base_seq}" if read.history.base_seq else ""
        detail = f"segments: {len(end.segments)}, operations{since}: {read.last_seq - read.history.base_seq}, {size}; "
        yield Finding(Severity.OK, "change_log", detail + "every checksum is right")
    for number, stop in reader.ends.items():
        is_last = number == end.segments[-1]
        size_read = end.size if is_last else log.size(number)
        if size_read > stop:
            becomes = "the next opening keeps them in quarantine/" if is_last else "they are never read"
            detail = f"offset {stop}: {size_read - stop} bytes of a write that was never acknowledged; {becomes}"
            yield Finding(Severity.NOTE, str(log.path(number)), detail)
    if read.lost:
        detail = f"operations {format_ranges(read.lost)} were lost to damage; what was left of them is in quarantine/"
        yield Finding(Severity.NOTE, "change_log", detail)


def _check_lock(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> tuple[Finding, LogBounds]:
    """Return whether LOCK is trusted, and the end of the log. No writer appends meanwhile: both are of one moment.

    Raises ValueError for a file of the log whose name is no number, and OSError.
    """
    try:
        lock = LockFile(files, directory.lock, is_read_only=True)
    except (FileNotFoundError, ValueError):
        detail = "is missing or too short; the next start makes it, and judges the end of the log from the log alone"
        return Finding(Severity.NOTE, "LOCK", detail), LogBounds.of(log)
    try:
        if not lock.acquire(_LOCK_WAIT_S):
            advice = "if writes hang: `fuser LOCK` names the process; a stopped one must go on or be ended"
            detail = "one process has held it for a second"
            return Finding(Severity.PROBLEM, "LOCK", detail, advice), LogBounds.of(log)
        bounds, is_suspect = LogBounds.of(log, lock), lock.is_suspect
    finally:
        lock.close()
    if bounds.vanished is not None:
        detail = f"says that {log.path(bounds.vanished.segment).name} was written, which is not there"
        return Finding(Severity.PROBLEM, "LOCK", detail, RESTORE), bounds
    if bounds.position is None:
        detail = "is of another boot, another directory or a dead writer; the end of the log is judged from the log"
        return Finding(Severity.NOTE, "LOCK", detail), bounds
    detail = f"the log is durable up to offset {bounds.position.offset} of {log.path(bounds.position.segment).name}"
    if is_suspect:
        detail += "; a write behind it failed, so the next one begins a fresh segment"
    return Finding(Severity.NOTE if is_suspect else Severity.OK, "LOCK", detail), bounds


_PUT_BACK = "put keys/keyring.json back from a backup, or from keys/ of the newest snapshot"
_GONE = "nothing opens them any more: save them anew, or delete them"


def _check_keys(files: FileSystem, directory: DataDirectory, log: LogContents) -> Iterator[Finding]:
    """Check that the keyring can be read and has every key that the log needs, and that the master key is private.

    The log must be read first: a key is in the keyring before its row is in the log. Raises OSError.
    """
    names, sealed, ring = files.names(directory.keys), dict(log.list_sealed()), str(directory.keyring)
    if not names and not sealed:
        return
    try:
        keys = read_keyring(files, directory.keyring)
    except ValueError as problem:
        advice = f"nothing sealed opens: {_PUT_BACK}"
        yield Finding(Severity.PROBLEM, ring, f"is damaged: it {problem}", advice)
    else:
        live = sum(key.destroyed_at is None for key in keys.values())
        yield Finding(Severity.OK, "keys", f"{live} keys of sealed bodies, {len(keys) - live} destroyed")
        for account, bodies in sealed.items():
            yield from _check_bodies(keys, account, bodies, ring)
    for name in names:
        if name.startswith(directory.master_key.name):
            path = directory.keys / name
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & ~PRIVATE_MODE:
                detail = f"may be read by others (mode {mode:o})"
                yield Finding(Severity.PROBLEM, str(path), detail, f"chmod 600 {path}")
            else:
                yield Finding(Severity.OK, str(path), "is for its owner only; keep a copy of it elsewhere")


def _check_bodies(
    keys: Mapping[str, WrappedKey], account: str, bodies: Mapping[str, str], ring: str
) -> Iterator[Finding]:
    """Check that the keys of the sealed bodies of one account are in the keyring. `bodies` maps row ids to key ids."""
    missing = sorted(row_id for row_id, key_id in bodies.items() if key_id not in keys)
    if missing:
        detail = f"lacks keys of sealed bodies of account {account!r}: {format_names(missing)}"
        yield Finding(Severity.PROBLEM, ring, detail, _PUT_BACK)
    destroyed = sorted(row_id for row_id, key_id in bodies.items() if key_id in keys and keys[key_id].destroyed_at)
    if destroyed:
        # Only a note: a running server may have erased the row since the log was read.
        detail = f"keys of sealed bodies of account {account!r} were destroyed: {format_names(destroyed)}"
        yield Finding(Severity.NOTE, ring, detail, _GONE)
