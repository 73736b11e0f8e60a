"""Undo of one operation: from its changes to the rows that undoing it writes, or what is in the way."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core import permissions
from knowhub.core.collection import (
    Collection,
    Key,
    OnDelete,
    Path,
    UndoneRow,
    check_rows,
    flatten,
    list_changed_paths,
    unflatten,
)
from knowhub.core.erasing import ERASING, is_erased
from knowhub.core.errors import Conflict, InvalidInput, KnowHubError, NotFound
from knowhub.core.operation import Change, Operation, Row, is_live, make_tombstone, next_of, next_version
from knowhub.operations.access_policy import AccessPolicy
from knowhub.operations.cascade import cascade_delete, cascaded_keys, make_next_row, reattach
from knowhub.operations.snapshots import RESTORE_SNAPSHOT_OP

_ABSENT = object()
_Flat: TypeAlias = Mapping[Path, Any]


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """Fields of a row that were changed since: an undo would overwrite them."""

    collection: str
    id: str
    fields: frozenset[Path]


def undo_change(change: Change, current: Row, collection: Collection, now: float) -> Row | BlockedRow:
    """Return the row as if `change` had not happened, or the fields that are in the way.

    Fields that the change did not touch stay as they are. Counters and lists lose what the change added; computed
    fields are left to the caller.
    """
    if change.before is None and current == change.after:
        # Most rows of an import: nothing can be in the way.
        return make_tombstone(current, now)
    before, after, present = flatten(change.before or {}), flatten(change.after), flatten(current)
    if change.before is None:
        blocked = [path for path in list_changed_paths(after, present) if not collection.merges(path)]
        result: Mapping[str, Any] = {**current, "deleted": True}
    else:
        touched = [path for path in list_changed_paths(before, after) if not collection.merges(path)]
        compared = _with_groups(touched, collection)
        blocked = [path for path in compared if present.get(path, _ABSENT) != after.get(path, _ABSENT)]
        blocked += _find_overlaps(touched, before, after, present)
        result = unflatten(_restore_fields(touched, (before, after, present), collection))
    if blocked:
        return BlockedRow(change.collection, change.id, frozenset(blocked))
    return next_of(result, current, now)


def _with_groups(touched: Sequence[Path], collection: Collection) -> list[Path]:
    """Add the other fields of each group that holds a changed field."""
    grouped = [path for group in collection.field_groups if not group.isdisjoint(touched) for path in sorted(group)]
    return list(dict.fromkeys([*touched, *grouped]))


def _find_overlaps(touched: Sequence[Path], before: _Flat, after: _Flat, present: _Flat) -> list[Path]:
    """Return what was written since below or above a value that comes back.

    An object and a value that is none cannot be in one place, so that one of them would be lost.
    """
    back = [path for path in touched if path in before]
    solid = {path for path in back if before[path] != {}}
    above = {path[:size] for path in back for size in range(1, len(path))}
    fresh = [path for path, value in present.items() if after.get(path, _ABSENT) != value]
    return [
        path
        for path in fresh
        if (path in above and present[path] != {}) or any(path[:size] in solid for size in range(1, len(path)))
    ]


def _restore_fields(
    touched: Sequence[Path], rows: tuple[_Flat, _Flat, _Flat], collection: Collection
) -> dict[Path, Any]:
    """Return the present row with the fields that were touched as before, and with counters and lists merged."""
    before, after, present = rows
    result = dict(present)
    merging = [path for path in list_changed_paths(before, after) if collection.merges(path)]
    for path in merging:
        if present.get(path, _ABSENT) != after.get(path, _ABSENT) and path in present and path in after:
            # A counter or a list that did not exist before began empty.
            if path in collection.counters:
                result[path] = present[path] + before.get(path, 0) - after[path]
            elif path in collection.append_only:
                result[path] = _merge_list(before.get(path, ()), after[path], present[path])
    unchanged = [path for path in merging if present.get(path, _ABSENT) == after.get(path, _ABSENT)]
    for path in [*touched, *unchanged]:
        if path in before:
            result[path] = before[path]
        else:
            result.pop(path, None)
            _keep_empty_object(result, path[:-1], before)
    return result


def _keep_empty_object(result: dict[Path, Any], holder: Path, before: _Flat) -> None:
    """Keep an object that existed before, also if its last entry was removed."""
    size = len(holder)
    if holder and any(path[:size] == holder for path in before) and not any(path[:size] == holder for path in result):
        result[holder] = {}


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


def check_not_erased(operation: Operation) -> None:
    """Raise RowErased if a row of the operation was erased."""
    # The lines of the log say so themselves; a row that was erased since this one was read is found by its own state.
    gone = next((change for change in operation.changes if is_erased(change.after)), None)
    if gone is not None and not operation.op.startswith(ERASING):
        raise RowErased(gone.collection, gone.id)


def undo_rows(policy: AccessPolicy, operation: Operation) -> list[tuple[Key, Row]]:
    """Return the rows that undo an operation on the state of the policy's view.

    Raises NotFound for what the caller does not see any more, Forbidden for scopes that they cannot give, Conflict,
    RowErased and UndoConflict.
    """
    undoing = _UndoBuilder(policy, operation)
    undoing.restore_fields()
    if operation.op != RESTORE_SNAPSHOT_OP:
        # A restore is undone only while nothing was written since: then each row comes back exactly, in any order.
        undoing.update_computed()
        undoing.resolve_cascaded()
        undoing.cascade_deletes()
        undoing.check_references()
    if undoing.blocks:
        raise UndoConflict(operation, undoing.blocks)
    if operation.op != RESTORE_SNAPSHOT_OP:
        undoing.validate()
    return list(undoing.rows.items())


class _UndoBuilder:
    """The undo of one operation while its rows are gathered."""

    def __init__(self, policy: AccessPolicy, operation: Operation) -> None:
        self._policy = policy
        self._view = policy.view
        self._collections = policy.collections
        self._operation = operation
        self._cascaded = cascaded_keys(operation.changes, policy.collections)
        self._changes: dict[Key, Change] = {}
        self.rows: dict[Key, Row] = {}
        self.blocks: list[BlockedRow] = []

    def restore_fields(self) -> None:
        """Restore what each change changed. Rows that only went along stay where they were put since."""
        for change in reversed(self._operation.changes):
            key = change.collection, change.id
            current = self._view.get(*key) or change.after
            is_cascaded = key in self._cascaded
            if not is_cascaded:
                self._check_row(key, current)
            elif is_erased(current):
                continue
            row = undo_change(change, current, self._collections[change.collection], self._view.now)
            if not is_cascaded and self._is_deleted_since(change, current):
                row = BlockedRow(*key, frozenset({_DELETED}))
            if isinstance(row, BlockedRow):
                if not is_cascaded:
                    self.blocks.append(row)
                continue
            if not is_cascaded:
                permissions.check_scopes(self._policy.ctx, row.get("scopes", ()), current=current.get("scopes", ()))
            self._changes[key] = change
            self.rows[key] = row

    def update_computed(self) -> None:
        """Compute anew what is made of other fields."""
        restored = dict(self.rows)
        for key, change in self._changes.items():
            for computed in self._collections[key[0]].computed:
                self.rows[key] = computed.recompute(UndoneRow(change, self.rows[key], self._view.get, restored))

    def resolve_cascaded(self) -> None:
        """Reattach rows that went along and whose target is gone, or leave them as they are."""
        cascaded = [key for key in self.rows if key in self._cascaded and is_live(self.rows[key])]
        for key in sorted(cascaded, key=self._rank):
            row = self.rows[key]
            for reference in self._collections[key[0]].references:
                target = reference.key(row)
                if target is None or not reference.is_required or self._is_available(target):
                    continue
                del self.rows[key]
                moved = reattach(key, row, reference, self._collections, self._row) if reference.via else None
                if moved is not None and self._has_targets(*moved):
                    self.rows[moved[0]] = make_next_row(moved[1], self._view.get(*moved[0]), self._view.now)
                break

    def cascade_deletes(self) -> None:
        """Have rows that refer to one which goes follow it as their reference says, or be in the way."""
        gone = [key for key in self.rows if self._is_deleted(key)]
        while gone:
            referrers = [(key, target) for target in gone for key in self._view.referrers(*target)]
            gone = []
            for key, target in sorted(referrers, key=lambda item: self._cascade_order(*item)):
                row = self._row(*key)
                if row is not None and is_live(row):
                    gone += self._cascade_delete(key, row, target)

    def _rank(self, key: Key) -> int:
        row = self._row(*key)
        return 0 if row is None else self._collections[key[0]].rank(row)

    def _cascade_order(self, key: Key, target: Key) -> tuple[bool, int]:
        """Rows that are deleted with their target come first, so that they are not moved; then the rank decides."""
        row = self._row(*key) or {}
        references = (reference for reference in self._collections[key[0]].references if reference.key(row) == target)
        return all(reference.on_delete is not OnDelete.CASCADE for reference in references), self._rank(key)

    def _cascade_delete(self, key: Key, row: Row, target: Key) -> list[Key]:
        """Have one row follow its target; return what is deleted with it."""
        deleted = []
        written = list(cascade_delete(key, row, target, self._collections, self._row, self._view.now))
        for written_key, written_row in written:
            self.rows[written_key] = {**written_row, "version": next_version(self._view.get(*written_key))}
            if self._is_deleted(written_key):
                deleted.append(written_key)
        if not written:
            self._block_forbidden(key, row, target)
        return deleted

    def check_references(self) -> None:
        """Find rows that would be live without a row that they need, or above themselves."""
        sound: dict[str, set[str]] = defaultdict(set)
        for key, row in self.rows.items():
            if not is_live(row):
                continue
            for reference in self._collections[key[0]].references:
                target = reference.key(row)
                if target is None:
                    continue
                if reference.is_required and not self._is_available(target):
                    self.blocks.append(BlockedRow(*target, frozenset({_DELETED})))
                elif reference.is_acyclic:
                    self._check_cycle(key, reference.field, sound[key[0]])
                elif reference.excluded_by and reference.key(self._view.get(*key) or {}) != target:
                    self._check_excluded(reference.excluded_by, key, target)

    def validate(self) -> None:
        """Raise Conflict for a row that no write could have made."""
        try:
            check_rows(self._collections, self._view, self.rows)
        except (InvalidInput, Conflict) as problem:
            detail = f"with what was changed since, undoing this would leave an invalid record: {problem.detail}"
            raise Conflict(detail, {"blocked_by": [], "blocked_by_hidden": 0}) from problem

    def _is_deleted_since(self, change: Change, current: Row) -> bool:
        """Return whether the row was deleted since, and the operation changed more than its counters and lists."""
        if change.before is None or not is_live(change.before) or not is_live(change.after) or is_live(current):
            return False
        moved = list_changed_paths(flatten(change.before), flatten(change.after))
        return not all(map(self._collections[change.collection].merges, moved))

    def _check_row(self, key: Key, current: Row) -> None:
        if "scopes" in current and not self._policy.can_see_row(key[0], current):
            # The operation was visible when it was made; the row as it is now need not be.
            raise NotFound.of("operation", self._operation.operation_id)
        if is_erased(current):
            raise RowErased(*key)

    def _row(self, collection: str, row_id: str) -> Row | None:
        """Return a row as it will be after the undo."""
        return self.rows.get((collection, row_id)) or self._view.get(collection, row_id)

    def _is_available(self, target: Key) -> bool:
        row = self._row(*target)
        return is_live(row) or (row is None and target[1] in self._collections[target[0]].fixed_ids)

    def _has_targets(self, key: Key, row: Row) -> bool:
        references = self._collections[key[0]].references
        required = [reference.key(row) for reference in references if reference.is_required]
        return all(target is None or self._is_available(target) for target in required)

    def _is_deleted(self, key: Key) -> bool:
        return is_live(self._view.get(*key)) and not is_live(self.rows[key])

    def _block_forbidden(self, key: Key, row: Row, target: Key) -> None:
        # A hidden row that can do without the target stays as it is: to be in the way would tell that it exists.
        is_visible = self._policy.can_see_row(key[0], row)
        fields = {
            (reference.field,)
            for reference in self._collections[key[0]].references
            if reference.key(row) == target
            and reference.on_delete is OnDelete.FORBID
            and (is_visible or reference.is_required)
        }
        if fields:
            self.blocks.append(BlockedRow(*key, frozenset(fields)))

    def _check_excluded(self, field: str, *targets: Key) -> None:
        for target in targets:
            for key in self._view.referrers(*target):
                row = self._row(*key)
                if row is not None and is_live(row) and row.get(field) == target[1]:
                    self.blocks.append(BlockedRow(*key, frozenset({(field,)})))

    def _check_cycle(self, key: Key, field: str, sound: set[str]) -> None:
        # Rows known to lead to the top are not walked again: a chain of thousands would be, for each of its rows.
        collection, passed = key[0], list[str]()
        above: str | None = key[1]
        while above is not None and above not in sound:
            if above in passed:
                cycle = passed[passed.index(above) :]
                self.blocks += [BlockedRow(collection, row_id, frozenset({(field,)})) for row_id in cycle]
                return
            passed.append(above)
            above = (self._row(collection, above) or {}).get(field)
        sound.update(passed)
