"""Undo of one operation: from its changes to the rows that undoing it writes, or what is in the way."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core import clock, permissions
from knowhub.core.collection import (
    Collection,
    Key,
    OnDelete,
    Path,
    Reference,
    UndoneRow,
    check_rows,
    flatten,
    list_changed_paths,
    unflatten,
)
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict, InvalidInput, KnowHubError, NotFound
from knowhub.core.operation import Change, Operation, Row, is_live, make_tombstone, next_of, next_version
from knowhub.operations.access_policy import AccessPolicy, list_cascaded_keys
from knowhub.operations.snapshots import RESTORE_SNAPSHOT_OP


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """Fields of a row that were changed since: an undo would overwrite them."""

    collection: str
    id: str
    fields: frozenset[Path]

    @classmethod
    def of(cls, change: Change, fields: Iterable[Path]) -> "BlockedRow":
        """Return the row of a change, with the fields that are in the way."""
        return cls(*change.key, frozenset(fields))


def undo_change(change: Change, current: Row, collection: Collection, now: float) -> Row | BlockedRow:
    """Return the row as if `change` had not happened, or the fields that are in the way.

    Fields that the change did not touch stay as they are. Counters and lists lose what the change added; computed
    fields are left to the caller.
    """
    if change.before is None and current == change.after:
        # Most rows of an import: nothing can be in the way.
        return make_tombstone(current, now)
    before, after, present = flatten(change.before or {}), flatten(change.after), flatten(current)
    since = list_changed_paths(after, present)
    if change.before is None:
        blocked = [path for path in since if not collection.merges(path)]
        return BlockedRow.of(change, blocked) if blocked else make_tombstone(current, now)
    changed = list_changed_paths(before, after)
    touched = {path for path in changed if not collection.merges(path)}
    groups = [group for group in collection.field_groups if not group.isdisjoint(touched)]
    blocked = [path for path in since if path in touched.union(*groups)]
    result = dict(present)
    for path in changed:
        if path not in touched and path in since and path in present and path in after:
            # A counter or a list that did not exist before began empty.
            if path in collection.counters:
                result[path] = present[path] + before.get(path, 0) - after[path]
            elif path in collection.append_only:
                result[path] = _merge_list(before.get(path, ()), after[path], present[path])
        elif path in touched or path not in since:
            _restore_field(result, path, before)
    row = unflatten(result)
    if _drop_empty(flatten(row)) != _drop_empty(result):
        # An object and a value that is none cannot be in one place: one of them would be lost.
        tops = {path[0] for path in touched}
        blocked += [path for path in since if path[0] in tops]
    # Restored fields are at the end of `row`: readers find them where they were.
    ordered = {name: row[name] for name in (*change.before, *row) if name in row}
    return BlockedRow.of(change, blocked) if blocked else next_of(ordered, current, now)


def _restore_field(result: dict[Path, Any], path: Path, before: Mapping[Path, Any]) -> None:
    result.pop(path, None)
    holder = path[:-1]
    if path in before:
        result[path] = before[path]
    elif holder and _has_entries(before, holder) and not _has_entries(result, holder):
        # An object that existed before is kept without its last entry.
        result[holder] = {}


def _has_entries(flat: Mapping[Path, Any], holder: Path) -> bool:
    return any(path[: len(holder)] == holder for path in flat)


def _drop_empty(flat: Mapping[Path, Any]) -> dict[Path, Any]:
    return {path: value for path, value in flat.items() if value != {}}


def _merge_list(before: Sequence[Any], after: Sequence[Any], present: Sequence[Any]) -> list[Any]:
    """Return a list without what a change added to it; what a change only removed comes back at the end."""
    added, removed = _remove_items(after, before), _remove_items(before, after)
    return _remove_items(present, added) + ([] if added else _remove_items(removed, present))


def _remove_items(items: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the items that are not among the others; each of those counts once."""
    rest, left = list(others), []
    for item in items:
        if item in rest:
            rest.remove(item)
        else:
            left.append(item)
    return left


_DELETED: Path = ("deleted",)


class RowErased(KnowHubError):
    """Raised where an undo would have to bring back what was erased."""

    def __init__(self, collection: str, row_id: str) -> None:
        super().__init__("erased")
        self.collection = collection
        self.id = row_id


class UndoConflict(KnowHubError):
    """Raised where later operations are in the way of undoing `operation`."""

    def __init__(self, operation: Operation, blocks: Sequence[BlockedRow]) -> None:
        super().__init__("blocked")
        self.operation = operation
        self.blocks = blocks


