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
class ArchiveMember:
    """A member of an archive: its name, its bytes, and its type."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    target: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of an archive, parsed, so that a test can spoil one and pack them again."""

    manifest: dict[str, Any]
    members: Sequence[ArchiveMember] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Archive":
        """Read an archive."""
        with tarfile.open(path) as archive:
            read = {getmember.name: _content(archive, getmember) for getmember in archive.getmembers()}
        manifest = orjson.loads(read.pop(MANIFEST))
        return cls(manifest, [ArchiveMember(name, data) for name, data in read.items()])

    def with_manifest(self, **fields: object) -> "Archive":
        """Return it with other fields in its manifest."""
        return replace(self, manifest={**self.manifest, **fields})

    def with_members(self, *members: ArchiveMember) -> "Archive":
        """Return it with other members, listed in the manifest with their true sizes and hashes."""
        listed = {
            member.name: {"bytes": len(member.data), "sha256": sha256(member.data).hexdigest()} for member in members
        }
        return replace(self, manifest={**self.manifest, "members": listed}, members=list(members))

    def with_undeclared(self, *members: ArchiveMember) -> "Archive":
        """Return it with more members that the manifest does not list."""
        return replace(self, members=[*self.members, *members])

    def write(self, path: Path) -> Path:
        """Write it as a compressed tar."""
        path.write_bytes(gzip.compress(self.to_tar(), 1))
        return path

    def to_tar(self) -> bytes:
        """Return it as an uncompressed tar."""
        return pack_tar([ArchiveMember(MANIFEST, orjson.dumps(self.manifest)), *self.members])


def pack_tar(members: Sequence[ArchiveMember]) -> bytes:
    """Return a tar of members in their order, whatever they are."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.linkname, entry.size = member.kind, member.target, len(member.data)
            archive.addfile(entry, io.BytesIO(member.data))
    return file.getvalue()


def read_folder(folder: Path) -> Mapping[str, bytes]:
    """Return every file below a folder, by its name from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()
