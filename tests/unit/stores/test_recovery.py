"""Where a log ends: torn bytes were never acknowledged, damaged ones were."""

import orjson
import pytest

from knowhub.stores.files.log.log_line import seal
from tests.segment_bytes import SegmentRead, read_segment

START = 100
OPERATION = {
    "op": "save_knowledge",
    "operation_id": "id",
    "account": "default",
    "actor": "user:li",
    "timestamp": 1.0,
    "changes": [],
    "agent_io": None,
    "undo_of": None,
    "idempotency": None,
}


class Log:
    """Lines as a store writes them, batch by batch."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def batch(self, count: int, group_of: int = 0) -> "Log":
        begin = START + sum(map(len, self.lines))
        for index in range(count):
            record: dict[str, object] = {"seq": len(self.lines) + 1, "batch": begin, **OPERATION}
            if group_of:
                record["group"] = {"id": f"g-{begin}", "index": index, "of": group_of}
            self.lines.append(seal(orjson.dumps(record)[:-1]))
        return self

    def spoil(self, number: int) -> bytes:
        """Return the log with its line `number` (from 1) unreadable."""
        lines = list(self.lines)
        lines[number - 1] = b"#" + lines[number - 1][1:]
        return b"".join(lines)

    def join(self) -> bytes:
        return b"".join(self.lines)

    def offset(self, number: int) -> int:
        return START + sum(map(len, self.lines[: number - 1]))


def read_lines(data: bytes, *, durable: bool, after_damage: bool = False) -> SegmentRead:
    return read_segment(data, START, durable=durable, after_damage=after_damage)


def numbers(found: SegmentRead) -> list[int]:
    return [line.operation.seq for line in found.lines if line.operation]


TWO_BATCHES, TWO_AND_TWO = Log().batch(2).batch(3), Log().batch(2).batch(2)
GROUP_LAST, GROUP_OF_THREE = Log().batch(2).batch(3, group_of=3), Log().batch(1).batch(3, group_of=3)
MIXED, ONE_BATCH = Log().batch(2).batch(3, group_of=3).batch(1), Log().batch(3)


@pytest.mark.parametrize(
    ("data", "durable", "good", "damaged", "end"),
    [
        pytest.param(MIXED.join(), True, 6, [], None, id="a complete durable log"),
        pytest.param(MIXED.join(), False, 6, [], None, id="a complete log"),
        pytest.param(TWO_BATCHES.spoil(4), False, 3, [], TWO_BATCHES.offset(4), id="a bad line in the last batch"),
        pytest.param(ONE_BATCH.spoil(3), True, 2, [ONE_BATCH.offset(3)], None, id="a bad line before the durable end"),
        pytest.param(b"".join(GROUP_LAST.lines[:3]), False, 2, [], GROUP_LAST.offset(3), id="one of a group of three"),
        pytest.param(b"".join(GROUP_LAST.lines[:4]), False, 2, [], GROUP_LAST.offset(3), id="two of a group of three"),
        pytest.param(GROUP_OF_THREE.spoil(3), False, 1, [], GROUP_OF_THREE.offset(2), id="a bad line in a group"),
        pytest.param(
            TWO_AND_TWO.join()[: -len(TWO_AND_TWO.lines[3]) - 5],
            False,
            2,
            [],
            TWO_AND_TWO.offset(3),
            id="two torn batches",
        ),
    ],
)
def test_the_end_of_a_log_is_found(data: bytes, durable: bool, good: int, damaged: list[int], end: int | None) -> None:
    found = read_lines(data, durable=durable)

    assert numbers(found) == list(range(1, good + 1))
    assert [damage.offset for damage in found.damage] == damaged
    assert found.end == (START + len(data) if end is None else end)


def test_a_bad_line_that_a_later_batch_follows_is_damage() -> None:
    found = read_lines(TWO_BATCHES.spoil(2), durable=False)

    assert (numbers(found), found.end) == ([1, 3, 4, 5], START + len(TWO_BATCHES.join()))
    assert [(damage.path, damage.offset) for damage in found.damage] == [("segment", TWO_BATCHES.offset(2))]


def test_a_line_out_of_sequence_is_a_bad_line() -> None:
    log = Log().batch(3)
    data = log.lines[0] + log.lines[2]

    found = read_lines(data, durable=True)

    assert numbers(found) == [1]
    assert "sequence" in str(found.damage[0])


def test_after_damage_the_first_line_may_bear_a_later_number() -> None:
    log = Log().batch(3)
    data = b"".join(log.lines[1:])

    assert numbers(read_lines(data, durable=True, after_damage=True)) == [2, 3]
    assert numbers(read_lines(data, durable=True)) == [3]


def test_damage_describes_the_bytes_found() -> None:
    log = Log().batch(1)

    nul = read_lines(log.join() + bytes(50), durable=True).damage
    cut = read_lines(log.join()[:-3], durable=True).damage

    assert "NUL" in str(nul[0])
    assert "without an end" in str(cut[0])
