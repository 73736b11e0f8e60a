"""Rewrite files of the log: write new files beside the old ones, and publish all of them with one manifest.

Compaction, erase and repair use this. A process locks the folder of the log while it copies, and takes the writers'
lock only to publish. A rewrite that dies leaves files that no manifest names. The next opening, or the next rewrite,
removes them.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from knowhub.stores.files.filesystem import FileSystem, create_file
from knowhub.stores.files.lock import is_free
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_manifest import LogFileName, LogManifest, publish_manifest

Transform: TypeAlias = Callable[[bytes], bytes]
"""Returns the line that replaces a line of the log, with the same length and sequence number."""


def write_version(files: FileSystem, log: ChangeLog, name: LogFileName, lines: Iterable[bytes]) -> int:
    """Write a new version of a file of the log durably; return its size. It is used when a manifest names it."""
    with create_file(files, log.folder / str(name)) as writer:
        for line in lines:
            writer.write(line)
    return writer.size


def rewrite_file(files: FileSystem, log: ChangeLog, number: int, transform: Transform) -> LogFileName:
    """Write a new version of a closed segment, or of a base; return its name.

    About a megabyte is in memory, or one longer line. Raises OSError, and ValueError as `transform_lines`.
    """
    name, end = replace(log.name(number), generation=log.generation + 1), log.durable_end(number)
    if end is None:
        raise OSError(errno.EIO, f"{log.path(number + 1)} does not say where the segment before it ends")
    write_version(files, log, name, transform_lines(log, number, end, transform))
    return name


def transform_lines(log: ChangeLog, number: int, end: int, transform: Transform) -> Iterator[bytes]:
    """Yield the new lines of a file up to `end`. Raises ValueError for a line that would change its length."""
    for line in log.lines(number, 0, end):
        new = transform(line.data)
        if len(new) != len(line.data):
            raise ValueError(f"{log.path(number)} at offset {line.offset}: a rewritten line must keep its length")
        yield new


def publish(
    files: FileSystem,
    log: ChangeLog,
    new: LogManifest,
    newest_replaced: int,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Publish a new manifest. `log` uses it after `reload`.

    `newest_replaced` is the number of the newest segment that a new file replaces. The caller holds
    the writers' lock and the lock on the folder. Raises OSError.
    """
    now = log.files()
    # Later segments are not named: a copy may have started before they existed.
    named = max([newest_replaced, *(name.number for name in now.segments if name.generation)])
    before = replace(now, segments=[name for name in now.segments if name.number <= named])
    publish_manifest(files, log.folder, replace(new, before=before), before_rename)


def write_first_manifest(files: FileSystem, log: ChangeLog, generation: int) -> None:
    """Write a manifest of the current files if there is none, or if a copy lacks the newest files.

    The caller holds the writers' lock. Raises OSError.
    """
    if log.is_manifest_due:
        manifest = LogManifest(max(generation, log.generation + 1), log.files())
        publish_manifest(files, log.folder, manifest)
        log.reload()


def remove_unused_files(files: FileSystem, log: ChangeLog) -> None:
    """Remove the files of the log that are not current and that no process needs.

    The caller holds the lock on the folder. Raises OSError.
    """
    active = log.files()
    first = min(name.number for name in active.segments)
    is_needed = False
    for name in log.list_unused():
        path = log.folder / str(name)
        is_read = not is_free(files, path)
        # A process that reads an old segment will also read the segments after it.
        is_needed = is_needed or (is_read and name.number < first)
        if not is_read and not (is_needed and name.number < first):
            files.remove(path)
