"""JSON Schema, as much of it as our prompts use.

Ours and not a library: the languages' full validators bring a resolver of references that can fetch, and words that
no prompt of ours says. A schema with a word that is not checked here is refused, so nothing passes unchecked.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

_CHECKED = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "nullable"}
    | {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
)
_SAID_ONLY = frozenset({"$schema", "title", "description", "default", "examples"})
_SHOWN_CHARACTERS = 60
# 1.0 too is an integer to the standard; whoever uses the answer counts with it, so it is not one here.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (NoneType,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def mismatch(value: object, schema: Mapping[str, Any], path: str = "$") -> str | None:
    """Return where and how `value` does not fit `schema`, in words for a model; None when it fits."""
    if value is None and schema.get("nullable"):
        return None
    for problem in (_of_type(value, schema), _of_choice(value, schema, path), _of_bounds(value, schema)):
        if problem:
            return f"{path}: {_format_value(value)} {problem}"
    if isinstance(value, dict):
        return _in_object(value, schema, path)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        parts = (mismatch(part, schema["items"], f"{path}[{index}]") for index, part in enumerate(value))
        return next((problem for problem in parts if problem), None)
    return None


def list_unsupported_words(schema: Mapping[str, Any]) -> list[str]:
    """Return the words of `schema` that `mismatch` knows nothing of, sorted; the caller refuses such a schema."""
    found = set(schema) - _CHECKED - _SAID_ONLY
    for part in _parts(schema):
        found.update(list_unsupported_words(part))
    return sorted(found)


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Say whether a server's strict mode takes `schema`: every object is closed and asks for all it names."""
    if "properties" in schema or "object" in _types(schema):
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(schema.get("properties", {})):
            return False
    return all(is_strict(part) for part in _parts(schema))


def _of_type(value: object, schema: Mapping[str, Any]) -> str | None:
    types = _types(schema)
    if not types or any(type(value) in _TYPES.get(name, ()) for name in types):
        return None
    return f"is not of type {' or '.join(types)}"


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    named = schema.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _of_choice(value: object, schema: Mapping[str, Any], path: str) -> str | None:
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    # By type too: to Python, 1 is True.
    if allowed is not None and not any(type(value) is type(item) and value == item for item in allowed):
        return f"is not one of {_format_value(allowed)}"
    if "anyOf" in schema:
        problems = [mismatch(value, choice, path) for choice in schema["anyOf"]]
        if all(problems):
            return f"fits none of {len(problems)} forms; the first says: {problems[0]}"
    return None


def _of_bounds(value: object, schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        size, low, high, noun = value, "minimum", "maximum", ""
    elif isinstance(value, str):
        size, low, high, noun = len(value), "minLength", "maxLength", " characters"
    elif isinstance(value, list):
        size, low, high, noun = len(value), "minItems", "maxItems", " items"
    else:
        return None
    if size < schema.get(low, size):
        return f"is under {schema[low]}{noun}"
    if size > schema.get(high, size):
        return f"is over {schema[high]}{noun}"
    return None


def _in_object(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> str | None:
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{path}: the field {_format_value(missing[0])} is missing"
    rest = schema.get("additionalProperties", True)
    for name, part in value.items():
        known = properties.get(name, rest)
        if known is False:
            return f"{path}: there is no field {_format_value(name)}"
        problem = mismatch(part, known, f"{path}.{_cut(name)}") if isinstance(known, Mapping) else None
        if problem:
            return problem
    return None


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    yield from (schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), Mapping))


def _format_value(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
