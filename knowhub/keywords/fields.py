"""Parsers for the fields of keywords and infos, and the place of a wrong one in a request.

Each parser returns a copy of exact `str`, `list`, `dict`, `int` or `float` that the log can hold, or raises
InvalidInput with the name of the field.
"""

import json
import math
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, TypeVar

from knowhub.core import scopes as rules
from knowhub.core.errors import Conflict, Forbidden, InvalidInput
from knowhub.keywords.model import RelationType

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)

MAX_SCOPES: Final = 50
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_METADATA_DEPTH: Final = 64
_INT64: Final = range(-(2**63), 2**63)
_PAIR: Final = 2


@contextmanager
def prefix_errors(at: str, **position: int) -> Iterator[None]:
    """Name a part of a request, such as `items.3`, in the errors that it causes; `position` says where it is."""
    try:
        yield
    except InvalidInput as problem:
        first = problem.errors[0]
        raise InvalidInput.of(f"{at}.{first.field}", first.message) from problem
    except (Conflict, Forbidden) as problem:
        raise type(problem)(f"{at}: {problem.detail}", {**problem.extra, **position}) from problem


def parse_text(field: str, value: object) -> str:
    """Parse a text without NUL and without half surrogate pairs."""
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"must be text, not {type(value).__name__}")
    plain = str.__str__(value)
    if "\0" in plain or not (plain.isascii() or _is_encodable(plain)):
        raise InvalidInput.of(field, "must not hold a NUL character or half a surrogate pair")
    return plain


def parse_list(field: str, value: object) -> list[Any]:
    """Parse a list or a tuple."""
    if not isinstance(value, list | tuple):
        raise InvalidInput.of(field, f"must be a list, not {type(value).__name__}")
    return list(value)


def parse_texts(field: str, value: object) -> list[str]:
    """Parse a list of texts; a single text is refused."""
    return [parse_text(f"{field}.{index}", item) for index, item in enumerate(parse_list(field, value))]


def parse_row_id(field: str, value: object) -> str:
    """Parse the id of a row, or the `ref` of an item."""
    named = parse_text(field, value)
    if not named:
        raise InvalidInput.of(field, "must not be empty; leave it out for none")
    return named


def parse_integer(field: str, value: object) -> int:
    """Parse an integer; True and 1.0 are refused."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput.of(field, f"must be a whole number, not {type(value).__name__}")
    return int(value)


def parse_scopes(field: str, value: object) -> list[str]:
    """Parse 1 to 50 scopes, without duplicates."""
    named = parse_texts(field, value)
    if not 1 <= len(named) <= MAX_SCOPES:
        raise InvalidInput.of(field, f"must have between 1 and {MAX_SCOPES} entries")
    for index, scope in enumerate(named):
        if problem := rules.scope_problem(scope):
            raise InvalidInput.of(f"{field}.{index}", problem)
    return list(dict.fromkeys(named))


def parse_owner(field: str, value: object) -> str:
    """Parse a `user:` or `agent:` principal."""
    named = parse_text(field, value)
    if problem := rules.owner_problem(named):
        raise InvalidInput.of(field, problem)
    return named


def parse_metadata(field: str, value: object) -> dict[str, Any]:
    """Parse a JSON object with finite numbers and 64-bit integers, at most 64 KiB and 64 levels.

    A tuple becomes a list.
    """
    if not isinstance(value, dict):
        raise InvalidInput.of(field, f"must be an object, not {type(value).__name__}")
    copied: dict[str, Any] = _JsonCopier(field).copy(value, 1)
    if copied and len(json.dumps(copied, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_METADATA_BYTES:
        raise _make_size_error(field)
    return copied


def parse_links(field: str, value: object) -> list[tuple[str, RelationType]]:
    """Parse pairs of a keyword id and a relation."""
    return [_parse_link(f"{field}.{index}", item) for index, item in enumerate(parse_list(field, value))]


def parse_choice(field: str, kind: type[ChoiceT], value: object) -> ChoiceT:
    """Parse the name of a member of an enumeration."""
    for member in kind:
        if member == value:
            return member
    raise InvalidInput.of(field, f"{reprlib.repr(value)} is none of {', '.join(kind)}")


def parse_patch(sent: object, patchable: Collection[str]) -> dict[str, Any]:
    """Parse the fields of a patch; only those in `patchable` are allowed."""
    if not isinstance(sent, Mapping):
        raise InvalidInput.of("patch", f"must be an object of fields, not {type(sent).__name__}")
    fields = dict(sent)
    for name in fields:
        if name not in patchable:
            raise InvalidInput.of(str(name), f"cannot be changed; what can is {', '.join(sorted(patchable))}")
    return {name: _PARSERS[name](name, value) for name, value in fields.items()}


_PARSERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "name": parse_text,
    "aliases": parse_texts,
    "description": parse_text,
    "content": parse_text,
    "source": parse_text,
    "metadata": parse_metadata,
    "scopes": parse_scopes,
}


class _JsonCopier:
    """Copies a value up to the size limit. Without a limit, nested references to shared objects could take forever."""

    def __init__(self, field: str) -> None:
        self._field = field
        # Each value and each character takes at least one byte of JSON.
        self._left = MAX_METADATA_BYTES

    def copy(self, value: object, depth: int) -> Any:  # noqa: ANN401 -- any JSON
        self._count_chars(1)
        match value:
            case None | bool():
                return value
            case str():
                return self._parse_text(value)
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
                return [self.copy(item, depth + 1) for item in value]
            case dict():
                return {self._parse_key(name): self.copy(item, depth + 1) for name, item in value.items()}
        raise InvalidInput.of(self._field, f"must be JSON; {type(value).__name__} is none")

    def _parse_key(self, name: object) -> str:
        if not isinstance(name, str):
            raise InvalidInput.of(self._field, f"must have names that are text, not {type(name).__name__}")
        return self._parse_text(name)

    def _parse_text(self, value: str) -> str:
        self._count_chars(len(value))
        return parse_text(self._field, value)

    def _count_chars(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _make_size_error(self._field)


def _parse_link(field: str, value: object) -> tuple[str, RelationType]:
    pair = parse_list(field, value)
    if len(pair) != _PAIR:
        raise InvalidInput.of(field, "must be a pair: the id of a keyword, and a relation")
    return parse_row_id(f"{field}.keyword_id", pair[0]), parse_choice(f"{field}.relation", RelationType, pair[1])


def _is_encodable(plain: str) -> bool:
    try:
        plain.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_size_error(field: str) -> InvalidInput:
    return InvalidInput.of(field, f"must have at most {MAX_METADATA_BYTES} bytes as JSON")
