"""JSON text: its limits, which are checked before it is parsed, in one pass and linear time; and its parsing."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from knowhub.core.errors import FieldError
from knowhub.core.json_strings import parse_in_pieces
from knowhub.settings import Settings

RowT = TypeVar("RowT")

# Up to this size JSON is parsed in one piece, in 10 ms at most.
PARSED_WHOLE: Final = 1024 * 1024
_END_BYTES: Final = 64
# After so many wrong lines a file is read no further.
MAX_WRONG_LINES: Final = 100
_MAX_NAMED: Final = 1_000
_TRIED: Final = ("function-", "constrained-", "list[")
# A slice of the worst bytes takes about 2 ms.
SLICE_BYTES: Final = 64 * 1024
_OPEN, _CLOSE, _COMMA = 1, 0xFF, 0
_STRUCTURE: Final = b'"[]{},'
_DELETED: Final = bytes(byte for byte in range(256) if byte not in _STRUCTURE)
# Brackets become 1 and -1 as signed bytes and commas 0, so that their running sum is the depth.
_STEPS: Final = bytes.maketrans(b"[{]},", bytes([_OPEN, _OPEN, _CLOSE, _CLOSE, _COMMA]))


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How deep JSON may be nested, and how many values its arrays and objects may hold.

    Parsing and checking many small values takes long, and no other request is answered meanwhile.
    """

    depth: int
    values: int


def json_limits(settings: Settings) -> JsonLimits:
    """Return the limits that `settings` name."""
    return JsonLimits(settings.max_json_depth, settings.max_json_values)


def find_excess(text: bytes, limits: JsonLimits, slice_bytes: int = SLICE_BYTES) -> str | None:
    """Return which limit JSON text exceeds, in words for the caller, or None; any bytes will do."""
    meter = _Meter(limits)
    slices = (text[start : start + slice_bytes] for start in range(0, len(text), slice_bytes))
    return next(filter(None, map(meter.add, slices)), None)


async def find_excess_in_turns(text: bytes, limits: JsonLimits, turn: asyncio.Lock) -> str | None:
    """Return what `find_excess` does; between two slices other requests are answered.

    Texts that share a `turn` are measured one slice at a time, so that many of them delay the others no more than one.
    """
    if len(text) <= SLICE_BYTES:
        opened = text.count(b"[") + text.count(b"{")
        if opened <= limits.depth and opened + text.count(b",") <= limits.values:
            return None
    meter = _Meter(limits)
    for start in range(0, len(text), SLICE_BYTES):
        async with turn:
            excess = meter.add(text[start : start + SLICE_BYTES])
            if excess is not None:
                return excess
            await asyncio.sleep(0)
    return None


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
    return FieldError(named or "body", error["msg"].removeprefix("Value error, "))


class _Meter:
    """Reads text in pieces; knows between two of them how deep it is, and whether a string or an escape goes on."""

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._depth = 0
        self._values = 0
        self._in_string = False
        self._is_escaping = False

    def add(self, piece: bytes) -> str | None:
        """Read the next piece; return which limit is exceeded in it."""
        if self._is_escaping:
            piece = piece[1:]
        self._is_escaping = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        # JSON has backslashes only inside strings, where each escapes what follows: pairs of them first, then quotes.
        unescaped = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        # Two quotes side by side begin and end a string, or end and begin one: less them, all others mean the same.
        structure = unescaped.translate(_STEPS, _DELETED).replace(b'""', b"")
        parts = structure.split(b'"')
        steps = b"".join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        opened, commas = steps.count(_OPEN), steps.count(_COMMA)
        before, self._depth = self._depth, self._depth + 2 * opened + commas - len(steps)
        self._values += opened + commas
        if before + opened > self._limits.depth:
            deepest = max(accumulate(memoryview(steps).cast("b"), initial=before))
            if deepest > self._limits.depth:
                return f"JSON is nested more than {self._limits.depth} deep"
        if self._values > self._limits.values:
            return f"JSON holds more than {self._limits.values} values; send them in several requests"
        return None
