"""Restore a snapshot: check it, unpack it, and compare it with the log. Runs in a child process."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict, StorageFull
from knowhub.core.operation import Row, is_live
from knowhub.core.store_results import differs
from knowhub.stores.files.data_directory import KEYRING, DataDirectory
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem, create_file, remove_path, replace_file
from knowhub.stores.files.keys import format_keyring, merge_keys, read_keyring
from knowhub.stores.files.log.log_reader import DamagedLog, read_latest_rows
from knowhub.stores.files.snapshots.archive import DamagedSnapshot, Manifest, unpack_snapshot

DIFFERENCES = "differences.jsonl"

_Rows = Mapping[tuple[str, str], bytes]
_Wanted = tuple[tuple[str, str], Row | None]


def prepare_restore(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write each row of an account that differs between an archive and the log to DIFFERENCES, in the folder `scratch`.

    `fixed` are ids that every account has, by collection, in the order of writing. The log ends at `end`.

    The answer is empty, or has `damaged` with archive, member and reason, or `no_room`, or `unreadable`, the log's own
    damage. Raises OSError. `scratch` is the caller's to remove.
    """
    archive, scratch, account = Path(arguments["archive"]), Path(arguments["scratch"]), arguments["account"]
    try:
        manifest = unpack_snapshot(files, archive, scratch, arguments["max_bytes"])
        then = read_snapshot_rows(files, archive.name, scratch, manifest, account)
        # The unpacked log is not needed any more, and the differences may take as much room.
        remove_path(files, scratch / "change_log")
        now = read_latest_rows(files, DataDirectory(root).change_log, account, end=tuple(arguments["end"]))[1]
        with create_file(files, scratch / DIFFERENCES) as writer:
            for key, row in _diff(arguments["fixed"], then, now):
                change = {"collection": key[0], "id": key[1], "row": row}
                writer.write(orjson.dumps(change, option=orjson.OPT_APPEND_NEWLINE))
        return {}
    except DamagedSnapshot as problem:
        return {"damaged": [problem.archive, problem.member, problem.reason]}
    except StorageFull as problem:
        return {"no_room": problem.detail}
    except DamagedLog as problem:
        return {"unreadable": problem.detail}


def read_snapshot_rows(files: FileSystem, archive: str, folder: Path, manifest: Manifest, account: str | None) -> _Rows:
    """Read a snapshot that was unpacked into a folder, and return the rows of an account; none if it is None.

    Raises DamagedSnapshot if its log or its keyring is damaged.
    """
    try:
        read_keyring(files, folder / KEYRING)
    except ValueError as problem:
        raise DamagedSnapshot(archive, KEYRING, str(problem)) from problem
    try:
        log, rows = read_latest_rows(files, folder / "change_log", account)
    except DamagedLog as problem:
        member = f"change_log/{problem.path.name}"
        raise DamagedSnapshot(archive, member, f"offset {problem.offset}: {problem.reason}") from problem
    if (log.log_id, log.last_seq) != (manifest.log_id, manifest.last_seq):
        raise DamagedSnapshot(archive, "manifest.json", "tells of another log than the one that is in the archive")
    return rows


def _diff(fixed: Mapping[str, Sequence[str]], then: _Rows, now: _Rows) -> Iterator[_Wanted]:
    """Yield the rows to delete, newest first, and then the rows to write, each after the rows it refers to.

    Before those, what was deleted already and was erased since: nothing is written of it, and others may quote it.
    """
    for key, text in then.items():
        row = _row(text)
        if key[0] in fixed and not is_live(row) and not is_erased(row) and is_erased(_row(now.get(key))):
            yield key, None
    gone = [
        key for key, text in now.items() if key[0] in fixed and is_live(_row(text)) and not is_live(_row(then.get(key)))
    ]
    for collection in reversed(list(fixed)):
        for key in reversed(gone):
            if key[0] == collection and key[1] not in fixed[collection]:
                yield key, None
    for collection in fixed:
        for key, text in then.items():
            if key[0] == collection and text != now.get(key):
                row = _row(text)
                if is_live(row) and differs(row, _row(now.get(key))):
                    yield key, row


def _row(text: bytes | None) -> Row | None:
    row: Row | None = None if text is None else orjson.loads(text)
    return row


_UNPACKED = ".unpack"


def unpack_directory(files: FileSystem, archive: Path, root: Path, max_bytes: int) -> Manifest:
    """Unpack a snapshot as a data directory with all its history. The folder is empty or does not exist.

    All of the log is read before it is moved into place. What an interrupted call has left is removed. Raises
    Conflict for a folder that is not empty, DamagedSnapshot naming the member, StorageFull and OSError; then the folder
    is empty.
    A `keys/` may exist before: moving a hub includes its master key.
    """
    scratch, directory = root / _UNPACKED, DataDirectory(root)
    others = [name for name in files.names(root) if name not in {_UNPACKED, directory.keys.name}]
    if others or root.is_file():
        raise Conflict(f"{root} is not empty; a snapshot is unpacked into an empty directory, or a new one")
    try:
        remove_path(files, scratch)
        files.make_folder(scratch)
        manifest = unpack_snapshot(files, archive, scratch, max_bytes)
        read_snapshot_rows(files, archive.name, scratch, manifest, None)
        files.sync_folder(scratch / "change_log")
        # The keys before the log, without which they mean nothing: what a call that died has put there stays right.
        _join_keyrings(files, scratch, directory)
        # The log first: with it the directory is complete, and a missing FORMAT is written again.
        files.rename(scratch / "change_log", directory.change_log)
        files.rename(scratch / "FORMAT", directory.format)
        files.sync_folder(root)
    finally:
        remove_path(files, scratch)
    return manifest


def _join_keyrings(files: FileSystem, scratch: Path, directory: DataDirectory) -> None:
    unpacked = read_keyring(files, scratch / KEYRING)
    if unpacked:
        files.make_folder(directory.keys)
        joined = merge_keys(read_keyring(files, directory.keyring), unpacked)
        replace_file(files, directory.keyring, format_keyring(joined), PRIVATE_MODE)
        files.sync_folder(directory.root)
