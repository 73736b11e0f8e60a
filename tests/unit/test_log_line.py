"""A line of the log: an operation goes in and comes out, and every flipped bit is noticed."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.operation import Change, Draft, Group, Write
from knowhub.stores.files.log_line import RawChange, Stamp, decode, encode, line_checksum, parsed, seal
from tests.builders import START, knowledge_row, retry_key

BODIES = st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(-(2**53), 2**53), min_size=1)


def sealed(value: dict[str, object]) -> bytes:
    return seal(orjson.dumps(value)[:-1])


@given(BODIES.filter(lambda body: "crc" not in body))
def test_what_is_sealed_is_read_back(body: dict[str, object]) -> None:
    line = sealed(body)

    record = parsed(line)

    assert record is not None
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert record.pop("crc") == line_checksum(line)
    assert record == body


def test_every_flipped_bit_of_a_line_is_noticed() -> None:
    line = sealed({"seq": 1, "text": "等待 the element"})

    unnoticed = [bit for bit in range(len(line) * 8) if parsed(flipped(line, bit)) is not None]

    assert unnoticed == []


def flipped(line: bytes, bit: int) -> bytes:
    changed = bytearray(line)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_prefix_of_a_line_is_noticed() -> None:
    line = sealed({"seq": 1, "text": "x"})

    assert [length for length in range(len(line)) if parsed(line[:length]) is not None] == []
    assert parsed(line + line) is None
    assert parsed(b"\0" * len(line)) is None


def test_a_sealed_list_is_no_record() -> None:
    assert parsed(seal(b'["seq"')) is None


def test_an_operation_comes_back_as_it_was_written() -> None:
    before, after = knowledge_row("a"), knowledge_row("a", content="新的") | {"version": 2}
    raw = RawChange("knowledge", "a", orjson.dumps(before), orjson.dumps(after), after)
    draft = Draft("edit_knowledge", [Write("knowledge", "a", after)], {"ids": ["a"]}, "undone", Group("g", 1, 2))
    stamp = Stamp(7, "id-7", "default", "user:li", START + 0.123, retry_key())

    record = parsed(encode(draft, [raw], stamp, 4096))

    assert record is not None
    operation = decode(record)
    assert (operation.seq, operation.operation_id, operation.op) == (7, "id-7", "edit_knowledge")
    assert (operation.account, operation.actor, operation.timestamp) == ("default", "user:li", START + 0.123)
    assert operation.changes == [Change("knowledge", "a", before, after)]
    assert (operation.reply, operation.undo_of) == ({"ids": ["a"]}, "undone")
    assert (operation.group, operation.idempotency) == (Group("g", 1, 2), retry_key())
    assert record["batch"] == 4096
