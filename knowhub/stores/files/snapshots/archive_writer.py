"""Write a snapshot: the log is compressed as it is read, and the checksums are written to the front at the end."""

import errno
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from isal import isal_zlib

from knowhub.core.clock import parse_iso
from knowhub.stores.files.data_directory import ARCHIVE_VERSION, KEYRING, DataDirectory, format_text
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BASE
from knowhub.stores.files.log.log_manifest import plain_name
from knowhub.stores.files.snapshots.snapshot_manifest import MANIFEST, Manifest, Member, manifest_text

_PIECE_BYTES = 1024 * 1024
_GZIP_WINDOW = 31
_FILE_MODE = 0o640
_UNKNOWN = "0" * 64
_END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class LogPart:
    """A file of the log by its number, and how many of its bytes are durable."""

    number: int
    length: int


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
    temporary = temporary_path(directory, manifest.ts)
    log = ChangeLog(files, directory.change_log)
    try:
        parts = list(_parts(log, numbers, end))
        descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            # Read after the log's end was fixed: the key of every row up to there was durable before the row was.
            length = _Archive(files, descriptor).write(log, manifest, parts, _whole_files(files, directory))
            files.sync(descriptor)
        finally:
            files.close(descriptor)
    except OSError:
        with suppress(OSError):
            files.remove(temporary)
        raise
    finally:
        log.close()
    return length


def _whole_files(files: FileSystem, directory: DataDirectory) -> dict[str, bytes]:
    found = {"FORMAT": format_text(ARCHIVE_VERSION).encode()}
    with suppress(FileNotFoundError, NotADirectoryError):
        found[KEYRING] = files.read(directory.keyring)
    return found


def temporary_path(directory: DataDirectory, ts: str) -> Path:
    """Return where a snapshot is written before it has its name."""
    return directory.snapshots / f"snapshot_{ts}.tar.gz.tmp"


def _parts(log: ChangeLog, numbers: Sequence[int], end: int) -> Iterator[LogPart]:
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        if following is None:
            yield LogPart(number, end)
        elif number & BASE:
            yield LogPart(number, log.size(number))
        else:
            # Bytes behind that were never acknowledged.
            header, _ = log.header(following)
            if header is None or header.previous_length is None:
                raise _damaged(log.path(following))
            yield LogPart(number, header.previous_length)


class _Archive:
    """Two gzip members that read as one stream: the manifest, stored so that its length is known, and the rest."""

    def __init__(self, files: FileSystem, descriptor: int) -> None:
        self._files = files
        self._descriptor = descriptor
        self._offset = 0
        self._made_at = 0
        self._rest = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_WINDOW)

    def write(self, log: ChangeLog, manifest: Manifest, parts: Sequence[LogPart], whole: Mapping[str, bytes]) -> int:
        self._made_at = int(parse_iso(manifest.created_at))
        # Under the names that files begin with: so an archive needs no manifest, and earlier versions read it.
        names = {part: f"{log.folder.name}/{plain_name(part.number)}" for part in parts}
        members = {name: Member(len(data), sha256(data).hexdigest()) for name, data in whole.items()}
        unknown = {name: Member(part.length, _UNKNOWN) for part, name in names.items()}
        self._put(_pack_manifest(replace(manifest, members=members | unknown)))
        for name, data in whole.items():
            self._add(name, len(data), iter([data]))
        for part, name in names.items():
            digest = self._add(name, part.length, _pieces(log, part))
            members[name] = Member(part.length, digest)
        self._put(self._rest.compress(_END))
        self._put(self._rest.flush())
        # What was hashed is what was compressed: nothing that was overwritten meanwhile can come between the two.
        write_all(self._files, self._descriptor, _pack_manifest(replace(manifest, members=members)), 0)
        return self._offset

    def _add(self, name: str, length: int, pieces: Iterator[bytes]) -> str:
        digest = sha256()
        self._put(self._rest.compress(_header(name, length, self._made_at)))
        for piece in pieces:
            digest.update(piece)
            self._put(self._rest.compress(piece))
        self._put(self._rest.compress(bytes(-length % tarfile.BLOCKSIZE)))
        return digest.hexdigest()

    def _put(self, data: bytes) -> None:
        write_all(self._files, self._descriptor, data, self._offset)
        self._offset += len(data)


def _pieces(log: ChangeLog, part: LogPart) -> Iterator[bytes]:
    for start in range(0, part.length, _PIECE_BYTES):
        wanted = min(part.length - start, _PIECE_BYTES)
        piece = log.read(part.number, start, start + wanted)
        if len(piece) < wanted:
            raise _damaged(log.path(part.number))
        yield piece


def _damaged(path: Path) -> OSError:
    return OSError(errno.EIO, f"{path} is damaged, so that no snapshot can be made of it; run `knowhub doctor`")


def _pack_manifest(manifest: Manifest) -> bytes:
    text = manifest_text(manifest)
    packed = zlib.compressobj(0, zlib.DEFLATED, _GZIP_WINDOW)
    header = _header(MANIFEST, len(text), int(parse_iso(manifest.created_at)))
    return packed.compress(header + text + bytes(-len(text) % tarfile.BLOCKSIZE)) + packed.flush()


def _header(name: str, length: int, made_at: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = length, _FILE_MODE, made_at
    return member.tobuf(tarfile.GNU_FORMAT)
