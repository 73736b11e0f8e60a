"""Cascades: which rows of an operation only follow another row, and what happens to the referrers of a deleted row."""

from collections.abc import Iterator, Sequence
from typing import Any

from knowhub.core import clock
from knowhub.core.collection import (
    Collection,
    Collections,
    Key,
    Lookup,
    OnDelete,
    Reference,
    flatten,
    list_changed_paths,
)
from knowhub.core.operation import Change, Row, is_live, make_tombstone, next_version


def cascaded_keys(changes: Sequence[Change], collections: Collections) -> frozenset[Key]:
    """Return the rows of an operation that only went along with a row that was deleted or that came back.

    Those are rows that were reattached from or to such a row, and join rows, such as links, that lead to it; with the
    latter, the other join rows of the row at their other end.
    """
    turned = [change for change in changes if change.before is not None]
    died = {_key(change) for change in turned if is_live(change.before) and not is_live(change.after)}
    revived = {_key(change) for change in turned if not is_live(change.before) and is_live(change.after)}
    if not died and not revived:
        return frozenset()
    found = {_key(change) for change in turned if _is_reattached(change, collections, died, revived)}
    for collection in collections.values():
        if collection.row_id is not None:
            joins = [change for change in changes if change.collection == collection.name]
            found |= {(collection.name, row_id) for row_id in _list_cascaded_joins(joins, collection, died | revived)}
    return frozenset(found)


def reattach(
    key: Key, row: Row, reference: Reference, collections: Collections, lookup: Lookup
) -> tuple[Key, Row] | None:
    """Return a row, with its key, whose reference leads to what is live above its target; None if there is nothing.

    The key differs where it is made of the reference: then the row takes the place of no other.
    """
    collection = collections[key[0]]
    heir = _live_ancestor(reference, row, collections, lookup)
    if heir is None:
        return None
    moved = {**row, reference.field: heir}
    if collection.row_id is None:
        return key, moved
    new_key = key[0], collection.row_id(moved)
    return None if is_live(lookup(*new_key)) else (new_key, moved)


def cascade_delete(
    key: Key, row: Row, gone: Key, collections: Collections, lookup: Lookup, now: float
) -> Iterator[tuple[Key, Row]]:
    """Yield what becomes of a live row when the row that it refers to goes: no row where the reference forbids it."""
    for reference in collections[key[0]].references:
        if reference.key(row) != gone:
            continue
        if reference.on_delete in {OnDelete.CASCADE, OnDelete.REATTACH}:
            moved = None
            if reference.on_delete is OnDelete.REATTACH:
                moved = reattach(key, row, reference, collections, lookup)
            if moved is None or moved[0] != key:
                yield key, make_tombstone(row, now)
            if moved is not None:
                yield moved[0], make_next_row(moved[1], row if moved[0] == key else lookup(*moved[0]), now)


def make_next_row(row: Row, before: Row | None, now: float) -> dict[str, Any]:
    """Return a row as the next version of the row with the same key; a row that was not live is created anew."""
    moment = clock.iso(now)
    fresh = {} if is_live(before) else {"created_at": moment}
    return {**row, **fresh, "version": next_version(before), "updated_at": moment}


def _key(change: Change) -> Key:
    return change.collection, change.id


def _is_reattached(change: Change, collections: Collections, died: set[Key], revived: set[Key]) -> bool:
    # A deleted row is reattached as well: it comes back where it would be now.
    collection = collections.get(change.collection)
    if collection is None or change.before is None or is_live(change.before) != is_live(change.after):
        return False
    moved = list_changed_paths(flatten(change.before), flatten(change.after))
    return any(
        moved == [(reference.field,)]
        and reference.on_delete is OnDelete.REATTACH
        and (reference.key(change.before) in died or reference.key(change.after) in revived)
        for reference in collection.references
    )


def _list_cascaded_joins(changes: Sequence[Change], collection: Collection, turned: set[Key]) -> Iterator[str]:
    def other_ends(change: Change) -> set[Key | None]:
        references = (other for other in collection.references if other.on_delete is not OnDelete.REATTACH)
        return {reference.key(change.after) for reference in references}

    ends: set[Key | None] = set()
    for change in changes:
        if any(reference.key(change.after) in turned for reference in collection.references):
            ends |= other_ends(change)
    return (change.id for change in changes if not ends.isdisjoint(other_ends(change)))


def _live_ancestor(reference: Reference, row: Row, collections: Collections, lookup: Lookup) -> str | None:
    """Return the nearest live row from the target of a reference upwards, or a row that every account has."""
    fixed = collections[reference.target].fixed_ids
    target_id: str | None = row.get(reference.field)
    passed: set[str] = set()
    while target_id is not None and target_id not in passed:
        target = lookup(reference.target, target_id)
        if is_live(target) or (target is None and target_id in fixed):
            return target_id
        if target is None:
            break
        passed.add(target_id)
        target_id = target.get(reference.via)
    return min(fixed, default=None)
