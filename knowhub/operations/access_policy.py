"""What of the log a caller may see, and which operations they may undo."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from knowhub.core import permissions
from knowhub.core.collection import Collection, Collections, Key, OnDelete, flatten, list_changed_paths
from knowhub.core.errors import Forbidden
from knowhub.core.operation import Change, Operation, Row, View, is_live
from knowhub.core.request_context import RequestContext
from knowhub.operations.snapshots import RESTORE_SNAPSHOT_OP

# To undo one of these needs the same right as to do it, beside the right to each row.
_NEEDED = {RESTORE_SNAPSHOT_OP: permissions.check_can_maintain, "import_knowledge": permissions.check_can_import}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What one caller may see and undo in one account."""

    ctx: RequestContext
    collections: Collections
    view: View

    def can_see(self, operation: Operation) -> bool:
        """Return whether the caller made an operation, or may see every row that it touched, then and now.

        What an agent did may rest on another user's session: a user of the agent sees it by its rows alone.
        """
        is_user = any(principal.startswith("user:") for principal in self.ctx.own)
        if self.is_own(operation) and (self.ctx.sees_everything or operation.actor.startswith("user:") or not is_user):
            return True
        # Without a row it is a note on a search: whose question that was is nobody else's business.
        return bool(operation.changes) and all(map(self.can_see_current, operation.changes))

    def is_listed(self, operation: Operation, subject: str | None) -> bool:
        """Return whether an operation belongs in the caller's list, or in that of the operations on one row."""
        return self.can_see(operation) and (
            subject is None
            or any(change.id == subject and self.can_see_current(change) for change in operation.changes)
        )

    def can_see_current(self, change: Change) -> bool:
        """Return whether the caller may see both sides of a change, and the row as it is now."""
        # What was hidden since is hidden with all that it was.
        row = self.view.get(*change.key)
        return self.can_see_change(change) and (row is None or self.can_see_row(change.collection, row))

    def can_see_change(self, change: Change) -> bool:
        """Return whether the caller may see both sides of a change."""
        rows = (row for row in (change.before, change.after) if row is not None)
        return all(self.can_see_row(change.collection, row) for row in rows)

    def redact(self, change: Change) -> Change:
        """Return a change as the caller may read it: without secrets, and without ids of rows that they do not see."""
        before = None if change.before is None else self._redact_row(change.collection, change.before)
        return replace(change, before=before, after=self._redact_row(change.collection, change.after))

    def is_own(self, operation: Operation) -> bool:
        """Return whether the operation is the caller's own; all are the local principal's."""
        return self.ctx.sees_everything or operation.actor in self.ctx.own

    def can_see_model_calls(self, operation: Operation) -> bool:
        """Return whether the caller may read what a model was asked and said for an operation.

        It may name what only its asker sees. An agent is no asker: many users may call as the same one.
        """
        if self.ctx.sees_everything:
            return True
        is_asker = operation.actor in self.ctx.own and operation.actor.startswith("user:")
        return is_asker and all(map(self.can_see_current, operation.changes))

    def can_see_row(self, collection: str, row: Row) -> bool:
        """Return whether the caller may see a row; one without scopes is seen with the rows that it refers to."""
        if self.ctx.sees_everything:
            return True
        targets = self._list_visibility_targets(collection, row)
        is_visible = self.ctx.sees_row(row) if "scopes" in row else bool(targets)
        # A target that was never written is the root of an account, which everyone sees.
        return is_visible and all(self._can_see_key(*target) for target in targets)

    def check_permissions(self, operation: Operation) -> None:
        """Raise Forbidden if undoing the operation needs rights that the caller has not.

        Whoever gave evidence may take it back. With a key, having made an operation gives no other right: another key
        of the same user may have made it.
        """
        if self.is_own(operation) and (self.ctx.key_id is None or all(map(self._is_evidence, operation.changes))):
            return
        permissions.check_can_write(self.ctx)
        if self.ctx.key_id is not None and operation.op in _NEEDED:
            _NEEDED[operation.op](self.ctx)
        for change in self._list_direct_changes(operation):
            rows = (row for row in (change.before, change.after) if row is not None)
            if not all(self.ctx.can_edit(self._owner(change.collection, row)) for row in rows):
                raise Forbidden("undoing an operation needs the rights that it needed")

    def can_undo(self, operation: Operation) -> bool:
        """Return whether the caller has every right that an undo needs; there may still be a conflict."""
        try:
            self.check_permissions(operation)
        except Forbidden:
            return False
        return self.ctx.sees_everything or all(map(self._can_restore, self._list_direct_changes(operation)))

    def _list_direct_changes(self, operation: Operation) -> list[Change]:
        """Return the changes without those of cascaded rows, which need no right."""
        cascaded = list_cascaded_keys(operation.changes, self.collections)
        return [change for change in operation.changes if change.key not in cascaded]

    def _can_restore(self, change: Change) -> bool:
        current = self.view.get(*change.key) or change.after
        if "scopes" not in current:
            return True
        before, after = change.before or current, change.after
        back = [] if before.get("scopes") == after.get("scopes") else before.get("scopes", ())
        given = [scope for scope in back if scope not in current["scopes"]]
        return self.can_see_row(change.collection, current) and permissions.filter_grantable(self.ctx, given) == given

    def _is_evidence(self, change: Change) -> bool:
        collection = self.collections.get(change.collection)
        if collection is None or collection.is_evidence:
            return collection is not None
        changed_paths = list_changed_paths(flatten(change.before or {}), flatten(change.after))
        return change.before is not None and all(map(collection.merges, changed_paths))

    def _redact_row(self, name: str, row: Row) -> Row:
        collection = self.collections.get(name)
        if collection is None:
            return row
        if not collection.redacted_fields.isdisjoint(row):
            row = {field: value for field, value in row.items() if field not in collection.redacted_fields}
        if self.ctx.sees_everything:
            return row
        hidden = {
            reference.field: None
            for reference in collection.references
            if not reference.limits_visibility
            and (target := reference.key(row)) is not None
            and not self._can_see_key(*target)
        }
        return collection.redact({**row, **hidden} if hidden else row, self._can_see_key)

    def _can_see_key(self, collection: str, row_id: str) -> bool:
        row = self.view.get(collection, row_id)
        return row is None or self.can_see_row(collection, row)

    def _owner(self, collection: str, row: Row) -> str:
        if "owner" in row:
            return str(row["owner"])
        targets = self._list_visibility_targets(collection, row)
        owning = self.view.get(*targets[0]) if targets else None
        return str(owning["owner"]) if owning else ""

    def _list_visibility_targets(self, name: str, row: Row) -> list[Key]:
        collection = self.collections.get(name)
        references = () if collection is None else collection.references
        targets = (reference.key(row) for reference in references if reference.limits_visibility)
        return [target for target in targets if target is not None]


