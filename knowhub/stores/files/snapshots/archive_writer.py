"""Write a snapshot: the log is read once for the checksums in the manifest, and once to be compressed."""

import errno
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from isal import isal_zlib

from knowhub.core.clock import parse_iso
from knowhub.stores.files.data_directory import ARCHIVE_VERSION, KEYRING, DataDirectory, format_text
from knowhub.stores.files.filesystem import FileSystem, create_file
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BASE
from knowhub.stores.files.log.log_manifest import plain_name
from knowhub.stores.files.snapshots.snapshot_manifest import MANIFEST, Manifest, Member, manifest_text

_PIECE_BYTES: Final = 1024 * 1024
_GZIP_WINDOW: Final = 31
_FILE_MODE: Final = 0o640
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def write_snapshot(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write a snapshot that has no name yet, as `SnapshotFolder.create` orders it, apart. Raises OSError."""
    manifest = Manifest(**arguments["manifest"], members={})
    return {"bytes": write_archive(files, DataDirectory(root), manifest, arguments["numbers"], arguments["end"])}


def write_archive(
    files: FileSystem, directory: DataDirectory, manifest: Manifest, numbers: Sequence[int], end: int
) -> int:
    """Write the files `numbers` of the log as an archive; return its size. The last file ends at `end`.

    The wrapped data keys go with it, the master key does not. It is synced under `temporary_path`.
    A whole log of any size passes through a megabyte of memory. Raises OSError, and then nothing is left behind.
    """
    made_at = int(parse_iso(manifest.created_at))
    with closing(ChangeLog(files, directory.change_log)) as log:
        lengths = dict(_find_lengths(log, numbers, end))
        # Under the names that files begin with: so an archive needs no manifest of the log.
        parts = {f"{log.folder.name}/{plain_name(number)}": number for number in numbers}
        # Read after the log's end was fixed: the key of every row up to there was durable before the row was.
        whole = _read_whole_files(files, directory)
        members = {name: Member(len(data), sha256(data).hexdigest()) for name, data in whole.items()}
        for name, number in parts.items():
            digest = sha256()
            for piece in _read_pieces(log, number, lengths[number]):
                digest.update(piece)
            members[name] = Member(lengths[number], digest.hexdigest())
        whole = {MANIFEST: manifest_text(replace(manifest, members=members)), **whole}
        packing = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_WINDOW)
        with create_file(files, temporary_path(directory, manifest.ts)) as writer:
            for name, data in whole.items():
                writer.write(packing.compress(_pack(name, len(data), made_at) + data + _pad(len(data))))
            for name, number in parts.items():
                writer.write(packing.compress(_pack(name, lengths[number], made_at)))
                for piece in _read_pieces(log, number, lengths[number]):
                    writer.write(packing.compress(piece))
                writer.write(packing.compress(_pad(lengths[number])))
            writer.write(packing.compress(_END) + packing.flush())
    return writer.size


def temporary_path(directory: DataDirectory, ts: str) -> Path:
    """Return where a snapshot is written before it has its name."""
    return directory.snapshots / f"snapshot_{ts}.tar.gz.tmp"


def _read_whole_files(files: FileSystem, directory: DataDirectory) -> dict[str, bytes]:
    found = {"FORMAT": format_text(ARCHIVE_VERSION).encode()}
    with suppress(FileNotFoundError, NotADirectoryError):
        found[KEYRING] = files.read(directory.keyring)
    return found


def _find_lengths(log: ChangeLog, numbers: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Yield each file of the log with the number of its bytes that are durable."""
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        if following is None:
            yield number, end
        elif number & BASE:
            yield number, log.size(number)
        else:
            # Bytes behind that were never acknowledged.
            header, _ = log.header(following)
            if header is None or header.previous_length is None:
                raise _damaged(log.path(following))
            yield number, header.previous_length


def _read_pieces(log: ChangeLog, number: int, length: int) -> Iterator[bytes]:
    for start in range(0, length, _PIECE_BYTES):
        wanted = min(length - start, _PIECE_BYTES)
        piece = log.read(number, start, start + wanted)
        if len(piece) < wanted:
            raise _damaged(log.path(number))
        yield piece


def _damaged(path: Path) -> OSError:
    return OSError(errno.EIO, f"{path} is damaged, so that no snapshot can be made of it; run `knowhub doctor`")


def _pack(name: str, length: int, made_at: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = length, _FILE_MODE, made_at
    return member.tobuf(tarfile.GNU_FORMAT)


def _pad(length: int) -> bytes:
    return bytes(-length % tarfile.BLOCKSIZE)
