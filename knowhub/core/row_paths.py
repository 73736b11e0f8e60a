"""A row as a flat map from paths to values, for comparing and merging field by field."""

from collections.abc import Mapping
from typing import Any

from knowhub.core.undo import BOOKKEEPING, Path

_ABSENT = object()


def flatten(row: Mapping[str, Any]) -> dict[Path, Any]:
    """Map the path of each value that is not an object to that value; an empty object is a value."""
    flat: dict[Path, Any] = {}
    _collect(row, (), flat)
    return flat


def unflatten(flat: Mapping[Path, Any]) -> dict[str, Any]:
    """Put a flat map back together; the inverse of `flatten`."""
    row: dict[str, Any] = {}
    for path, value in flat.items():
        holder = row
        for name in path[:-1]:
            inner = holder.get(name)
            if not isinstance(inner, dict):
                inner = holder[name] = {}
            holder = inner
        # An object that was empty before and has entries now stands there already.
        if value != {}:
            holder[path[-1]] = value
        elif not isinstance(holder.get(path[-1]), dict):
            # A fresh one: entries may follow, and the row that the value came from must not get them.
            holder[path[-1]] = {}
    return row


def changed_paths(before: Mapping[Path, Any], after: Mapping[Path, Any]) -> list[Path]:
    """List the paths whose values differ, in order, less the bookkeeping that every write moves."""
    paths = dict.fromkeys([*before, *after])
    return [path for path in paths if path not in BOOKKEEPING and before.get(path, _ABSENT) != after.get(path, _ABSENT)]


def dotted(path: Path) -> str:
    """Write a path as answers show it, such as `eval.score`."""
    return ".".join(path)


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `{"eval.score": {"before": 3, "after": 4}}` for every field that differs."""
    old, new = flatten(before or {}), flatten(after)
    return {dotted(path): {"before": old.get(path), "after": new.get(path)} for path in changed_paths(old, new)}


def _collect(row: Mapping[str, Any], above: Path, flat: dict[Path, Any]) -> None:
    for name, value in row.items():
        path = (*above, name)
        if isinstance(value, Mapping) and value:
            _collect(value, path, flat)
        else:
            flat[path] = value
