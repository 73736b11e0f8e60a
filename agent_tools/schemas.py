"""The JSON schema of the parameters of a tool, from its signature and docstring, and the check of arguments."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_TYPE_NAMES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}
_ARGUMENT = re.compile(r"^ {4}(\w+): (.+)$")


def get_description(function: Callable[..., Any]) -> str:
    """Return the docstring without its Args section."""
    return _split_docstring(function)[0]


def make_parameter_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters as a JSON schema object.

    Raises TypeError for a type that JSON does not have, and for a parameter that the Args section does not describe.
    """
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters
    described = _parse_args_section(_split_docstring(function)[1])
    if described.keys() != parameters.keys():
        unmatched = ", ".join(sorted(described.keys() ^ parameters.keys()))
        raise TypeError(f"{function.__qualname__}: signature and Args section differ in {unmatched}")
    properties = {name: {**_make_schema(hints[name]), "description": described[name]} for name in parameters}
    defaults = {
        name: parameter.default for name, parameter in parameters.items() if parameter.default is not parameter.empty
    }
    for name, default in defaults.items():
        properties[name]["default"] = default
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in parameters if name not in defaults],
        "additionalProperties": False,
    }


def parse_json_texts(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse lists and objects that a model wrote as JSON text.

    A text stays a text when the parameter accepts texts, or when it is not such JSON.
    """
    properties = schema["properties"]
    return {name: _parse_value(value, properties.get(name, {})) for name, value in arguments.items()}


def find_problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Describe each argument that is missing, unknown or of the wrong type."""
    properties = schema["properties"]
    problems = [f"{name} is missing" for name in schema["required"] if name not in arguments]
    for name, value in arguments.items():
        if name in properties:
            problems.extend(_find_mismatches(value, properties[name], name))
        else:
            problems.append(f"{name} is unknown (known are {', '.join(properties)})")
    return problems


def _split_docstring(function: Callable[..., Any]) -> tuple[str, str]:
    before, _, after = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    return before.strip(), after


def _parse_args_section(section: str) -> dict[str, str]:
    described: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if start := _ARGUMENT.match(line):
            name, described[start[1]] = start[1], start[2].strip()
        elif not line.startswith(" " * 8):
            break
        else:
            described[name] += " " + line.strip()
    return described


def _make_schema(hint: object) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _TYPE_NAMES:
        return {"type": _TYPE_NAMES[hint]}
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_make_schema(option) for option in arguments]}
    if origin is list:
        # Some vendors of models refuse an array without `items`.
        return {"type": "array", "items": _make_schema(arguments[0]) if arguments else {}}
    if origin is dict:
        values = _make_schema(arguments[1]) if arguments else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    raise TypeError(f"{hint} is not a type of JSON")


def _find_mismatches(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    fitting = [option for option in schema.get("anyOf", [schema]) if _fits(value, option)]
    if not fitting:
        yield f"{path} must be {_describe_type(schema)}, not {_name_type(value)}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_mismatches(item, fitting[0].get("items", {}), f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _find_mismatches(item, fitting[0].get("additionalProperties", {}), f"{path}.{name}")


def _parse_value(value: object, schema: Mapping[str, Any]) -> object:
    options = schema.get("anyOf", [schema])
    if not isinstance(value, str) or any(_fits(value, option) for option in options):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    fits = isinstance(parsed, list | dict) and any(_fits(parsed, option) for option in options)
    return parsed if fits else value


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    wanted = schema.get("type")
    return wanted in (None, _name_type(value)) or (wanted == "number" and _name_type(value) == "integer")


def _describe_type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_describe_type(option) for option in schema["anyOf"])
    if schema["type"] == "array" and "type" in schema["items"]:
        return f"array of {schema['items']['type']}"
    return str(schema["type"])


def _name_type(value: object) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return _TYPE_NAMES.get(type(value), type(value).__name__)
