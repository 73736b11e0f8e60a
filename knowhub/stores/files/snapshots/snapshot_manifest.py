"""What a snapshot says of itself: its first member, `manifest.json`, with the SHA-256 of every other one."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from knowhub.core.errors import FieldError, InvalidInput

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
MEMBER_NAME: Final = re.compile(r"FORMAT|keys/keyring\.json|change_log/(?:segment|base)-[0-9]{8}\.jsonl")
TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z(?:-[0-9]{1,6})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class DamagedSnapshot(InvalidInput):
    """A snapshot that is not to be restored: `member` is the part that is wrong, by its name in the archive."""

    def __init__(self, archive: str, member: str, reason: str) -> None:
        super().__init__(f"{archive}: {member}: {reason}", [FieldError(member, reason)])
        self.archive = archive
        self.member = member
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """A member's length in bytes, and the SHA-256 of its content in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`last_seq` is the newest operation that a snapshot holds, `reason` why it was made, `created_at` in ISO 8601."""

    ts: str
    log_id: str
    last_seq: int
    generation: int
    erases: int
    reason: str
    created_at: str
    members: Mapping[str, Member]

    @property
    def total_bytes(self) -> int:
        return sum(member.bytes for member in self.members.values())


def manifest_text(manifest: Manifest) -> bytes:
    """Write a manifest; two that differ in checksums alone are of one length."""
    return orjson.dumps({"knowhub_snapshot": 1, **asdict(manifest)}, option=orjson.OPT_INDENT_2) + b"\n"


def manifest_of(text: bytes) -> Manifest:
    """Read a manifest. Raises ValueError, whose text says what is wrong with it."""
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise ValueError(f"is no JSON: {problem}") from None
    match record:
        case {
            "knowhub_snapshot": 1,
            "ts": str() as ts,
            "log_id": str() as log_id,
            "last_seq": int() as last_seq,
            "generation": int() as generation,
            "erases": int() as erases,
            "reason": str() as reason,
            "created_at": str() as created_at,
            "members": dict() as members,
        }:
            named = {name: _member(name, member) for name, member in members.items()}
            return Manifest(ts, log_id, last_seq, generation, erases, reason, created_at, named)
    raise ValueError("is not the manifest of a snapshot that this KnowHub knows")


def _member(name: str, member: Any) -> Member:  # noqa: ANN401 -- JSON
    if not MEMBER_NAME.fullmatch(name):
        raise ValueError(f"names {name!r}, which no snapshot holds")
    match member:
        case {"bytes": int() as length, "sha256": str() as digest} if length >= 0 and _SHA256.fullmatch(digest):
            return Member(length, digest)
    raise ValueError(f"does not say of {name!r} how long it is, and its SHA-256")
