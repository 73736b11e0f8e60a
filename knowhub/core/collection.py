"""What a collection declares about its rows, so that code which names no domain can list, undo and erase them.

A collection is a kind of row, such as `knowledge` or `links`. Each domain declares its collections in its
`collections.py`; `knowhub/wiring/collections.py` finds them there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from knowhub.core.erasing import EraseRules
from knowhub.core.errors import Conflict
from knowhub.core.operation import Change, Operation, Row, View, is_live
from knowhub.core.table_schema import Index, TableSchema, TableSchemas

Path: TypeAlias = tuple[str, ...]
"""The names that lead to a field, such as `("eval", "helpful")`."""
Key: TypeAlias = tuple[str, str]
"""The collection and the id of a row."""
Lookup: TypeAlias = Callable[[str, str], Row | None]
"""From a collection and an id to the row, a deleted one too; None if the id was never used."""
Validate: TypeAlias = Callable[[Lookup, Sequence[Row]], None]
IsVisible: TypeAlias = Callable[[str, str], bool]
"""From a collection and an id to whether the caller may see the row."""
Redact: TypeAlias = Callable[[Row, IsVisible], Row]

BOOKKEEPING: frozenset[Path] = frozenset({("version",), ("updated_at",)})
"""The fields that every write changes. They are never compared, and never restored."""


class OnDelete(StrEnum):
    """What an undo or a restored snapshot does with a live row when the row that it refers to goes."""

    REATTACH = "reattach"
    """Refer to what the target itself refers to by `Reference.via`, or to what is live above that."""
    CASCADE = "cascade"
    """Delete the row as well."""
    FORBID = "forbid"
    """Refuse: the target may not go while a live row refers to it."""
    KEEP = "keep"
    """Leave the field as it is. Nobody needs the target."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: `field` holds the id of a row of `target`, or None.

    `on_delete` says what becomes of a live row when its target goes. A live row with an `is_required` reference needs a
    live target. Where `limits_visibility`, the row is visible only together with its target; the owner of the first
    such target owns a row that has no owner of its own. The targets of `is_acyclic` references form a tree: no row is
    above itself. `via` is the field of the target by which REATTACH goes up. An undo must not make a row refer to a
    target while a live row refers to either of them by the field `excluded_by`.
    """

    field: str
    target: str
    on_delete: OnDelete
    is_required: bool = False
    limits_visibility: bool = False
    is_acyclic: bool = False
    via: str = ""
    excluded_by: str = ""

    def key(self, row: Row) -> Key | None:
        """Return which row this one refers to; None if it refers to none."""
        target_id = row.get(self.field)
        return None if target_id is None else (self.target, str(target_id))


@dataclass(frozen=True, slots=True)
class UndoneRow:
    """A row while an operation is undone: all that a computed field may be made of.

    `change` is what the operation did to the row. `row` is the row with its other fields undone. `current` looks up
    rows as they are before the undo, `undone` holds the rows that the undo writes, this one as well.
    """

    change: Change
    row: Row
    current: Lookup
    undone: Mapping[Key, Row]


@dataclass(frozen=True, slots=True)
class Computed:
    """Fields that are computed from others. A later change of them does not keep an operation from being undone.

    `recompute` is pure. It returns the row of an `UndoneRow` with these fields computed anew. Without it, a field that
    was changed since stays as it is.
    """

    fields: frozenset[Path]
    recompute: Callable[[UndoneRow], Row] = lambda undone: undone.row


@dataclass(frozen=True, slots=True)
class Collection:
    """The declaration of one kind of row.

    Identity:
    `name` is the collection's name in the log. `row_id` computes the id of a join row, such as a link, which is made of
    its references; other collections have none. Several join rows may be reattached to one id: the first in the order
    of `rank` is kept. Rows in `fixed_ids` belong to every account and are never deleted;
    a reference to one is good even before the row is written.

    Rules:
    `validate` raises InvalidInput or Conflict for a row that must not be written. It is given the live rows that a
    write or an undo changes, and looks up others as they will be (`check_rows`).

    References:
    `references` are the foreign keys. A row without scopes of its own is seen with the targets that limit its
    visibility.

    Undo:
    Without `is_undoable`, neither undo nor a restored snapshot touches a row. `counters` are numbers that operations
    add to and `append_only` are lists that they append to: an undo takes back what its operation brought, whatever
    came since. `computed` fields are recomputed. All fields of one of the `field_groups` change together: where a
    later operation changed one of them, the others cannot be undone either. Rows with `is_evidence` only record what
    somebody said: whoever wrote one may take it back, with no right to what it is about. `is_derived` is given an
    operation that wrote such rows and a later one on a row that they refer to, and says whether the later one was made
    of them: then it is undone with the first.

    History:
    Nobody is shown the `redacted_fields`. The `sealed_field` holds data that is encrypted with a data key, and names it
    as `key_id`. `redact` removes from a row what tells of other rows that the caller does
    not see; a reference to such a row is removed without it. An operation that touches only `is_internal` collections
    is listed only when it is asked for by name.

    Memory:
    `table` says how rows are held in memory and by which keys they are found; without it, only by their ids. Each
    reference that is not KEEP needs an index there whose `target` is the target of the reference. No two live rows have
    a key of an index in `unique` in common; each of these indexes is one of the table's.

    Erasing:
    `erase` says what is left of an erased row; rows of a collection without it cannot be erased.
    """

    name: str
    row_id: Callable[[Row], str] | None = None
    rank: Callable[[Row], int] = lambda _row: 0
    fixed_ids: frozenset[str] = frozenset()
    references: Sequence[Reference] = ()
    is_undoable: bool = True
    counters: frozenset[Path] = frozenset()
    append_only: frozenset[Path] = frozenset()
    computed: Sequence[Computed] = ()
    field_groups: Sequence[frozenset[Path]] = ()
    validate: Validate = lambda _lookup, _rows: None
    is_evidence: bool = False
    is_derived: Callable[[Operation, Operation], bool] | None = None
    redacted_fields: frozenset[str] = frozenset()
    sealed_field: str | None = None
    redact: Redact = lambda row, _is_visible: row
    is_internal: bool = False
    erase: EraseRules | None = None
    table: TableSchema[Any] | None = None
    unique: Sequence[Index[Any]] = ()

    @property
    def erase_rules(self) -> EraseRules:
        """Return what is left of an erased row. Raises TypeError where rows cannot be erased."""
        if self.erase is None:
            raise TypeError(f"rows of {self.name} cannot be erased")
        return self.erase

    def id_of(self, row: Row) -> str:
        """Return the id of a row. Raises KeyError for a row of another shape."""
        return str(row["id"]) if self.row_id is None else self.row_id(row)

    def merges(self, path: Path) -> bool:
        """Return whether a later change of a field leaves an earlier one undoable: it adds up, or is computed."""
        return (
            path in self.counters
            or path in self.append_only
            or any(path in computed.fields for computed in self.computed)
        )


Collections: TypeAlias = Mapping[str, Collection]
"""Every collection by its name."""


def table_schemas(collections: Collections) -> TableSchemas:
    """Return the schema of every collection that has one, by its name and in the order of their declaration."""
    return {name: declared.table for name, declared in collections.items() if declared.table is not None}


def check_rows(collections: Collections, view: View, rows: Mapping[Key, Row]) -> None:
    """Check the rows of one write against the rules of their collections. Raises InvalidInput and Conflict.

    Raises TypeError for a row of a collection that is not registered.
    """
    live: dict[str, dict[str, Row]] = {}
    for (name, row_id), row in rows.items():
        if name not in collections:
            raise TypeError(f"no collection {name!r} is registered; declare it in the collections.py of its domain")
        if is_live(row):
            live.setdefault(name, {})[row_id] = row

    def lookup(collection: str, row_id: str) -> Row | None:
        return rows.get((collection, row_id)) or view.get(collection, row_id)

    for name, changed in live.items():
        collections[name].validate(lookup, list(changed.values()))
        if collections[name].unique:
            _check_unique(collections[name], view, rows, changed)


def _check_unique(collection: Collection, view: View, rows: Mapping[Key, Row], changed: Iterable[str]) -> None:
    if collection.table is None:
        raise TypeError(f"the rows of {collection.name} have no index; give it a table")
    plan = view.plan()
    for key, row in rows.items():
        plan.put(*key, row)
    for row_id in changed:
        summary = plan.summary(collection.table, row_id)
        for index in collection.unique:
            if any(plan.count(index, key) > 1 for key in index.keys(summary)):
                # Not which row has it: the caller may not see that row.
                raise Conflict(f"another row of {collection.name} has the same {index.name}", {"field": index.name})


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
        # An object that was empty and has entries now was created by them.
        if value != {}:
            holder[path[-1]] = value
        elif not isinstance(holder.get(path[-1]), dict):
            # A fresh one: entries may follow, and the row that the value came from must not get them.
            holder[path[-1]] = {}
    return row


def list_changed_paths(before: Mapping[Path, Any], after: Mapping[Path, Any]) -> list[Path]:
    """List the paths whose values differ, in order, less the bookkeeping that every write moves."""
    paths = dict.fromkeys([*before, *after])
    return [path for path in paths if path not in BOOKKEEPING and before.get(path, _ABSENT) != after.get(path, _ABSENT)]


def format_path(path: Path) -> str:
    """Write a path as answers show it, such as `eval.score`."""
    return ".".join(path)


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `{"eval.score": {"before": 3, "after": 4}}` for every field that differs."""
    old, new = flatten(before or {}), flatten(after)
    return {
        format_path(path): {"before": old.get(path), "after": new.get(path)} for path in list_changed_paths(old, new)
    }


def _collect(row: Mapping[str, Any], above: Path, flat: dict[Path, Any]) -> None:
    for name, value in row.items():
        path = (*above, name)
        if isinstance(value, Mapping) and value:
            _collect(value, path, flat)
        else:
            flat[path] = value
