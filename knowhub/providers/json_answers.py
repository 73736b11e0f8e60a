"""The JSON object in the answer of a model, and as much of JSON Schema as our prompts use."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final

import orjson

from knowhub.providers.redaction import NO_KEY, Redaction

# orjson reads 1,024 levels and writes 254; what is read here is later written into something.
_DEEPEST = 64


def load_json(text: str | bytes) -> dict[str, Any] | list[Any] | None:
    """Return the object or list that `text` is; None when it is neither, or over 64 levels deep.

    NaN and infinities, which could not be written again, are none. Half a surrogate pair becomes a question mark.
    """
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            whole = json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
            found = orjson.loads(whole.encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict | list) and _is_shallow(found) else None


def _is_shallow(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [
            part
            for item in level
            if isinstance(item, dict | list)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return True
    return False


_MAX_TRIES = 32
# How often over all tries together may read the text: what they read in vain is read again by the next.
_MAX_READINGS = 4
# Each value is looked at, a microsecond or two: an answer of a megabyte of numbers would hold everybody up.
_MAX_COMMAS = 50_000
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_DECODER = json.JSONDecoder()


class InvalidAnswer(Exception):
    """The model's text holds no object that fits; the message says what is wrong, in words for the model."""


def parse_answer(text: str, schema: Mapping[str, Any], redaction: Redaction = NO_KEY) -> dict[str, Any]:
    """Return the object in `text` that fits `schema`, also from a fenced block or with prose around it.

    It is redacted before it is looked at, so that no word about what is wrong repeats the key.
    Where several fit it is the last: models think first and answer then. Raises InvalidAnswer.
    """
    if text.count(",") > _MAX_COMMAS:
        raise InvalidAnswer(f"it lists too much: more than {_MAX_COMMAS} commas")
    problem = "there is no JSON object in it"
    fitting = None
    for read in _iter_objects(_THOUGHTS.sub("", text, count=1).strip()):
        found: dict[str, Any] = redaction.redact_value(read)
        unfit = find_mismatch(found, schema)
        if unfit is None:
            fitting = found
        else:
            problem = unfit
    if fitting is None:
        raise InvalidAnswer(problem)
    return fitting


def _iter_objects(text: str) -> Iterator[dict[str, Any]]:
    whole = load_json(text)
    if isinstance(whole, dict):
        yield whole
        return
    at = wasted = 0
    # Bounded: each try may read to the end, and a hostile text may be all opening braces.
    for _ in range(_MAX_TRIES):
        at = text.find("{", at)
        if at < 0 or wasted > _MAX_READINGS * len(text):
            return
        end, is_complete = _find_end(text, at)
        found = load_json(text[at:end]) if is_complete else None
        if isinstance(found, dict):
            yield found
        wasted += 0 if is_complete else end - at
        at = end if is_complete else at + 1


def _find_end(text: str, start: int) -> tuple[int, bool]:
    """Return how far an object that begins at `start` was read, and whether that is its end."""
    try:
        return _DECODER.raw_decode(text, start)[1], True
    except json.JSONDecodeError as problem:
        return problem.pos, False
    except (ValueError, RecursionError):
        # A number of too many digits, or too many levels: nobody says where.
        return start, False


SCHEMA_WORDS: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}
)
"""The words of JSON Schema that `mismatch` knows: those of our prompts."""
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


def find_mismatch(value: object, schema: Mapping[str, Any], path: str = "$") -> str | None:
    """Return where and how `value` does not fit `schema`, in words for a model; None when it fits."""
    types = _list_types(schema)
    if types and not any(type(value) in _TYPES[name] for name in types):
        return f"{path}: {_format_value(value)} is not of type {' or '.join(types)}"
    allowed = schema.get("enum")
    # By type too: to Python, 1 is True.
    if allowed is not None and not any(type(value) is type(item) and value == item for item in allowed):
        return f"{path}: {_format_value(value)} is not one of {_format_value(allowed)}"
    if isinstance(value, dict):
        return _find_object_mismatch(value, schema, path)
    if isinstance(value, list) and "items" in schema:
        parts = (find_mismatch(part, schema["items"], f"{path}[{index}]") for index, part in enumerate(value))
        return next((problem for problem in parts if problem), None)
    return None


def open_items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that leaves the items of lists open: who reads an answer checks each of them."""
    fields = {name: open_items(part) for name, part in schema.get("properties", {}).items()}
    kept = {word: value for word, value in schema.items() if word != "items"}
    return {**kept, "properties": fields} if fields else kept


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether a server's strict mode takes `schema`: every object is closed and asks for all it names."""
    properties = schema.get("properties", {})
    if "object" in _list_types(schema) and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    return all(map(is_strict, properties.values())) and ("items" not in schema or is_strict(schema["items"]))


def _list_types(schema: Mapping[str, Any]) -> Sequence[str]:
    named = schema.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _find_object_mismatch(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> str | None:
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{path}: the field {_format_value(missing[0])} is missing"
    for name, part in value.items():
        if name not in properties and schema.get("additionalProperties") is False:
            return f"{path}: there is no field {_format_value(name)}"
        problem = find_mismatch(part, properties.get(name, {}), f"{path}.{_cut(name)}")
        if problem:
            return problem
    return None


def _format_value(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
