"""Depth and number of values of JSON, in linear time: against a parser, in slices, on the worst bytes."""

import asyncio
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.web.json_limits import JsonLimits, find_excess, find_excess_in_turns

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
ANY_NUMBER = 10**9
TEXTS = st.text(st.sampled_from('"\\[]{}a索\n'))
VALUES = st.recursive(
    st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)
HOSTILE = {
    "escaped quotes behind brackets": b"[" * 65 + b'\\"' * MIB,
    "escaped quotes in a string": b'["' + b'\\"' * MIB,
    "backslashes": b'["' + b"\\" * 2 * MIB,
    "quotes": b'"' * 2 * MIB,
    "short strings": b'["",' + b'"[",' * (MIB // 2),
    "pairs of brackets": b"[]" * MIB,
    "brackets in turn": b"[" * 64 + b"][" * MIB,
    "blanks": b" " * 2 * MIB,
}


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def separators_of(value: object) -> int:
    """Return how many brackets are opened in a value, and how many commas follow."""
    inner = list(value.values() if isinstance(value, dict) else value) if isinstance(value, dict | list) else []
    return sum(map(separators_of, inner)) + max(len(inner), 1) if isinstance(value, dict | list) else 0


@given(VALUES, st.integers(0, 6), st.booleans(), st.integers(1, 9))
def test_the_depth_of_json_equals_that_of_a_parser(value: object, limit: int, is_ascii: bool, slice_bytes: int) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode()

    excess = find_excess(text, JsonLimits(limit, ANY_NUMBER), slice_bytes)

    assert (excess is not None) == (depth_of(value) > limit)


@given(VALUES, st.integers(0, 9), st.booleans(), st.integers(1, 9))
def test_json_values_are_counted_by_separators(value: object, limit: int, is_ascii: bool, slice_bytes: int) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode()

    excess = find_excess(text, JsonLimits(ANY_NUMBER, limit), slice_bytes)

    assert (excess is not None) == (separators_of(value) > limit)


@pytest.mark.parametrize(
    ("text", "is_too_deep"),
    [
        (b"[" * 64 + b"]" * 64, False),
        (b"[" * 65 + b"]" * 65, True),
        (b'{"a":' * 65, True),
        (b"[" * 64 + b'"' + b"[" * 100, False),
        (b"[" * 64 + b'"\\"' + b"[" * 100 + b'"', False),
        (b"[" * 64 + b'"\\\\"' + b"[", True),
        (b"[" * 40 + b'"' + b" " * 200_000 + b'"' + b"[" * 25, True),
        (b'["' + b"\\" * 65_533 + b'"' + b"[" * 100, False),
        (b'["' + b"\\" * 65_534 + b'"' + b"[" * 100, True),
    ],
)
async def test_malformed_json_is_measured_too(text: bytes, is_too_deep: bool) -> None:
    limits = JsonLimits(64, ANY_NUMBER)

    assert (find_excess(text, limits) is not None) == is_too_deep
    assert (await find_excess_in_turns(text, limits, asyncio.Lock()) is not None) == is_too_deep


@pytest.mark.parametrize("name", HOSTILE)
def test_any_bytes_take_linear_time(name: str) -> None:
    def least_s(text: bytes) -> float:
        spent = []
        for _ in range(3):
            started = time.process_time()
            find_excess(text, JsonLimits(1000, ANY_NUMBER))
            spent.append(time.process_time() - started)
        return min(spent)

    whole = HOSTILE[name]
    quarter_s, whole_s = least_s(whole[: len(whole) // 4]), least_s(whole)

    # 2 MiB take 0.01 to 0.06 s; of quadratic time they would take hours.
    assert whole_s < 0.5
    assert whole_s < 3 * 4 * max(quarter_s, 0.002)


async def test_measuring_long_texts_yields_to_other_tasks() -> None:
    longest_s, turn = 0.0, asyncio.Lock()
    texts = [b"[" * 64 + b"][" * MIB for _ in range(8)]
    measuring = asyncio.gather(*(find_excess_in_turns(text, JsonLimits(65, ANY_NUMBER), turn) for text in texts))

    while not measuring.done():
        started = time.process_time()
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.process_time() - started)

    assert await measuring == [None] * 8
    # One slice takes 2 ms; eight of them side by side are measured one by one.
    assert longest_s < 0.05
