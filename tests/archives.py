"""Snapshots made by hand, right ones and wrong ones, for tests that open them."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Piece:
    """One member of an archive: its name, its bytes, and of which kind it is."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    target: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of an archive, parsed, so that a test can spoil one and pack them again."""

    manifest: dict[str, Any]
    pieces: Sequence[Piece] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> "Archive":
        """Read a whole one."""
        with tarfile.open(path) as archive:
            read = {getmember.name: _content(archive, getmember) for getmember in archive.getmembers()}
        manifest = orjson.loads(read.pop(MANIFEST))
        return cls(manifest, [Piece(name, data) for name, data in read.items()])

    def changed(self, **fields: object) -> "Archive":
        """Return the same with other fields in its manifest."""
        return replace(self, manifest={**self.manifest, **fields})

    def with_pieces(self, *pieces: Piece) -> "Archive":
        """Return it with other members, of which the manifest says the truth."""
        told = {piece.name: {"bytes": len(piece.data), "sha256": sha256(piece.data).hexdigest()} for piece in pieces}
        return replace(self, manifest={**self.manifest, "members": told}, pieces=list(pieces))

    def and_pieces(self, *pieces: Piece) -> "Archive":
        """Return it with more members, of which the manifest says nothing."""
        return replace(self, pieces=[*self.pieces, *pieces])

    def write(self, path: Path) -> Path:
        """Pack it."""
        path.write_bytes(gzip.compress(self.unpacked(), 1))
        return path

    def unpacked(self) -> bytes:
        """Return the tar that is in it."""
        return packed([Piece(MANIFEST, orjson.dumps(self.manifest)), *self.pieces])


def packed(pieces: Sequence[Piece]) -> bytes:
    """Return a tar of members in their order, whatever they are."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for piece in pieces:
            member = tarfile.TarInfo(piece.name)
            member.type, member.linkname, member.size = piece.kind, piece.target, len(piece.data)
            archive.addfile(member, io.BytesIO(piece.data))
    return file.getvalue()


def members_of(folder: Path) -> Mapping[str, bytes]:
    """Return every file below a folder, by its name from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()
