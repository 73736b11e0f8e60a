"""File functions that follow no symlink. A link in the place of a file or a folder is removed, never followed."""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from knowhub.stores.files.data_directory import SCRATCH
from knowhub.stores.files.filesystem import FilePath, FileSystem, write_all

TEMPORARY: Final = ".tmp"

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_NO_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO)


def put_file(files: FileSystem, path: Path, data: bytes) -> None:
    """Replace a file in one step, without a sync. Raises OSError."""
    temporary = path.with_name(f".{path.name.removeprefix('.')}.{os.getpid()}{TEMPORARY}")
    try:
        write_file(files, temporary, data)
        files.rename(temporary, path)
    except OSError:
        # The first failure counts. The next write of this process takes the same temporary name.
        with contextlib.suppress(OSError):
            files.remove(temporary)
        raise


def write_file(files: FileSystem, path: FilePath, data: bytes) -> None:
    """Write a new file. Raises OSError."""
    descriptor = files.open(path, _NEW)
    try:
        write_all(files, descriptor, data, 0)
    finally:
        files.close(descriptor)


def append_file(files: FileSystem, path: Path, data: bytes, offset: int) -> None:
    """Write behind the end of a file of `offset` bytes. Raises OSError."""
    descriptor = files.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        write_all(files, descriptor, data, offset)
    finally:
        files.close(descriptor)


def read_file(files: FileSystem, path: Path) -> bytes | None:
    """Return what a file holds; None where there is none, or a link or a folder in its place. Raises OSError."""
    try:
        descriptor = files.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno in _NO_FILE:
            return None
        raise
    try:
        if not stat.S_ISREG(files.fstat(descriptor).st_mode):
            return None
        read = bytearray()
        size = files.size(descriptor)
        while len(read) < size and (more := files.read_at(descriptor, size - len(read), len(read))):
            read += more
        return bytes(read)
    finally:
        files.close(descriptor)


def is_folder(files: FileSystem, path: Path) -> bool:
    """Return whether a path is a folder, and no link to one. Raises OSError."""
    found = files.lstat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def remove(files: FileSystem, path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it. Raises OSError."""
    if is_folder(files, path):
        remove_tree(files, path)
    else:
        files.remove(path)


def clear_path(files: FileSystem, root: Path, folder: Path) -> None:
    """Remove the first thing between `root` and `folder`, or at it, that is no folder. `root` may be a link. OSError.

    `root` itself is the operator's: it may be a link.
    """
    path = root
    for name in folder.relative_to(root).parts:
        path /= name
        found = files.lstat(path)
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode):
            files.remove(path)
            return


def remove_partial_files(files: FileSystem, folder: Path) -> list[str]:
    """Remove what processes were writing into a folder when they died; return the names. Raises OSError."""
    names = [name for name in files.names(folder) if name.endswith(TEMPORARY) or name.startswith(SCRATCH)]
    for name in names:
        remove(files, folder / name)
    return names


def remove_tree(files: FileSystem, folder: Path) -> None:
    """Remove a folder with all in it, and follow no link. Raises OSError."""
    for name in files.names(folder):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            remove_tree(files, path)
        else:
            files.remove(path)
    with contextlib.suppress(FileNotFoundError):
        files.remove_folder(folder)
