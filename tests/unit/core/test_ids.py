"""Ids that KnowHub makes itself."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.ids import RandomIds, knowledge_id, operation_id, seq_of
from tests.builders import START, CountedIds


@given(st.integers(1, 2**48 - 1))
def test_an_operation_is_found_by_its_id(seq: int) -> None:
    made = operation_id(seq, RandomIds())

    assert seq_of(made) == seq
    assert (uuid.UUID(made).version, str(uuid.UUID(made))) == (8, made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "knowledge-20260305-0001",
        "x" * 36,
        "0" * 32,
        "import-" + "0" * 32,
        "é" * 36,
        "x" * 8 + "-0000" * 3 + "-" + "0" * 12,
    ],
)
def test_other_text_is_not_an_operation_id(text: str) -> None:
    assert seq_of(text) is None


def test_a_crowded_day_gets_longer_ids() -> None:
    taken = {f"knowledge-20260305-{number:04x}" for number in range(65_536)}

    made = knowledge_id(START, CountedIds(), taken.__contains__)

    assert made not in taken
    assert len(made) == len("knowledge-20260305-") + 6


def test_random_digits_do_not_come_twice() -> None:
    ids = RandomIds()

    assert len({ids.hex(18) for _ in range(10_000)}) == 10_000
