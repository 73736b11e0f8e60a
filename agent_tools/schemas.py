"""The JSON schema of the parameters of a tool, from its signature and docstring, and the check of arguments."""

import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_TYPE_NAMES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}
# An entry of a dict of texts.
_PAIR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
    "required": ["name", "value"],
    "additionalProperties": False,
}
_ARGUMENT = re.compile(r"^ {4}(\w+): (.+)$")


def get_description(function: Callable[..., Any]) -> str:
    """Return the docstring without its Args section."""
    return _split_docstring(function)[0]


def make_parameter_schema(function: Callable[..., Any], hidden: Collection[str] = ()) -> dict[str, Any]:
    """Return the parameters as a JSON schema object, without `**` and those in `hidden`.

    Raises TypeError for a type that JSON does not have, and for a parameter that the Args section does not describe.
    """
    hints = get_type_hints(function)
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    described = _parse_args_section(_split_docstring(function)[1])
    if described.keys() != parameters.keys():
        unmatched = ", ".join(sorted(described.keys() ^ parameters.keys()))
        raise TypeError(f"{function.__qualname__}: signature and Args section differ in {unmatched}")
    seen = [name for name in parameters if name not in hidden]
    properties = {name: {**_make_schema(hints[name]), "description": described[name]} for name in seen}
    defaults = {
        name: parameters[name].default for name in seen if parameters[name].default is not inspect.Parameter.empty
    }
    for name, default in defaults.items():
        properties[name]["default"] = default
    return _make_object(properties, [name for name in seen if name not in defaults])


def make_strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for the strict mode of OpenAI: all is required, what was optional may be null, no defaults.

    An object without named fields becomes its JSON text, which `parse_arguments` reads.
    """
    made = {name: value for name, value in schema.items() if name != "default"}
    if schema.get("default") is not None:
        made["description"] = f"{schema['description']} Default: {json.dumps(schema['default'])}."
    if "anyOf" in schema:
        made["anyOf"] = [make_strict(option) for option in schema["anyOf"]]
    elif "items" in schema:
        made["items"] = make_strict(schema["items"])
    elif "properties" in schema:
        required = schema["required"]
        properties = {name: make_strict(value) for name, value in schema["properties"].items()}
        made |= _make_object(
            {name: value if name in required else _make_nullable(value) for name, value in properties.items()},
            list(properties),
        )
    elif schema.get("type") == "object":
        made["type"] = "string"
    return made


def parse_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], path: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments as the function takes them, and what is missing, unknown or of the wrong type.

    Lists and objects that a model wrote as JSON text are parsed, pairs become a dict, and an optional field that is
    null is left out. A text stays a text when the parameter accepts texts, or when it is not such JSON.
    """
    properties, required = schema["properties"], schema["required"]
    problems = [f"{path}{name} is missing" for name in required if name not in arguments]
    parsed: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in properties:
            problems.append(f"{path}{name} is unknown (known are {', '.join(properties)})")
        elif value is not None or name in required or _accepts(None, properties[name]):
            parsed[name] = _parse_value(value, properties[name], f"{path}{name}", problems)
    return parsed, problems


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


def _make_schema(hint: Any) -> dict[str, Any]:  # noqa: ANN401 -- a type
    if hint is Any or hint in _TYPE_NAMES:
        return {"type": _TYPE_NAMES[hint]} if hint in _TYPE_NAMES else {}
    if is_typeddict(hint):
        fields = get_type_hints(hint)
        required = [name for name in fields if name in hint.__required_keys__]
        return _make_object({name: _make_schema(value) for name, value in fields.items()}, required)
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in {Union, UnionType}:
        return {"anyOf": [_make_schema(option) for option in arguments]}
    if origin is list:
        # Some vendors of models refuse an array without `items`.
        return {"type": "array", "items": _make_schema(arguments[0]) if arguments else {}}
    if origin is not dict:
        raise TypeError(f"{hint} is not a type of JSON")
    # Strict mode refuses objects with names of a model's own.
    return {"type": "array", "items": _PAIR} if arguments == (str, str) else {"type": "object"}


def _make_object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if _accepts(None, schema):
        return schema
    inner = {name: value for name, value in schema.items() if name != "description"}
    return {"anyOf": [inner, {"type": "null"}]} | {name: schema[name] for name in ("description",) if name in schema}


def _parse_value(value: object, schema: Mapping[str, Any], path: str, problems: list[str]) -> object:
    """Return a value as the function takes it. What is wrong with it is added to `problems`."""
    if isinstance(value, str) and not _accepts(value, schema):
        value = _parse_text(value, schema)
    fitting = next((option for option in schema.get("anyOf", [schema]) if _fits(value, option)), None)
    if fitting is None:
        problems.append(f"{path} must be {_describe_type(schema)}, not {_name_type(value)}")
    elif value not in fitting.get("enum", [value]):
        problems.append(f"{path} must be one of {', '.join(fitting['enum'])}")
    elif isinstance(value, list):
        items = fitting.get("items", {})
        parsed: list[Any] = [_parse_value(item, items, f"{path}[{at}]", problems) for at, item in enumerate(value)]
        return {pair["name"]: pair["value"] for pair in parsed} if items == _PAIR and not problems else parsed
    elif isinstance(value, dict) and "properties" in fitting:
        fields, wrong = parse_arguments(value, fitting, f"{path}.")
        problems += wrong
        return fields
    elif isinstance(value, dict) and "items" in fitting:
        for name, item in value.items():
            _parse_value(item, {"type": "string"}, f"{path}.{name}", problems)
    return value


def _parse_text(text: str, schema: Mapping[str, Any]) -> object:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, list | dict) and _accepts(parsed, schema) else text


def _accepts(value: object, schema: Mapping[str, Any]) -> bool:
    return any(_fits(value, option) for option in schema.get("anyOf", [schema]))


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    wanted, given = schema.get("type"), _name_type(value)
    if given == "object" and schema.get("items") == _PAIR:
        return True
    return wanted in (None, given) or (wanted == "number" and given == "integer")


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
