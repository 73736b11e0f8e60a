"""What of the log a caller may see, and which operations they may undo."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from knowhub.core import permissions, scopes
from knowhub.core.errors import Forbidden
from knowhub.core.operation import Change, Operation, Row
from knowhub.core.request_context import RequestContext
from knowhub.core.row_paths import changed_paths, flatten
from knowhub.core.undo import RowRules
from knowhub.operations.ports import HistoryView
from knowhub.operations.restore import RESTORE_OP

# What needed more than the right to each row needs it again to be undone.
_NEEDED = {RESTORE_OP: permissions.check_may_keep_up, "import_knowledge": permissions.check_may_import}


@dataclass(frozen=True, slots=True)
class Sight:
    """One caller's eyes on one account. `rules` has one entry a collection, `leans` as in `Discretion`."""

    ctx: RequestContext
    rules: Mapping[str, RowRules]
    view: HistoryView
    leans: Mapping[str, Callable[[Row], tuple[str, str]]] = field(default_factory=dict)

    def sees(self, operation: Operation) -> bool:
        """Tell whether the caller may see every row that an operation touched, then and now, or made it."""
        if self.made(operation):
            return True
        # Without a row it is a note on a search: whose question that was is nobody else's business.
        return bool(operation.changes) and all(map(self.tells, operation.changes))

    def lists(self, operation: Operation, subject: str | None) -> bool:
        """Tell whether an operation stands in the caller's list, where a subject is named in that of its operations.

        Who made it, as an agent that others are too, sees it, but not whether it touched what they do not see.
        """
        return self.sees(operation) and (
            subject is None or any(change.id == subject and self.tells(change) for change in operation.changes)
        )

    def tells(self, change: Change) -> bool:
        """Tell whether the caller may see both sides of a change, and what stands there now."""
        # What was hidden since is hidden with all that it was.
        row = self.view.get(change.collection, change.id)
        return self.shows(change) and (row is None or self.sees_row(change.collection, row))

    def shows(self, change: Change) -> bool:
        """Tell whether the caller may see both sides of a change."""
        rows = (row for row in (change.before, change.after) if row is not None)
        return all(self.sees_row(change.collection, row) for row in rows)

    def told(self, change: Change) -> Change:
        """Return a change as the caller may read it: without the ids of rows that they do not see."""
        if self.ctx.unrestricted or change.collection not in self.rules:
            return change
        before = None if change.before is None else self._told_row(change.collection, change.before)
        return Change(change.collection, change.id, before, self._told_row(change.collection, change.after))

    def made(self, operation: Operation) -> bool:
        """Tell whether the operation is the caller's own; to the local principal each is."""
        return self.ctx.unrestricted or operation.actor in self.ctx.own

    def hears(self, operation: Operation) -> bool:
        """Tell whether the caller may read what a model was asked and said on the way.

        It may name what only its asker sees. An agent is no asker: many users may call as the same one.
        """
        if self.ctx.unrestricted:
            return True
        is_asker = operation.actor in self.ctx.own and operation.actor.startswith("user:")
        return is_asker and all(map(self.tells, operation.changes))

    def sees_row(self, collection: str, row: Row) -> bool:
        """Tell whether the caller may see a row; one without scopes is seen with all that it refers to."""
        if self.ctx.unrestricted:
            return True
        if not row:
            return False
        if "scopes" in row:
            is_shown = self.ctx.sees(scopes.audience(row["scopes"], row["owner"]))
            return is_shown and (collection not in self.leans or self._may_be_named(*self.leans[collection](row)))
        if collection not in self.rules:
            # Nothing says who may see it.
            return False
        ends = [(end, self.view.get(end, row_id)) for end, row_id in self._references(collection, row)]
        # An end that was never written is the root of an account, which everyone sees.
        return all(stands is None or self.sees_row(end, stands) for end, stands in ends)

    def check_rights(self, operation: Operation) -> None:
        """Raise Forbidden where the operation needed rights that the caller has not.

        Who gave evidence takes it back. Where there are keys, to have made an operation is not enough for more: the key
        that made it may have been another one.
        """
        made = self.made(operation)
        if made and (self.ctx.key_id is None or all(map(self._is_evidence, operation.changes))):
            return
        permissions.check_may_write(self.ctx)
        if self.ctx.key_id is not None and operation.op in _NEEDED:
            _NEEDED[operation.op](self.ctx)
        riders = self._riders(operation)
        changes = (one for one in operation.changes if (one.collection, one.id) not in riders)
        rows = ((one.collection, row) for one in changes for row in (one.before, one.after) if row is not None)
        if not all(self.ctx.may_edit(self._owner(collection, row)) for collection, row in rows):
            raise Forbidden("undoing an operation needs the rights that it needed")

    def may_undo(self, operation: Operation) -> bool:
        """Tell whether an undo is not refused to the caller for want of a right; it may still meet a conflict."""
        try:
            self.check_rights(operation)
        except Forbidden:
            return False
        if self.ctx.unrestricted:
            return True
        riders = self._riders(operation)
        return all(self._may_turn(one) for one in operation.changes if (one.collection, one.id) not in riders)

    def carried(self, operation: Operation) -> frozenset[tuple[str, str]]:
        """Return (collection, id) of rows that went along and that the caller does not see: nothing tells of them."""
        if self.ctx.unrestricted:
            return frozenset()
        rows = ((one, self.view.get(*one) or {}) for one in self._riders(operation))
        return frozenset(one for one, row in rows if not self.sees_row(one[0], row))

    def _riders(self, operation: Operation) -> frozenset[tuple[str, str]]:
        rules = self.rules.items()
        return frozenset((name, one) for name, rule in rules for one in rule.riders(operation.changes))

    def _may_turn(self, change: Change) -> bool:
        current = self.view.get(change.collection, change.id) or change.after
        if "scopes" not in current:
            return True
        before, after = change.before or current, change.after
        back = [] if before.get("scopes") == after.get("scopes") else before.get("scopes", ())
        given = [one for one in back if one not in current["scopes"]]
        return self.sees_row(change.collection, current) and permissions.granted(self.ctx, given) == given

    def _is_evidence(self, change: Change) -> bool:
        rules = self.rules.get(change.collection)
        if rules is None or rules.is_verdict:
            return rules is not None
        moved = changed_paths(flatten(change.before or {}), flatten(change.after))
        return change.before is not None and all(map(rules.is_evidence, moved))

    def _told_row(self, collection: str, row: Row) -> Row:
        named = {name: row[name] for name in self.rules[collection].names if row.get(name) is not None}
        hidden = {name: None for name, row_id in named.items() if not self._may_be_named(collection, row_id)}
        return self.rules[collection].told({**row, **hidden} if hidden else row, self._may_be_named)

    def _may_be_named(self, collection: str, row_id: str) -> bool:
        row = self.view.get(collection, row_id)
        return row is None or self.sees_row(collection, row)

    def _owner(self, collection: str, row: Row) -> str:
        if "owner" in row:
            return str(row["owner"])
        first = next(iter(self._references(collection, row)), None)
        owning = self.view.get(*first) if first else None
        return str(owning["owner"]) if owning else ""

    def _references(self, collection: str, row: Row) -> list[tuple[str, str]]:
        return self.rules[collection].references(row) if collection in self.rules else []
