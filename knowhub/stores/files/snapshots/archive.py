"""Snapshots as archives: what the first member, `manifest.json`, says of the others; reading and writing.

Anybody may have made a snapshot that is read: nothing in it is trusted before it was checked.
"""

import errno
import gzip
import os
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import msgspec
import orjson
from isal import isal_zlib
from msgspec import Meta

from knowhub.core.clock import parse_iso
from knowhub.core.errors import FieldError, InvalidInput, StorageFull
from knowhub.stores.files.data_directory import ARCHIVE_VERSION, KEYRING, DataDirectory, format_text, snapshot_path
from knowhub.stores.files.filesystem import FileSystem, create_file
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_manifest import plain_name

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
_MEMBER_NAME: Final = r"^(?:FORMAT|keys/keyring\.json|change_log/(?:segment|base)-[0-9]{8}\.jsonl)\Z"


class DamagedSnapshot(InvalidInput):
    """A snapshot that must not be restored. `member` is the name of the damaged part in the archive."""

    def __init__(self, archive: str, member: str, reason: str) -> None:
        super().__init__(f"{archive}: {member}: {reason}", [FieldError(member, reason)])
        self.archive = archive
        self.member = member
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """A member's length in bytes, and the SHA-256 of its content in hexadecimal."""

    bytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Manifest(msgspec.Struct, frozen=True, rename={"last_erase_seq": "erases"}):
    """`last_seq` is the newest operation that a snapshot holds, `reason` why it was made, `created_at` in ISO 8601."""

    ts: str
    log_id: str
    last_seq: int
    generation: int
    last_erase_seq: int
    reason: str
    created_at: str
    members: Mapping[Annotated[str, Meta(pattern=_MEMBER_NAME)], Member]
    knowhub_snapshot: Literal[1] = 1

    @property
    def total_bytes(self) -> int:
        return sum(member.bytes for member in self.members.values())


_PIECE_BYTES = 256 * 1024
_MAX_PADDING_BYTES = 1024 * 1024
_ROOM_TO_LEAVE = 64 * 1024 * 1024


def read_manifest(files: FileSystem, archive: Path) -> Manifest:
    """Read the manifest of a snapshot, and nothing else. Raises DamagedSnapshot and OSError."""
    with _open(files, archive) as members:
        return members.manifest()


