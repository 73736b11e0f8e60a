"""Turning an operation around, field by field, with no store: rows in, rows or blockers out (KT-188, G-17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.operation import Change, Row, View, next_of
from knowhub.core.row_paths import changed_paths, flatten, unflatten
from knowhub.core.undo import Bearers, Path, RowRules

_GONE = object()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A row whose fields were changed since: the undo would overwrite them."""

    collection: str
    id: str
    fields: Sequence[Path]


def turned_around(change: Change, current: Row, rules: RowRules, now: float, bearers: Bearers = tuple) -> Row | Blocked:
    """Return the row as it is when `change` had not happened, or the fields that stand in the way.

    Fields that the change did not touch keep what they have now; evidence is carried over.
    """
    parted = rules.parted(change, current, bearers)
    if parted is not None:
        return next_of(parted, current, now)
    after, present = flatten(change.after), flatten(current)
    if change.before is None:
        blocked = [path for path in changed_paths(after, present) if not rules.is_evidence(path)]
        result: Mapping[str, Any] = {**current, "deleted": True}
    else:
        before = flatten(change.before)
        touched = [path for path in changed_paths(before, after) if not rules.is_evidence(path)]
        compared = _with_units(touched, rules)
        blocked = [path for path in compared if present.get(path, _GONE) != after.get(path, _GONE)]
        blocked += _in_the_place_of(touched, before, after, present)
        merged = _merged(present, before, touched)
        _carry_evidence(merged, before, after, rules)
        result = _settled(change.before, unflatten(merged), before, after, rules)
    if blocked:
        return Blocked(change.collection, change.id, blocked)
    return next_of(result, current, now)


def balanced(view: View, rows: Sequence[tuple[Change, Row]], rules: Mapping[str, RowRules]) -> list[tuple[Change, Row]]:
    """Return the rows that undoing an operation makes, with what is computed of several of them put right."""
    undone = {(change.collection, change.id): row for change, row in rows}
    return [(change, rules[change.collection].balance(change, view.get, undone, row)) for change, row in rows]


def _with_units(touched: Sequence[Path], rules: RowRules) -> list[Path]:
    """Add to what an operation touched all that stands or falls with it."""
    joined = [path for unit in rules.units if not unit.isdisjoint(touched) for path in sorted(unit)]
    return list(dict.fromkeys([*touched, *joined]))


def _in_the_place_of(
    touched: Sequence[Path], before: Mapping[Path, Any], after: Mapping[Path, Any], present: Mapping[Path, Any]
) -> list[Path]:
    """List what came since to where a value would be put back: entries below it, or a value above it.

    An object and what is no object cannot stand in one place, so that one of them would be lost.
    """
    back = [path for path in touched if path in before]
    solid = {path for path in back if before[path] != {}}
    above = {path[:size] for path in back for size in range(1, len(path))}
    came = [path for path, value in present.items() if after.get(path, _GONE) != value]
    return [
        path
        for path in came
        if (path in above and present[path] != {}) or any(path[:size] in solid for size in range(1, len(path)))
    ]


def _merged(present: Mapping[Path, Any], before: Mapping[Path, Any], touched: Sequence[Path]) -> dict[Path, Any]:
    merged = dict(present)
    for path in touched:
        if path in before:
            merged[path] = before[path]
        else:
            merged.pop(path, None)
            _keep_emptied(merged, path[:-1], before)
    return merged


def _keep_emptied(merged: dict[Path, Any], holder: Path, before: Mapping[Path, Any]) -> None:
    """Leave an empty object where the last entry was taken from one that stood there before."""
    size = len(holder)
    if holder and any(path[:size] == holder for path in before) and not any(path[:size] == holder for path in merged):
        merged[holder] = {}


def _carry_evidence(
    merged: dict[Path, Any], before: Mapping[Path, Any], after: Mapping[Path, Any], rules: RowRules
) -> None:
    """Take back only what this operation added: counters by difference, cases one by one."""
    for path in rules.counters & before.keys() & after.keys():
        merged[path] += before[path] - after[path]
    for path in rules.logs & before.keys() & after.keys():
        if merged[path] == after[path]:
            merged[path] = before[path]
            continue
        remaining = list(merged[path])
        for case in _added(before[path], after[path]):
            if case in remaining:
                remaining.remove(case)
        merged[path] = remaining


def _added(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    known = list(before)
    added = []
    for case in after:
        if case in known:
            known.remove(case)
        else:
            added.append(case)
    return added


def _settled(
    before_row: Row, result: dict[str, Any], before: Mapping[Path, Any], after: Mapping[Path, Any], rules: RowRules
) -> Mapping[str, Any]:
    if rules.settle is None or all(before.get(path) == after.get(path) for path in rules.counters):
        # The operation brought no evidence: what was derived from it since stays as it is.
        return result
    return rules.settle(before_row, result)
