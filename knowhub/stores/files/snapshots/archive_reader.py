"""Reading a snapshot that anybody may have made: nothing of a member is believed before it was checked."""

import gzip
import os
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from knowhub.core.errors import StorageFull
from knowhub.stores.files.data_directory import ARCHIVE_VERSION, format_text
from knowhub.stores.files.filesystem import FileSystem, create_file
from knowhub.stores.files.snapshots.snapshot_manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    DamagedSnapshot,
    Manifest,
    manifest_of,
)

_PIECE_BYTES = 256 * 1024
_MAX_PADDING_BYTES = 1024 * 1024
_ROOM_TO_LEAVE = 64 * 1024 * 1024
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a pipe",
}
# Python before 3.11.4 has none; what is looked at before refuses all that it would.
_FILTER = getattr(tarfile, "data_filter", lambda member, _folder: member)


def read_manifest(files: FileSystem, archive: Path) -> Manifest:
    """Read what a snapshot says of itself, and nothing else. Raises DamagedSnapshot and OSError."""
    with _open(files, archive) as stream:
        return _Members(archive, stream).manifest()


def check_snapshot(files: FileSystem, archive: Path, max_bytes: int) -> Manifest:
    """Read a whole snapshot and compare it with its manifest; nothing is written. Raises as `unpack_snapshot`."""
    with _open(files, archive) as stream:
        members = _Members(archive, stream)
        manifest = members.manifest(max_bytes)
        for _, pieces in members.read(manifest):
            deque(pieces, maxlen=0)
    return manifest


def unpack_snapshot(files: FileSystem, archive: Path, folder: Path, max_bytes: int) -> Manifest:
    """Write the members of a snapshot into an empty folder; return its manifest. They are synced.

    Raises DamagedSnapshot for the first thing that is wrong: a name that a snapshot does not hold (so none that leads
    out of the folder), anything but a file, a member that comes twice, is missing, or is not of the length and the
    checksum that the manifest says, more than `max_bytes` in all. Raises StorageFull where there is no room for as much
    as the manifest says, and OSError. What was written until then stays for the caller to remove.
    """
    with _open(files, archive) as stream:
        members = _Members(archive, stream)
        manifest = members.manifest(max_bytes)
        for name in ("change_log/x", *manifest.members):
            files.make_folder((folder / name).parent)
        free, needed = files.free(folder), manifest.total_bytes + _ROOM_TO_LEAVE
        if needed > free:
            raise StorageFull(f"unpacking this snapshot needs {needed} bytes, and {free} are free; nothing was changed")
        for name, pieces in members.read(manifest):
            with create_file(files, folder / name) as writer:
                for piece in pieces:
                    writer.write(piece)
    return manifest


