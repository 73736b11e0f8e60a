"""Tools that describe themselves to a model and answer a wrong call with what would be right."""

import inspect
import json
from collections.abc import Mapping
from typing import Any, Dict, List, Literal, Optional, TypedDict  # noqa: UP035 - some hosts write signatures with these

import pytest

from agent_tools.registry import call_tool, registered_tools, tool
from agent_tools.results import ToolFailure, ToolResult

pytestmark = pytest.mark.anyio


@tool(aliases=("weigh_parcel",))
async def registry_test_weigh(
    name: str,
    grams: int,
    price: float = 1.5,
    labels: Optional[List[str]] = None,  # noqa: UP006, UP045 - as some hosts write it
    tags: Optional[Dict[str, str]] = None,  # noqa: UP006, UP045 - as some hosts write it
    parts: list[dict[str, Any]] | None = None,
) -> ToolResult:
    """Weigh a parcel.

    Second paragraph.

    Args:
        name: Whose it is.
        grams: How heavy it is.
        price: What it costs,
            in euros.
        labels: What is written on it.
        tags: Named labels.
        parts: What is in it.
    """
    given = {"name": name, "grams": grams, "price": price, "labels": labels, "tags": tags, "parts": parts}
    return ToolResult("Weighed", name, given)


@tool()
async def registry_test_pack(fragile: bool = False, extra: dict[Any, Any] | None = None) -> ToolResult:
    """Pack it.

    Args:
        fragile: Whether it breaks.
        extra: More.
    """
    return ToolResult("Packed", str(fragile), {"extra": extra})


@tool()
async def registry_test_fail(*, inside: bool) -> ToolResult:
    """Fail, outside or inside.

    Args:
        inside: Whether it is a bug of the tool.
    """
    if inside:
        raise ZeroDivisionError
    raise ToolFailure("Do something else.", {"status": 503})


PAIR: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
    "required": ["name", "value"],
    "additionalProperties": False,
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Whose it is."},
        "grams": {"type": "integer", "description": "How heavy it is."},
        "price": {"type": "number", "description": "What it costs, in euros.", "default": 1.5},
        "labels": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            "description": "What is written on it.",
            "default": None,
        },
        "tags": {
            "anyOf": [{"type": "array", "items": PAIR}, {"type": "null"}],
            "description": "Named labels.",
            "default": None,
        },
        "parts": {
            "anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "null"}],
            "description": "What is in it.",
            "default": None,
        },
    },
    "required": ["name", "grams"],
    "additionalProperties": False,
}


def test_a_tool_stays_an_async_function_with_its_signature() -> None:
    assert inspect.iscoroutinefunction(registry_test_weigh)
    assert list(inspect.signature(registry_test_weigh).parameters) == list(PARAMETERS["properties"])
    assert registry_test_weigh.__name__ == "registry_test_weigh"
    assert registered_tools()["registry_test_weigh"] is registry_test_weigh
    assert "weigh_parcel" not in registered_tools()


def test_both_schemas_hold_types_defaults_and_descriptions() -> None:
    header = {"name": "registry_test_weigh", "description": "Weigh a parcel.\n\nSecond paragraph."}
    schema = registry_test_weigh.openai_schema()

    assert schema == {"type": "function", "function": {**header, "parameters": PARAMETERS}}
    # Changing a schema that was handed out changes no other.
    schema["function"]["parameters"]["properties"].clear()
    assert registry_test_weigh.anthropic_schema() == {**header, "input_schema": PARAMETERS}


def test_a_bare_dict_is_any_object_and_a_false_default_is_kept() -> None:
    schema = registry_test_pack.anthropic_schema()["input_schema"]

    assert schema["required"] == []
    assert schema["properties"] == {
        "fragile": {"type": "boolean", "description": "Whether it breaks.", "default": False},
        "extra": {"anyOf": [{"type": "object"}, {"type": "null"}], "description": "More.", "default": None},
    }


