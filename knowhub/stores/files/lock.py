"""LOCK: the file that every process of a data directory maps, and that a writer locks for each batch.

It holds {stamp, generation, segment, durable offset}, so that a reader learns with one memory read, and no
system call, whether another process has acknowledged something. The stamp is odd while the rest changes.
It also holds its own inode, the segment's, and the boot id: a copied LOCK, or one from before a reboot, is not
believed, and the end of the log is then judged from the log alone.
"""

import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from knowhub.stores.files.filesystem import FileSystem, write_all

LOCK_BYTES = 4096
_MAGIC = int.from_bytes(b"KNOWHUB1", "little")
_MAGIC_AT, _STAMP_AT, _GENERATION_AT, _SEGMENT_AT, _OFFSET_AT, _INODE_AT, _SUSPECT_AT = range(7)
_SEGMENT_INODE_AT, _BOOT_AT = 7, 8
_WORD_BYTES = 8
_READ_TRIES = 1000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log: everything before it is durable. Ordered as the log grows."""

    generation: int
    segment: int
    offset: int


class LockFile:
    """The mapped LOCK of one open data directory."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        self._fill()
        self._map = mmap.mmap(self._descriptor, LOCK_BYTES)
        self._words = memoryview(self._map).cast("Q")
        self._inode = os.fstat(self._descriptor).st_ino
        self._boot = boot_words(files)

    def close(self) -> None:
        # A process that was forked off shares the open file: closing it here would leave a lock with that one.
        unlock(self._descriptor)
        self._words.release()
        self._map.close()
        self._files.close(self._descriptor)

    def _fill(self) -> None:
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
        """Take the writers' lock if nobody holds it. `flock`: it dies with its holder, and only with it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        unlock(self._descriptor)

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is locked here is still the one that the next process will open as LOCK."""
        return self._files.inode_at(self._path) == self._inode

    @property
    def stamp(self) -> int:
        """A number that moves with every acknowledged batch: one aligned word, read without a system call."""
        return self._words[_STAMP_AT]

    @property
    def segment(self) -> int:
        """The segment that the last published position lies in."""
        return self._words[_SEGMENT_AT]

    @property
    def suspect(self) -> bool:
        """Whether a write failed behind the durable offset: the segment is not to be written on."""
        return bool(self._words[_SUSPECT_AT])

    def mark_suspect(self) -> None:
        self._words[_SUSPECT_AT] = 1

    def read(self) -> tuple[int, Position] | None:
        """Return stamp and position as one consistent pair; None when a writer died between them."""
        words = self._words
        for _ in range(_READ_TRIES):
            stamp = words[_STAMP_AT]
            position = Position(words[_GENERATION_AT], words[_SEGMENT_AT], words[_OFFSET_AT])
            if stamp % 2 == 0 and words[_STAMP_AT] == stamp:
                return stamp, position
        return None

    def read_torn(self) -> Position | None:
        """Return the position of a stamp that stays odd, old or new in each of its parts; None when it moves."""
        words = self._words
        stamp = words[_STAMP_AT]
        position = Position(words[_GENERATION_AT], words[_SEGMENT_AT], words[_OFFSET_AT])
        return position if words[_STAMP_AT] == stamp else None

    def believed(self, segment_inode: int | None) -> bool:
        """Tell whether what stands here was written for this very file, log segment and boot."""
        words = self._words
        return (
            words[_MAGIC_AT] == _MAGIC
            and words[_STAMP_AT] % 2 == 0
            and words[_INODE_AT] == self._inode
            and (segment_inode is None or words[_SEGMENT_INODE_AT] == segment_inode)
            and tuple(words[_BOOT_AT : _BOOT_AT + 2]) == self._boot
        )

    def publish(self, position: Position, segment_inode: int) -> int:
        """Tell every process that the log is durable up to `position`; return the new stamp. Under the lock."""
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


def names_position(lock: bytes) -> bool:
    """Tell whether the bytes of a LOCK, of whatever boot or directory, say that a log was written."""
    words = memoryview(lock[: len(lock) // 8 * 8]).cast("Q")
    return len(words) > _OFFSET_AT and words[_MAGIC_AT] == _MAGIC and words[_OFFSET_AT] > 0


def disown(files: FileSystem, path: Path) -> None:
    """Have LOCK vouch for no segment, and go on saying how far the log was written. Raises OSError.

    A file that is made in the place of one that vanished may get its inode, and would be believed to be that one.
    """
    descriptor = files.open(path, os.O_WRONLY)
    try:
        write_all(files, descriptor, bytes(_WORD_BYTES), _SEGMENT_INODE_AT * _WORD_BYTES)
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def try_flock(descriptor: int) -> bool:
    """Take an exclusive lock on an open file if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def share(descriptor: int) -> None:
    """Take a shared lock on an open file; it waits for an exclusive one, which nobody keeps for long."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def unlock(descriptor: int) -> None:
    """Let go of the lock on an open file for every process that shares it; nothing happens where there is none."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def boot_words(files: FileSystem) -> tuple[int, int]:
    """Return the boot id of this system as two words; random ones where it has none."""
    try:
        digits = files.read(_BOOT_ID).decode().strip().replace("-", "")
    except OSError:
        # No boot id on this system: nothing can vouch for LOCK across a reboot, so nothing is believed.
        return struct.unpack("QQ", os.urandom(16))
    return int(digits[:16], 16), int(digits[16:32], 16)
