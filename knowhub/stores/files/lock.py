"""LOCK: the file that every process of a data directory maps, and that a writer locks for each batch.

It holds {stamp, generation, segment, durable offset}, so that a reader learns with one memory read, and no
system call, whether another process has acknowledged something. The stamp is odd while the rest changes.
It also holds its own inode, the segment's, and the boot id: a copied LOCK, or one from before a reboot, is not
believed, and the end of the log is then judged from the log alone.
"""

import asyncio
import fcntl
import mmap
import os
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.errors import Conflict
from knowhub.stores.files.filesystem import FileSystem, translate_errors, write_all

LOCK_BYTES = 4096
_MAGIC = int.from_bytes(b"KNOWHUB1", "little")
_MAGIC_AT, _STAMP_AT, _GENERATION_AT, _SEGMENT_AT, _OFFSET_AT, _INODE_AT, _SUSPECT_AT = range(7)
_SEGMENT_INODE_AT, _BOOT_AT = 7, 8
_READ_TRIES = 1000
_WAIT_POLL_S = 0.001
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in the log: everything before it is durable. Later positions are greater."""

    generation: int
    segment: int
    offset: int


class LockFile:
    """The mapped LOCK of one open data directory.

    With `is_read_only` it is neither made nor written: raises ValueError where it is too short.
    """

    def __init__(self, files: FileSystem, path: Path, *, is_read_only: bool = False) -> None:
        self._files = files
        self._path = path
        self._descriptor = files.open(path, os.O_RDONLY if is_read_only else os.O_RDWR | os.O_CREAT)
        if not is_read_only:
            self._initialize()
        try:
            access = mmap.ACCESS_READ if is_read_only else mmap.ACCESS_WRITE
            self._map = mmap.mmap(self._descriptor, LOCK_BYTES, access=access)
        except ValueError:
            files.close(self._descriptor)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._inode = os.fstat(self._descriptor).st_ino
        self._boot = read_boot_id(files)

    def close(self) -> None:
        # A forked process shares the open file, and would keep the lock.
        unlock(self._descriptor)
        self._words.release()
        self._map.close()
        self._files.close(self._descriptor)

    def _initialize(self) -> None:
        if self._files.size(self._descriptor) >= LOCK_BYTES:
            return
        # Under the lock, and looked at again: two processes that make a directory must not wipe each other's words.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            if self._files.size(self._descriptor) < LOCK_BYTES:
                # The blocks exist before the file is mapped: a full disk must not fault a memory write later.
                write_all(self._files, self._descriptor, bytes(LOCK_BYTES), 0)
                self._files.sync(self._descriptor)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def try_acquire(self) -> bool:
        """Take the writers' lock if it is free. The kernel releases it when the process dies."""
        return try_flock(self._descriptor)

    def acquire(self, timeout_s: float) -> bool:
        """Take the writers' lock; return False if it is not free within `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while not self.try_acquire():
            if time.monotonic() > deadline:
                return False
            time.sleep(_WAIT_POLL_S)
        return True

    def release(self) -> None:
        unlock(self._descriptor)

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file still has the name LOCK, so that the next process opens the same file."""
        return self._files.inode(self._path) == self._inode

    @property
    def stamp(self) -> int:
        """A number that changes with every acknowledged batch. It is odd during a publication.

        It is one aligned word, read without a system call.
        """
        return self._words[_STAMP_AT]

    @property
    def is_suspect(self) -> bool:
        """Whether a write after the durable offset failed. Then nothing more may be appended to this segment."""
        return bool(self._words[_SUSPECT_AT])

    def mark_suspect(self) -> None:
        self._words[_SUSPECT_AT] = 1

    def read(self) -> tuple[int, Position] | None:
        """Return a stamp and its position; None during a publication, also if its writer died in it."""
        for _ in range(_READ_TRIES):
            read = self._read_once()
            if read is not None and read[0] % 2 == 0:
                return read
        return None

    def read_during_publication(self) -> Position | None:
        """Return a position whose parts are each from before or after the publication; None if the stamp changes."""
        read = self._read_once()
        return None if read is None else read[1]

    def _read_once(self) -> tuple[int, Position] | None:
        words = self._words
        stamp = words[_STAMP_AT]
        position = Position(words[_GENERATION_AT], words[_SEGMENT_AT], words[_OFFSET_AT])
        return (stamp, position) if words[_STAMP_AT] == stamp else None

    def is_trusted(self, segment_inode: int | None) -> bool:
        """Return whether the content was written for this file, this segment and this boot."""
        words = self._words
        return (
            words[_MAGIC_AT] == _MAGIC
            and words[_STAMP_AT] % 2 == 0
            and words[_INODE_AT] == self._inode
            and (segment_inode is None or words[_SEGMENT_INODE_AT] == segment_inode)
            and tuple(words[_BOOT_AT : _BOOT_AT + 2]) == self._boot
        )

    def begin_publication(self) -> None:
        """Open a publication. If this process dies before its end, the next writer looks for the end of the log."""
        self._words[_STAMP_AT] |= 1

    def cancel_publication(self) -> None:
        """Close a publication that `begin_publication` has opened: nothing was published."""
        self._words[_STAMP_AT] = (self._words[_STAMP_AT] | 1) + 1

    def publish(self, position: Position, segment_inode: int) -> int:
        """Publish that the log is durable up to `position`; return the new stamp. Needs the lock."""
        words = self._words
        odd = words[_STAMP_AT] | 1
        words[_STAMP_AT] = odd
        words[_MAGIC_AT] = _MAGIC
        words[_GENERATION_AT] = position.generation
        words[_SEGMENT_AT] = position.segment
        words[_OFFSET_AT] = position.offset
        words[_INODE_AT] = self._inode
        words[_SEGMENT_INODE_AT] = segment_inode
        words[_SUSPECT_AT] = 0
        words[_BOOT_AT], words[_BOOT_AT + 1] = self._boot
        words[_STAMP_AT] = odd + 1
        return odd + 1

    def forget_segment(self) -> None:
        """Forget the inode of the segment, and keep the position. Needs the lock.

        A new file may get the inode of a segment that vanished, and LOCK would be trusted for it.
        """
        self._words[_SEGMENT_INODE_AT] = 0

    def clear(self) -> None:
        """Forget everything: the end of the log is found in the log. Needs the lock."""
        self._map[:] = bytes(LOCK_BYTES)