class LabelArgument(TypedDict, total=False):
    text: str
    colour: Literal["red", "blue"]


@tool(hidden=("sender",))
async def registry_test_label(label: LabelArgument, size: int = 2, sender: str = "nobody", **ids: str) -> ToolResult:
    """Label it.

    Args:
        label: What is on it.
        size: How large it is.
        sender: Who sends it.
    """
    return ToolResult("Labelled", "| x", {"label": label, "size": size, "sender": sender, "ids": ids})


def test_a_model_sees_fields_and_choices_but_no_host_parameters() -> None:
    schema = registry_test_label.anthropic_schema()["input_schema"]

    assert schema["properties"] == {
        "label": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "colour": {"type": "string", "enum": ["red", "blue"]}},
            "required": [],
            "additionalProperties": False,
            "description": "What is on it.",
        },
        "size": {"type": "integer", "description": "How large it is.", "default": 2},
    }
    assert schema["required"] == ["label"]


def test_in_strict_mode_all_parameters_are_required_and_may_be_null() -> None:
    sent = registry_test_label.openai_schema(strict=True)["function"]

    assert sent["strict"] is True
    assert sent["parameters"] == {
        "type": "object",
        "properties": {
            "label": {
                "type": "object",
                "properties": {
                    "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "colour": {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]},
                },
                "required": ["text", "colour"],
                "additionalProperties": False,
                "description": "What is on it.",
            },
            "size": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "How large it is. Default: 2.",
            },
        },
        "required": ["label", "size"],
        "additionalProperties": False,
    }
    # Names of a model's own are not allowed there: it writes such an object as JSON text.
    packed = registry_test_pack.openai_schema(strict=True)["function"]["parameters"]["properties"]
    assert packed["extra"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"label": {"colour": "green"}}, "label.colour must be one of red, blue"),
        ({"label": {"size": 1}}, "label.size is unknown (known are text, colour)"),
        ({"label": {}, "sender": "Ann"}, "sender is unknown (known are label, size)"),
        ({"label": {}, "user_id": "ann"}, "user_id is unknown"),
    ],
)
async def test_a_model_can_give_nothing_else(given: dict[str, object], said: str) -> None:
    result = await call_tool("registry_test_label", given)

    assert said in (result.error or "")


async def test_pairs_become_a_dict() -> None:
    pairs = [{"name": "a", "value": "b"}]

    results = [
        await call_tool("registry_test_weigh", {"name": "Ann", "grams": 3, "tags": tags})
        for tags in (pairs, json.dumps(pairs), {"a": "b"})
    ]

    assert [result.metadata["tags"] for result in results] == [{"a": "b"}] * 3


async def test_a_failure_outside_becomes_a_result() -> None:
    result = await registry_test_fail(inside=False)

    assert result.error == "Do something else."
    assert result.output == "Do something else."
    assert result.title == "registry_test_fail failed"
    assert result.metadata == {"items": [], "status": 503}


async def test_a_bug_in_a_tool_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        await registry_test_fail(inside=True)


@pytest.mark.parametrize("name", ["registry_test_weigh", "weigh_parcel"])
async def test_a_tool_is_called_by_name_or_alias(name: str) -> None:
    result = await call_tool(name, {"name": "Ann", "grams": 3, "labels": None, "tags": {"a": "b"}, "price": 2})

    assert result.error is None
    assert result.metadata["tags"] == {"a": "b"}
    assert result.metadata["price"] == 2


async def test_a_list_or_an_object_may_come_as_its_json_text_and_a_text_stays_one() -> None:
    given = {"name": "[1]", "grams": 3, "labels": '["a", "b"]', "tags": '{"a": "b"}', "parts": '[{"a": 1}]'}

    result = await call_tool("registry_test_weigh", given)

    assert result.error is None
    assert result.metadata["name"] == "[1]"
    assert [result.metadata[name] for name in ("labels", "tags", "parts")] == [["a", "b"], {"a": "b"}, [{"a": 1}]]


