"""The parts of a line that are only copied, pointed out where they stand and not made into objects."""

from typing import Final

import msgspec

from knowhub.core.operation import Group, IdempotencyKey, Operation


class SlicedChange(msgspec.Struct, frozen=True):
    """One row of a line; `after` is its text, as it stands there. `number` is told by a base alone."""

    collection: str
    id: str
    after: msgspec.Raw
    number: int | None = None


class AnyObject(msgspec.Struct, frozen=True, gc=False):
    """That an object stands there; what is in it is passed over."""


class SlicedWrite(SlicedChange, frozen=True, kw_only=True):
    """One row of an operation's line; of what was before it only whether it was there."""

    before: AnyObject | None


class SlicedOperation(msgspec.Struct, frozen=True):
    """What is read of an operation's line, in which each of these stands: without one it is another program's."""

    seq: int
    batch: int
    op: str
    operation_id: str
    account: str
    actor: str
    timestamp: float
    changes: list[SlicedWrite]
    agent_io: list[AnyObject] | None
    undo_of: str | None
    idempotency: IdempotencyKey | None
    reply: AnyObject | None = None
    group: Group | None = None


class InfoRow(msgspec.Struct, frozen=True):
    """What a catalog reads of an info."""

    id: str
    owner: str
    scopes: list[str]
    deleted: bool = False


class LinkRow(msgspec.Struct, frozen=True):
    """What a catalog reads of a link."""

    info_id: str
    keyword_id: str
    relation: str
    deleted: bool = False


class SlicedBaseLine(msgspec.Struct, frozen=True):
    """What is read of a base's line: rows, or how many rows there were."""

    account: str | None = None
    changes: list[SlicedChange] | None = None
    knowhub_base_end: int | None = None
    rows: int | None = None


_OBJECT: Final = ord("{")
_OPERATION: Final = msgspec.json.Decoder(SlicedOperation)
info_row: Final = msgspec.json.Decoder(InfoRow).decode
"""From the JSON text of an info; raises ValueError where it has another shape."""

link_row: Final = msgspec.json.Decoder(LinkRow).decode
"""From the JSON text of a link; raises ValueError where it has another shape."""

_BASE_LINE: Final = msgspec.json.Decoder(SlicedBaseLine)


def sliced_operation(line: bytes) -> SlicedOperation:
    """Read an operation's line. Raises ValueError where it has another shape."""
    return _OPERATION.decode(line)


def outline(read: SlicedOperation) -> Operation:
    """Return what is known of an operation without its rows and its talk with a model."""
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


def sliced_base_line(line: bytes) -> SlicedBaseLine:
    """Read a line of a base, behind its header. Raises ValueError where it has another shape."""
    return _BASE_LINE.decode(line)


def row_text(change: SlicedChange) -> bytes:
    """Return the text of a row: a copy, for what is pointed out keeps its whole line in memory. Raises TypeError."""
    text = bytes(change.after)
    if text[0] != _OBJECT:
        raise TypeError("a row is an object")
    return text
