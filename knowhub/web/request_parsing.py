"""Parsing of JSON bodies and of queries into their models.

FastAPI's own parsing of bodies and queries costs as much as the rest of a request (measured, see docs/decisions.md).
"""

import json
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ValidationError

from knowhub.core.errors import InvalidInput
from knowhub.web.json_parsing import PARSED_WHOLE, list_field_errors, parse_json
from knowhub.web.schemas.parts import CommaSeparated

ModelT = TypeVar("ModelT", bound=BaseModel)

# A larger body is parsed in a thread.
PARSED_AT_ONCE: Final = 64 * 1024
_NAMED: Final = 5
_SEARCHED_BYTES: Final = 256 * 1024
# Beyond 64 bits there are 19 digits at least; orjson makes such integers floats.
_LONG_DIGITS: Final = 19
_LONG_INTEGER: Final = b"0" * _LONG_DIGITS
_DIGITS_AS_ZEROS: Final = bytes(
    ord("0") if chr(byte).isascii() and chr(byte).isdigit() else ord(" ") for byte in range(256)
)
_INTEGER_BOUND: Final = 2.0**63


class MalformedJson(Exception):
    """A body that is not JSON."""


def parse_query(raw: bytes, model: type[ModelT]) -> ModelT:
    """Parse a query into its model; a list may come as several parameters of one name.

    Raises InvalidInput, also for a second value of a parameter that is no list.
    """
    pairs: dict[str, str] = {}
    for name, value in _split_query(raw) if raw else ():
        if name in pairs and not _is_list(model, name):
            raise InvalidInput.of(name, "comes more than once in the query")
        pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
    try:
        return model.model_validate(pairs)
    except ValidationError as problem:
        raise _refuse(problem) from None


def _split_query(raw: bytes) -> list[tuple[str, str]]:
    """Split a query into names and values; both are UTF-8, percent-encoded or not."""
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput.of("query", "is not UTF-8") from None


def _is_list(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and CommaSeparated in field.metadata


def parse_body(raw: bytes, model: type[ModelT]) -> ModelT:
    """Parse a JSON body into its model; no body at all is an empty object.

    Raises MalformedJson and InvalidInput. A body of more than PARSED_AT_ONCE bytes is to be parsed in a thread.
    """
    is_large = len(raw) > PARSED_WHOLE
    try:
        value = parse_json(raw) if raw else {}
        if _has_long_digits(raw):
            if not is_large:
                value = _parse_loosely(raw)
            elif _holds_long_float(value):
                raise InvalidInput.of("body", "must not hold an integer of more than 64 bits")
    except orjson.JSONDecodeError as problem:
        if is_large:
            raise MalformedJson(str(problem)) from None
        value = _parse_loosely(raw)
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        raise _refuse(problem) from None


def _has_long_digits(raw: bytes) -> bool:
    """Return whether 19 digits follow one another, looked for piece by piece: no thread holds up the others."""
    # A search with a regular expression would take five times as long (1 ms for 1 MB as it is).
    return any(
        _LONG_INTEGER in raw[start : start + _SEARCHED_BYTES + _LONG_DIGITS].translate(_DIGITS_AS_ZEROS)
        for start in range(0, len(raw), _SEARCHED_BYTES)
    )


def _holds_long_float(value: Any) -> bool:  # noqa: ANN401 -- any JSON value
    """Return whether a value holds a float beyond 64 bits, as orjson makes of a longer integer."""
    if isinstance(value, dict):
        return any(map(_holds_long_float, value.values()))
    if isinstance(value, list):
        return any(map(_holds_long_float, value))
    return isinstance(value, float) and abs(value) >= _INTEGER_BOUND


def _parse_loosely(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse what is JSON but holds no text or number that could be kept, so that its field can be named."""
    try:
        # As text: of bytes, json would also take UTF-16, in which brackets hide from the depth that is allowed.
        return json.loads(raw.decode(), parse_int=_parse_integer)
    except ValueError as problem:
        raise MalformedJson(str(problem)) from None


def _parse_integer(digits: str) -> int:
    # Beyond 64 bits it is refused, whatever it is; Python refuses to convert one of thousands of digits.
    return int(digits[:32])


def _refuse(problem: ValidationError) -> InvalidInput:
    errors = list_field_errors(problem)
    return InvalidInput("; ".join(f"{error.field}: {error.message}" for error in errors[:_NAMED]), errors)
