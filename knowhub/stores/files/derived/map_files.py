"""Building the maps of seed 001 from the record files of one account: file work alone, with no store (KT-083…089)."""

import errno
import os
import zlib
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
    """Of which record files, up to which length of each, the maps are to be made, and in which folder."""

    records: Path
    target: Path
    lengths: Mapping[str, int]


def map_plan(directory: DataDirectory, account: str, lengths: Mapping[str, int]) -> MapPlan:
    """Say which maps to make of an account; it is named by the folder of its record files, "" for `default`."""
    own = {name: lengths.get(account + name, 0) for name in (NODES, INFOS, LINKS)}
    return MapPlan(directory.records / account, directory.indexes / account, own)


def write_maps(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write every map of an `account` under a temporary name; return size and checksum of each by its name.

    `lengths` tells how much of each record file counts. Raises OSError, also where a record file is shorter.
    """
    plan = map_plan(DataDirectory(root), arguments["account"], arguments["lengths"])
    files.make_folder(plan.target)
    return {
        name: list(_write(files, plan.target / f"{name}{TEMPORARY}", entries)) for name, entries in _maps(files, plan)
    }


def map_sums(files: FileSystem, plan: MapPlan) -> dict[str, tuple[int, int]]:
    """Return size and checksum that every map is to have, and write nothing. Raises as `write_maps`."""
    return {name: _sum(_pieces(entries)) for name, entries in _maps(files, plan)}


def _maps(files: FileSystem, plan: MapPlan) -> Iterator[tuple[str, _Entries]]:
    """Yield each map by its name; one record file is in memory at a time."""
    nodes = _newest(files, plan, NODES)
    yield "inverted.json", _grouped((token, row_id) for row_id, row, _ in nodes for token in row["normalized"])
    parents = ((row["parent_id"], row_id) for row_id, row, _ in nodes)
    yield "children.json", _grouped((parent, row_id) for parent, row_id in parents if parent is not None)
    yield "nodes.index.json", ((row_id, offset) for row_id, _, offset in nodes)
    del nodes
    infos = _newest(files, plan, INFOS)
    yield "infos.index.json", ((row_id, offset) for row_id, _, offset in infos)
    del infos
    links = _newest(files, plan, LINKS)
    yield "info_by_kw.json", _grouped((row["keyword_id"], row["info_id"]) for _, row, _ in links)
    yield "kw_by_info.json", _grouped((row["info_id"], row["keyword_id"]) for _, row, _ in links)


# What the maps need of a row; an info's content is not held.
_KEPT = {NODES: ("normalized", "parent_id"), INFOS: (), LINKS: ("keyword_id", "info_id")}


def _newest(files: FileSystem, plan: MapPlan, name: str) -> list[tuple[str, Mapping[str, Any], int]]:
    """Return id, row and offset of the newest line of every live row, in the order in which the rows were made."""
    newest: dict[str, tuple[Mapping[str, Any], int] | None] = {}
    for offset, line in _lines(files, plan.records / name, plan.lengths.get(name, 0)):
        row = orjson.loads(line)
        row_id = f"{row['info_id']}:{row['keyword_id']}" if name == LINKS else row["id"]
        # A tombstone holds the row's place: one that is undone stands where it stood.
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


def _grouped(pairs: Iterable[tuple[str, str]]) -> _Entries:
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


def _write(files: FileSystem, path: Path, entries: _Entries) -> tuple[int, int]:
    size, checksum = 0, 0
    descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for piece in _pieces(entries):
            write_all(files, descriptor, piece, size)
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    finally:
        files.close(descriptor)
    return size, checksum


def _sum(pieces: Iterator[bytes]) -> tuple[int, int]:
    size, checksum = 0, 0
    for piece in pieces:
        size += len(piece)
        checksum = zlib.crc32(piece, checksum)
    return size, checksum
