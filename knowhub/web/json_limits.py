"""The limits of JSON text, which are checked before it is parsed, in one pass and linear time."""

import asyncio
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from knowhub.settings import Settings

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


def make_json_limits(settings: Settings) -> JsonLimits:
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
