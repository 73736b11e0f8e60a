"""Building the maps of a keyword tree from the record files of one account. It is file work alone, with no store."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all

TREE_FILES = NODES, INFOS, LINKS = "nodes.jsonl", "infos.jsonl", "links.jsonl"
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


def write_maps(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write every map of an `account` under a temporary name; it is the folder of its record files, with a slash.

    `lengths` tells how much of each record file counts. Raises OSError, also where a record file is shorter.
    """
    directory, account = DataDirectory(root), arguments["account"]
    files.make_folder(directory.indexes / account)
    for name, entries in _maps(files, directory, account, arguments["lengths"]):
        _write(files, directory.indexes / account / f"{name}{TEMPORARY}", entries)
    return {}


def compare_maps(
    files: FileSystem, directory: DataDirectory, account: str, lengths: Mapping[str, int]
) -> Iterator[str]:
    """Yield the names of the maps whose files are not what would be written now. Raises OSError as `write_maps`."""
    for name, entries in _maps(files, directory, account, lengths):
        path = directory.indexes / account / name
        if files.inode(path) is None or files.read(path) != b"".join(_pieces(entries)):
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
