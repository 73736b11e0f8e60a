"""One operation as one line of JSON that ends with its own checksum (`docs/reference/data-directory.md`)."""

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
import orjson

from knowhub.core.json_strings import CutJson, cut_long_strings, parse_in_pieces
from knowhub.core.operation import Change, Group, IdempotencyKey, Operation
from knowhub.engine.account import LoadedChange, WrittenChange


class AnyObject(msgspec.Struct, frozen=True, gc=False):
    """Any JSON object. Its content is skipped."""


class PartialWrite(LoadedChange, frozen=True, kw_only=True):
    """One row of an operation. `before` only says whether there was an earlier version."""

    before: AnyObject | None


class PartialOperation(msgspec.Struct, frozen=True):
    """The fields of an operation's line. A line that lacks a required field was written by another program.

    `batch_offset` is the offset of the first line of its batch.
    """

    seq: int
    batch_offset: int = msgspec.field(name="batch")
    op: str
    operation_id: str
    account: str
    actor: str
    timestamp: float
    changes: list[PartialWrite]
    agent_io: list[AnyObject] | None
    undo_of: str | None
    idempotency: IdempotencyKey | None
    reply: AnyObject | None = None
    group: Group | None = None


class PartialBaseLine(msgspec.Struct, frozen=True):
    """The fields of a line in a base: rows, or the number of rows in the last line."""

    account: str | None = None
    changes: list[LoadedChange] | None = None
    knowhub_base_end: int | None = None
    rows: int | None = None


_READ_WHOLE: Final = 4 * 1024 * 1024
_LONG_STRING: Final = 1024
_OBJECT: Final = ord("{")
_OPERATION: Final = msgspec.json.Decoder(PartialOperation)
_BASE_LINE: Final = msgspec.json.Decoder(PartialBaseLine)


def decode_operation(line: bytes) -> PartialOperation:
    """Read an operation's line. Raises ValueError where it has another shape."""
    if len(line) <= _READ_WHOLE:
        return _OPERATION.decode(line)
    # A decoder keeps the interpreter until its end: it gets the line without its long strings.
    cut = cut_long_strings(line, _LONG_STRING)
    read = _OPERATION.decode(cut.rest)
    changes = [msgspec.structs.replace(change, after=_fill_in(change.after, line, cut)) for change in read.changes]
    return msgspec.structs.replace(read, changes=changes)


def _fill_in(row: msgspec.Raw, line: bytes, cut: CutJson) -> msgspec.Raw:
    first, *others = bytes(row).split(b'"' + cut.name.encode())
    parts = [first]
    for other in others:
        number, _, rest = other.partition(b'"')
        span = cut.strings[int(number)]
        parts += (line[span.start : span.end], rest)
    return msgspec.Raw(b"".join(parts))


def summarize(read: PartialOperation) -> Operation:
    """Return an operation without its rows and its prompts."""
    return Operation(
        seq=read.seq,
        operation_id=read.operation_id,
        op=read.op,
        account=read.account,
        actor=read.actor,
        timestamp=read.timestamp,
        changes=(),
        undo_of=read.undo_of,
        group=read.group,
        idempotency=read.idempotency,
    )


def decode_base_line(line: bytes) -> PartialBaseLine:
    """Read a line of a base, but not its header. Raises ValueError where it has another shape."""
    return _BASE_LINE.decode(line)


def row_text(change: LoadedChange) -> bytes:
    """Return a copy of the text of a row: a slice would keep its whole line in memory. Raises TypeError."""
    text = bytes(change.after)
    if text[0] != _OBJECT:
        raise TypeError("a row is an object")
    return text


_CRC_HEAD = b',"crc":"'
_CRC_TAIL = b'"}\n'
_CRC_CHARS = 8
# A longer line would keep the event loop for more than some milliseconds, even in a thread.
_PARSED_WHOLE = 1024 * 1024
CHECKSUM_BYTES = len(_CRC_HEAD) + _CRC_CHARS + len(_CRC_TAIL)
"""The length of the checksum at the end of each line."""


