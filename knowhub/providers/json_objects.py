"""JSON text that strangers wrote: an object that can be written again, or nothing."""

from typing import Any

import orjson

# orjson reads 1,024 levels and writes 254; what is read here is later written into something.
_DEEPEST = 64


def loaded_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that `text` is; None when it is none, over 64 levels deep, or could not be written again.

    NaN, infinities and halves of surrogate pairs are none.
    """
    found = loaded(text)
    return found if isinstance(found, dict) else None


def loaded(text: str | bytes) -> dict[str, Any] | list[Any] | None:
    """Return the object or list that `text` is, held to the same; None when it is neither."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict | list) and _is_shallow(found) else None


def _is_shallow(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False
