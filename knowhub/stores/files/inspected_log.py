"""What an inspection reads of a log and of LOCK: nothing is made, nothing is written."""

import mmap
import os
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.stores.files.change_log import ChangeLog
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LOCK_BYTES, LockFile, Position, boot_words
from knowhub.stores.files.log_line import line_checksum
from knowhub.stores.files.records import rows_of


@dataclass(slots=True)
class LogRead:
    """What reading the whole log told: its id, a checksum for each sequence number, the rows for the record files."""

    rows_up_to: int
    log_id: str = ""
    checksums: "array[int]" = field(default_factory=lambda: array("I", [0]))
    rows: dict[str, int] = field(default_factory=dict)
    damaged: bool = False

    @property
    def last_seq(self) -> int:
        return len(self.checksums) - 1

    def take(self, seq: int, data: bytes) -> None:
        # A damaged line leaves a hole in the sequence: nothing stands there.
        self.checksums.extend([0] * (seq - len(self.checksums)))
        self.checksums.append(int(line_checksum(data), 16))
        if seq <= self.rows_up_to:
            for name, text in rows_of([data]):
                self.rows[name] = zlib.crc32(text, self.rows.get(name, 0))

    def holds(self, log_id: str, seq: int, checksum: str) -> bool:
        """Tell whether something derived that says it stands on this line does."""
        if log_id != self.log_id or not 0 <= seq <= self.last_seq:
            return False
        return checksum == (f"{self.checksums[seq]:08x}" if seq else "")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log ended at one moment. `position` is the durable end as LOCK tells it, where that is believed."""

    segments: Sequence[int]
    size: int
    position: Position | None

    @classmethod
    def of(cls, log: ChangeLog, position: Position | None) -> "LogEnd":
        """Look at the segments on disk. Raises ValueError for a segment file whose name is no number."""
        segments = log.segments()
        return cls(segments, log.size(segments[-1]) if segments else 0, position)

    def durable(self, log: ChangeLog, segment: int, header_length: int) -> int | None:
        """Return where the acknowledged bytes of a segment end; None when only the log itself can tell."""
        if segment != self.segments[-1]:
            following, _ = log.header(self.segments[self.segments.index(segment) + 1])
            return following.previous_length if following else None
        if self.position is None:
            return None
        # A segment that was begun and not yet written to when its maker died holds nothing but its header.
        return self.position.offset if self.position.segment == segment else header_length


class ReadOnlyLock(LockFile):
    """LOCK mapped for reading: it is neither made nor written. Raises OSError, and ValueError when it is too short."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self._descriptor = files.open(path, os.O_RDONLY)
        try:
            self._map = mmap.mmap(self._descriptor, LOCK_BYTES, access=mmap.ACCESS_READ)
        except ValueError:
            files.close(self._descriptor)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._inode = os.fstat(self._descriptor).st_ino
        self._boot = boot_words()
