"""Long strings cut out of JSON text, so that parsing the rest takes a bounded time.

A parser written in C keeps the interpreter until it has read the whole text. 16 MiB of escaped quotes take 100 ms.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

# How much of a string is looked through at once; a millisecond of work.
_LOOK_BYTES: Final = 64 * 1024
_FIRST_LOOK_BYTES: Final = 256
_PARSED_BYTES: Final = 256 * 1024
# Shorter strings stay in the rest, which is parsed at once.
_SHORT_STRING: Final = 64
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_LONGEST_ESCAPE: Final = 6
_HIGH_SURROGATES: Final = (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb")
_CONTINUATION, _CONTINUATION_MASK = 0x80, 0xC0


class StringSpan(NamedTuple):
    """Where a string is in JSON text, with both of its quotes."""

    start: int
    end: int


class CutJson(NamedTuple):
    """JSON text whose long strings were cut out.

    In `rest`, string number n is replaced by the string `name` followed by n. No string of the text looks like that.
    """

    rest: bytes
    name: str
    strings: list[StringSpan]


def cut_long_strings(text: bytes, longest: int) -> CutJson:
    """Cut the strings out that take more than `longest` bytes. Any bytes will do."""
    # No text holds its own hash.
    name = sha256(text).hexdigest()
    rest: list[bytes] = []
    strings: list[StringSpan] = []
    end = 0
    for span in find_strings(text):
        if span.end - span.start > longest:
            rest += (text[end : span.start], b'"%s%d"' % (name.encode(), len(strings)))
            strings.append(span)
            end = span.end
    return CutJson(b"".join((*rest, text[end:])), name, strings)


def parse_in_pieces(text: bytes, loads: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse JSON text, its long strings one after another. Raises what `loads` raises; positions are not those of text.

    Raises ValueError for a string without an end.
    """
    cut = cut_long_strings(text, _SHORT_STRING)
    strings = {f"{cut.name}{number}": _parse_string(text, span, loads) for number, span in enumerate(cut.strings)}
    return _put_back(loads(cut.rest), strings)


def find_strings(text: bytes) -> Iterator[StringSpan]:
    """Yield every string of JSON text in order; the last one may be cut off: then it ends with the text."""
    end = 0
    while (start := text.find(b'"', end)) >= 0:
        end = _find_string_end(text, start + 1)
        yield StringSpan(start, end)


def cut_string(text: bytes, span: StringSpan, most: int) -> Iterator[bytes]:
    """Yield the inside of a string in pieces of at most `most` bytes, each valid between two quotes."""
    start, last = span.start + 1, span.end - 1
    while start < last:
        end = min(start + most, last)
        if end < last:
            end = _step_back(text, start, end)
        yield bytes(text[start:end])
        start = end


def _parse_string(text: bytes, span: StringSpan, loads: Callable[[bytes], str]) -> str:
    if text[span.end - 1 : span.end] != b'"':
        raise ValueError("a string has no end")
    if span.end - span.start <= _PARSED_BYTES:
        return loads(text[span.start : span.end])
    return "".join([loads(b'"%s"' % piece) for piece in cut_string(text, span, _PARSED_BYTES)])


def _put_back(value: Any, strings: dict[str, str]) -> Any:  # noqa: ANN401 -- any JSON value
    if isinstance(value, str):
        return strings.get(value, value)
    if isinstance(value, list):
        return [_put_back(item, strings) for item in value]
    if isinstance(value, dict):
        return {strings.get(name, name): _put_back(item, strings) for name, item in value.items()}
    return value


def _find_string_end(text: bytes, start: int) -> int:
    """Return the position after the quote that ends the string whose inside begins at `start`."""
    end = text.find(b'"', start)
    if end < 0:
        return len(text)
    if end == start or text[end - 1] != _BACKSLASH:
        return end + 1
    look = _FIRST_LOOK_BYTES
    while start < len(text):
        # Pairs of backslashes first, then escaped quotes. What replaces them is as long: positions stay.
        piece = text[start : start + look]
        # Counting is several times as fast as replacing, and mostly tells that the string goes on.
        goes_on = b"\\\\" not in piece and piece.count(b'"') == piece.count(b'\\"')
        piece = piece if goes_on else _blank_escapes(piece)
        end = -1 if goes_on else piece.find(b'"')
        if end >= 0:
            return start + end + 1
        # The last backslash escapes what follows the piece.
        start += len(piece) - (piece[-1] == _BACKSLASH and start + len(piece) < len(text))
        look = min(2 * look, _LOOK_BYTES)
    return len(text)


def _step_back(text: bytes, start: int, end: int) -> int:
    """Return the last position up to `end` that is inside no escape, no surrogate pair and no UTF-8 sequence."""
    while text[end] & _CONTINUATION_MASK == _CONTINUATION and end > start + 1:
        end -= 1
    # From `start` on, as only there it is known which backslash escapes and which is escaped.
    piece = _blank_escapes(text[start:end])
    escape = piece.rfind(b"\\", -2 * _LONGEST_ESCAPE)
    if escape > 0 and len(piece) - escape < _LONGEST_ESCAPE:
        end = start + escape
        piece = piece[:escape]
    before = bytes(piece[-_LONGEST_ESCAPE:]).lower()
    return end - _LONGEST_ESCAPE if before.startswith(_HIGH_SURROGATES) and len(piece) > _LONGEST_ESCAPE else end


def _blank_escapes(piece: bytes) -> bytes:
    return piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
