"""All calls to the file system that can fail. Tests replace them to inject faults."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from knowhub.core.errors import StorageFull, Unavailable

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_NO_FILE = (*_NO_FOLDER, errno.EISDIR, errno.ENXIO)
TEMPORARY = ".tmp"
SCRATCH = ".restore-"
"""The name of the folder below `snapshots/` in which a restore is prepared begins so."""

_WRITE_BYTES = 1024 * 1024
# Writers wait while this is synced, so it is synced in small parts.
_SYNC_BYTES = 8 * 1024 * 1024

FILE_MODE = 0o640
PRIVATE_MODE = 0o600
"""The rights of a file that nobody but its owner may read."""


FilePath: TypeAlias = Path | str
"""A path; as a text where thousands are made in a row."""


class FileSystem:
    """The calls that the store makes; each raises OSError as the system call does."""

    def open(self, path: FilePath, flags: int, mode: int = FILE_MODE) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        return os.pwrite(descriptor, data, offset)

    def sync_data(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def rename(self, source: FilePath, target: FilePath) -> None:
        os.rename(source, target)

    def remove(self, path: FilePath) -> None:
        os.unlink(path)

    def make_folder(self, folder: FilePath) -> None:
        try:
            # The usual case in one call: the parent exists, and the folder does not.
            os.mkdir(folder, 0o750)
        except (FileNotFoundError, FileExistsError):
            Path(folder).mkdir(mode=0o750, parents=True, exist_ok=True)

    def remove_folder(self, folder: Path) -> None:
        os.rmdir(folder)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def read_at(self, descriptor: int, length: int, offset: int) -> bytes:
        return os.pread(descriptor, length, offset)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def fstat(self, descriptor: int) -> os.stat_result:
        """Return the status of an open file."""
        return os.fstat(descriptor)

    def inode(self, path: Path) -> int | None:
        """Return the inode of a path; None if there is none."""
        try:
            return os.stat(path).st_ino
        except (FileNotFoundError, NotADirectoryError):
            return None

    def lstat(self, path: FilePath) -> os.stat_result | None:
        """Return the status of a path, without following a link; None if there is nothing."""
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: Path) -> Sequence[str]:
        """Return the names in a folder; nothing if it does not exist (any more)."""
        try:
            return sorted(os.listdir(folder))
        except OSError as problem:
            if problem.errno in _NO_FOLDER:
                return []
            raise

    def free(self, folder: Path) -> int:
        """Return how many bytes there is room for."""
        usage = os.statvfs(folder)
        return usage.f_bavail * usage.f_frsize

    def has_access(self, path: Path, mode: int) -> bool:
        """Return whether this user has the access that `os.R_OK`, `os.W_OK` and `os.X_OK` name."""
        return os.access(path, mode)


def write_all(files: FileSystem, descriptor: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`, going on after short writes. Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = files.write_at(descriptor, rest, offset)
        if written <= 0:
            raise OSError(errno.EIO, "the file system wrote nothing and named no reason")
        rest = rest[written:]
        offset += written


class FileWriter:
    """Writes a new file, a megabyte at a time; see `create_file`."""

    def __init__(self, files: FileSystem, descriptor: int) -> None:
        self.size = 0
        self._files = files
        self._descriptor = descriptor
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._synced = 0

    def write(self, data: bytes) -> None:
        """Add `data` to the file. Raises OSError."""
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting. Raises OSError."""
        write_all(self._files, self._descriptor, b"".join(self._waiting), self.size - self._waiting_bytes)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self.size - self._synced >= _SYNC_BYTES:
            self._files.sync_data(self._descriptor)
            self._synced = self.size


@contextmanager
def create_file(files: FileSystem, path: Path) -> Iterator[FileWriter]:
    """Create a file, which is durable at the end. It is removed if that fails. Raises OSError."""
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        writer = FileWriter(files, descriptor)
        yield writer
        writer.flush()
        files.sync(descriptor)
    except BaseException:
        with suppress(OSError):
            files.remove(path)
        raise
    finally:
        files.close(descriptor)


@contextmanager
def translate_errors(outcome: str) -> Iterator[None]:
    """Raise StorageFull or Unavailable instead of an OSError; `outcome` says what it means for the caller."""
    try:
        yield
    except OSError as problem:
        if problem.errno in NO_ROOM:
            raise StorageFull(f"the disk is full: {outcome}") from problem
        raise Unavailable(f"{problem}: {outcome}") from problem


def replace_file(
    files: FileSystem,
    path: Path,
    data: bytes,
    mode: int = FILE_MODE,
    *,
    is_durable: bool = True,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Replace a file in one step: temporary file, rename; both are synced if `is_durable`. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        write_file(files, temporary, data, mode, is_durable=is_durable)
        before_rename()
        files.rename(temporary, path)
    except OSError:
        # The first error counts. The next write overwrites a temporary file that is left.
        with suppress(OSError):
            files.remove(temporary)
        raise
    if is_durable:
        files.sync_folder(path.parent)


def write_file(
    files: FileSystem, path: FilePath, data: bytes, mode: int = FILE_MODE, *, is_durable: bool = False
) -> None:
    """Write a file, through no symlink. Raises OSError."""
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        write_all(files, descriptor, data, 0)
        if is_durable:
            files.sync(descriptor)
    finally:
        files.close(descriptor)


def append_file(files: FileSystem, path: Path, data: bytes, length: int) -> None:
    """Write after the first `length` bytes of a file, or make it, through no symlink. Raises OSError."""
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        files.truncate(descriptor, length)
        write_all(files, descriptor, data, length)
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
        return read_range(files, descriptor, 0, files.size(descriptor))
    finally:
        files.close(descriptor)


def read_range(files: FileSystem, descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes of an open file from `start` to `end`, fewer if it is shorter. Raises OSError."""
    pieces: list[bytes] = []
    while start < end and (piece := files.read_at(descriptor, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def is_folder(files: FileSystem, path: Path) -> bool:
    """Return whether a path is a folder, and no link to one. Raises OSError."""
    found = files.lstat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def remove_path(files: FileSystem, path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it, if it is there; follow no link. Raises OSError."""
    if not is_folder(files, path):
        with suppress(FileNotFoundError):
            files.remove(path)
        return
    for name in files.names(path):
        remove_path(files, path / name)
    with suppress(FileNotFoundError):
        files.remove_folder(path)


def clear_path(files: FileSystem, root: Path, folder: Path) -> None:
    """Remove the first thing between `root` and `folder`, or at it, that is no folder. Raises OSError.

    `root` itself is the operator's: it may be a link.
    """
    path = root
    for name in folder.relative_to(root).parts:
        path /= name
        if not is_folder(files, path):
            remove_path(files, path)
            return


def remove_partial_files(files: FileSystem, folder: Path) -> list[str]:
    """Remove what processes were writing into a folder when they died; return the names. Raises OSError."""
    names = [name for name in files.names(folder) if name.endswith(TEMPORARY) or name.startswith(SCRATCH)]
    for name in names:
        remove_path(files, folder / name)
    return names
