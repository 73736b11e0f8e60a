"""How the rows of a collection are turned around: which of their fields are evidence that only adds up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core.operation import Change, Row, is_live

Path: TypeAlias = tuple[str, ...]
Lookup: TypeAlias = Callable[[str, str], Mapping[str, Any] | None]
"""From (collection, id) to the row as it would stand after the undo; None when there is none."""
Balance: TypeAlias = Callable[[Change, Lookup, Mapping[tuple[str, str], Row], Row], Row]
Bearers: TypeAlias = Callable[[], Sequence[Row]]
"""The live rows that will refer to a row once the operation is undone."""
Parted: TypeAlias = Callable[[Change, Row, Bearers], Row | None]
Riders: TypeAlias = Callable[[Sequence[Change]], frozenset[str]]
Uphold: TypeAlias = Callable[[Row, tuple[str, Row], Lookup, float], list[tuple[str, str, Row]]]
Told: TypeAlias = Callable[[Row, Callable[[str, str], bool]], Row]
"""From a row, and whether the caller sees that of a collection with an id, to what of the row they are told."""
BOOKKEEPING: frozenset[Path] = frozenset({("version",), ("updated_at",)})


@dataclass(frozen=True, slots=True)
class RowRules:
    """What undo must know of a collection.

    `counters` are increments and `logs` lists that only grow: neither stands in the way of an undo, both are
    carried over. `settle(before, after)` recomputes what is derived from them, starting from the row before the
    operation. `check(row)` raises InvalidInput for a live row that could not have been saved.

    `references(row)` names the (collection, id) of rows that this one cannot do without; where a row has no scopes of
    its own, who sees all of them sees it, and who owns the first owns it. Where `is_bound`, no live row stands
    without what it refers to. `obstacles(lookup, rows)` names what keeps live rows from
    coming to stand. Rows in `fixed` cannot be removed. Of each of `units` all fields are one: where an operation
    changed one of them, a later change of another stands in the way, as with names and what is computed from them.

    `joined` is the field that names the row that this one went into; while anything refers to the one or the other, a
    row neither comes out of another nor goes back into it.

    `names` are the fields by which a row names another of its collection, whose id is told to who sees that one;
    what else of it tells of other rows leaves `told(row, sees)` out. Where
    `is_verdict`, a row is nothing but a note of evidence: who gave it may take it back. What is computed of several
    rows is put right by `balance(change, lookup, undone, row)`: it returns a row as it shall stand when the change is
    undone, given how rows stand now and what the undo of the operation makes of its other rows.

    `parted(change, current, bearers)` returns a row as it stands without what a change brought, where all that came
    since only brought more, and None elsewhere: then fields are compared. `bearers` are asked where the row tells of
    those that refer to it.

    `quoting` are the fields in which a row may quote rows that refer to it: where one of those was erased since, a
    restore leaves them blank.

    `riders(changes)` are the ids of rows that only went along in an operation: no right to them was needed, and none is
    to undo it. `uphold(row, gone, lookup, now)` returns what a row that refers to one which goes, (collection, row),
    becomes without it, as (collection, id, row): what the caller does not see cannot stand in the way.
    """

    counters: frozenset[Path] = frozenset()
    logs: frozenset[Path] = frozenset()
    settled: frozenset[Path] = frozenset()
    settle: Callable[[Mapping[str, Any], dict[str, Any]], dict[str, Any]] | None = None
    check: Callable[[Mapping[str, Any]], None] | None = None
    references: Callable[[Mapping[str, Any]], list[tuple[str, str]]] = lambda _row: []
    obstacles: Callable[[Lookup, Sequence[Mapping[str, Any]]], list[tuple[str, str]]] = lambda _lookup, _rows: []
    is_bound: bool = False
    fixed: frozenset[str] = frozenset()
    units: Sequence[frozenset[Path]] = ()
    joined: str = ""
    names: tuple[str, ...] = ()
    is_verdict: bool = False
    parted: Parted = lambda _change, _current, _bearers: None
    told: Told = lambda row, _sees: row
    quoting: frozenset[str] = frozenset()
    riders: Riders = lambda _changes: frozenset()
    uphold: Uphold = lambda _row, _gone, _lookup, _now: []
    balance: Balance = lambda _change, _lookup, _undone, row: row

    def is_evidence(self, path: Path) -> bool:
        """Tell whether a field adds up, so that no change of it stands in the way of an undo."""
        return path in self.counters or path in self.logs or path in self.settled

    def let_go(self, change: Change, row: Row) -> Sequence[str]:
        """Return the ids of the rows that are not what they were to whoever refers to them, once `row` stands."""
        if not is_live(row):
            return [change.id]
        into, out_of = row.get(self.joined), change.after.get(self.joined)
        return [] if into == out_of else [change.id, *(one for one in (into, out_of) if one)]
