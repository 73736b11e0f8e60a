"""Where a log ends: torn bytes were never acknowledged, damaged ones were."""

from pathlib import Path

import orjson
import pytest

from knowhub.stores.files.log.log_line import seal
from knowhub.stores.files.log.recovery import Judged, judge

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

    def spoilt(self, number: int) -> bytes:
        """Return the log with its line `number` (from 1) unreadable."""
        lines = list(self.lines)
        lines[number - 1] = b"#" + lines[number - 1][1:]
        return b"".join(lines)

    def whole(self) -> bytes:
        return b"".join(self.lines)

    def offset(self, number: int) -> int:
        return START + sum(map(len, self.lines[: number - 1]))


def judged(data: bytes, *, durable: bool, next_seq: int = 1, after_damage: bool = False) -> Judged:
    found = judge(Path("segment"), data, START, next_seq, durable=durable, after_damage=after_damage)
    # Damage is named as the lines are read.
    found.lines = iter(list(found.lines))
    return found


def numbers(found: Judged) -> list[int]:
    return [line.operation.seq for line in found.lines if line.operation]


@pytest.mark.parametrize("durable", [True, False])
def test_a_whole_log_is_taken_as_it_is(durable: bool) -> None:
    log = Log().batch(2).batch(3, group_of=3).batch(1)

    found = judged(log.whole(), durable=durable)

    assert (numbers(found), found.damage, found.end) == ([1, 2, 3, 4, 5, 6], [], START + len(log.whole()))


def test_in_the_last_batch_all_from_its_first_bad_line_on_is_torn() -> None:
    log = Log().batch(2).batch(3)

    found = judged(log.spoilt(4), durable=False)

    assert (numbers(found), found.damage, found.end) == ([1, 2, 3], [], log.offset(4))


def test_a_bad_line_that_a_later_batch_follows_is_damage() -> None:
    log = Log().batch(2).batch(3)

    found = judged(log.spoilt(2), durable=False)

    assert (numbers(found), found.end) == ([1, 3, 4, 5], START + len(log.whole()))
    assert [(damage.path, damage.offset) for damage in found.damage] == [("segment", log.offset(2))]


def test_a_bad_line_below_the_durable_offset_is_damage_even_at_the_end() -> None:
    log = Log().batch(3)

    found = judged(log.spoilt(3), durable=True)

    assert (numbers(found), len(found.damage), found.end) == ([1, 2], 1, START + len(log.whole()))


@pytest.mark.parametrize("kept", [1, 2])
def test_a_group_whose_last_operation_is_missing_is_cut_as_a_whole(kept: int) -> None:
    log = Log().batch(2).batch(3, group_of=3)
    data = b"".join(log.lines[: 2 + kept])

    found = judged(data, durable=False)

    assert (numbers(found), found.end) == ([1, 2], log.offset(3))


def test_a_group_whose_middle_is_torn_is_cut_as_a_whole() -> None:
    log = Log().batch(1).batch(3, group_of=3)

    found = judged(log.spoilt(3), durable=False)

    assert (numbers(found), found.end, found.damage) == ([1], log.offset(2), [])


def test_two_torn_batches_are_one_torn_end_when_no_good_line_follows() -> None:
    log = Log().batch(2).batch(2)

    found = judged(log.whole()[: -len(log.lines[3]) - 5], durable=False)

    assert (numbers(found), found.damage, found.end) == ([1, 2], [], log.offset(3))


def test_a_line_out_of_sequence_is_a_bad_line() -> None:
    log = Log().batch(3)
    data = log.lines[0] + log.lines[2]

    found = judged(data, durable=True)

    assert numbers(found) == [1]
    assert "sequence" in str(found.damage[0])


def test_after_damage_the_first_line_may_bear_a_later_number() -> None:
    log = Log().batch(3)
    data = b"".join(log.lines[1:])

    assert numbers(judged(data, durable=True, after_damage=True)) == [2, 3]
    assert numbers(judged(data, durable=True)) == [3]


def test_damage_says_what_stands_there() -> None:
    log = Log().batch(1)

    nul = judged(log.whole() + bytes(50), durable=True).damage
    cut = judged(log.whole()[:-3], durable=True).damage

    assert "NUL" in str(nul[0])
    assert "without an end" in str(cut[0])
