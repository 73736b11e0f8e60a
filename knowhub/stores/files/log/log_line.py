"""One operation as one line of JSON that ends with its own checksum (`docs/reference/data-directory.md`)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from knowhub.core.operation import Change, IdempotencyKey, Operation, Row
from knowhub.stores.files.log.sliced_line import SlicedOperation, outline

_CRC_HEAD = b',"crc":"'
_CRC_TAIL = b'"}\n'
_CRC_CHARS = 8
_SEAL_BYTES = len(_CRC_HEAD) + _CRC_CHARS + len(_CRC_TAIL)


@dataclass(frozen=True, slots=True)
class RawChange:
    """A change with its rows as JSON text; `after_row` is the parsed form of `after`, `before_row` of `before`."""

    collection: str
    id: str
    before: bytes | None
    after: bytes
    after_row: Row
    before_row: Row | None


def seal(body: bytes) -> bytes:
    """Close a JSON object with its checksum and a newline; `body` comes without its last brace."""
    return b"%s%s%08x%s" % (body, _CRC_HEAD, zlib.crc32(body), _CRC_TAIL)


def unsealed(line: bytes) -> bytes | None:
    """Return the JSON object of a line, checksum still in it; None when the line is not whole."""
    cut = len(line) - _SEAL_BYTES
    if cut <= 0 or line[cut : cut + len(_CRC_HEAD)] != _CRC_HEAD or line[-len(_CRC_TAIL) :] != _CRC_TAIL:
        return None
    if line[cut + len(_CRC_HEAD) : -len(_CRC_TAIL)] != b"%08x" % zlib.crc32(memoryview(line)[:cut]):
        return None
    return line


def object_of(line: bytes) -> bytes:
    """Return the JSON object of a whole line as it was before it was sealed: without the checksum."""
    return line[:-_SEAL_BYTES] + b"}"


def resealed(line: bytes, text: bytes) -> bytes:
    """Close `text`, which takes the place of `object_of(line)`, as that line was closed.

    Raises ValueError when it would not take exactly its place.
    """
    if len(text) != len(line) - _SEAL_BYTES + 1:
        raise ValueError(f"{len(text)} bytes do not take the place of {len(line) - _SEAL_BYTES + 1}")
    return seal(text[:-1])


def is_sealed(line: bytes) -> bool:
    """Tell whether a line is whole: whether its checksum is there, and right."""
    return unsealed(line) is not None


def line_checksum(line: bytes) -> str:
    """Return the checksum that a line carries; empty when it carries none."""
    return line[-_CRC_CHARS - len(_CRC_TAIL) : -len(_CRC_TAIL)].decode("ascii", "replace") if line else ""


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object of a whole line; None when its checksum or its JSON is wrong."""
    if unsealed(line) is None:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def encode(operation: Operation, changes: Sequence[RawChange], batch: int) -> bytes:
    """Write one operation as a sealed line. `batch` is the offset at which its batch begins."""
    record: dict[str, Any] = {
        "seq": operation.seq,
        "batch": batch,
        "op": operation.op,
        "operation_id": operation.operation_id,
        "account": operation.account,
        "actor": operation.actor,
        "timestamp": operation.timestamp,
        "changes": [_change(change) for change in changes],
        "agent_io": operation.agent_io,
        "undo_of": operation.undo_of,
        "idempotency": _idempotency(operation.idempotency),
    }
    if operation.reply is not None:
        record["reply"] = operation.reply
    if operation.group is not None:
        group = operation.group
        record["group"] = {"id": group.id, "index": group.index, "of": group.of}
    return seal(orjson.dumps(record)[:-1])


def decode(read: SlicedOperation, record: dict[str, Any]) -> Operation:
    """Make the operation of a line from what was read of it and from its object. Raises TypeError for odd rows."""
    changes = [Change(c["collection"], c["id"], c["before"], c["after"]) for c in record["changes"]]
    if not all(isinstance(change.after, dict) for change in changes):
        raise TypeError("a row is an object")
    return replace(outline(read), changes=changes, reply=record.get("reply"), agent_io=record["agent_io"])


def _change(change: RawChange) -> dict[str, Any]:
    # Rows go in as the text they already are: nothing is parsed or written twice.
    return {
        "collection": change.collection,
        "id": change.id,
        "before": None if change.before is None else orjson.Fragment(change.before),
        "after": orjson.Fragment(change.after),
    }


def _idempotency(key: IdempotencyKey | None) -> dict[str, str] | None:
    if key is None:
        return None
    return {"principal": key.principal, "method": key.method, "path": key.path, "key": key.key, "body": key.body}
