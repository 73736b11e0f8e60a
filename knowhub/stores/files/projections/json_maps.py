"""indexes/*.json: maps of the keyword tree, for people and tools to read. The server reads none of them."""

import asyncio
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import TEMPORARY, FileSystem, replace_file
from knowhub.stores.files.projections.log_projection import Checkpoint, DerivedFiles, ProjectionLog
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
        """The number of operations that the maps lack."""
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

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Return whether maps were made from the record files as they are, or from an earlier state of them."""
        if self._records is None:
            return False
        source = self._records.checkpoint()
        return self._records.fits(source) and _is_before(checkpoint, source)

    def _has_rows(self) -> bool:
        return self._records is not None and bool(_tree_sizes(self._records.checkpoint()))

    def _compare(self, checkpoint: Checkpoint) -> tuple[Sequence[str], str]:
        wrong = [
            f"{self._folder.name}/{folder}{name}"
            for folder in _tree_sizes(checkpoint)
            for name in compare_maps(self._files, self._directory, folder, checkpoint.lengths)
        ]
        return wrong, "as the record files say"

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

    def _is_due(self, size: int) -> bool:
        now = _now()
        if self._due_at is None:
            self._due_at = now + self._interval_s
        return now >= self._due_at or (self._is_last and size <= _SMALL_BYTES)

    def _list_files(self) -> list[Path]:
        folders = (self._folder, *sorted((self._folder / "accounts").glob("*")))
        patterns = ("*.json", f"*.json.*{TEMPORARY}")
        return [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]


def _is_before(made_of: Checkpoint, source: Checkpoint) -> bool:
    """Return whether maps were made from an earlier state of the same record files, or from this one."""
    same = (made_of.log_id, made_of.base, made_of.last_erase_seq) == (source.log_id, source.base, source.last_erase_seq)
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


TREE_FILES = NODES, INFOS, LINKS = "nodes.jsonl", "infos.jsonl", "links.jsonl"
MAP_NAMES = (
    "inverted.json",
    "children.json",
    "nodes.index.json",
    "infos.index.json",
    "info_by_kw.json",
    "kw_by_info.json",
)

_Entries = Iterator[tuple[str, Any]]


def write_maps(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write every map of an `account`, which is the folder of its record files, with a slash.

    `lengths` tells how much of each record file counts. Raises OSError, also where a record file is shorter.
    """
    directory, account = DataDirectory(root), arguments["account"]
    files.make_folder(directory.indexes / account)
    for name, entries in _maps(files, directory, account, arguments["lengths"]):
        replace_file(files, directory.indexes / account / name, _render(entries), is_durable=False)
    return {}


def compare_maps(
    files: FileSystem, directory: DataDirectory, account: str, lengths: Mapping[str, int]
) -> Iterator[str]:
    """Yield the names of the maps whose files are not what would be written now. Raises OSError as `write_maps`."""
    for name, entries in _maps(files, directory, account, lengths):
        path = directory.indexes / account / name
        if files.inode(path) is None or files.read(path) != _render(entries):
            yield name


def _maps(
    files: FileSystem, directory: DataDirectory, account: str, lengths: Mapping[str, int]
) -> Iterator[tuple[str, _Entries]]:
    """Yield each map of an account by its name; one record file is in memory at a time."""

    def read(name: str) -> list[tuple[str, Mapping[str, Any], int]]:
        return _newest(files, directory.records / account / name, name, lengths.get(account + name, 0))

    nodes = read(NODES)
    yield "inverted.json", _group((token, row_id) for row_id, row, _ in nodes for token in row["normalized"])
    parents = ((row["parent_id"], row_id) for row_id, row, _ in nodes)
    yield "children.json", _group((parent, row_id) for parent, row_id in parents if parent is not None)
    yield "nodes.index.json", ((row_id, offset) for row_id, _, offset in nodes)
    del nodes
    infos = read(INFOS)
    yield "infos.index.json", ((row_id, offset) for row_id, _, offset in infos)
    del infos
    links = read(LINKS)
    yield "info_by_kw.json", _group((row["keyword_id"], row["info_id"]) for _, row, _ in links)
    yield "kw_by_info.json", _group((row["info_id"], row["keyword_id"]) for _, row, _ in links)


# What the maps need of a row; an info's content is not held.
_KEPT = {NODES: ("normalized", "parent_id"), INFOS: (), LINKS: ("keyword_id", "info_id")}


def _newest(files: FileSystem, path: Path, name: str, length: int) -> list[tuple[str, Mapping[str, Any], int]]:
    """Return id, row and offset of the newest line of every live row, in the order in which the rows were made."""
    newest: dict[str, tuple[Mapping[str, Any], int] | None] = {}
    for offset, line in _lines(files, path, length):
        row = orjson.loads(line)
        row_id = f"{row['info_id']}:{row['keyword_id']}" if name == LINKS else row["id"]
        # A tombstone keeps the position of its row, for an undo.
        newest[row_id] = None if row["deleted"] else ({field: row[field] for field in _KEPT[name]}, offset)
    return [(row_id, *kept) for row_id, kept in newest.items() if kept is not None]


def _lines(files: FileSystem, path: Path, length: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a record file up to a length, each with its offset. Raises OSError where it is shorter."""
    if not length:
        return
    descriptor, offset = files.open(path, os.O_RDONLY), 0
    try:
        if (size := files.size(descriptor)) < length:
            raise OSError(errno.ENODATA, f"{path} has {size} bytes, and {length} were noted")
        with open(descriptor, "rb", closefd=False) as lines:
            for line in lines:
                if offset == length:
                    break
                yield offset, line
                offset += len(line)
    finally:
        files.close(descriptor)


def _group(pairs: Iterable[tuple[str, str]]) -> _Entries:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return iter(groups.items())


def _render(entries: _Entries) -> bytes:
    """Return a JSON object with a line for each entry, so that `grep` and `diff` show entries."""
    lines = [orjson.dumps(key) + b":" + orjson.dumps(value) for key, value in entries]
    return b"{\n" + b",\n".join(lines) + b"\n}\n" if lines else b"{}\n"
