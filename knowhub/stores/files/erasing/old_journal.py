"""Finish an erase that an earlier version began: it overwrote lines in place, and kept a journal.

Such a directory has no manifest. The journal is applied if the log contains its operation. This version rewrites files
and needs no journal.
"""

import os
import zlib
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Final

import orjson

from knowhub.core.errors import Unavailable
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import parse_line
from knowhub.stores.files.log.log_reader import LogBounds

JOURNAL: Final = "erase.journal"


def has_journal(files: FileSystem, directory: DataDirectory) -> bool:
    """Return whether an earlier version left a journal."""
    return files.inode(directory.change_log / JOURNAL) is not None


def finish(files: FileSystem, directory: DataDirectory, lock: LockFile) -> bool:
    """Apply the journal if the log has its operation, and remove it; return whether there was one.

    To be called before the log is read: a line may be half old and half new. Needs the lock. Raises OSError, and
    Unavailable for a damaged journal.
    """
    if not has_journal(files, directory):
        return False
    path = directory.change_log / JOURNAL
    records = [parse_line(line) for line in files.read(path).splitlines(keepends=True)]
    whole = [record for record in records if record is not None]
    if len(whole) != len(records) or not whole or whole[0].get("overwrites") != len(whole) - 1:
        raise Unavailable(f"{path} is damaged, and an erasing was broken off: remove it, and erase the record again")
    if _is_written(files, directory, lock, whole[0]["operation_id"]):
        for item in whole[1:]:
            _overwrite(files, directory.root / item["file"], item["offset"], zlib.decompress(b64decode(item["bytes"])))
    files.remove(path)
    files.sync_folder(directory.change_log)
    return True


def _is_written(files: FileSystem, directory: DataDirectory, lock: LockFile, operation_id: str) -> bool:
    """Return whether the log has an operation, up to its durable end."""
    needle = orjson.dumps(operation_id)
    with closing(ChangeLog(files, directory.change_log)) as log:
        end = LogBounds.of(log, lock).position
        for number in reversed(log.segments()):
            size = end.offset if end is not None and end.segment == number else log.size(number)
            for line in log.lines(number, 0, size):
                if needle in line.data and (line.record or {}).get("operation_id") == operation_id:
                    return True
    return False


def _overwrite(files: FileSystem, path: Path, offset: int, data: bytes) -> None:
    # A compaction may have removed the file since.
    if files.inode(path) is not None:
        descriptor = files.open(path, os.O_WRONLY)
        try:
            write_all(files, descriptor, data, offset)
            files.sync_data(descriptor)
        finally:
            files.close(descriptor)
