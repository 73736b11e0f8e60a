"""Files that follow the log: a checkpoint stores how far. Files that do not fit the log are rebuilt."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from knowhub.core.operation import Operation
from knowhub.core.projection import CheckResult, LogMark, LogPosition
from knowhub.stores.files.filesystem import FileSystem, remove_path, replace_file
from knowhub.stores.files.lock import lock_folder, read_boot_id
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import PartialOperation, decode_operation, format_line, parse_line

CHECKPOINT: Final = "checkpoint.json"

_OPERATIONS_PER_TURN: Final = 500
_BYTES_PER_TURN: Final = 512 * 1024
_WAIT_S: Final = 10.0
_BUSY: Final = "another process writes these files; try again"


class ProjectionLog(LogMark, Protocol):
    """What files are derived from: a log, and the rows of its accounts."""

    @property
    def history(self) -> History: ...
    @property
    def accounts(self) -> Collection[str]: ...
    async def refresh(self) -> None: ...
    def view(self, account: str) -> Any: ...  # noqa: ANN401 -- a domain's own view of an account


@dataclass(frozen=True, slots=True)
class Checkpoint(LogPosition):
    """How far files have followed a log, which began after the operation `base`.

    `boot` names the system's boot: files are not synced, so those of another boot may be torn. `layout` is the version
    of their format, 0 if there are none, `lengths` the size of each file that is only appended to.
    """

    base: int = 0
    boot: str = ""
    layout: int = 0
    lengths: dict[str, int] = field(default_factory=dict)


class DerivedFiles(ABC):
    """Files with a checkpoint, which says up to where they follow the log."""

    layout: ClassVar[int] = 1
    checkpoint_name: ClassVar[str] = CHECKPOINT

    def __init__(self, files: FileSystem, folder: Path, log: ProjectionLog) -> None:
        self._files = files
        self._folder = folder
        self._log = log
        self._turn = asyncio.Lock()
        self._boot = "{:016x}{:016x}".format(*read_boot_id(files))

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that the files know of; -1 if unknown, None if there are no files."""
        checkpoint = self.checkpoint()
        if checkpoint.layout:
            return checkpoint.last_erase_seq
        return -1 if self._list_files() else None

    @property
    def lag(self) -> int:
        """The number of operations that the files lack, whichever process writes them."""
        return max(0, self._log.history.last_seq - self.checkpoint().seq)

    def discard(self) -> None:
        """Remove the files. Nobody else may have the directory open. Raises OSError."""
        for path in sorted(self._list_files(), key=lambda path: path.name != self.checkpoint_name):
            remove_path(self._files, path)

    def checkpoint(self) -> Checkpoint:
        """Read the checkpoint; an empty one if there is none, or a damaged one. Raises OSError."""
        try:
            found = parse_line(self._files.read(self._folder / self.checkpoint_name))
        except FileNotFoundError:
            found = None
        if found is None or found.get("layout") != self.layout:
            return Checkpoint("", 0, "", 0)
        return Checkpoint.from_stored(found)

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Return whether the files were made from this log, and the log still has all that they lack."""
        return (
            (checkpoint.layout, checkpoint.boot) == (self.layout, self._boot)
            and self._log.history.base_seq <= checkpoint.seq
            and LogPosition.fits(checkpoint, self._log)
        )

    def check(self) -> CheckResult:
        """Compare the files with what a rebuild would write; write nothing. Raises OSError."""
        checkpoint = self.checkpoint()
        if not checkpoint.layout:
            is_there = bool(self._list_files())
            return CheckResult(None, fits=not is_there, is_empty=not is_there and not self._has_rows())
        if not self.fits(checkpoint):
            return CheckResult(checkpoint.seq, fits=False)
        differences, summary = self._compare(checkpoint)
        return CheckResult(checkpoint.seq, differences=differences, summary=summary)

    @abstractmethod
    def _has_rows(self) -> bool:
        """Return whether the log has anything to be written."""

    @abstractmethod
    def _compare(self, checkpoint: Checkpoint) -> tuple[Sequence[str], str]:
        """Return the paths that differ from a rebuild, up to a valid checkpoint, and a summary of the comparison."""

    def _list_files(self) -> list[Path]:
        return [self._folder / name for name in self._files.names(self._folder)]

    async def _save(self, checkpoint: Checkpoint) -> None:
        data = format_line(checkpoint.to_stored())
        await asyncio.to_thread(replace_file, self._files, self._folder / self.checkpoint_name, data, is_durable=False)


class LogProjection(DerivedFiles):
    """Record files and directories: they apply each operation. One process writes at a time, under a lock."""

    async def catch_up(self) -> None:
        """Apply the operations that the files lack, or build the files again. See `core.projection.Projection`."""
        async with self._turn:
            checkpoint, history = self.checkpoint(), self._log.history
            if checkpoint.seq == history.last_seq and (
                self.fits(checkpoint) or (checkpoint.seq == 0 and not self._list_files())
            ):
                return
            async with lock_folder(self._files, self._folder, _WAIT_S, _BUSY):
                # Another process may have written before, and known more.
                await self._log.refresh()
                checkpoint = self.checkpoint()
                if not self.fits(checkpoint):
                    checkpoint = self._initial_checkpoint()
                    await self.rebuild(checkpoint)
                    await self._save(checkpoint)
                # Where a compaction has forgotten what comes next, the next call builds the files again.
                while history.base_seq <= checkpoint.seq < history.last_seq:
                    lines = await history.read_lines(checkpoint.seq, _OPERATIONS_PER_TURN, _BYTES_PER_TURN)
                    operations, last = await asyncio.to_thread(_parse_lines, history, checkpoint.seq, lines)
                    await self.apply(operations, checkpoint)
                    checkpoint = replace(checkpoint, seq=last, checksum=history.checksum(last))
                    await self._save(checkpoint)

    async def request_rebuild(self) -> None:
        """Have the leader build the files again. Raises Conflict where another process writes them for long."""
        async with self._turn, lock_folder(self._files, self._folder, _WAIT_S, _BUSY):
            if self._files.inode(self._folder / CHECKPOINT) is not None:
                self._files.remove(self._folder / CHECKPOINT)

    @abstractmethod
    async def apply(self, operations: Sequence[PartialOperation], checkpoint: Checkpoint) -> None:
        """Bring the files up by operations. To apply the same operations twice does no harm."""

    @abstractmethod
    async def rebuild(self, checkpoint: Checkpoint) -> None:
        """Make the files say what the log says up to `checkpoint.seq`, whatever is on disk."""

    @abstractmethod
    def _initial_checkpoint(self) -> Checkpoint:
        """Return the checkpoint of files that are built again from nothing."""

    def _new_checkpoint(self, seq: int) -> Checkpoint:
        history, log = self._log.history, self._log
        return Checkpoint(
            log.log_id, seq, history.checksum(seq), log.last_erase_seq, history.base_seq, self._boot, self.layout
        )


def _parse_lines(history: History, seq: int, lines: Sequence[bytes]) -> tuple[list[PartialOperation], int]:
    operations = [decode_operation(line) for line in lines]
    # Damaged lines leave holes: where so many are damaged that none is left, others may follow them.
    last = operations[-1].seq if operations else seq + _OPERATIONS_PER_TURN
    return operations, min(last, history.last_seq)


class DisabledExport:
    """Takes the place of record files or directories, and removes their folder."""

    lag = 0

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files = files
        self._folder = folder

    @property
    def erased_through_seq(self) -> int | None:
        """None if there is no folder; else -1, for unknown."""
        return None if self._files.lstat(self._folder) is None else -1

    async def catch_up(self) -> None:
        """Remove the folder. Raises OSError."""
        if self._files.lstat(self._folder) is not None:
            await asyncio.to_thread(self.discard)

    async def project(self, account: str, operation: Operation) -> bool:
        """See `context.ports.ContextDirectories`: there is nothing that could have to wait."""
        del account, operation
        return True

    async def request_rebuild(self) -> None:
        """Do nothing: there is nothing to build again."""

    async def close(self) -> None:
        """Do nothing."""

    def check(self) -> CheckResult:
        """Find what is left of an earlier process."""
        is_there = self._files.lstat(self._folder) is not None
        return CheckResult(None, fits=not is_there, is_empty=not is_there)

    def discard(self) -> None:
        """Remove the folder. Raises OSError."""
        remove_path(self._files, self._folder)
