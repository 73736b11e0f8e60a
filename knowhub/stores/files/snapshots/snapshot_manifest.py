"""What a snapshot says of itself: its first member, `manifest.json`, with the SHA-256 of every other one."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

import msgspec
import orjson
from msgspec import Meta

from knowhub.core.errors import FieldError, InvalidInput

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z(?:-[0-9]{1,6})?")
_MEMBER_NAME: Final = r"^(?:FORMAT|keys/keyring\.json|change_log/(?:segment|base)-[0-9]{8}\.jsonl)\Z"


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

    bytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


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
    members: Mapping[Annotated[str, Meta(pattern=_MEMBER_NAME)], Member]
    knowhub_snapshot: Literal[1] = 1

    @property
    def total_bytes(self) -> int:
        return sum(member.bytes for member in self.members.values())


def manifest_text(manifest: Manifest) -> bytes:
    """Write a manifest."""
    return orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2) + b"\n"


def manifest_of(text: bytes) -> Manifest:
    """Read a manifest. Raises ValueError, whose text says what is wrong with it."""
    return msgspec.json.decode(text, type=Manifest)
