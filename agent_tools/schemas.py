"""A tool's parameters as a JSON schema, from its signature and docstring, and the check of arguments."""

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


def description(function: Callable[..., Any]) -> str:
    """Return what the docstring says before its Args section."""
    return _docstring_parts(function)[0]


def parameter_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe the parameters as a JSON schema object.

    Raises TypeError, while the tool is being defined, for a type without a JSON counterpart and for a
    parameter that the docstring's Args section does not describe.
    """
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters
    described = _described(_docstring_parts(function)[1])
    if described.keys() != parameters.keys():
        unmatched = ", ".join(sorted(described.keys() ^ parameters.keys()))
        raise TypeError(f"{function.__qualname__}: signature and Args section differ in {unmatched}")
    properties = {name: {**_schema_of(hints[name]), "description": described[name]} for name in parameters}
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    for name, default in defaults.items():
        properties[name]["default"] = default
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in parameters if name not in defaults],
        "additionalProperties": False,
    }


def read_texts(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with lists and objects that came as their JSON text, as many a model writes them, parsed.

    What may be a text stays as it is, and so does what is no such text.
    """
    properties = schema["properties"]
    return {name: _meant(value, properties.get(name, {})) for name, value in arguments.items()}


def argument_problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Say of each argument that is missing, unknown or of the wrong type what to do about it."""
    properties = schema["properties"]
    problems = [f"{name} is missing" for name in schema["required"] if name not in arguments]
    for name, value in arguments.items():
        if name in properties:
            problems.extend(_mismatches(value, properties[name], name))
        else:
            problems.append(f"{name} is unknown (known are {', '.join(properties)})")
    return problems


def _docstring_parts(function: Callable[..., Any]) -> tuple[str, str]:
    before, _, after = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    return before.strip(), after


def _described(section: str) -> dict[str, str]:
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


def _schema_of(hint: object) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _TYPE_NAMES:
        return {"type": _TYPE_NAMES[hint]}
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema_of(option) for option in arguments]}
    if origin is list:
        # Some model vendors refuse an array whose items are not mentioned at all.
        return {"type": "array", "items": _schema_of(arguments[0]) if arguments else {}}
    if origin is dict:
        values = _schema_of(arguments[1]) if arguments else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    raise TypeError(f"{hint} has no counterpart in JSON")


def _mismatches(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    fitting = [option for option in schema.get("anyOf", [schema]) if _fits(value, option)]
    if not fitting:
        yield f"{path} must be {_expected(schema)}, not {_kind(value)}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mismatches(item, fitting[0].get("items", {}), f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _mismatches(item, fitting[0].get("additionalProperties", {}), f"{path}.{name}")


def _meant(value: object, schema: Mapping[str, Any]) -> object:
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
    return wanted in (None, _kind(value)) or (wanted == "number" and _kind(value) == "integer")


def _expected(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_expected(option) for option in schema["anyOf"])
    if schema["type"] == "array" and "type" in schema["items"]:
        return f"array of {schema['items']['type']}"
    return str(schema["type"])


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return _TYPE_NAMES.get(type(value), type(value).__name__)