def undo_rows(policy: AccessPolicy, operation: Operation) -> dict[Key, Row]:
    """Return the rows that undo an operation on the state of the policy's view.

    Raises NotFound for what the caller does not see any more, Forbidden for scopes that they cannot give, Conflict,
    RowErased and UndoConflict.
    """
    undoing = _UndoBuilder(policy, operation)
    undoing.restore_fields()
    # A restore is undone only while nothing was written since: then each row comes back exactly, in any order.
    is_restore = operation.op == RESTORE_SNAPSHOT_OP
    if not is_restore:
        undoing.recompute()
        undoing.reattach_cascaded()
        undoing.cascade_deletes()
        undoing.check_references()
    if undoing.blocks:
        raise UndoConflict(operation, undoing.blocks)
    if not is_restore:
        try:
            check_rows(policy.collections, policy.view, undoing.rows)
        except (InvalidInput, Conflict) as problem:
            detail = f"with what was changed since, undoing this would leave an invalid record: {problem.detail}"
            raise Conflict(detail, {"blocked_by": [], "blocked_by_hidden": 0}) from problem
    return undoing.rows


class _UndoBuilder:
    """The undo of one operation while its rows are gathered."""

    def __init__(self, policy: AccessPolicy, operation: Operation) -> None:
        self._policy = policy
        self._view = policy.view
        self._collections = policy.collections
        self._operation = operation
        self._cascaded = list_cascaded_keys(operation.changes, policy.collections)
        self.rows: dict[Key, Row] = {}
        self.blocks: list[BlockedRow] = []

    def restore_fields(self) -> None:
        """Restore what each change changed. Cascaded rows need no right, and are in nobody's way."""
        for change in reversed(self._operation.changes):
            key, collection = change.key, self._collections[change.collection]
            current, is_cascaded = self._view.get(*key) or change.after, key in self._cascaded
            if not is_cascaded and "scopes" in current and not self._policy.can_see_row(key[0], current):
                # The operation was visible when it was made; the row as it is now need not be.
                raise NotFound.of("operation", self._operation.operation_id)
            if is_erased(current):
                if is_cascaded:
                    continue
                raise RowErased(*key)
            row = undo_change(change, current, collection, self._view.now)
            if not is_cascaded and not is_live(current) and _is_edit(change, collection):
                row = BlockedRow.of(change, [_DELETED])
            if not isinstance(row, BlockedRow):
                self.rows[key] = row
                if not is_cascaded:
                    permissions.check_scopes(self._policy.ctx, row.get("scopes", ()), current=current.get("scopes", ()))
            elif not is_cascaded:
                self.blocks.append(row)

    def recompute(self) -> None:
        """Recompute the computed fields of live rows."""
        restored = dict(self.rows)
        for change in reversed(self._operation.changes):
            key = change.key
            for computed in self._collections[key[0]].computed if is_live(restored.get(key)) else ():
                self.rows[key] = computed.recompute(UndoneRow(change, self.rows[key], self._view.get, restored))

    def reattach_cascaded(self) -> None:
        """Reattach rows that went along and whose target is gone, or leave them as they are."""
        cascaded = [key for key in self.rows if key in self._cascaded and is_live(self.rows[key])]
        for key in sorted(cascaded, key=self._rank):
            row = self.rows[key]
            for reference in self._collections[key[0]].references:
                target = reference.key(row)
                if target is None or not reference.is_required or self._is_available(target):
                    continue
                del self.rows[key]
                moved = self._reattach(key, row, reference) if reference.via else None
                if moved is not None and self._has_targets(*moved):
                    self.rows[moved[0]] = self._make_next(moved[1], self._view.get(*moved[0]))
                break

    def cascade_deletes(self) -> None:
        """Have rows that refer to one which goes follow it as their reference says, or be in the way."""
        gone = [key for key, row in self.rows.items() if not is_live(row) and is_live(self._view.get(*key))]
        while gone:
            referrers = [(key, target) for target in gone for key in self._view.referrers(*target)]
            gone = []
            for key, target in sorted(referrers, key=lambda item: self._cascade_order(*item)):
                for reference in self._collections[key[0]].references:
                    row = self._row(*key)
                    if row is None or not is_live(row) or reference.key(row) != target:
                        continue
                    self._follow_target(key, row, reference)
                    if not is_live(self._row(*key)) and is_live(self._view.get(*key)):
                        gone.append(key)

    def check_references(self) -> None:
        """Find rows that would be live without a row that they need, or above themselves."""
        acyclic: dict[str, set[str]] = defaultdict(set)
        for key, row in self.rows.items():
            for reference in self._collections[key[0]].references if is_live(row) else ():
                target = reference.key(row)
                if target is None:
                    continue
                if reference.is_required and not self._is_available(target):
                    self.blocks.append(BlockedRow(*target, frozenset({_DELETED})))
                elif reference.is_acyclic:
                    self._check_cycle(key, reference.field, acyclic[key[0]])
                elif reference.excluded_by and reference.key(self._view.get(*key) or {}) != target:
                    self._check_excluded(reference.excluded_by, key, target)

    def _row(self, collection: str, row_id: str) -> Row | None:
        """Return a row as it will be after the undo."""
        return self.rows.get((collection, row_id)) or self._view.get(collection, row_id)

    def _rank(self, key: Key) -> int:
        row = self._row(*key)
        return 0 if row is None else self._collections[key[0]].rank(row)

    def _cascade_order(self, key: Key, target: Key) -> tuple[bool, int]:
        """Rows that are deleted with their target come first, so that they are not moved; then the rank decides."""
        row = self._row(*key) or {}
        references = (reference for reference in self._collections[key[0]].references if reference.key(row) == target)
        return all(reference.on_delete is not OnDelete.CASCADE for reference in references), self._rank(key)

    def _follow_target(self, key: Key, row: Row, reference: Reference) -> None:
        """Delete or move a row whose target is deleted, or block the undo."""
        if reference.on_delete in {OnDelete.CASCADE, OnDelete.REATTACH}:
            moved = self._reattach(key, row, reference) if reference.on_delete is OnDelete.REATTACH else None
            if moved is None or moved[0] != key:
                self.rows[key] = make_tombstone(row, self._view.now) | {"version": next_version(self._view.get(*key))}
            if moved is not None:
                before = row if moved[0] == key else self._row(*moved[0])
                version = {"version": next_version(self._view.get(*moved[0]))}
                self.rows[moved[0]] = self._make_next(moved[1], before) | version
        # A hidden row that can do without the target stays as it is: to be in the way would tell that it exists.
        elif reference.on_delete is OnDelete.FORBID and (
            reference.is_required or self._policy.can_see_row(key[0], row)
        ):
            self.blocks.append(BlockedRow(*key, frozenset({(reference.field,)})))

    def _reattach(self, key: Key, row: Row, reference: Reference) -> tuple[Key, Row] | None:
        """Return a row, with its key, whose reference leads to what is live above its target; None if there is nothing.

        The key differs if it is made of the reference. Then the row replaces no other live row.
        """
        collection, ancestor_id = self._collections[key[0]], self._live_ancestor(reference, row)
        if ancestor_id is None:
            return None
        moved = {**row, reference.field: ancestor_id}
        if collection.row_id is None:
            return key, moved
        new_key = key[0], collection.row_id(moved)
        return None if is_live(self._row(*new_key)) else (new_key, moved)

    def _live_ancestor(self, reference: Reference, row: Row) -> str | None:
        """Return the nearest live row from the target of a reference upwards, or a row that every account has."""
        target_id: str | None = row.get(reference.field)
        visited: set[str] = set()
        while target_id is not None and target_id not in visited:
            if self._is_available((reference.target, target_id)):
                return target_id
            visited.add(target_id)
            target_id = (self._row(reference.target, target_id) or {}).get(reference.via)
        return min(self._collections[reference.target].fixed_ids, default=None)

    def _make_next(self, row: Row, before: Row | None) -> dict[str, Any]:
        """Return a row as the next version of the row with the same key; a row that was not live is created anew."""
        moment = clock.iso(self._view.now)
        fresh = {} if is_live(before) else {"created_at": moment}
        return {**row, **fresh, "version": next_version(before), "updated_at": moment}

    def _is_available(self, target: Key) -> bool:
        row = self._row(*target)
        return is_live(row) or (row is None and target[1] in self._collections[target[0]].fixed_ids)

    def _has_targets(self, key: Key, row: Row) -> bool:
        required = [item.key(row) for item in self._collections[key[0]].references if item.is_required]
        return all(target is None or self._is_available(target) for target in required)

    def _check_excluded(self, field: str, *targets: Key) -> None:
        for target in targets:
            for key in self._view.referrers(*target):
                row = self._row(*key)
                if row is not None and is_live(row) and row.get(field) == target[1]:
                    self.blocks.append(BlockedRow(*key, frozenset({(field,)})))

    def _check_cycle(self, key: Key, field: str, acyclic: set[str]) -> None:
        # Rows known to be in no cycle are not walked again: a chain of thousands would be, for each of its rows.
        collection, visited = key[0], list[str]()
        above: str | None = key[1]
        while above is not None and above not in acyclic:
            if above in visited:
                cycle = visited[visited.index(above) :]
                self.blocks += [BlockedRow(collection, row_id, frozenset({(field,)})) for row_id in cycle]
                return
            visited.append(above)
            above = (self._row(collection, above) or {}).get(field)
        acyclic.update(visited)


def _is_edit(change: Change, collection: Collection) -> bool:
    """Return whether a change of a live row changed more than counters, lists and computed fields."""
    if change.before is None or not is_live(change.before) or not is_live(change.after):
        return False
    changed_paths = list_changed_paths(flatten(change.before), flatten(change.after))
    return not all(map(collection.merges, changed_paths))