@contextmanager
def _open(files: FileSystem, archive: Path) -> Iterator["_Stream"]:
    # A pipe of that name, in a folder that anybody may fill, would be waited for without end.
    descriptor = files.open(archive, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open(descriptor, "rb", _PIECE_BYTES, closefd=False) as packed:
            yield _Stream(packed, archive.name)
    finally:
        files.close(descriptor)


class _Stream:
    """The bytes of a compressed file, a bounded number at a time, however much a few of them unfold to."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        self._unpacking = gzip.GzipFile(fileobj=packed)
        self._name = name
        self.member = "the archive"

    def exactly(self, count: int) -> bytes:
        """Return the next `count` bytes. Raises DamagedSnapshot when there are fewer."""
        data = self.up_to(count)
        if len(data) < count:
            raise self.damaged("the archive ends within it")
        return data

    def up_to(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end."""
        try:
            return self._unpacking.read(count)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise self.damaged(f"does not unpack: {problem}") from None

    def damaged(self, reason: str) -> DamagedSnapshot:
        return DamagedSnapshot(self._name, self.member, reason)


class _Members:
    """The members of an archive in their order: the manifest, then what it names."""

    def __init__(self, archive: Path, stream: _Stream) -> None:
        self._archive = archive
        self._stream = stream

    def manifest(self, max_bytes: int | None = None) -> Manifest:
        """Read the first member, which must name at most `max_bytes`. Raises DamagedSnapshot."""
        self._stream.member = MANIFEST
        member = self._next()
        if member is None or member.name != MANIFEST:
            raise self._stream.damaged("is not the first member")
        self._check_kind(member)
        if member.size > MAX_MANIFEST_BYTES:
            raise self._stream.damaged(f"is longer than {MAX_MANIFEST_BYTES} bytes")
        text = self._stream.exactly(member.size)
        self._skip_padding(member.size)
        try:
            manifest = manifest_of(text)
        except ValueError as problem:
            raise self._stream.damaged(str(problem)) from None
        if max_bytes is not None and manifest.total_bytes > max_bytes:
            reason = f"names {manifest.total_bytes} bytes in all, over KNOWHUB_SNAPSHOT_MAX_BYTES, {max_bytes}"
            raise self._stream.damaged(reason)
        return manifest

    def read(self, manifest: Manifest) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the name and the content of every other member, checked. Raises DamagedSnapshot.

        The content has to be read to its end before the next member.
        """
        waiting = dict(manifest.members)
        self._check_layout(manifest)
        while (member := self._next()) is not None:
            self._stream.member = member.name
            self._check_kind(member)
            if member.name not in manifest.members:
                raise self._stream.damaged("is not in the manifest")
            expected = waiting.pop(member.name, None)
            if expected is None:
                raise self._stream.damaged("comes twice")
            if member.size != expected.bytes:
                raise self._stream.damaged(f"has {member.size} bytes; the manifest says {expected.bytes}")
            yield member.name, self._content(member, expected.sha256)
        for name in waiting:
            self._stream.member = name
            raise self._stream.damaged("is missing")
        self._check_end()

    def _check_layout(self, manifest: Manifest) -> None:
        layout = manifest.members.get("FORMAT")
        if layout is not None and layout.sha256 != sha256(format_text(ARCHIVE_VERSION).encode()).hexdigest():
            self._stream.member = "FORMAT"
            raise self._stream.damaged("is that of another data format; use the KnowHub that made this snapshot")
        for needed in ("FORMAT", "change_log/"):
            if not any(name.startswith(needed) for name in manifest.members):
                raise self._stream.damaged(f"names no {needed}")

    def _next(self) -> tarfile.TarInfo | None:
        """Read the next header; None at the end of the archive."""
        block = self._stream.exactly(tarfile.BLOCKSIZE)
        if not any(block):
            return None
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as problem:
            raise self._stream.damaged(f"the header after it is damaged: {problem}") from None

    def _check_kind(self, member: tarfile.TarInfo) -> None:
        # Long names and sizes in headers of their own are refused as well: no name or size here needs them.
        self._stream.member = member.name.encode("utf-8", "replace").decode()
        if member.type != tarfile.REGTYPE:
            raise self._stream.damaged(f"is {_KINDS.get(member.type, 'something else')}, not a file")
        if member.size < 0:
            raise self._stream.damaged("has a negative length")
        try:
            _FILTER(member, str(self._archive.parent))
        except tarfile.TarError as problem:
            raise self._stream.damaged(f"is refused: {problem}") from None

    def _content(self, member: tarfile.TarInfo, expected: str) -> Iterator[bytes]:
        digest, left = sha256(), member.size
        while left:
            piece = self._stream.exactly(min(left, _PIECE_BYTES))
            digest.update(piece)
            yield piece
            left -= len(piece)
        self._skip_padding(member.size)
        if digest.hexdigest() != expected:
            raise self._stream.damaged("is not what the manifest says: its SHA-256 is another one")

    def _skip_padding(self, size: int) -> None:
        self._stream.exactly(-size % tarfile.BLOCKSIZE)

    def _check_end(self) -> None:
        self._stream.member = "the archive"
        rest = self._stream.up_to(_MAX_PADDING_BYTES)
        if any(rest) or len(rest) == _MAX_PADDING_BYTES:
            raise self._stream.damaged("goes on behind its end")