async def test_an_unknown_tool_is_answered_with_the_known_names() -> None:
    result = await call_tool("weigh", {})

    assert result.error is not None
    assert result.error.startswith("There is no tool 'weigh'. There are: ")
    assert "registry_test_weigh" in result.error


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"grams": "3"}, "grams must be integer, not string"),
        ({"grams": True}, "grams must be integer, not boolean"),
        ({"grams": 3.5}, "grams must be integer, not number"),
        ({"grams": None}, "grams must be integer, not null"),
        ({"price": "1"}, "price must be number, not string"),
        ({"labels": "one"}, "labels must be array of string or null, not string"),
        ({"labels": '{"a": 1}'}, "labels must be array of string or null, not string"),
        ({"labels": "[1]"}, "labels[0] must be string, not integer"),
        ({"labels": "[" * 100_000}, "labels must be array of string or null, not string"),
        ({"labels": ["one", 2]}, "labels[1] must be string, not integer"),
        ({"tags": {"a": 1}}, "tags.a must be string, not integer"),
        ({"tags": ["a"]}, "tags[0] must be object, not string"),
        ({"tags": [{"name": "a"}]}, "tags[0].value is missing"),
        ({"tags": "a"}, "tags must be array of object or null, not string"),
        ({"parts": [{"a": 1}, "b"]}, "parts[1] must be object, not string"),
        ({"colour": "red"}, "colour is unknown (known are name, grams, price,"),
        ({"name": 1, "grams": "2"}, "name must be string, not integer; grams must be integer, not string"),
    ],
)
async def test_a_wrong_argument_is_answered_with_what_would_be_right(changed: dict[str, object], said: str) -> None:
    result = await call_tool("registry_test_weigh", {"name": "Ann", "grams": 3, **changed})

    assert result.error is not None
    assert result.error.startswith("Correct the arguments of registry_test_weigh and call again: ")
    assert said in result.error


@pytest.mark.parametrize("arguments", [{}, "", "{}"])
async def test_missing_arguments_are_named(arguments: Mapping[str, Any] | str) -> None:
    result = await call_tool("registry_test_weigh", arguments)

    assert result.error is not None
    assert "name is missing; grams is missing" in result.error


@pytest.mark.parametrize("arguments", ["{", "not json", "[" * 100_000, "[1]", "null", '"text"'])
async def test_arguments_that_are_not_a_json_object_are_refused(arguments: str) -> None:
    result = await call_tool("registry_test_weigh", arguments)

    assert result.error is not None
    assert "one JSON object" in result.error


async def undescribed(known: str, unknown: str) -> ToolResult:
    """Do it.

    Args:
        known: What it is.
    """
    return ToolResult(known, unknown)


async def odd(thing: bytes) -> ToolResult:
    """Do it.

    Args:
        thing: What it is.
    """
    return ToolResult(str(thing), "")


def blocking() -> ToolResult:
    """Do it."""
    return ToolResult("", "")


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (undescribed, TypeError, "signature and Args section differ in unknown"),
        (odd, TypeError, "is not a type of JSON"),
        (blocking, TypeError, "must be an async function"),
        (registry_test_fail, ValueError, "'registry_test_fail' exists already"),
    ],
)
def test_a_function_that_is_no_tool_is_refused_when_defined(function: Any, error: type[Exception], said: str) -> None:  # noqa: ANN401 -- any function
    with pytest.raises(error, match=said):
        tool()(function)


def test_a_result_is_as_long_as_its_items_and_never_false() -> None:
    found = ToolResult("found", "", {"items": [{}, {}]})
    nothing = ToolResult("nothing", "", {"items": []})
    without = ToolResult("without", "")

    assert [len(found), len(nothing), len(without)] == [2, 0, 0]
    assert all([found, nothing, without])
