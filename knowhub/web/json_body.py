"""Parses the JSON of request bodies, so that no large body keeps other requests from being answered."""

from typing import Any, Final

import orjson

from knowhub.core.json_strings import parse_in_pieces

# A body of this size is parsed in 10 ms at most, whatever it holds.
_END_BYTES: Final = 64
_PARSED_WHOLE: Final = 1024 * 1024


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse JSON. Raises orjson.JSONDecodeError; for a large text it does not name the position."""
    if len(raw) <= _PARSED_WHOLE:
        return orjson.loads(raw)
    if raw[-_END_BYTES:].rstrip()[-1:] not in (b"}", b"]", b""):
        raise orjson.JSONDecodeError("unexpected end of data", "", 0)
    try:
        return parse_in_pieces(raw, orjson.loads)
    except ValueError as problem:
        raise orjson.JSONDecodeError(getattr(problem, "msg", str(problem)), "", 0) from None