def check_snapshot(files: FileSystem, archive: Path) -> Manifest:
    """Read a whole snapshot and compare it with its manifest; nothing is written. Raises as `unpack_snapshot`."""
    with _open(files, archive) as members:
        manifest = members.manifest()
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
    with _open(files, archive) as members:
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
def _open(files: FileSystem, archive: Path) -> Iterator["_Members"]:
    # A pipe of that name, in a folder that anybody may fill, would be waited for without end.
    descriptor = files.open(archive, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open(descriptor, "rb", _PIECE_BYTES, closefd=False) as packed:
            yield _Members(packed, archive.name)
    finally:
        files.close(descriptor)


class _Members:
    """The members of an archive in their order: the manifest, then what it names.

    It reads a bounded number of bytes at a time, however much a few of them unfold to.
    """

    def __init__(self, packed: BinaryIO, name: str) -> None:
        self._unpacking = gzip.GzipFile(fileobj=packed)
        self._name = name
        self._member = "the archive"

    def manifest(self, max_bytes: int | None = None) -> Manifest:
        """Read the first member, which must name at most `max_bytes`. Raises DamagedSnapshot."""
        self._member = MANIFEST
        member = self._next_header()
        if member is None or member.name != MANIFEST:
            raise self._make_error("is not the first member")
        self._check_kind(member)
        if member.size > MAX_MANIFEST_BYTES:
            raise self._make_error(f"is longer than {MAX_MANIFEST_BYTES} bytes")
        text = self._read_exactly(member.size)
        self._skip_padding(member.size)
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except ValueError as problem:
            raise self._make_error(str(problem)) from None
        if max_bytes is not None and manifest.total_bytes > max_bytes:
            reason = f"names {manifest.total_bytes} bytes in all, over KNOWHUB_SNAPSHOT_MAX_BYTES, {max_bytes}"
            raise self._make_error(reason)
        return manifest

    def read(self, manifest: Manifest) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the name and the content of every other member, checked. Raises DamagedSnapshot.

        The content has to be read to its end before the next member.
        """
        waiting = dict(manifest.members)
        self._check_layout(manifest)
        while (member := self._next_header()) is not None:
            self._member = member.name
            self._check_kind(member)
            if member.name not in manifest.members:
                raise self._make_error("is not in the manifest")
            expected = waiting.pop(member.name, None)
            if expected is None:
                raise self._make_error("comes twice")
            if member.size != expected.bytes:
                raise self._make_error(f"has {member.size} bytes; the manifest says {expected.bytes}")
            yield member.name, self._content(member, expected.sha256)
        for name in waiting:
            self._member = name
            raise self._make_error("is missing")
        self._member = "the archive"
        rest = self._read_up_to(_MAX_PADDING_BYTES)
        if any(rest) or len(rest) == _MAX_PADDING_BYTES:
            raise self._make_error("goes on behind its end")

    def _check_layout(self, manifest: Manifest) -> None:
        layout = manifest.members.get("FORMAT")
        if layout is not None and layout.sha256 != sha256(format_text(ARCHIVE_VERSION).encode()).hexdigest():
            self._member = "FORMAT"
            raise self._make_error("is that of another data format; use the KnowHub that made this snapshot")
        for needed in ("FORMAT", "change_log/"):
            if not any(name.startswith(needed) for name in manifest.members):
                raise self._make_error(f"names no {needed}")

    def _next_header(self) -> tarfile.TarInfo | None:
        """Read the next header; None at the end of the archive."""
        block = self._read_exactly(tarfile.BLOCKSIZE)
        if not any(block):
            return None
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as problem:
            raise self._make_error(f"the header after it is damaged: {problem}") from None

    def _check_kind(self, member: tarfile.TarInfo) -> None:
        # Long names and sizes in headers of their own are refused as well: no name or size here needs them.
        self._member = member.name.encode("utf-8", "replace").decode()
        if member.type != tarfile.REGTYPE:
            raise self._make_error("is no regular file")
        if member.size < 0:
            raise self._make_error("has a negative length")

    def _content(self, member: tarfile.TarInfo, expected: str) -> Iterator[bytes]:
        digest, left = sha256(), member.size
        while left:
            piece = self._read_exactly(min(left, _PIECE_BYTES))
            digest.update(piece)
            yield piece
            left -= len(piece)
        self._skip_padding(member.size)
        if digest.hexdigest() != expected:
            raise self._make_error("is not what the manifest says: its SHA-256 is another one")

    def _skip_padding(self, size: int) -> None:
        self._read_exactly(-size % tarfile.BLOCKSIZE)

    def _read_exactly(self, count: int) -> bytes:
        """Return the next `count` bytes. Raises DamagedSnapshot when there are fewer."""
        data = self._read_up_to(count)
        if len(data) < count:
            raise self._make_error("the archive ends within it")
        return data

    def _read_up_to(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end."""
        try:
            return self._unpacking.read(count)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise self._make_error(f"does not unpack: {problem}") from None

    def _make_error(self, reason: str) -> DamagedSnapshot:
        return DamagedSnapshot(self._name, self._member, reason)


_GZIP_WINDOW: Final = 31
_FILE_MODE: Final = 0o640
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def write_snapshot(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write a snapshot under a temporary name. Runs in a child process of `SnapshotFolder.create`. Raises OSError."""
    manifest = msgspec.convert({**arguments["manifest"], "members": {}}, Manifest)
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
        lengths = {numbers[-1]: end}
        for number in numbers[:-1]:
            # Bytes after that were never acknowledged.
            if (length := log.durable_end(number)) is None:
                raise _make_read_error(log.path(number + 1))
            lengths[number] = length
        # Under the names that files begin with: so an archive needs no manifest of the log.
        parts = {f"{log.folder.name}/{plain_name(number)}": number for number in numbers}
        # Read after the log's end was fixed: the key of every row up to there was durable before the row was.
        whole = {"FORMAT": format_text(ARCHIVE_VERSION).encode()}
        with suppress(FileNotFoundError, NotADirectoryError):
            whole[KEYRING] = files.read(directory.keyring)
        members = {name: Member(len(data), sha256(data).hexdigest()) for name, data in whole.items()}
        for name, number in parts.items():
            digest = sha256()
            for piece in _split_segments(log, number, lengths[number]):
                digest.update(piece)
            members[name] = Member(lengths[number], digest.hexdigest())
        text = orjson.dumps(
            msgspec.to_builtins(msgspec.structs.replace(manifest, members=members)), option=orjson.OPT_INDENT_2
        )
        whole = {MANIFEST: text + b"\n", **whole}
        packing = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_WINDOW)
        with create_file(files, temporary_path(directory, manifest.ts)) as writer:
            for name, data in whole.items():
                writer.write(packing.compress(_pack(name, len(data), made_at) + data + _pad(len(data))))
            for name, number in parts.items():
                writer.write(packing.compress(_pack(name, lengths[number], made_at)))
                for piece in _split_segments(log, number, lengths[number]):
                    writer.write(packing.compress(piece))
                writer.write(packing.compress(_pad(lengths[number])))
            writer.write(packing.compress(_END) + packing.flush())
    return writer.size


def temporary_path(directory: DataDirectory, ts: str) -> Path:
    """Return where a snapshot is written before it has its name."""
    return snapshot_path(directory, ts).with_suffix(".gz.tmp")


def _split_segments(log: ChangeLog, number: int, length: int) -> Iterator[bytes]:
    for start in range(0, length, _PIECE_BYTES):
        wanted = min(length - start, _PIECE_BYTES)
        piece = log.read(number, start, start + wanted)
        if len(piece) < wanted:
            raise _make_read_error(log.path(number))
        yield piece


def _make_read_error(path: Path) -> OSError:
    return OSError(errno.EIO, f"{path} is damaged, so that no snapshot can be made of it; run `knowhub doctor`")


def _pack(name: str, length: int, made_at: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = length, _FILE_MODE, made_at
    return member.tobuf(tarfile.GNU_FORMAT)


def _pad(length: int) -> bytes:
    return bytes(-length % tarfile.BLOCKSIZE)
