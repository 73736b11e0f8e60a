"""A file system that counts its calls, and fails, shortens or never returns from a chosen call."""

import errno
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.stores.files.filesystem import FILE_MODE, FilePath, FileSystem

CHANGES = (
    "open", "write_at", "sync_data", "sync", "sync_folder", "truncate", "rename", "remove",
    "make_folder", "remove_folder",
)  # fmt: skip
"""The calls that change what is on the disk, or decide that it is there."""


class CrashNow(BaseException):
    """The process died inside a call. No `except OSError` and no `except Exception` may catch it."""


@dataclass(slots=True)
class Plan:
    """What is to go wrong. Calls are counted from 1; `kinds` are those that `crash_at` and `fail_at` count."""

    crash_at: int | None = None
    fail_at: int | None = None
    error: int = errno.EIO
    lasting: bool = False
    kinds: Sequence[str] = CHANGES
    short_writes: bool = False
    half_written: bool = False


@dataclass(slots=True)
class FaultyFileSystem(FileSystem):
    """The real calls on a real folder, under a plan that a test may replace at any moment."""

    plan: Plan = field(default_factory=Plan)
    counts: Counter[str] = field(default_factory=Counter)
    crashed: bool = False
    _real: FileSystem = field(default_factory=FileSystem)
    _counted: int = 0
    _open: set[int] = field(default_factory=set)

    def begin(self, plan: Plan) -> None:
        """Count from 1 again, under a new plan."""
        self.plan, self._counted = plan, 0
        self.counts.clear()

    @property
    def calls(self) -> int:
        """How many calls of the plan's kinds there were since `begin`."""
        return self._counted

    @property
    def log_syncs(self) -> int:
        return self.counts["sync_data"]

    def bury(self) -> None:
        """Close the files of the dead process, as the kernel does."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    def open(self, path: FilePath, flags: int, mode: int = FILE_MODE) -> int:
        # Opening for reading changes nothing: it is no boundary.
        self._enter("open" if flags & (os.O_CREAT | os.O_TRUNC) else "open_existing")
        descriptor = self._real.open(path, flags, mode)
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        self._real.close(descriptor)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        try:
            self._enter("write_at")
        except (OSError, CrashNow):
            if self.plan.half_written:
                self._real.write_at(descriptor, data[: len(data) // 2], offset)
            raise
        return self._real.write_at(descriptor, data[:7] if self.plan.short_writes else data, offset)

    def sync_data(self, descriptor: int) -> None:
        self._enter("sync_data")
        self._real.sync_data(descriptor)

    def sync(self, descriptor: int) -> None:
        self._enter("sync")
        self._real.sync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        self._enter("sync_folder")
        self._real.sync_folder(folder)

    def truncate(self, descriptor: int, length: int) -> None:
        self._enter("truncate")
        self._real.truncate(descriptor, length)

    def rename(self, source: FilePath, target: FilePath) -> None:
        self._enter("rename")
        self._real.rename(source, target)

    def remove(self, path: FilePath) -> None:
        self._enter("remove")
        self._real.remove(path)

    def make_folder(self, folder: FilePath) -> None:
        self._enter("make_folder")
        self._real.make_folder(folder)

    def remove_folder(self, folder: Path) -> None:
        self._enter("remove_folder")
        self._real.remove_folder(folder)

    def read(self, path: Path) -> bytes:
        self._enter("read")
        return self._real.read(path)

    def read_at(self, descriptor: int, length: int, offset: int) -> bytes:
        self._enter("read_at")
        return self._real.read_at(descriptor, length, offset)

    def size(self, descriptor: int) -> int:
        self._enter("size")
        return self._real.size(descriptor)

    def fstat(self, descriptor: int) -> os.stat_result:
        self._enter("look_into")
        return self._real.fstat(descriptor)

    def inode(self, path: Path) -> int | None:
        self._enter("inode_at")
        return self._real.inode(path)

    def lstat(self, path: FilePath) -> os.stat_result | None:
        self._enter("look")
        return self._real.lstat(path)

    def names(self, folder: Path) -> Sequence[str]:
        self._enter("names")
        return self._real.names(folder)

    def free(self, folder: Path) -> int:
        self._enter("free")
        return self._real.free(folder)

    def has_access(self, path: Path, mode: int) -> bool:
        self._enter("allows")
        return self._real.has_access(path, mode)

    def _enter(self, kind: str) -> None:
        if self.crashed:
            raise CrashNow
        self.counts[kind] += 1
        if kind not in self.plan.kinds:
            return
        self._counted += 1
        if self._counted == self.plan.crash_at:
            self.crashed = True
            raise CrashNow
        first = self.plan.fail_at
        if first is not None and (self._counted == first or (self.plan.lasting and self._counted > first)):
            raise OSError(self.plan.error, os.strerror(self.plan.error))
