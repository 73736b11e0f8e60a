"""A line of the log: an operation goes in and comes out, and every flipped bit is noticed."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.operation import Change, Group, Operation
from knowhub.stores.files.log.log_line import RawChange, decode, encode, line_checksum, parsed, seal
from knowhub.stores.files.log.sliced_line import sliced_operation
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
    raw = RawChange("knowledge", "a", orjson.dumps(before), orjson.dumps(after), after, before)
    operation = Operation(
        seq=7,
        operation_id="id-7",
        op="edit_knowledge",
        account="default",
        actor="user:li",
        timestamp=START + 0.123,
        changes=[Change("knowledge", "a", before, after)],
        reply={"ids": ["a"]},
        undo_of="undone",
        group=Group("g", 1, 2),
        idempotency=retry_key(),
    )

    line = encode(operation, [raw], 4096)
    record = parsed(line)

    assert record is not None
    assert decode(sliced_operation(line), record) == operation
    assert record["batch"] == 4096
