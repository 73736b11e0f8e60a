"""The lines of a log: an operation is decoded as it was encoded."""

from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.operation import Change, Group, Operation
from knowhub.engine.account import WrittenChange
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import (
    BaseHeader,
    Header,
    add_checksum,
    decode_operation,
    encode_operation,
    header_line,
    line_checksum,
    make_operation,
    parse_header,
    parse_line,
)
from knowhub.stores.files.projections.log_projection import Checkpoint
from tests.builders import START, knowledge_row, retry_key

BODIES = st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(-(2**53), 2**53), min_size=1)


def make_line(value: dict[str, object]) -> bytes:
    return add_checksum(orjson.dumps(value)[:-1])


@given(BODIES.filter(lambda body: "crc" not in body))
def test_a_line_with_its_checksum_is_read_back(body: dict[str, object]) -> None:
    line = make_line(body)

    record = parse_line(line)

    assert record is not None
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert record.pop("crc") == line_checksum(line)
    assert record == body


def test_the_lines_of_a_file_that_is_shorter_than_expected_are_read(tmp_path: Path) -> None:
    log = ChangeLog(FileSystem(), tmp_path)
    start = log.create(Header("log", 1, 1, 1, None))
    written = [make_line({"seq": seq}) for seq in (1, 2)]
    log.append(1, written, start)

    lines = list(log.lines(1, start, log.size(1) + 1_000))
    log.close()

    assert [line.data for line in lines] == written


def test_an_operation_is_decoded_as_it_was_encoded() -> None:
    before, after = knowledge_row("a"), knowledge_row("a", content="新的") | {"version": 2}
    raw = WrittenChange("knowledge", "a", orjson.dumps(before), orjson.dumps(after), after, before)
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

    line = encode_operation(operation, [raw], 4096)
    record = parse_line(line)

    assert record is not None
    assert make_operation(decode_operation(line), record) == operation
    assert record["batch"] == 4096


def test_rows_of_a_long_line_are_read_back() -> None:
    texts = ['"' * 3_000_000, "窗外\n" * 1_000, "short"]
    rows = [{"id": f"i-{number}", "content": text} for number, text in enumerate(texts)]
    line = orjson.dumps(
        {
            "seq": 1,
            "batch": 0,
            "op": "add",
            "operation_id": "o",
            "account": "a",
            "actor": "user:li",
            "timestamp": 1.0,
            "changes": [{"collection": "infos", "id": row["id"], "before": None, "after": row} for row in rows],
            "agent_io": [{"prompt": "x" * 5_000}],
            "undo_of": None,
            "idempotency": None,
        }
    )

    read = decode_operation(line)

    assert [bytes(change.after) for change in read.changes] == [orjson.dumps(row) for row in rows]


def test_long_lines_and_a_torn_end_are_read(tmp_path: Path) -> None:
    log = ChangeLog(FileSystem(), tmp_path)
    start = log.create(Header("log", 1, 1, 1, None))
    long, torn = add_checksum(b'{"said":"%s"' % (b"x" * 5_000_000)), b'{"seq":2'
    log.append(1, [long + torn], start)

    lines = list(log.lines(1, start, log.size(1)))
    log.close()

    assert [(line.offset, line.is_valid) for line in lines] == [(start, True), (start + len(long), False)]
    assert [line.data for line in lines] == [long, torn]


def test_a_base_header_keeps_the_key_erases_of_older_files() -> None:
    header = BaseHeader("id", segment=2, generation=2, last_seq=5, checksum="", last_time=1.0, last_erase_seq=3)
    line = header_line(header)

    assert orjson.loads(line)["erases"] == 3
    assert parse_header(line, BaseHeader) == header


def test_a_checkpoint_keeps_the_key_erases_of_older_files() -> None:
    checkpoint = Checkpoint("id", seq=5, checksum="", last_erase_seq=3, layout=1)
    stored = checkpoint.to_stored()

    assert stored["erases"] == 3
    assert Checkpoint.from_stored(stored) == checkpoint
