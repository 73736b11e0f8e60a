"""Building the maps of a keyword tree from the record files of one account. It is file work alone, with no store."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all

NODES, INFOS, LINKS = "nodes.jsonl", "infos.jsonl", "links.jsonl"
MAP_NAMES = (
    "inverted.json",
    "children.json",
    "nodes.index.json",
    "infos.index.json",
    "info_by_kw.json",
    "kw_by_info.json",
)
TEMPORARY = ".tmp"

_PIECE_BYTES = 1024 * 1024

_Entries = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class MapPlan:
    """The record files to make maps from, how much of each counts, and the folder of the maps."""

    records: Path
    target: Path
    lengths: Mapping[str, int]


def map_plan(directory: DataDirectory, account: str, lengths: Mapping[str, int]) -> MapPlan:
    """Say which maps to make of an account; it is named by the folder of its record files, "" for `default`."""
    own = {name: lengths.get(account + name, 0) for name in (NODES, INFOS, LINKS)}
    return MapPlan(directory.records / account, directory.indexes / account, own)


def write_maps(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write every map of an `account` under a temporary name.

    `lengths` tells how much of each record file counts. Raises OSError, also where a record file is shorter.
    """
    plan = map_plan(DataDirectory(root), arguments["account"], arguments["lengths"])
    files.make_folder(plan.target)
    for name, entries in _maps(files, plan):
        _write(files, plan.target / f"{name}{TEMPORARY}", entries)
    return {}


def compare_maps(files: FileSystem, plan: MapPlan) -> list[str]:
    """Return the names of the maps whose files are not what would be written now. Raises OSError as `write_maps`."""
    return [name for name, entries in _maps(files, plan) if not _is_written(files, plan.target / name, entries)]


def _maps(files: FileSystem, plan: MapPlan) -> Iterator[tuple[str, _Entries]]:
    """Yield each map by its name; one record file is in memory at a time."""
    nodes = _newest(files, plan, NODES)
    yield "inverted.json", _group((token, row_id) for row_id, row, _ in nodes for token in row["normalized"])
    parents = ((row["parent_id"], row_id) for row_id, row, _ in nodes)
    yield "children.json", _group((parent, row_id) for parent, row_id in parents if parent is not None)
    yield "nodes.index.json", ((row_id, offset) for row_id, _, offset in nodes)
    del nodes
    infos = _newest(files, plan, INFOS)
    yield "infos.index.json", ((row_id, offset) for row_id, _, offset in infos)
    del infos
    links = _newest(files, plan, LINKS)
    yield "info_by_kw.json", _group((row["keyword_id"], row["info_id"]) for _, row, _ in links)
    yield "kw_by_info.json", _group((row["info_id"], row["keyword_id"]) for _, row, _ in links)


# What the maps need of a row; an info's content is not held.
_KEPT = {NODES: ("normalized", "parent_id"), INFOS: (), LINKS: ("keyword_id", "info_id")}


def _newest(files: FileSystem, plan: MapPlan, name: str) -> list[tuple[str, Mapping[str, Any], int]]:
    """Return id, row and offset of the newest line of every live row, in the order in which the rows were made."""
    newest: dict[str, tuple[Mapping[str, Any], int] | None] = {}
    for offset, line in _lines(files, plan.records / name, plan.lengths.get(name, 0)):
        row = orjson.loads(line)
        row_id = f"{row['info_id']}:{row['keyword_id']}" if name == LINKS else row["id"]
        # A tombstone keeps the position of its row, for an undo.
        newest[row_id] = None if row["deleted"] else ({field: row[field] for field in _KEPT[name]}, offset)
    return [(row_id, *kept) for row_id, kept in newest.items() if kept is not None]


def _lines(files: FileSystem, path: Path, length: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a record file up to a length, each with its offset. Raises OSError where it is shorter."""
    if not length:
        return
    descriptor = files.open(path, os.O_RDONLY)
    try:
        offset, read, rest = 0, 0, b""
        while read < length:
            piece = files.read_at(descriptor, min(_PIECE_BYTES, length - read), read)
            if not piece:
                raise OSError(errno.ENODATA, f"{path} has {read} bytes, and {length} were noted")
            read += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield offset, line
                offset += len(line) + 1
    finally:
        files.close(descriptor)


def _group(pairs: Iterable[tuple[str, str]]) -> _Entries:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return iter(groups.items())


def _pieces(entries: _Entries) -> Iterator[bytes]:
    """Yield a JSON object with a line for each entry, so that `grep` and `diff` show entries."""
    opening, piece = b"{\n", bytearray()
    for key, value in entries:
        piece += opening + orjson.dumps(key) + b":" + orjson.dumps(value)
        opening = b",\n"
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + (b"{}\n" if opening == b"{\n" else b"\n}\n")


def _write(files: FileSystem, path: Path, entries: _Entries) -> None:
    size = 0
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for piece in _pieces(entries):
            write_all(files, descriptor, piece, size)
            size += len(piece)
    finally:
        files.close(descriptor)


def _is_written(files: FileSystem, path: Path, entries: _Entries) -> bool:
    if files.inode(path) is None:
        return False
    size = 0
    descriptor = files.open(path, os.O_RDONLY)
    try:
        for piece in _pieces(entries):
            if files.read_at(descriptor, len(piece), size) != piece:
                return False
            size += len(piece)
        return files.size(descriptor) == size
    finally:
        files.close(descriptor)
