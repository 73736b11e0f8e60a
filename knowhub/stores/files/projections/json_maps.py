"""indexes/*.json: maps of the keyword tree, for people and tools to read. The server reads none of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final

import orjson

from knowhub.core.projection import CheckResult
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import parse_line, seal
from knowhub.stores.files.projections.log_projection import Checkpoint
from knowhub.stores.files.projections.map_files import (
    INFOS,
    LINKS,
    MAP_NAMES,
    NODES,
    TEMPORARY,
    compare_maps,
    map_plan,
    write_maps,
)
from knowhub.stores.files.projections.plain_files import put_file
from knowhub.stores.files.projections.record_files import RecordFiles
from knowhub.stores.files.subprocess_runner import SubprocessRunner

NOTE: Final = "derived.json"

_REST_FACTOR: Final = 50
_SMALL_BYTES: Final = 2 * 1024 * 1024
_TREE_FILES: Final = (NODES, INFOS, LINKS)


@dataclass(slots=True)
class MapNote:
    """The checkpoint of the record files from which the maps were made, and the size of each map."""

    log_id: str = ""
    seq: int = 0
    checksum: str = ""
    erases: int = 0
    base: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def is_of(self, checkpoint: Checkpoint) -> bool:
        """Return whether the maps are of an earlier state of the same record files, or of this one."""
        return (
            (self.log_id, self.base, self.erases) == (checkpoint.log_id, checkpoint.base, checkpoint.erases)
            and self.seq <= checkpoint.seq
            and all(checkpoint.lengths.get(name, 0) >= length for name, length in self.lengths.items())
        )


class JsonMaps:
    """Writes the maps of an account again when its record files have grown. They are made of the record files alone.

    Large maps are written less often: after each round it rests for fifty times as long as the round took, and for
    `interval_s` at least. An interval of 0 knows no rest. Where there are no record files, maps are removed.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        records: RecordFiles | None,
        run_subprocess: SubprocessRunner,
        interval_s: float,
    ) -> None:
        self._files = files
        self._directory = directory
        self._folder = directory.indexes
        self._records = records
        self._run_subprocess = run_subprocess
        self._interval_s = interval_s
        self._due_at: float | None = None
        self._is_last = False

    @property
    def erase_seq(self) -> int | None:
        """As `Projection` says."""
        note = self._read_note()
        if note is None:
            return -1 if self._existing() else None
        return note.erases

    @property
    def lag(self) -> int:
        """How many operations the maps are behind the record files, and these behind the log."""
        if self._records is None:
            return 0
        note = self._read_note() or MapNote()
        return max(0, self._records.checkpoint().seq - note.seq) + self._records.lag

    async def catch_up(self) -> None:
        """Write the maps of each account whose record files have changed, when it is time. Raises OSError."""
        if self._records is None:
            self.discard()
            return
        checkpoint, note = self._records.checkpoint(), self._read_note()
        if note is None or not note.is_of(checkpoint):
            if self._existing():
                # At once: the maps may contain what was erased.
                self.request_rebuild()
            note = None
        if not self._records.fits(checkpoint) or (note is not None and note.seq == checkpoint.seq):
            return
        note = note or MapNote(checkpoint.log_id, erases=checkpoint.erases, base=checkpoint.base)
        stale = [folder for folder in _tree_folders(checkpoint.lengths) if self._is_stale(folder, note, checkpoint)]
        if not self._is_due(sum(_size(folder, checkpoint.lengths) for folder in stale)):
            return
        began = _now()
        for folder in stale:
            await self._write(folder, note, checkpoint)
        note.seq, note.checksum = checkpoint.seq, checkpoint.checksum
        self._files.make_folder(self._folder)
        put_file(self._files, self._folder / NOTE, seal(orjson.dumps(asdict(note))[:-1]))
        if self._interval_s:
            self._due_at = _now() + max(self._interval_s, _REST_FACTOR * (_now() - began))

    def request_rebuild(self) -> None:
        """Remove the maps, and have them written again without waiting until it is time."""
        self.discard()
        self._due_at = _now()

    def discard(self) -> None:
        """Remove the maps, the note first. Raises OSError."""
        for path in self._existing():
            self._files.remove(path)

    def finish(self) -> None:
        """Write small maps at the next call, whether it is time or not."""
        self._is_last = True

    def check(self) -> CheckResult:
        """Compare the maps with those that the record files would give now, up to the lengths of the note."""
        if self._records is None:
            return CheckResult(None, fits=not self._existing(), is_empty=not self._existing())
        note = self._read_note()
        if note is None:
            has_tree = any(name.rpartition("/")[2] == NODES for name in self._records.checkpoint().lengths)
            return CheckResult(None, fits=not self._existing(), is_empty=not self._existing() and not has_tree)
        checkpoint = self._records.checkpoint()
        if not self._records.fits(checkpoint) or not note.is_of(checkpoint):
            return CheckResult(note.seq, fits=False)
        wrong = []
        for folder in _tree_folders(note.lengths):
            plan = map_plan(self._directory, folder, note.lengths)
            differing = compare_maps(self._files, plan)
            wrong += [f"{self._folder.name}/{folder}{name}" for name in differing]
        return CheckResult(note.seq, differences=wrong, summary="as the record files say")

    async def _write(self, folder: str, note: MapNote, checkpoint: Checkpoint) -> None:
        arguments = {"account": folder, "lengths": checkpoint.lengths}
        if _size(folder, checkpoint.lengths) > _SMALL_BYTES:
            await self._run_subprocess("write_maps", self._directory.root, arguments)
        else:
            # A process costs more than so little work.
            await asyncio.to_thread(write_maps, self._files, self._directory.root, arguments)
        for name in MAP_NAMES:
            path = self._folder / folder / name
            self._files.rename(path.with_name(f"{name}{TEMPORARY}"), path)
            note.files[folder + name] = self._size_of(folder + name)
        note.lengths |= {name: checkpoint.lengths.get(name, 0) for name in _names(folder)}

    def _is_stale(self, folder: str, note: MapNote, checkpoint: Checkpoint) -> bool:
        has_grown = any(note.lengths.get(name, 0) != checkpoint.lengths.get(name, 0) for name in _names(folder))
        return has_grown or any(self._size_of(folder + name) != note.files.get(folder + name) for name in MAP_NAMES)

    def _size_of(self, name: str) -> int:
        found = self._files.lstat(self._folder / name)
        return -1 if found is None else found.st_size

    def _is_due(self, size: int) -> bool:
        now = _now()
        if self._due_at is None:
            self._due_at = now + self._interval_s
        return now >= self._due_at or (self._is_last and size <= _SMALL_BYTES)

    def _read_note(self) -> MapNote | None:
        try:
            found = parse_line(self._files.read(self._folder / NOTE))
        except FileNotFoundError:
            return None
        if found is None:
            return None
        known = {part.name: found[part.name] for part in fields(MapNote)}
        # A note of an earlier version has checksums beside the sizes: its maps are written again when they are stale.
        return MapNote(**known)

    def _existing(self) -> list[Path]:
        folders = (self._folder, *sorted((self._folder / "accounts").glob("*")))
        patterns = ("*.json", f"*.json{TEMPORARY}")
        found = [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]
        return sorted(found, key=lambda path: path.name != NOTE)


def _tree_folders(lengths: Mapping[str, int]) -> list[str]:
    """Return the folders in which record files of a tree are, each with its slash."""
    folders = {name.rpartition("/") for name in lengths if name.rpartition("/")[2] in _TREE_FILES}
    return sorted({folder + slash for folder, slash, _ in folders})


def _names(folder: str) -> list[str]:
    return [folder + name for name in _TREE_FILES]


def _size(folder: str, lengths: Mapping[str, int]) -> int:
    return sum(lengths.get(name, 0) for name in _names(folder))


def _now() -> float:
    return asyncio.get_running_loop().time()
