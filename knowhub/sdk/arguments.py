"""Arguments of the verbs, checked where they come in: one of the wrong kind is an InvalidInput that names it."""

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, TypeVar

from knowhub.core.errors import InvalidInput
from knowhub.keywords.fields import whole
from knowhub.keywords.model import NewInfo, NewKeyword

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
NewT = TypeVar("NewT", NewKeyword, NewInfo)


def key(field: str, value: object) -> str:
    """Return an id as it was given; that there is no such row, the verb says."""
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"must be the id of a row, not {type(value).__name__}")
    return str.__str__(value)


def flag(field: str, value: object) -> bool:
    """Return True or False; a text such as "no" is neither."""
    if not isinstance(value, bool):
        raise InvalidInput.of(field, f"must be True or False, not {type(value).__name__}")
    return value


def expected_version(value: object, *, is_needed: bool = False) -> int | None:
    """Return the version that a caller read; None says that they do not care, where that is allowed."""
    if value is None and not is_needed:
        return None
    if whole("version", value) < 1:
        raise InvalidInput.of("version", "counts from 1")
    return whole("version", value)


def number(field: str, value: object) -> float:
    """Return a number of at least 0 that is not infinite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput.of(field, f"must be a number, not {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise InvalidInput.of(field, "must be at least 0, and finite")
    return float(value)


def choice(field: str, kind: type[ChoiceT], value: object) -> ChoiceT:
    """Return one of a few words."""
    known = next((one for one in kind if one == value), None)
    if known is None:
        raise InvalidInput.of(field, f"{reprlib.repr(value)} is none of {', '.join(kind)}")
    return known


def items(kind: type[NewT], specs: Sequence[Mapping[str, Any]]) -> list[NewT]:
    """Return what a batch shall make, one of each spec."""
    if not isinstance(specs, list | tuple):
        raise InvalidInput.of("specs", f"must be a list, not {type(specs).__name__}")
    return [kind(**dict(_named(kind, spec, f"items.{index}"))) for index, spec in enumerate(specs)]


def _named(kind: type[NewT], spec: object, at: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(spec, Mapping):
        raise InvalidInput.of(at, f"must be an object of fields, not {type(spec).__name__}")
    names = {field.name: field.default is MISSING and field.default_factory is MISSING for field in fields(kind)}
    for name in spec:
        if name not in names:
            raise InvalidInput.of(f"{at}.{name}", f"is not known; what is: {', '.join(names)}")
    for name, is_needed in names.items():
        if is_needed and name not in spec:
            raise InvalidInput.of(f"{at}.{name}", "is missing")
        if name in spec:
            yield name, spec[name]