def list_cascaded_keys(changes: Sequence[Change], collections: Collections) -> frozenset[Key]:
    """Return the rows that an operation changed only because it deleted or restored another row.

    These are rows that were reattached from or to such a row, and join rows, such as links, that lead to it. With a
    join row, all other join rows of the row at its other end are included.
    """
    updates = [change for change in changes if change.before is not None]
    deleted = {change.key for change in updates if is_live(change.before) and not is_live(change.after)}
    restored = {change.key for change in updates if not is_live(change.before) and is_live(change.after)}
    if not deleted and not restored:
        return frozenset()
    found = {change.key for change in updates if _is_reattached(change, collections, deleted, restored)}
    for collection in collections.values():
        if collection.row_id is not None:
            joins = [change for change in changes if change.collection == collection.name]
            found |= {
                (collection.name, row_id) for row_id in _list_cascaded_joins(joins, collection, deleted | restored)
            }
    return frozenset(found)


def _is_reattached(change: Change, collections: Collections, deleted: set[Key], restored: set[Key]) -> bool:
    # A deleted row is reattached as well: it comes back where it would be now.
    collection = collections.get(change.collection)
    if collection is None or change.before is None or is_live(change.before) != is_live(change.after):
        return False
    changed_paths = list_changed_paths(flatten(change.before), flatten(change.after))
    return any(
        changed_paths == [(reference.field,)]
        and reference.on_delete is OnDelete.REATTACH
        and (reference.key(change.before) in deleted or reference.key(change.after) in restored)
        for reference in collection.references
    )


def _list_cascaded_joins(changes: Sequence[Change], collection: Collection, targets: set[Key]) -> Iterator[str]:
    def other_ends(change: Change) -> set[Key | None]:
        references = (other for other in collection.references if other.on_delete is not OnDelete.REATTACH)
        return {reference.key(change.after) for reference in references}

    ends: set[Key | None] = set()
    for change in changes:
        if any(reference.key(change.after) in targets for reference in collection.references):
            ends |= other_ends(change)
    return (change.id for change in changes if not ends.isdisjoint(other_ends(change)))