def add_checksum(*parts: bytes | memoryview) -> bytes:
    """Return a line: a JSON object, given in parts and without its last brace, with its checksum added."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join((*parts, _CRC_HEAD, b"%08x" % checksum, _CRC_TAIL))


def format_line(record: Mapping[str, Any]) -> bytes:
    """Return the line of a JSON object, with its checksum."""
    return add_checksum(memoryview(orjson.dumps(record))[:-1])


def has_valid_checksum(line: bytes) -> bool:
    """Return whether a line is complete and its checksum is right."""
    cut = len(line) - CHECKSUM_BYTES
    if cut <= 0 or line[cut : cut + len(_CRC_HEAD)] != _CRC_HEAD or line[-len(_CRC_TAIL) :] != _CRC_TAIL:
        return False
    return line[cut + len(_CRC_HEAD) : -len(_CRC_TAIL)] == b"%08x" % zlib.crc32(memoryview(line)[:cut])


def line_checksum(line: bytes) -> str:
    """Return the checksum that a line carries; empty when it carries none."""
    return line[-_CRC_CHARS - len(_CRC_TAIL) : -len(_CRC_TAIL)].decode("ascii", "replace") if line else ""


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; None if its checksum or its JSON is wrong."""
    return parse_object(line) if has_valid_checksum(line) else None


def parse_object(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line whose checksum is right; None when its JSON is wrong."""
    try:
        value = orjson.loads(line) if len(line) <= _PARSED_WHOLE else parse_in_pieces(line, orjson.loads)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def encode_operation(operation: Operation, changes: Sequence[WrittenChange], batch_offset: int) -> bytes:
    """Return the line of an operation. `batch_offset` is the offset of the first line of its batch."""
    record: dict[str, Any] = {
        "seq": operation.seq,
        "batch": batch_offset,
        "op": operation.op,
        "operation_id": operation.operation_id,
        "account": operation.account,
        "actor": operation.actor,
        "timestamp": operation.timestamp,
        # Rows go in as the text that they already are: they may be of many mebibytes.
        "changes": [
            {
                "collection": change.collection,
                "id": change.id,
                "before": None if change.before is None else orjson.Fragment(change.before),
                "after": orjson.Fragment(change.after),
            }
            for change in changes
        ],
        "agent_io": operation.agent_io,
        "undo_of": operation.undo_of,
        "idempotency": operation.idempotency,
    }
    if operation.reply is not None:
        record["reply"] = operation.reply
    if operation.group is not None:
        record["group"] = operation.group
    return format_line(record)


def make_operation(read: PartialOperation, record: dict[str, Any]) -> Operation:
    """Make the operation of a line from what was read of it and from its object. Raises TypeError for odd rows."""
    changes = [Change(c["collection"], c["id"], c["before"], c["after"]) for c in record["changes"]]
    if not all(isinstance(change.after, dict) for change in changes):
        raise TypeError("a row is an object")
    return replace(summarize(read), changes=changes, reply=record.get("reply"), agent_io=record["agent_io"])


BASE: Final = 1 << 23
"""Added to the number of the segment that follows a base, this is the number of the base itself."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment. Bytes of the segment before it after `previous_length` do not count."""

    log_id: str
    segment: int
    generation: int
    first_seq: int
    previous_length: int | None


class BaseHeader(msgspec.Struct, frozen=True, rename={"last_erase_seq": "erases"}):
    """The first line of a base. `checksum` is that of the line of operation `last_seq`, the last one in it.

    `last_erase_seq` is the number of the newest erase among its operations. `last_time` is the time of its newest
    operation, in seconds.
    """

    log_id: str
    segment: int
    generation: int
    last_seq: int
    checksum: str
    last_time: float
    last_erase_seq: int


HeaderT = TypeVar("HeaderT", Header, BaseHeader)
_MARKS: Final = {Header: "knowhub_log", BaseHeader: "knowhub_base"}


def header_line(header: Header | BaseHeader) -> bytes:
    """Return the first line of a segment or a base."""
    return format_line({_MARKS[type(header)]: 1, **msgspec.to_builtins(header)})


def end_line(rows: int) -> bytes:
    """Return the last line of a base. Without it the base is incomplete."""
    return format_line({"knowhub_base_end": 1, "rows": rows})


def parse_header(line: bytes, kind: type[HeaderT]) -> HeaderT | None:
    """Read the first line of a segment or a base; None for a line that is no such header."""
    record = parse_line(line)
    if record is not None and record.get(_MARKS[kind]) == 1:
        with suppress(msgspec.ValidationError):
            return msgspec.convert(record, kind)
    return None
