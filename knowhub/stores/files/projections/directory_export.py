"""context/: a directory for each row that a domain shows as one, for people and tools to read."""

import asyncio
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Operation
from knowhub.core.projection import DirectoryFormat
from knowhub.stores.files.filesystem import (
    TEMPORARY,
    FileSystem,
    append_file,
    clear_path,
    is_folder,
    read_file,
    remove_path,
    replace_file,
    write_file,
)
from knowhub.stores.files.log.log_line import PartialOperation
from knowhub.stores.files.projections.log_projection import (
    CHECKPOINT,
    Checkpoint,
    LogProjection,
    ProjectionLog,
)

_PER_TURN: Final = 64
_PATIENCE_S: Final = 2.0
_OPERATIONS_AT_ONCE: Final = 100

_log = structlog.get_logger("knowhub.directories")

_Wanted = tuple[str, Sequence[bytes] | None]
"""The path of a directory, and the JSON texts of its rows; None if it is to be removed."""


class DirectoryExport(LogProjection):
    """Writes the directories that operations touched. A new one appears at once; of others a file that changes does."""

    def __init__(self, files: FileSystem, folder: Path, log: ProjectionLog, shape: DirectoryFormat) -> None:
        super().__init__(files, folder, log)
        self._shape = shape
        self._scratch = folder / f".new{TEMPORARY}"
        self._exporting: set[asyncio.Task[None]] = set()

    @property
    def erased_through_seq(self) -> int | None:
        """As `Projection` says: an erase is an operation as any other, whose rows are shown no more."""
        checkpoint = self.checkpoint()
        return checkpoint.seq if checkpoint.layout else super().erased_through_seq

    async def project(self, account: str, operation: Operation) -> bool:
        """See `context.ports.ContextDirectories`. What would take long, or fails, is left to the leader."""
        del account
        await self._log.refresh()
        if not self._is_short(self.checkpoint()):
            return self._contains_row(operation)
        # Not cancelled with the request: a thread would go on writing while somebody else has the lock.
        task = asyncio.get_running_loop().create_task(self.catch_up())
        self._exporting.add(task)
        task.add_done_callback(self._exporting.discard)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.shield(task)
        # The end of the patience is an OSError too.
        except (OSError, KnowHubError) as problem:
            _log.warning("directories_wait", error=repr(problem))
        return self._contains_row(operation)

    async def close(self) -> None:
        """Wait until what is being written is written."""
        while self._exporting:
            await asyncio.wait(self._exporting)

    async def apply(self, operations: Sequence[PartialOperation], checkpoint: Checkpoint) -> None:
        """Write the directories of all rows that the operations touched."""
        del checkpoint
        for account, row_ids in self._group_ids(operations).items():
            await self._write_all(account, row_ids)

    async def rebuild(self, checkpoint: Checkpoint) -> None:
        """Write every file that is not as it should be, and remove what belongs to no row."""
        del checkpoint
        paths: set[str] = set()
        for account in self._log.accounts:
            paths |= await self._write_all(account, self._shape.live_ids(self._log.view(account)))
        for path in await asyncio.to_thread(lambda: list(self._unknown(paths))):
            await asyncio.to_thread(remove_path, self._files, path)

    def _has_rows(self) -> bool:
        return any(True for account in self._log.accounts for _ in self._shape.live_ids(self._log.view(account)))

    def _compare(self, checkpoint: Checkpoint) -> tuple[Sequence[str], str]:
        # What was touched after the checkpoint is left out.
        pending = self._group_ids(self._log.history.operations(checkpoint.seq, self._log.history.last_seq))
        waiting = {(account, row_id) for account, row_ids in pending.items() for row_id in row_ids}
        paths: set[str] = set()
        wrong: list[str] = []
        for account in self._log.accounts:
            view = self._log.view(account)
            for row_id in self._shape.live_ids(view):
                path = self._shape.path(row_id)
                paths.add(path)
                texts = self._texts(view, row_id)
                if texts is not None and (account, row_id) not in waiting:
                    wrong += [] if self._is_right(path, self._render(texts)) else [path]
        paths |= {self._shape.path(row_id) for _, row_id in waiting}
        found = [str(self._folder.name / Path(path)) for path in sorted(wrong)]
        found += [str(path.relative_to(self._folder.parent)) for path in self._unknown(paths)]
        if self.checkpoint().seq > self._log.history.last_seq:
            # A running server has written on since the log was read.
            found = []
        return found, f"directories: {len(paths)}, each as the log says"

    def _contains_row(self, operation: Operation) -> bool:
        checkpoint = self.checkpoint()
        return checkpoint.log_id == self._log.log_id and checkpoint.seq >= operation.seq

    def _is_short(self, checkpoint: Checkpoint) -> bool:
        lag = self._log.history.last_seq - checkpoint.seq
        is_new = not checkpoint.layout and not self._files.names(self._folder)
        return lag <= _OPERATIONS_AT_ONCE and (is_new or self.fits(checkpoint))

    def _initial_checkpoint(self) -> Checkpoint:
        return self._new_checkpoint(self._log.history.last_seq)

    def _group_ids(self, operations: Iterable[PartialOperation]) -> dict[str, dict[str, None]]:
        touched: dict[str, dict[str, None]] = {}
        for operation in operations:
            for change in operation.changes:
                row_id = self._shape.directory_id(change.collection, change.id)
                if row_id is not None:
                    touched.setdefault(operation.account, {})[row_id] = None
        return touched

    async def _write_all(self, account: str, row_ids: Iterable[str]) -> set[str]:
        """Write the directories of rows, some at a time; return their paths."""
        ahead, paths = iter(list(row_ids)), set[str]()
        while some := list(islice(ahead, _PER_TURN)):
            view = self._log.view(account)
            wanted = [(self._shape.path(row_id), self._texts(view, row_id)) for row_id in some]
            await asyncio.to_thread(self._write, wanted)
            paths.update(path for path, _ in wanted)
        return paths

    def _write(self, wanted: Sequence[_Wanted]) -> None:
        if self._files.lstat(self._scratch) is not None:
            # A process died while it made a directory, or removed one.
            remove_path(self._files, self._scratch)
        cleared = set[Path]()
        for path, texts in wanted:
            folder = self._folder / path
            if folder.parent not in cleared:
                # Most directories are in few folders.
                clear_path(self._files, self._folder, folder.parent)
                cleared.add(folder.parent)
            self._write_one(folder, texts)

    def _write_one(self, folder: Path, texts: Sequence[bytes] | None) -> None:
        found = self._files.lstat(folder)
        if texts is None:
            self._remove(folder, is_there=found is not None)
        elif found is None:
            self._create(folder, self._render(texts))
        elif stat.S_ISDIR(found.st_mode):
            self._update(folder, self._render(texts))
        else:
            self._files.remove(folder)
            self._create(folder, self._render(texts))

    def _texts(self, view: Any, row_id: str) -> list[bytes] | None:  # noqa: ANN401 -- the domain's view
        sources = self._shape.sources(view, row_id)
        return None if sources is None else [view.raw(collection, key) for collection, key in sources]

    def _render(self, texts: Sequence[bytes]) -> Mapping[str, bytes]:
        # One by one: to parse all messages of a long session at once would keep other threads waiting.
        return self._shape.render([orjson.loads(text) for text in texts])

    def _create(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        """Make a directory under another name, so that it appears at once."""
        self._files.make_folder(self._scratch)
        for name, data in contents.items():
            write_file(self._files, f"{self._scratch}/{name}", data)
        try:
            self._files.rename(self._scratch, folder)
        except FileNotFoundError:
            self._files.make_folder(folder.parent)
            self._files.rename(self._scratch, folder)

    def _update(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        for name in self._files.names(folder):
            if name not in contents or is_folder(self._files, folder / name):
                remove_path(self._files, folder / name)
        for name, data in contents.items():
            stored = read_file(self._files, folder / name)
            if stored and len(stored) < len(data) and data.startswith(stored):
                # A transcript grows at its end. Who reads it meanwhile sees by the sums of the directory.
                append_file(self._files, folder / name, data[len(stored) :], len(stored))
            elif stored != data:
                replace_file(self._files, folder / name, data, is_durable=False)

    def _remove(self, folder: Path, *, is_there: bool) -> None:
        if is_there:
            # It vanishes at once.
            self._files.rename(folder, self._scratch)
            remove_path(self._files, self._scratch)
        # Also after a process that died: it may have removed the directory and left empty folders.
        while (folder := folder.parent) != self._folder and not self._files.names(folder):
            if self._files.lstat(folder) is not None:
                self._files.remove_folder(folder)

    def _is_right(self, path: str, contents: Mapping[str, bytes]) -> bool:
        folder, steps = self._folder / path, path.split("/")
        is_plain = all(is_folder(self._files, self._folder / "/".join(steps[:end])) for end in range(1, len(steps) + 1))
        if not is_plain or set(self._files.names(folder)) != contents.keys():
            return False
        return all(read_file(self._files, folder / name) == data for name, data in contents.items())

    def _unknown(self, paths: Collection[str]) -> Iterator[Path]:
        """Yield what is in the folder and is no directory of these, nor above one."""
        above = {path[:end] for path in paths for end, char in enumerate(path) if char == "/"}
        waiting = list(self._files.names(self._folder))
        while waiting:
            path = waiting.pop()
            if path in above and is_folder(self._files, self._folder / path):
                waiting += [f"{path}/{name}" for name in self._files.names(self._folder / path)]
            elif path not in paths and path != CHECKPOINT:
                yield self._folder / path
