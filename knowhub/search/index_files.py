"""Whether the files of a full-text index are what was written: the library panics on a damaged one, or answers wrong.

Each file ends with a footer `{…,"crc":<CRC-32 of all before the footer>}`, the footer's length and a magic number.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import orjson

_MAGIC = 1337
_TAIL = struct.Struct("<II")
_LONGEST_FOOTER = 4096
_PIECE_BYTES = 1024 * 1024
# What the library reads and writes as a whole, without a footer.
_UNSEALED = frozenset({"meta.json", ".managed.json"})


def are_whole(folder: Path) -> bool:
    """Tell whether every file of the last commit carries the checksum of its own bytes. Raises OSError.

    Reads all of them: a third of a second a gigabyte, and less than reading the log that they were built from.
    """
    try:
        return all(_is_whole(path) for path in _committed(folder))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # The list of segments, or a footer, is not what the library writes.
        return False


def _committed(folder: Path) -> Iterator[Path]:
    """Yield the files of the segments that the index names: what a writer is about to add is not yet whole."""
    meta = orjson.loads((folder / "meta.json").read_bytes())
    named = {str(segment["segment_id"]).replace("-", "") for segment in meta["segments"]}
    for path in folder.iterdir():
        if path.name not in _UNSEALED and path.name.partition(".")[0] in named:
            yield path


def _is_whole(path: Path) -> bool:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        if len(tail) < _TAIL.size:
            return False
        length, magic = _TAIL.unpack(tail)
        body = size - _TAIL.size - length
        if magic != _MAGIC or length > _LONGEST_FOOTER or body < 0:
            return False
        file.seek(body)
        expected = orjson.loads(file.read(length))["crc"]
        file.seek(0)
        checksum, left = 0, body
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    return bool(checksum == expected)
