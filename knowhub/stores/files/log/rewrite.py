"""Rewrite files of the log: write new files beside the old ones, and publish all of them with one manifest.

Compaction, erase and repair use this. A process locks the folder of the log while it copies, and takes the writers'
lock only to publish. A rewrite that dies leaves files that no manifest names. The next opening, or the next rewrite,
removes them.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_line import BASE
from knowhub.stores.files.log.log_manifest import LogFileName, LogManifest, publish_manifest

_WRITE_BYTES: Final = 1024 * 1024
# Writers wait while this is synced, so it is synced in small parts.
_SYNC_BYTES: Final = 8 * 1024 * 1024

Transform: TypeAlias = Callable[[bytes], bytes]
"""Returns the line that replaces a line of the log, with the same length and sequence number."""


class LogFileWriter:
    """Writes a new file of the log from its beginning to its end, a megabyte at a time. Close it."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self.size = 0
        self._files = files
        self._descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._pending_ids: list[bytes] = []
        self._waiting_bytes = 0
        self._synced = 0

    def write(self, data: bytes) -> None:
        """Add `data` to the file. Raises OSError."""
        self._pending_ids.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes >= _WRITE_BYTES:
            self._flush()

    def finish(self) -> None:
        """Make all of the file durable. Raises OSError."""
        self._flush()
        self._files.sync(self._descriptor)

    def close(self) -> None:
        self._files.close(self._descriptor)

    def _flush(self) -> None:
        write_all(self._files, self._descriptor, b"".join(self._pending_ids), self.size - self._waiting_bytes)
        self._pending_ids.clear()
        self._waiting_bytes = 0
        if self.size - self._synced >= _SYNC_BYTES:
            self._files.sync_data(self._descriptor)
            self._synced = self.size


def rewrite_file(files: FileSystem, log: ChangeLog, number: int, transform: Transform) -> LogFileName:
    """Write the lines of a closed segment, or of a base, anew and durably; return the name of the new file.

    It is used when a manifest names it. About a megabyte is in memory, or one longer line. Bytes behind the
    durable end are left out. Raises OSError, and ValueError for a line that would change its length.
    """
    name = replace(log.active.name(number), generation=log.active.generation + 1)
    writer = LogFileWriter(files, log.folder / str(name))
    try:
        for line in log.lines(number, 0, _end_of(log, number)):
            writer.write(_check_length(transform, log.path(number), line))
        writer.finish()
    except BaseException:
        with suppress(OSError):
            files.remove(log.folder / str(name))
        raise
    finally:
        writer.close()
    return name


def publish(
    files: FileSystem,
    log: ChangeLog,
    new: LogManifest,
    newest_replaced: int,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Publish a new manifest. `log` uses it after `reload`.

    `newest_replaced` is the number of the newest segment that a new file takes
    the place of. The caller holds the writers' lock and the lock on the folder. Raises OSError.
    """
    now = log.active.files()
    # Later segments are not named: a copy may have started before they existed.
    named = max([newest_replaced, *(name.number for name in now.segments if name.generation)])
    before = replace(now, segments=[name for name in now.segments if name.number <= named])
    publish_manifest(files, log.folder, replace(new, before=before), before_rename)


def write_first_manifest(files: FileSystem, log: ChangeLog, generation: int) -> None:
    """Write a manifest of the files in force where there is none, or where a copy has lost the newest files.

    The caller holds the writers' lock. Raises OSError.
    """
    if log.active.is_manifest_due:
        manifest = LogManifest(max(generation, log.active.generation + 1), log.active.files())
        publish_manifest(files, log.folder, manifest)
        log.reload()


def remove_unused_files(files: FileSystem, log: ChangeLog) -> None:
    """Remove the files of the log that are not in force and that no process needs.

    The caller holds the lock on the folder. Raises OSError.
    """
    active = log.active.files()
    first = min(name.number for name in active.segments)
    is_needed = False
    for name in log.active.list_unused():
        path = log.folder / str(name)
        is_read = not log.is_free(path)
        # A process that reads an old segment will also read the segments after it.
        is_needed = is_needed or (is_read and name.number < first)
        if not is_read and not (is_needed and name.number < first):
            files.remove(path)


def _check_length(transform: Transform, path: Path, line: Line) -> bytes:
    new = transform(line.data)
    if len(new) != len(line.data):
        raise ValueError(f"{path} at offset {line.offset}: a rewritten line must keep its length")
    return new


def _end_of(log: ChangeLog, number: int) -> int:
    """Return where the acknowledged bytes of a closed file of the log end. Raises OSError."""
    if number & BASE:
        return log.size(number)
    header, _ = log.header(number + 1)
    if header is None or header.previous_length is None:
        raise OSError(errno.EIO, f"{log.path(number + 1)} does not say where the segment before it ends")
    return header.previous_length
