"""indexes/*.json: the maps of seed 001, for people and tools to read; derived, never trusted (KT-083…089, KT-095)."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.apart import Apart
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.derived.map_files import INFOS, LINKS, MAP_NAMES, NODES, TEMPORARY, write_maps
from knowhub.stores.files.derived.records import Checkpoint, ErasingLog, RecordFiles
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import parsed, seal

NOTE = "derived.json"

_REST_FACTOR = 50
_LITTLE = 2 * 1024 * 1024


@dataclass(slots=True)
class MapNote:
    """Up to which line of which log the maps stand, of how much of each record file, and what each of them holds.

    `erases` is the number of the newest erasing that they know of, `base` the operation after which the record files
    begin. A file is noted with its size and checksum.
    """

    log_id: str = ""
    seq: int = 0
    checksum: str = ""
    erases: int = 0
    base: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How long to wait at least between two rounds, and who does the work where it is much."""

    interval_s: float
    apart: Apart


class DerivedMaps:
    """Brings the maps up to the record files, now and then. Only the keeper of the directory does.

    They are made of the record files alone, so that all maps of an account are of one moment, and nothing of it is
    done in the event loop. What is large is written proportionally rarer: after each round it rests for fifty times
    as long as the round took, for `interval_s` at least. An interval of 0 knows no rest.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        records: RecordFiles,
        history: History,
        log: ErasingLog,
        options: MapOptions,
    ) -> None:
        self._files = files
        self._directory = directory
        self._indexes = directory.indexes
        self._records = records
        self._history = history
        self._log = log
        self._options = options
        self._due_at: float | None = None
        self._is_forgotten = False
        self._is_last = False
        self._note: MapNote | None = None

    async def bring_up(self) -> None:
        """Write what has changed in the tree since the last time, when it is time. Raises OSError."""
        checkpoint = self._records.checkpoint()
        note = self._note = self._note or read_note(self._files, self._indexes)
        if self._is_forgotten or not self._fits(note, checkpoint):
            # At once, not when it is time: it may tell of what was erased.
            self._clear()
            note = self._note = MapNote(checkpoint.log_id, erases=self._log.erases, base=checkpoint.base)
        if self._log.is_erasing or note.seq == checkpoint.seq or not self._records.fits(checkpoint):
            return
        stale = [account for account in _accounts(checkpoint.lengths) if self._is_stale(account, note, checkpoint)]
        if not self._is_due(sum(_size(account, checkpoint.lengths) for account in stale)):
            return
        began = _now()
        for account in stale:
            if not await self._write(account, note, checkpoint):
                return
        done = replace(note, seq=checkpoint.seq, checksum=checkpoint.checksum)
        self._write_note(done)
        self._note = done
        self._is_forgotten = False
        if self._options.interval_s:
            self._due_at = _now() + max(self._options.interval_s, _REST_FACTOR * (_now() - began))

    def forget(self) -> None:
        """Have every map written anew the next time, without waiting until it is time."""
        self._is_forgotten = True

    def finish(self) -> None:
        """Have the next time be the last: what is not large is brought up then."""
        self._is_last = True

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the maps on disk know of; None where there are none."""
        folders = (self._indexes, *(self._indexes / "accounts").glob("*"))
        if not any(path for folder in folders for path in folder.glob("*.json*")):
            return None
        return read_note(self._files, self._indexes).erases

    @property
    def lag(self) -> int:
        """How many operations the maps are behind the log, whichever process writes them."""
        return max(0, self._history.last_seq - read_note(self._files, self._indexes).seq)

    def _fits(self, note: MapNote, checkpoint: Checkpoint) -> bool:
        return (
            note.log_id == checkpoint.log_id
            and note.base == checkpoint.base
            and note.seq <= checkpoint.seq
            and (note.seq == 0 or note.checksum == self._history.checksum(note.seq))
            and note.erases == self._log.erases
        )

    def _is_stale(self, account: str, note: MapNote, checkpoint: Checkpoint) -> bool:
        return any(note.lengths.get(name, 0) != checkpoint.lengths.get(name, 0) for name in _names(account)) or any(
            _length(self._files, self._indexes / name) != note.files.get(name, (-1, 0))[0] for name in _maps(account)
        )

    def _is_due(self, size: int) -> bool:
        now = _now()
        if self._due_at is None:
            self._due_at = now + self._options.interval_s
        return self._is_forgotten or now >= self._due_at or (self._is_last and size <= _LITTLE)

    async def _write(self, account: str, note: MapNote, checkpoint: Checkpoint) -> bool:
        """Write the maps of one account; False where something was erased meanwhile, so that they must not stand."""
        written = await self._built({"account": account, "lengths": checkpoint.lengths})
        if note.erases != self._log.erases or self._log.is_erasing:
            self._clear()
            self._note = None
            return False
        # Without its note a file is not taken for right: a crash between two renames costs a round.
        _remove(self._files, self._indexes / NOTE)
        for name, noted in written.items():
            path = self._indexes / account / name
            self._files.rename(path.with_name(f"{name}{TEMPORARY}"), path)
            note.files[account + name] = (noted[0], noted[1])
        note.lengths |= {name: checkpoint.lengths.get(name, 0) for name in _names(account)}
        return True

    async def _built(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        root = self._directory.root
        if _size(arguments["account"], arguments["lengths"]) > _LITTLE:
            return await self._options.apart("write_maps", root, arguments)
        # A process costs more than this little.
        return await asyncio.to_thread(write_maps, self._files, root, arguments)

    def _write_note(self, note: MapNote) -> None:
        self._indexes.mkdir(parents=True, exist_ok=True)
        temporary = self._indexes / f"{NOTE}{TEMPORARY}"
        temporary.write_bytes(seal(orjson.dumps(asdict(note))[:-1]))
        self._files.rename(temporary, self._indexes / NOTE)

    def _clear(self) -> None:
        for path in map_files(self._indexes):
            self._files.remove(path)


def read_note(files: FileSystem, indexes: Path) -> MapNote:
    """Return the note on the maps; an empty one where there is none, or where it does not read back."""
    try:
        match parsed(files.read(indexes / NOTE)):
            case {
                "log_id": str() as log_id,
                "seq": int() as seq,
                "checksum": str() as line,
                "erases": int() as erases,
                "base": int() as base,
                "lengths": dict() as lengths,
                "files": dict() as noted,
            }:
                sums = {name: (size, checksum) for name, (size, checksum) in noted.items()}
                return MapNote(log_id, seq, line, erases, base, lengths, sums)
    except FileNotFoundError:
        return MapNote()
    return MapNote()


def map_files(indexes: Path) -> list[Path]:
    """Return the note on the maps, every map, and what was being written of one; the note comes first."""
    folders = (indexes, *sorted((indexes / "accounts").glob("*")))
    found = [
        path for folder in folders for path in sorted([*folder.glob("*.json"), *folder.glob(f"*.json{TEMPORARY}")])
    ]
    return sorted(found, key=lambda path: path.name != NOTE)


def _accounts(lengths: Mapping[str, int]) -> list[str]:
    """Return the folders in which record files of a tree lie, each with its slash."""
    folders = {name.rpartition("/") for name in lengths if name.rpartition("/")[2] in (NODES, INFOS, LINKS)}
    return sorted({folder + slash for folder, slash, _ in folders})


def _names(account: str) -> list[str]:
    return [account + name for name in (NODES, INFOS, LINKS)]


def _maps(account: str) -> list[str]:
    return [account + name for name in MAP_NAMES]


def _size(account: str, lengths: Mapping[str, int]) -> int:
    return sum(lengths.get(name, 0) for name in _names(account))


def _length(files: FileSystem, path: Path) -> int:
    return path.stat().st_size if files.inode_at(path) is not None else -1


def _remove(files: FileSystem, path: Path) -> None:
    if files.inode_at(path) is not None:
        files.remove(path)


def _now() -> float:
    return asyncio.get_running_loop().time()
