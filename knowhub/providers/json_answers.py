"""The JSON object in the answer of a model."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from knowhub.providers.json_schema import mismatch
from knowhub.providers.redaction import NO_KEY, Redaction

# orjson reads 1,024 levels and writes 254; what is read here is later written into something.
_DEEPEST = 64


def load_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that `text` is; None when it is none, over 64 levels deep, or could not be written again.

    NaN, infinities and halves of surrogate pairs are none.
    """
    found = load_json(text)
    return found if isinstance(found, dict) else None


def load_json(text: str | bytes) -> dict[str, Any] | list[Any] | None:
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
            for item in level
            if isinstance(item, dict | list)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return True
    return False


_MOST_TRIES = 32
# How often over all tries together may read the text: what they read in vain is read again by the next.
_MOST_READINGS = 4
# Each value is looked at, a microsecond or two: an answer of a megabyte of numbers would hold everybody up.
_MOST_COMMAS = 50_000
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_DECODER = json.JSONDecoder()


class InvalidAnswer(Exception):
    """The model's text holds no object that fits; the message says what is wrong, in words for the model."""


def parse_answer(text: str, schema: Mapping[str, Any], redaction: Redaction = NO_KEY) -> dict[str, Any]:
    """Return the object in `text` that fits `schema`, also from a fenced block or with prose around it.

    It is redacted before it is looked at, so that no word about what is wrong repeats the key.
    Where several fit it is the last: models think first and answer then. Raises InvalidAnswer.
    """
    if text.count(",") > _MOST_COMMAS:
        raise InvalidAnswer(f"it lists too much: more than {_MOST_COMMAS} commas")
    problem = "there is no JSON object in it"
    fitting = None
    for read in _iter_objects(_THOUGHTS.sub("", text, count=1).strip()):
        found: dict[str, Any] = redaction.value(read)
        unfit = mismatch(found, schema)
        if unfit is None:
            fitting = found
        else:
            problem = unfit
    if fitting is None:
        raise InvalidAnswer(problem)
    return fitting


def _iter_objects(text: str) -> Iterator[dict[str, Any]]:
    whole = load_object(text)
    if whole is not None:
        yield whole
        return
    at = wasted = 0
    # Bounded: each try may read to the end, and a hostile text may be all opening braces.
    for _ in range(_MOST_TRIES):
        at = text.find("{", at)
        if at < 0 or wasted > _MOST_READINGS * len(text):
            return
        end, is_whole = _find_end(text, at)
        found = load_object(text[at:end]) if is_whole else None
        if found is not None:
            yield found
        wasted += 0 if is_whole else end - at
        at = end if is_whole else at + 1


def _find_end(text: str, start: int) -> tuple[int, bool]:
    """Return how far an object that begins at `start` was read, and whether that is its end."""
    try:
        return _DECODER.raw_decode(text, start)[1], True
    except json.JSONDecodeError as problem:
        return problem.pos, False
    except (ValueError, RecursionError):
        # A number of too many digits, or too many levels: nobody says where.
        return start, False
