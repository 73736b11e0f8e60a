"""Decode a line without making objects of its rows: they stay slices of the line."""

from typing import Final

import msgspec
from msgspec.structs import replace

from knowhub.core.json_strings import CutJson, cut_long_strings
from knowhub.core.operation import Group, IdempotencyKey, Operation
from knowhub.engine.account import LoadedChange


class AnyObject(msgspec.Struct, frozen=True, gc=False):
    """Any JSON object. Its content is skipped."""


class PartialWrite(LoadedChange, frozen=True, kw_only=True):
    """One row of an operation. `before` only says whether there was an earlier version."""

    before: AnyObject | None


class PartialOperation(msgspec.Struct, frozen=True):
    """The fields of an operation's line. A line that lacks a required field was written by another program."""

    seq: int
    batch: int
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
    changes = [replace(change, after=_fill_in(change.after, line, cut)) for change in read.changes]
    return replace(read, changes=changes)


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
    """Read a line of a base, behind its header. Raises ValueError where it has another shape."""
    return _BASE_LINE.decode(line)


def row_text(change: LoadedChange) -> bytes:
    """Return a copy of the text of a row: a slice would keep its whole line in memory. Raises TypeError."""
    text = bytes(change.after)
    if text[0] != _OBJECT:
        raise TypeError("a row is an object")
    return text
