"""What stands in the folder of all memories, seen without following a link.

Where a folder of ours should be, a link is a stranger. It goes as in a repair, and what it leads to is not touched.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from knowhub.stores.files.filesystem import FilePath, FileSystem
from knowhub.stores.files.snapshots.restore_work import remove_tree

Look = tuple[tuple[int, int, int], ...]
"""Inode, size and time of files: as long as it is the same, so are they."""


def stranger_on(files: FileSystem, root: Path, folder: Path) -> Path | None:
    """Return the first on the way from `root` to a folder that is no folder; None where there is none. Raises OSError.

    What the operator has put in the place of `root` itself is theirs.
    """
    way = str(root)
    for name in folder.parts[len(root.parts) :]:
        way = f"{way}/{name}"
        found = files.look(way)
        if found is None:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return Path(way)
    return None


def clear_way(files: FileSystem, root: Path, folder: Path) -> None:
    """Remove what stands on the way from `root` to a folder of ours, or at it, and is no folder. Raises OSError."""
    stranger = stranger_on(files, root, folder)
    if stranger is not None:
        files.remove(stranger)


def is_folder(files: FileSystem, path: FilePath) -> bool:
    """Tell whether a path is a folder, and no link to one. Raises OSError."""
    found = files.look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def remove(files: FileSystem, path: Path) -> None:
    """Remove a file, or a folder with all in it, and follow no link. Raises OSError."""
    if is_folder(files, path):
        remove_tree(files, path)
    else:
        files.remove(path)


def plain_size(files: FileSystem, path: FilePath) -> int | None:
    """Return how long a file is; None where there is none, or a link, or anything else. Raises OSError."""
    found = files.look(path)
    return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None


def read_plain(files: FileSystem, path: FilePath) -> bytes:
    """Read a file, and follow no link. Raises OSError, of a link that too many were met."""
    descriptor = files.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        read = bytearray()
        size = files.size(descriptor)
        while len(read) < size and (more := files.read_at(descriptor, size - len(read), len(read))):
            read += more
        return bytes(read)
    finally:
        files.close(descriptor)


def look_of(files: FileSystem, folder: FilePath, names: Sequence[str]) -> Look | None:
    """Return how these files in a folder look; None where it is no folder, or one no file. Raises OSError."""
    if not is_folder(files, folder):
        return None
    looks = []
    for name in names:
        found = files.look(f"{folder}/{name}")
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        looks.append(seen_of(found))
    return tuple(looks)


def seen_of(found: os.stat_result) -> tuple[int, int, int]:
    """Return what a look keeps of one file."""
    return found.st_ino, found.st_size, found.st_mtime_ns
