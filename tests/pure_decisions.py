"""Decisions are pure: run on another state in between, they come to the same."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import zip_longest
from typing import Any

from knowhub.core.collection import table_schemas
from knowhub.core.operation import Decide, Draft, Unchanged
from knowhub.engine.account import Account
from knowhub.engine.view import AccountView, Overlay
from tests.collections_of_tests import WITH_NOTES

_SCHEMAS = table_schemas(WITH_NOTES)
# Ids that a decision makes differ each time: they are the digits at the end of an id, or a version 4 UUID.
_MADE_ID = re.compile(r"[0-9a-f]{4,}(?:-[0-9a-f]{4,})*")


def run_twice(decide: Decide[Any], view: AccountView) -> Draft | Unchanged:
    """Run a decision, run it on other states, run it again, and return the second result, which must equal the first.

    The other states are the acknowledged one, without what the batch has decided, and an empty one.
    """
    first = _run(decide, view)
    acknowledged = view.source.underlying if isinstance(view.source, Overlay) else view.source
    for other in (replace(view, source=acknowledged), AccountView(Account(_SCHEMAS, _no_text), view.now)):
        _run(decide, other)
    second = _run(decide, view)
    problem = _difference(first, second)
    assert problem is None, f"a decision is not pure: {problem}"
    if isinstance(second, Exception):
        raise second
    return second


def _run(decide: Decide[Any], view: AccountView) -> Draft | Unchanged | Exception:
    try:
        return decide(view)
    except Exception as problem:  # noqa: BLE001 -- whatever a decision raises is its result
        return problem


def _leaves(value: Any, where: str = "result") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 -- any value
    """Yield each plain value within a result, with the way to it; a key of an object is a value too."""
    if isinstance(value, Exception):
        yield where, f"{type(value).__name__}: {value}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{where}.key", key
            yield from _leaves(item, where)
    elif isinstance(value, list | tuple):
        yield where, len(value)
        for number, item in enumerate(value):
            yield from _leaves(item, f"{where}.{number}")
    elif is_dataclass(value):
        yield where, type(value).__name__
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), f"{where}.{field.name}")
    elif type(value).__module__.startswith("knowhub"):
        # A note for the rest of a group, which compares by identity.
        yield from _leaves(vars(value), where)
    else:
        yield where, value


def _difference(first: object, second: object) -> str | None:
    """Return where two results differ, but for the ids that were made."""
    made: dict[str, str] = {}
    for (where, item), (_, two) in zip_longest(_leaves(first), _leaves(second), fillvalue=("", None)):
        is_same = _is_same_text(item, two, made) if isinstance(item, str) and isinstance(two, str) else item == two
        if not is_same:
            return f"{where}: {item!r} and then {two!r}"
    return None


def _is_same_text(first: str, second: str, made: dict[str, str]) -> bool:
    if first == second:
        return True
    if _MADE_ID.sub("ID", first) != _MADE_ID.sub("ID", second):
        return False
    pairs = zip(_MADE_ID.findall(first), _MADE_ID.findall(second), strict=True)
    return all(made.setdefault(pair, two) == two for pair, two in pairs if pair != two)


def _no_text(_segment: int, _start: int, _end: int) -> bytes:
    return b""
