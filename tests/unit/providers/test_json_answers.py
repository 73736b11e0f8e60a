"""Finding the JSON object in a model's text, and checking it against the schema."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.providers.json_answers import InvalidAnswer, find_mismatch, is_strict, parse_answer

ANY = {"type": "object"}
ACTION = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}
OBJECT = '{"action": "match"}'


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        f"  \n{OBJECT}\n",
        f"```json\n{OBJECT}\n```",
        f"Here it is:\n\n```\n{OBJECT}\n```\nAnything else?",
        f"I think {OBJECT} is right.",
        f"[{OBJECT}]",
        f'<think>{{"action": "jump"}} or not?</think>{OBJECT}',
        f"<think>{'{' * 1000}</think>{OBJECT}",
        f'First {{"action": "jump"}}, but no: {OBJECT}',
        f'{OBJECT} fits {{"type": "object"}}',
        f"{{not json}} {{ {OBJECT}",
        f"\x00\ufffd{OBJECT}\x00",
    ],
)
def test_the_object_is_found_anywhere_in_the_text(text: str) -> None:
    assert parse_answer(text, ACTION) == {"action": "match"}


def test_half_a_surrogate_pair_costs_one_character_of_an_answer() -> None:
    text = '{"action": "match", "why": ["\\ud800 \\ud83d\\ude00 \\\\ud800"]}'

    assert parse_answer(f"Here: {text}", ANY) == {"action": "match", "why": ["? 😀 \\ud800"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        '"text"',
        "[1, 2]",
        "null",
        '{"action": "match"',
        '{"action": NaN}',
        '{"action": 1e999}',
        '{"action": ' + "9" * 5000 + "e999}",
        '{"a":' * 70 + "1" + "}" * 70,
        "{" * 100_000,
        '{"a":' * 100_000,
        '{"a": "' * 10_000,
    ],
)
def test_unreadable_or_unwritable_json_is_no_answer(text: str) -> None:
    with pytest.raises(InvalidAnswer, match="no JSON object"):
        parse_answer(text, ANY)


def test_a_cut_nested_answer_is_read_in_linear_time() -> None:
    numbers = "[" + "1," * 100_000 + "1"
    cut, whole = '{"a":' * 30 + numbers, '{"a":' * 30 + numbers + "]" + "}" * 30

    once = min(_cpu_s(lambda: json.loads(whole)) for _ in range(3))

    took = min(_cpu_s(lambda: _parse(cut)) for _ in range(3))

    assert took < 12 * once


def test_an_invalid_object_is_reported_by_its_first_fault() -> None:
    with pytest.raises(InvalidAnswer) as caught:
        parse_answer('{"weather": "sunny"}', ACTION)

    assert str(caught.value) == "$: the field 'action' is missing"


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _parse(text: str) -> None:
    with suppress(InvalidAnswer):
        parse_answer(text, ANY)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab{}\"'\\`", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("ab{}", min_size=1, max_size=3), VALUES), st.text("abc ,.`\n"))
def test_any_object_is_found_between_prose(value: dict[str, Any], prose: str) -> None:
    found = parse_answer(f"{prose}{json.dumps(value)}{prose}", ANY)

    assert found == value


@given(st.text(st.sampled_from('{}[]":,\\ a1\x00编'), max_size=200))
def test_any_text_gives_an_answer_or_an_invalid_answer_error(text: str) -> None:
    found: dict[str, Any] | None = None

    with suppress(InvalidAnswer):
        found = parse_answer(text, ANY)

    assert found is None or json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("schema", "fit", "unfit", "told"),
    [
        ({"type": "integer"}, [0, -1], [True, 1.0, "1", None], "$: True is not of type integer"),
        ({"type": "number"}, [0, 1.5], [False, "1"], "$: False is not of type number"),
        ({"type": "boolean"}, [True], [1, None], "$: 1 is not of type boolean"),
        ({"type": ["integer", "null"]}, [1, None], ["1"], "$: '1' is not of type integer or null"),
        ({"enum": ["a", 1]}, ["a", 1], [True, "b", None], "$: True is not one of ['a', 1]"),
        ({"items": {"type": "integer"}}, [[], [1, 2]], [[1, "2"]], "$[1]: '2' is not of type integer"),
        ({"required": ["a"]}, [{"a": None}], [{}], "$: the field 'a' is missing"),
        ({"properties": {"a": {"type": "null"}}}, [{}, {"a": None, "b": 1}], [{"a": 1}], "$.a: 1 is not of type null"),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}], [{"b": 1}], "$: there is no field 'b'"),
    ],
)
def test_each_supported_schema_keyword_is_checked(
    schema: Mapping[str, Any], fit: list[object], unfit: list[object], told: str
) -> None:
    assert [find_mismatch(value, schema) for value in fit] == [None] * len(fit)
    assert find_mismatch(unfit[0], schema) == told
    assert all(find_mismatch(value, schema) for value in unfit)


def test_a_long_value_is_cut_in_the_error() -> None:
    problem = find_mismatch({"a": "x" * 10_000}, {"type": "array"})

    assert problem is not None
    assert len(problem) < 100


def test_an_answer_with_too_many_values_is_refused() -> None:
    numbers = {"type": "object", "properties": {"targets": {"type": "array", "items": {"type": "integer"}}}}
    many, too_many = ('{"targets": [' + "1," * commas + "1]}" for commas in (50_000, 50_001))

    assert parse_answer(many, numbers)["targets"] == [1] * 50_001
    with pytest.raises(InvalidAnswer, match="more than 50000 commas"):
        parse_answer(too_many, numbers)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"type": "string"}, True),
    ],
)
def test_a_strict_schema_has_closed_and_complete_objects(schema: Mapping[str, Any], strict: bool) -> None:
    assert is_strict(schema) is strict
