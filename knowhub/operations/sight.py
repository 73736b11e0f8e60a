"""What of the log a caller may see, and which operations they may undo."""

from collections.abc import Mapping
from dataclasses import dataclass

from knowhub.core import scopes
from knowhub.core.errors import Forbidden
from knowhub.core.operation import Change, Operation, Row
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import RowRules
from knowhub.operations.ports import HistoryView


@dataclass(frozen=True, slots=True)
class Sight:
    """One caller's eyes on one account. `rules` has one entry a collection."""

    ctx: RequestContext
    rules: Mapping[str, RowRules]
    view: HistoryView

    def sees(self, operation: Operation) -> bool:
        """Tell whether the caller may see every row that an operation touched, then and now, or made it."""
        if self.made(operation):
            return True
        # Without a row it is a note on a search: whose question that was is nobody else's business.
        return bool(operation.changes) and all(
            self.shows(change) and self._sees_what_stands(change) for change in operation.changes
        )

    def shows(self, change: Change) -> bool:
        """Tell whether the caller may see both sides of a change."""
        rows = (row for row in (change.before, change.after) if row is not None)
        return all(self.sees_row(change.collection, row) for row in rows)

    def _sees_what_stands(self, change: Change) -> bool:
        # What was hidden since is hidden with all that it was.
        row = self.view.get(change.collection, change.id)
        return row is None or self.sees_row(change.collection, row)

    def made(self, operation: Operation) -> bool:
        """Tell whether the operation is the caller's own; to the local principal each is."""
        return self.ctx.unrestricted or operation.actor in self.ctx.own

    def sees_row(self, collection: str, row: Row) -> bool:
        """Tell whether the caller may see a row; one without scopes is seen with all that it refers to."""
        if self.ctx.unrestricted:
            return True
        if not row:
            return False
        if "scopes" in row:
            return self.ctx.sees(scopes.audience(row["scopes"], row["owner"]))
        ends = [(end, self.view.get(end, row_id)) for end, row_id in self._references(collection, row)]
        # An end that was never written is the root of an account, which everyone sees.
        return all(stands is None or self.sees_row(end, stands) for end, stands in ends)

    def check_rights(self, operation: Operation) -> None:
        """Raise Forbidden where the operation needed rights that the caller has not."""
        if self.made(operation):
            return
        if not all(self.ctx.may_edit(self._owner(change.collection, change.after)) for change in operation.changes):
            raise Forbidden("undoing an operation needs the rights that it needed")

    def _owner(self, collection: str, row: Row) -> str:
        if "owner" in row:
            return str(row["owner"])
        first = next(iter(self._references(collection, row)), None)
        owning = self.view.get(*first) if first else None
        return str(owning["owner"]) if owning else ""

    def _references(self, collection: str, row: Row) -> list[tuple[str, str]]:
        return self.rules[collection].references(row) if collection in self.rules else []
