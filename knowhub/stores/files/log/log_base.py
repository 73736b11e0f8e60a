"""A base: the rows of all accounts as they were before a segment, in the place of the segments before it."""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from knowhub.stores.files.log.log_line import seal

BASE: Final = 1 << 23
"""Added to the number of the segment that follows a base, this is the number of the base itself."""


@dataclass(frozen=True, slots=True)
class BaseHeader:
    """The first line of a base. `checksum` is that of the line of operation `last_seq`, the last one in it.

    `erases` is the number of the newest erasing among its operations, and `last_time` the time of its newest one, in
    seconds.
    """

    log_id: str
    segment: int
    generation: int
    last_seq: int
    checksum: str
    last_time: float
    erases: int


def header_line(header: BaseHeader) -> bytes:
    """Return the sealed first line of a base."""
    record = {
        "knowhub_base": 1,
        "log_id": header.log_id,
        "segment": header.segment,
        "generation": header.generation,
        "last_seq": header.last_seq,
        "checksum": header.checksum,
        "last_time": header.last_time,
        "erases": header.erases,
    }
    return seal(orjson.dumps(record)[:-1])


def end_line(rows: int) -> bytes:
    """Return the sealed last line of a base, without which it is not whole."""
    return seal(orjson.dumps({"knowhub_base_end": 1, "rows": rows})[:-1])


def header_of(record: dict[str, Any] | None) -> BaseHeader | None:
    """Read the object of a first line; None when it is that of no base."""
    match record:
        case {
            "knowhub_base": 1,
            "log_id": str() as log_id,
            "segment": int() as segment,
            "generation": int() as generation,
            "last_seq": int() as last_seq,
            "checksum": str() as checksum,
            "last_time": float() | int() as last_time,
            "erases": int() as erases,
        }:
            return BaseHeader(log_id, segment, generation, last_seq, checksum, float(last_time), erases)
    return None


def is_end(record: dict[str, Any] | None) -> bool:
    """Tell whether this is the object of a last line."""
    return record is not None and "knowhub_base_end" in record
