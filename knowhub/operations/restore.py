"""What a restore writes: a snapshot's rows against those that stand now, with no store (KT-252)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core import clock
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live, next_version
from knowhub.core.undo import BOOKKEEPING, RowRules

RESTORE_OP = "restore_snapshot"

Key: TypeAlias = tuple[str, str]
"""A row's collection and id."""

_BOOKKEPT = frozenset(path[0] for path in BOOKKEEPING)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A row as a snapshot has it; `row` is None where it has none, or a deleted one."""

    collection: str
    id: str
    row: Row | None

    @property
    def key(self) -> Key:
        """Collection and id."""
        return self.collection, self.id


def differs(then: Row | None, now: Row | None) -> bool:
    """Tell whether a row says now what it said then, apart from its version and time; two that are gone are one."""
    if is_live(then) != is_live(now):
        return True
    return is_live(now) and _content(then) != _content(now)


def restored_row(then: Row | None, now: Row | None, moment: float) -> Row | None:
    """Return the row that has to be written so that `then` stands again; None where it stands, or was erased.

    Versions go on rising: whoever holds one from between then and now is told that it has moved on.
    """
    if is_erased(now) or not differs(then, now):
        return None
    if then is not None and is_live(then):
        version = max(next_version(then), next_version(now))
        kept: Mapping[str, Any] = {name: value for name, value in then.items() if name != "deleted"}
    else:
        version = next_version(now)
        kept = {**(now or {}), "deleted": True}
    return {**kept, "version": version, "updated_at": clock.iso(moment)}


def attached(
    wanted: Wanted, then: Mapping[Key, Wanted], now: Callable[[str, str], Row | None], rules: RowRules
) -> Wanted:
    """Return a row with its ends in rows that can stand: what it hung on may have been erased since.

    A keyword then hangs on the next one above that stood there; a link of which an end is gone is not wanted any more.
    """
    row = wanted.row
    while row is not None and rules.is_bound:
        gone = [end for end in rules.references(row) if is_erased(now(*end))]
        if not gone:
            break
        above = then.get(gone[0])
        if row.get("parent_id") != gone[0][1] or above is None or above.row is None:
            return Wanted(wanted.collection, wanted.id, None)
        row = {**row, "parent_id": above.row["parent_id"]}
    return wanted if row is wanted.row else Wanted(wanted.collection, wanted.id, row)


def unquoting(wanted: Wanted, rules: RowRules) -> Wanted:
    """Return a row without the texts in which it may quote rows that refer to it."""
    if wanted.row is None or not rules.quoting:
        return wanted
    return Wanted(wanted.collection, wanted.id, {**wanted.row, **dict.fromkeys(sorted(rules.quoting), "")})


def _content(row: Row | None) -> dict[str, Any]:
    return {name: value for name, value in (row or {}).items() if name not in _BOOKKEPT}