def contains_position(lock: bytes) -> bool:
    """Return whether the bytes of a LOCK file, of any boot or directory, say that a log was written."""
    words = memoryview(lock[: len(lock) // 8 * 8]).cast("Q")
    return len(words) > _OFFSET_AT and words[_MAGIC_AT] == _MAGIC and words[_OFFSET_AT] > 0


def try_flock(descriptor: int) -> bool:
    """Take an exclusive lock on an open file if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_free(files: FileSystem, path: Path) -> bool:
    """Return whether no process has locked a file. Raises OSError."""
    descriptor = files.open(path, os.O_RDONLY)
    try:
        return try_flock(descriptor)
    finally:
        files.close(descriptor)


def lock_shared(descriptor: int) -> None:
    """Take a shared lock on an open file; it waits for an exclusive one, which nobody keeps for long."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def unlock(descriptor: int) -> None:
    """Release the lock on an open file, for every process that shares the file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def read_boot_id(files: FileSystem) -> tuple[int, int]:
    """Return the boot id of this system as two words; random ones where it has none."""
    try:
        digits = files.read(_BOOT_ID).decode().strip().replace("-", "")
    except OSError:
        # No boot id on this system: nothing can vouch for LOCK across a reboot, so nothing is believed.
        return struct.unpack("QQ", os.urandom(16))
    return int(digits[:16], 16), int(digits[16:32], 16)


_POLL_S = 0.05


@asynccontextmanager
async def lock_folder(files: FileSystem, folder: Path, wait_s: float, refusal: str) -> AsyncIterator[None]:
    """Lock a folder, which is created if it is missing. The lock ends with the process.

    Raises Conflict with `refusal` when another holds it for longer than `wait_s` seconds; StorageFull, Unavailable.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    outcome = f"{folder} could not be used, and nothing was done"
    with translate_errors(outcome):
        is_new = files.inode(folder) is None
        if is_new:
            files.make_folder(folder)
        descriptor = files.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not try_flock(descriptor):
            if loop.time() > deadline:
                raise Conflict(refusal)
            await asyncio.sleep(_POLL_S)
        if is_new:
            with translate_errors(outcome):
                await asyncio.to_thread(files.sync_folder, folder.parent)
        yield
    finally:
        # A forked process shares the open folder, and would keep the lock.
        unlock(descriptor)
        files.close(descriptor)


@contextmanager
def try_lock_folder(files: FileSystem, folder: Path) -> Iterator[bool]:
    """Lock a folder if nobody else has; yield whether it is locked. Raises OSError."""
    descriptor = files.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    is_claimed = try_flock(descriptor)
    try:
        yield is_claimed
    finally:
        # Where nobody got the lock, this does nothing.
        unlock(descriptor)
        files.close(descriptor)
