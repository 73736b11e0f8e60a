"""Check a data directory without opening it, for `knowhub doctor`."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from knowhub.core.collection import Collections
from knowhub.core.errors import Unavailable
from knowhub.core.row_check import RowCheck
from knowhub.stores.files.data_directory import FORMAT_VERSION, DataDirectory, check_format
from knowhub.stores.files.doctor.findings import REPAIR, Finding, Severity, format_names, format_size
from knowhub.stores.files.doctor.keyring_check import check_keys
from knowhub.stores.files.doctor.log_check import check_log_files
from knowhub.stores.files.doctor.log_contents import LogContents
from knowhub.stores.files.doctor.projection_check import ProjectionsOf, check_projections
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.snapshots.archive_reader import check_snapshot
from knowhub.stores.files.snapshots.snapshot_manifest import DamagedSnapshot

_MEGABYTE = 1024 * 1024
_SPACE_NEEDED, _SPACE_WANTED = 128 * _MEGABYTE, 1024 * _MEGABYTE
_ANY_SIZE = 1 << 62
_ARCHIVE, _TEMPORARY = ".tar.gz", ".tmp"


def inspect(
    files: FileSystem,
    directory: DataDirectory,
    collections: Collections,
    projections: ProjectionsOf,
    row_checks: Sequence[RowCheck],
) -> list[Finding]:
    """Check format, lock, log, rows, derived files, keys, snapshots and quarantine; write nothing."""
    unreachable = _unreachable(files, directory.root)
    if unreachable:
        return [unreachable]
    findings = [*_directory(files, directory.root), _format(files, directory)]
    if findings[-1].severity is Severity.PROBLEM:
        # The rest cannot be understood.
        return findings
    log = ChangeLog(files, directory.change_log)
    read = LogContents(log, collections, row_checks)
    checks: Sequence[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("change_log", lambda: check_log_files(files, directory, log, read)),
        ("rows", lambda: _check_rows(row_checks)),
        ("KEEPER", lambda: _leader(files, directory)),
        ("derived", lambda: (finding for _, finding, _ in check_projections(projections(read), read))),
        ("keys", lambda: check_keys(files, directory, read.sealed, is_whole=not read.is_damaged)),
        ("snapshots", lambda: _snapshots(files, directory)),
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


def _unreachable(files: FileSystem, root: Path) -> Finding | None:
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "there is no such directory"
        advice = "name the right one with --data-dir or KNOWHUB_DATA_DIR; `knowhub serve` makes one that is missing"
        return Finding(Severity.PROBLEM, str(root), what, advice)
    if not files.has_access(root, os.R_OK | os.X_OK):
        return Finding(Severity.PROBLEM, str(root), "is not readable", "run this as the user that runs the server")
    return None


def _directory(files: FileSystem, root: Path) -> Iterator[Finding]:
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


def _format(files: FileSystem, directory: DataDirectory) -> Finding:
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


def _leader(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    nobody = Finding(Severity.NOTE, "KEEPER", "no server keeps the directory up now; search and reads need none")
    try:
        descriptor = files.open(directory.leader_lock, os.O_RDONLY)
    except FileNotFoundError:
        yield nobody
        return
    try:
        yield nobody if try_flock(descriptor) else Finding(Severity.OK, "KEEPER", "a running process keeps it up")
    finally:
        files.close(descriptor)


def _snapshots(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    whole = []
    for name in files.names(directory.snapshots):
        path = directory.snapshots / name
        if name.endswith(_TEMPORARY):
            yield Finding(Severity.NOTE, str(path), "is left over from a snapshot that was broken off", REPAIR)
        elif name.endswith(_ARCHIVE):
            try:
                whole.append(check_snapshot(files, path, _ANY_SIZE))
            except DamagedSnapshot as problem:
                advice = "it cannot be restored: make another with `knowhub snapshot create`, and delete this one"
                detail = f"does not open: {problem.member}: {problem.reason}"
                yield Finding(Severity.PROBLEM, str(path), detail, advice)
    if whole:
        newest = max(whole, key=lambda manifest: manifest.ts)
        detail = f"snapshots: {len(whole)}, the newest of {newest.created_at}; every sum is right"
        yield Finding(Severity.OK, "snapshots", detail)


def _quarantine(directory: DataDirectory) -> Iterator[Finding]:
    for path in directory.list_quarantine():
        size = format_size(path.stat().st_size)
        if "-damaged-" in path.name:
            detail = (
                f"{size} of acknowledged operations that `knowhub doctor --repair` took out of the log, as they were"
            )
        elif path.name.startswith("records-"):
            detail = f"{size} of a record file as it was when the log was damaged; it may tell of what is lost"
        else:
            detail = f"{size} that were cut from the log; nobody was told that they were saved"
        yield Finding(Severity.NOTE, str(path), detail, "look at it, and delete it when you no longer want it")
