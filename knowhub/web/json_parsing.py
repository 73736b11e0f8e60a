"""Parsing of JSON texts and of lines of JSON, and the names of wrong fields."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from knowhub.core.errors import FieldError
from knowhub.core.json_strings import parse_in_pieces
from knowhub.web.json_limits import JsonLimits, find_excess

RowT = TypeVar("RowT")

# Up to this size JSON is parsed in one piece, in 10 ms at most.
PARSED_WHOLE: Final = 1024 * 1024
_END_BYTES: Final = 64
# After so many wrong lines a file is read no further.
MAX_WRONG_LINES: Final = 100
_MAX_NAMED: Final = 1_000
_NO_OBJECT: Final = frozenset({"model_type", "model_attributes_type", "dataclass_type", "dict_type"})
_TRIED: Final = ("function-", "constrained-", "list[")


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse JSON, a large text in pieces, so that it does not keep other requests from being answered.

    Raises orjson.JSONDecodeError; for a large text it does not name the position.
    """
    if len(raw) <= PARSED_WHOLE:
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
    return FieldError(named or "body", format_message(error))


def format_message(error: ErrorDetails) -> str:
    """Return what is wrong with a value, without the names that classes have in the code."""
    if error["type"] in _NO_OBJECT:
        return "Input should be an object"
    return error["msg"].removeprefix("Value error, ")
