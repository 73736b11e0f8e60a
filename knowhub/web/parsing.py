"""Parsing of JSON bodies, of lines of JSON and of queries into their models.

FastAPI's own parsing of bodies and queries costs as much as the rest of a request (measured, see docs/decisions.md).
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from knowhub.core.errors import FieldError, InvalidInput
from knowhub.core.json_strings import parse_in_pieces
from knowhub.web.json_limits import JsonLimits, find_excess
from knowhub.web.schemas.parts import CommaSeparated

ModelT = TypeVar("ModelT", bound=BaseModel)
RowT = TypeVar("RowT")

# A larger body is parsed in a thread.
PARSED_AT_ONCE: Final = 64 * 1024
# Up to this size JSON is parsed in one piece, in 10 ms at most.
_PARSED_WHOLE: Final = 1024 * 1024
_END_BYTES: Final = 64
# After so many wrong lines a file is read no further.
MAX_WRONG_LINES: Final = 100
_MAX_NAMED: Final = 1_000
_NAMED: Final = 5
_TRIED: Final = ("function-", "constrained-", "list[")
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
    is_large = len(raw) > _PARSED_WHOLE
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


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse JSON, a large text in pieces, so that it does not keep other requests from being answered.

    Raises orjson.JSONDecodeError; for a large text it does not name the position.
    """
    if len(raw) <= _PARSED_WHOLE:
        return orjson.loads(raw)
    if raw[-_END_BYTES:].rstrip()[-1:] not in (b"}", b"]", b""):
        raise orjson.JSONDecodeError("unexpected end of data", "", 0)
    try:
        return parse_in_pieces(raw, orjson.loads)
    except ValueError as problem:
        raise orjson.JSONDecodeError(getattr(problem, "msg", str(problem)), "", 0) from None


def parse_json_lines(
    lines: Iterable[tuple[int, bytes]],
    limits: JsonLimits,
    parse: Callable[[Any], RowT],
) -> tuple[dict[int, RowT], list[FieldError]]:
    """Parse numbered lines; return the rows by line, and the errors by `lines.<number>.<field>`.

    `parse` makes a row of the value of a line, and raises ValueError if it is wrong.
    """
    rows: dict[int, RowT] = {}
    errors: list[FieldError] = []
    wrong = 0
    for number, line in lines:
        try:
            excess = find_excess(line, limits)
            if excess is None:
                rows[number] = parse(parse_json(line))
                continue
            errors.append(FieldError(f"lines.{number}", excess))
        except orjson.JSONDecodeError as problem:
            errors.append(FieldError(f"lines.{number}", f"is not JSON: {problem}"))
        except ValidationError as problem:
            errors += list_field_errors(problem, f"lines.{number}")[: MAX_WRONG_LINES + 1]
        except ValueError as problem:
            errors.append(FieldError(f"lines.{number}", str(problem)))
        wrong += 1
        if wrong == MAX_WRONG_LINES:
            break
    return rows, errors


def _refuse(problem: ValidationError) -> InvalidInput:
    errors = list_field_errors(problem)
    return InvalidInput("; ".join(f"{error.field}: {error.message}" for error in errors[:_NAMED]), errors)


def list_field_errors(problem: ValidationError, path: str = "") -> list[FieldError]:
    """Return the wrong fields with their paths below `path`; `body` where a whole body is wrong."""
    if problem.error_count() > _MAX_NAMED:
        # A body may hold a million fields; naming each takes seconds.
        return [FieldError(path or "body", f"{problem.error_count()} fields are wrong; they are too many to name")]
    return [_describe_error(error, path) for error in problem.errors(include_url=False, include_input=False)]


def _describe_error(error: ErrorDetails, path: str) -> FieldError:
    # Where a value may be of several types, pydantic adds the name of the type that it tried.
    parts = [str(part) for part in error["loc"] if not str(part).startswith(_TRIED)]
    named = ".".join([path, *parts] if path else parts)
    return FieldError(named or "body", error["msg"].removeprefix("Value error, "))
