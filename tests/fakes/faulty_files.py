"""A file system that counts its calls, and fails, shortens or never returns from a chosen call."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from knowhub.stores.files.filesystem import FILE_MODE, FilePath, FileSystem

ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")

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


def _plan_fault(
    real: Callable[Concatenate[FileSystem, ArgumentsT], ResultT], kind: str
) -> Callable[Concatenate["FaultyFileSystem", ArgumentsT], ResultT]:
    """Return a call that the plan may stop before it does what the real one does."""

    def call(files: "FaultyFileSystem", /, *args: ArgumentsT.args, **named: ArgumentsT.kwargs) -> ResultT:
        files.enter(kind)
        return real(files, *args, **named)

    return call


@dataclass(slots=True)
class FaultyFileSystem(FileSystem):
    """The real calls on a real folder, under a plan that a test may replace at any moment."""

    plan: Plan = field(default_factory=Plan)
    counts: Counter[str] = field(default_factory=Counter)
    crashed: bool = False
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
        self.enter("open" if flags & (os.O_CREAT | os.O_TRUNC) else "open_existing")
        descriptor = FileSystem.open(self, path, flags, mode)
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        FileSystem.close(self, descriptor)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        try:
            self.enter("write_at")
        except (OSError, CrashNow):
            if self.plan.half_written:
                FileSystem.write_at(self, descriptor, data[: len(data) // 2], offset)
            raise
        return FileSystem.write_at(self, descriptor, data[:7] if self.plan.short_writes else data, offset)

    sync_data = _plan_fault(FileSystem.sync_data, "sync_data")
    sync = _plan_fault(FileSystem.sync, "sync")
    sync_folder = _plan_fault(FileSystem.sync_folder, "sync_folder")
    truncate = _plan_fault(FileSystem.truncate, "truncate")
    rename = _plan_fault(FileSystem.rename, "rename")
    remove = _plan_fault(FileSystem.remove, "remove")
    make_folder = _plan_fault(FileSystem.make_folder, "make_folder")
    remove_folder = _plan_fault(FileSystem.remove_folder, "remove_folder")
    read = _plan_fault(FileSystem.read, "read")
    read_at = _plan_fault(FileSystem.read_at, "read_at")
    size = _plan_fault(FileSystem.size, "size")
    fstat = _plan_fault(FileSystem.fstat, "look_into")
    inode = _plan_fault(FileSystem.inode, "inode_at")
    lstat = _plan_fault(FileSystem.lstat, "look")
    names = _plan_fault(FileSystem.names, "names")
    free = _plan_fault(FileSystem.free, "free")
    has_access = _plan_fault(FileSystem.has_access, "allows")

    def enter(self, kind: str) -> None:
        """Count a call; it fails or dies here if the plan says so."""
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
