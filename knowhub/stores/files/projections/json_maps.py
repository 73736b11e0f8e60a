"""indexes/*.json: maps of the keyword tree, for people and tools to read. The server reads none of them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from knowhub.core.projection import CheckResult
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.projections.log_projection import Checkpoint, DerivedFiles, ProjectionLog
from knowhub.stores.files.projections.map_files import MAP_NAMES, TEMPORARY, TREE_FILES, compare_maps, write_maps
from knowhub.stores.files.projections.record_files import RecordFiles
from knowhub.stores.files.subprocess_runner import SubprocessRunner

_REST_FACTOR: Final = 50
_SMALL_BYTES: Final = 2 * 1024 * 1024


class JsonMaps(DerivedFiles):
    """Writes the maps of an account again when its record files have grown. They are made of the record files alone.

    The checkpoint is that of the record files. Large maps are written less often: after each round it rests for fifty
    times as long as the round took, and for `interval_s` at least. An interval of 0 knows no rest. Where there are no
    record files, maps are removed.
    """

    layout: ClassVar[int] = 1
    checkpoint_name: ClassVar[str] = "derived.json"

    def __init__(
        self,
        directory: DataDirectory,
        log: ProjectionLog,
        records: RecordFiles | None,
        run_subprocess: SubprocessRunner,
        interval_s: float,
        files: FileSystem,
    ) -> None:
        super().__init__(files, directory.indexes, log)
        self._directory = directory
        self._records = records
        self._run_subprocess = run_subprocess
        self._interval_s = interval_s
        self._due_at: float | None = None
        self._is_last = False

    @property
    def lag(self) -> int:
        """How many operations the maps are behind the log."""
        return super().lag if self._records is not None else 0

    async def catch_up(self) -> None:
        """Write the maps of each account whose record files have changed, when it is time. Raises OSError."""
        if self._records is None:
            self.discard()
            return
        source, made_of = self._records.checkpoint(), self.checkpoint()
        if not _is_before(made_of, source):
            if self._list_files():
                # At once: the maps may contain what was erased.
                self.request_rebuild()
            made_of = Checkpoint("", -1, "", 0)
        if not self._records.fits(source) or made_of.seq == source.seq:
            return
        sizes = _tree_sizes(source)
        stale = [folder for folder, size in sizes.items() if size != _tree_sizes(made_of).get(folder)]
        if not self._is_due(sum(sizes[folder] for folder in stale)):
            return
        began = _now()
        for folder in stale:
            await self._write(folder, source, sizes[folder])
        self._files.make_folder(self._folder)
        await self._save(replace(source, layout=self.layout))
        if self._interval_s:
            self._due_at = _now() + max(self._interval_s, _REST_FACTOR * (_now() - began))

    def request_rebuild(self) -> None:
        """Remove the maps, and have them written again without waiting until it is time."""
        self.discard()
        self._due_at = _now()

    def check(self) -> CheckResult:
        """Compare the maps with those that the record files would give now, up to the lengths of the checkpoint."""
        checkpoint, is_there = self.checkpoint(), bool(self._list_files())
        if self._records is None:
            return CheckResult(None, fits=not is_there, is_empty=not is_there)
        source = self._records.checkpoint()
        if not checkpoint.layout:
            return CheckResult(None, fits=not is_there, is_empty=not is_there and not _tree_sizes(source))
        if not self._records.fits(source) or not _is_before(checkpoint, source):
            return CheckResult(checkpoint.seq, fits=False)
        wrong = [
            f"{self._folder.name}/{folder}{name}"
            for folder in _tree_sizes(checkpoint)
            for name in compare_maps(self._files, self._directory, folder, checkpoint.lengths)
        ]
        return CheckResult(checkpoint.seq, differences=wrong, summary="as the record files say")

    def finish(self) -> None:
        """Write small maps at the next call, whether it is time or not."""
        self._is_last = True

    async def _write(self, folder: str, source: Checkpoint, size: int) -> None:
        arguments = {"account": folder, "lengths": source.lengths}
        if size > _SMALL_BYTES:
            await self._run_subprocess("write_maps", self._directory.root, arguments)
        else:
            # A process costs more than so little work.
            await asyncio.to_thread(write_maps, self._files, self._directory.root, arguments)
        for name in MAP_NAMES:
            path = self._folder / folder / name
            self._files.rename(path.with_name(f"{name}{TEMPORARY}"), path)

    def _is_due(self, size: int) -> bool:
        now = _now()
        if self._due_at is None:
            self._due_at = now + self._interval_s
        return now >= self._due_at or (self._is_last and size <= _SMALL_BYTES)

    def _list_files(self) -> list[Path]:
        folders = (self._folder, *sorted((self._folder / "accounts").glob("*")))
        patterns = ("*.json", f"*.json{TEMPORARY}")
        return [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]


def _is_before(made_of: Checkpoint, source: Checkpoint) -> bool:
    """Return whether maps were made from an earlier state of the same record files, or from this one."""
    same = (made_of.log_id, made_of.base, made_of.erases) == (source.log_id, source.base, source.erases)
    return same and made_of.layout > 0 and made_of.seq <= source.seq


def _tree_sizes(checkpoint: Checkpoint) -> dict[str, int]:
    """Return the size of the record files of each tree, by their folder with its slash."""
    sizes: dict[str, int] = {}
    for path, length in checkpoint.lengths.items():
        folder, slash, name = path.rpartition("/")
        if name in TREE_FILES:
            sizes[folder + slash] = sizes.get(folder + slash, 0) + length
    return sizes


def _now() -> float:
    return asyncio.get_running_loop().time()
