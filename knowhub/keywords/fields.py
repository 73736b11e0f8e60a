"""What callers say of keywords and infos, field by field: checked once, and copied to plain JSON that the log can hold.

Every check names its field in the InvalidInput that it raises, and returns what is to be stored: exact `str`, `list`,
`dict`, `int` and `float`, shared with nobody, so that an answer shows what the log holds.
"""

import json
import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from knowhub.core import scopes as rules
from knowhub.core.errors import InvalidInput
from knowhub.keywords.model import RelationType

MAX_SCOPES: Final = 50
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_METADATA_DEPTH: Final = 64
_INT64: Final = range(-(2**63), 2**63)
_PAIR: Final = 2


def text(field: str, value: object) -> str:
    """Return text that a file can hold as it is: no NUL, and no half of a surrogate pair."""
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"must be text, not {type(value).__name__}")
    plain = str.__str__(value)
    if "\0" in plain or not (plain.isascii() or _is_encodable(plain)):
        raise InvalidInput.of(field, "must not hold a NUL character or half a surrogate pair")
    return plain


def texts(field: str, value: object) -> list[str]:
    """Return a list of such texts. A bare text is none: it would be taken letter by letter."""
    return [text(f"{field}.{index}", one) for index, one in enumerate(_items(field, value))]


def row_id(field: str, value: object) -> str:
    """Return the id of a row, or a name that stands for one in a batch."""
    named = text(field, value)
    if not named:
        raise InvalidInput.of(field, "must not be empty; leave it out for none")
    return named


def whole(field: str, value: object) -> int:
    """Return a whole number; True and 1.0 are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput.of(field, f"must be a whole number, not {type(value).__name__}")
    return int(value)


def scopes(field: str, value: object) -> list[str]:
    """Return from 1 to 50 scopes, each once."""
    named = texts(field, value)
    if not 1 <= len(named) <= MAX_SCOPES:
        raise InvalidInput.of(field, f"must have between 1 and {MAX_SCOPES} entries")
    for index, scope in enumerate(named):
        if problem := rules.scope_problem(scope):
            raise InvalidInput.of(f"{field}.{index}", problem)
    return list(dict.fromkeys(named))


def owner(field: str, value: object) -> str:
    """Return the one `user:` or `agent:` principal whom a row belongs to."""
    named = text(field, value)
    if problem := rules.owner_problem(named):
        raise InvalidInput.of(field, problem)
    return named


def metadata(field: str, value: object) -> dict[str, Any]:
    """Return a copy of a JSON object: finite numbers, integers of 64 bits, 64 KiB and 64 levels at most.

    A tuple is stored as a list.
    """
    if not isinstance(value, dict):
        raise InvalidInput.of(field, f"must be an object, not {type(value).__name__}")
    copied: dict[str, Any] = _Copying(field).copy(value, 1)
    if copied and len(json.dumps(copied, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_METADATA_BYTES:
        raise _too_large(field)
    return copied


def links(field: str, value: object) -> list[tuple[str, RelationType]]:
    """Return pairs of a keyword's id and how an info belongs to it."""
    return [_link(f"{field}.{index}", one) for index, one in enumerate(_items(field, value))]


def relation(field: str, value: object) -> RelationType:
    """Return one of the relations, which may be named by its word."""
    known = next((one for one in RelationType if one == value), None)
    if known is None:
        raise InvalidInput.of(field, f"{reprlib.repr(value)} is no relation: use {', '.join(RelationType)}")
    return known


def patch(sent: object, patchable: Collection[str]) -> dict[str, Any]:
    """Return the fields that are to be changed, each as a row holds it; `patchable` names those that may be."""
    if not isinstance(sent, Mapping):
        raise InvalidInput.of("patch", f"must be an object of fields, not {type(sent).__name__}")
    fields = dict(sent)
    for name in fields:
        if name not in patchable:
            raise InvalidInput.of(str(name), f"cannot be changed; what can is {', '.join(sorted(patchable))}")
    return {name: _KINDS[name](name, value) for name, value in fields.items()}


_KINDS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "name": text,
    "aliases": texts,
    "description": text,
    "content": text,
    "source": text,
    "metadata": metadata,
    "scopes": scopes,
}


class _Copying:
    """Copies one value. It stops at the size limit: a few objects that hold each other twice are endless work."""

    def __init__(self, field: str) -> None:
        self._field = field
        # Each value, and each character of a text, is a byte of JSON at least.
        self._left = MAX_METADATA_BYTES

    def copy(self, value: object, depth: int) -> Any:  # noqa: ANN401 -- any JSON
        self._take(1)
        match value:
            case None | bool():
                return value
            case str():
                return self._text(value)
            case int() if value in _INT64:
                return int(value)
            case int():
                raise InvalidInput.of(self._field, "must not hold an integer of more than 64 bits")
            case float() if math.isfinite(value):
                return float(value)
            case float():
                raise InvalidInput.of(self._field, "must not hold NaN or an infinity")
            case list() | tuple() | dict() if depth > MAX_METADATA_DEPTH:
                raise InvalidInput.of(self._field, f"must not be nested deeper than {MAX_METADATA_DEPTH} levels")
            case list() | tuple():
                return [self.copy(one, depth + 1) for one in value]
            case dict():
                return {self._key(name): self.copy(one, depth + 1) for name, one in value.items()}
        raise InvalidInput.of(self._field, f"must be JSON; {type(value).__name__} is none")

    def _key(self, name: object) -> str:
        if not isinstance(name, str):
            raise InvalidInput.of(self._field, f"must have names that are text, not {type(name).__name__}")
        return self._text(name)

    def _text(self, value: str) -> str:
        self._take(len(value))
        return text(self._field, value)

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _too_large(self._field)


def _items(field: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidInput.of(field, f"must be a list, not {type(value).__name__}")
    return list(value)


def _link(field: str, value: object) -> tuple[str, RelationType]:
    pair = _items(field, value)
    if len(pair) != _PAIR:
        raise InvalidInput.of(field, "must be a pair: the id of a keyword, and a relation")
    return row_id(f"{field}.keyword_id", pair[0]), relation(f"{field}.relation", pair[1])


def _is_encodable(plain: str) -> bool:
    try:
        plain.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_large(field: str) -> InvalidInput:
    return InvalidInput.of(field, f"must have at most {MAX_METADATA_BYTES} bytes as JSON")
