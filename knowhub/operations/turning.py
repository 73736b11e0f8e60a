"""The rows that an undo writes, and what stands in its way; what the caller does not see goes along, and never does."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from knowhub.core import permissions
from knowhub.core.erasing import ERASING, is_erased
from knowhub.core.errors import Conflict, InvalidInput, KnowHubError, NotFound
from knowhub.core.operation import Change, Operation, Row, is_live
from knowhub.core.undo import Lookup, RowRules
from knowhub.operations.decisions import Blocked, balanced, turned_around
from knowhub.operations.ports import HistoryView
from knowhub.operations.restore import RESTORE_OP
from knowhub.operations.sight import Sight

_STRUCTURE = (("deleted",), ("parent_id",))

Key = tuple[str, str]


class WasErased(KnowHubError):
    """Raised where an undo would have to bring back what was erased."""

    def __init__(self, collection: str, row_id: str) -> None:
        super().__init__("erased")
        self.collection = collection
        self.id = row_id


class UndoBlocked(KnowHubError):
    """Raised where newer changes, or rows that lean on one that would go, stand in the way; it names what is seen."""

    def __init__(self, blocks: Sequence[Blocked], referrers: Sequence[Key]) -> None:
        super().__init__("blocked")
        self.blocks = blocks
        self.referrers = referrers


def check_not_erased(operation: Operation) -> None:
    """Raise WasErased where a row of the operation was."""
    # The lines of the log say so themselves; a row that was erased since this one was read is found where it stands.
    gone = next((change for change in operation.changes if is_erased(change.after)), None)
    if gone is not None and not operation.op.startswith(ERASING):
        raise WasErased(gone.collection, gone.id)


def undone_rows(sight: Sight, operation: Operation, planned: Mapping[Key, Row]) -> list[tuple[Change, Row]]:
    """Return the rows as they are when an operation is turned around, on those that are `planned` before it.

    Raises NotFound for what the caller does not see any more, Forbidden for scopes that they cannot give, Conflict,
    WasErased and UndoBlocked.
    """
    view, rules = sight.view, sight.rules
    carried = sight.carried(operation)
    rows, blocks = _turned(sight, operation, carried)
    if operation.op == RESTORE_OP and not blocks:
        # Nothing was written since: what stood before stands again as a whole, in whatever order it comes back.
        return rows
    rows = _without_stuck(sight, balanced(view, rows, rules), planned, carried)
    rows = _past_unseen(sight, rows, planned)
    after = {**planned, **_by_key(rows)}
    blocks += _in_the_way(view, rules, rows, after)
    referrers = _left_dangling(view, rules, rows, after)
    named = [one for one in referrers if sight.sees_row(one[0][0], view.get(*one[0]) or {})]
    named_blocks = [one for one in blocks if sight.sees_row(one.collection, view.get(one.collection, one.id) or {})]
    if blocks or named:
        raise UndoBlocked(named_blocks, list(dict.fromkeys(one for one, _ in named)))
    return rows + _upheld(sight, referrers, after)


def _turned(
    sight: Sight, operation: Operation, carried: Collection[Key]
) -> tuple[list[tuple[Change, Row]], list[Blocked]]:
    view, rows, blocks = sight.view, list[tuple[Change, Row]](), list[Blocked]()
    for change in reversed(operation.changes):
        current, rules = view.get(change.collection, change.id) or change.after, sight.rules[change.collection]
        is_carried = (change.collection, change.id) in carried
        if not is_carried and "scopes" in current and not sight.sees_row(change.collection, current):
            # The operation was seen when it was made; what stands there now need not be.
            raise NotFound.of("operation", operation.operation_id)
        if is_erased(current):
            if is_carried:
                continue
            raise WasErased(change.collection, change.id)
        result = turned_around(change, current, rules, view.now, partial(_bearers, sight, operation, change))
        if not isinstance(result, Blocked):
            if not is_carried:
                permissions.check_scopes(sight.ctx, result.get("scopes", ()), standing=current.get("scopes", ()))
                _check_result(result, rules)
            rows.append((change, result))
        elif not is_carried:
            # What went along unseen comes back with the rest, or stays where its owner has put it since.
            blocks.append(result)
    return rows, blocks


def _bearers(sight: Sight, operation: Operation, change: Change) -> Sequence[Row]:
    """Return the live rows that refer to one once the operation is undone: they may go or come back with it."""
    view, here = sight.view, (change.collection, change.id)
    after: dict[Key, Row | None] = {key: view.get(*key) for key in view.referrers(*here)}
    for other in operation.changes:
        rules = sight.rules[other.collection]
        if here in rules.references(other.after):
            current = view.get(other.collection, other.id) or other.after
            turned = turned_around(other, current, rules, view.now)
            after[other.collection, other.id] = current if isinstance(turned, Blocked) else turned
    return [row for row in after.values() if row is not None and is_live(row)]


def _without_stuck(
    sight: Sight, rows: Sequence[tuple[Change, Row]], planned: Mapping[Key, Row], carried: Collection[Key]
) -> list[tuple[Change, Row]]:
    """Leave out what went along unseen and cannot come back, such as the link of an info that was deleted since."""
    lookup = _lookup(sight.view, {**planned, **_by_key(rows)})
    return [
        (change, row)
        for change, row in rows
        if (change.collection, change.id) not in carried
        or not is_live(row)
        or not sight.rules[change.collection].obstacles(lookup, [row])
    ]


def _past_unseen(
    sight: Sight, rows: Sequence[tuple[Change, Row]], planned: Mapping[Key, Row]
) -> list[tuple[Change, Row]]:
    """Have what comes back stand past rows that are gone and unseen, as it would had it stood when they went."""
    turned = {(change.collection, change.id): (change, row) for change, row in rows}
    for key, (_, row) in list(turned.items()):
        lookup = _lookup(sight.view, {**planned, **{one: to for one, (_, to) in turned.items()}})
        rules = sight.rules[key[0]]
        gone = _unseen_gone(sight, rules.references(row) if is_live(row) else (), lookup)
        for kind, row_id, upheld in rules.uphold(row, gone, lookup, sight.view.now) if gone else ():
            if (kind, row_id) == key:
                # Of a row that comes back this is no second version.
                turned[key] = turned[key][0], {**upheld, "version": row["version"]}
            else:
                turned[kind, row_id] = Change(kind, row_id, None, upheld), upheld
    return list(turned.values())


def _unseen_gone(sight: Sight, ends: Sequence[Key], lookup: Lookup) -> tuple[str, Row] | None:
    for end in ends:
        stands = lookup(*end)
        if stands is not None and not is_live(stands) and not sight.sees_row(end[0], stands):
            return end[0], stands
    return None


def _in_the_way(
    view: HistoryView, rules: Mapping[str, RowRules], rows: Sequence[tuple[Change, Row]], after: Mapping[Key, Row]
) -> list[Blocked]:
    """Name what keeps rows from coming to stand, such as a parent that was deleted since."""
    live: dict[str, list[Row]] = defaultdict(list)
    for change, row in rows:
        if is_live(row):
            live[change.collection].append(row)
    lookup = _lookup(view, after)
    found = [one for collection, here in live.items() for one in rules[collection].obstacles(lookup, here)]
    return [Blocked(collection, row_id, _STRUCTURE) for collection, row_id in dict.fromkeys(found)]


def _check_result(row: Row, rules: RowRules) -> None:
    if rules.check is None or not is_live(row):
        return
    try:
        rules.check(row)
    except InvalidInput as problem:
        detail = f"with what was changed since, undoing this would leave a record that cannot stand: {problem.detail}"
        raise Conflict(detail) from problem


def _left_dangling(
    view: HistoryView, rules: Mapping[str, RowRules], rows: Sequence[tuple[Change, Row]], after: Mapping[Key, Row]
) -> list[tuple[Key, tuple[str, Row]]]:
    """Return what refers to rows that go, or are not what they were, each with the one to which it does."""
    return [
        (referrer, (change.collection, row))
        for change, row in rows
        for row_id in rules[change.collection].let_go(change, row)
        for referrer in view.referrers(change.collection, row_id)
        if referrer not in after
    ]


def _upheld(
    sight: Sight, referrers: Sequence[tuple[Key, tuple[str, Row]]], after: Mapping[Key, Row]
) -> list[tuple[Change, Row]]:
    """Return what becomes of rows that the caller does not see and that refer to rows which go."""
    view, fresh = sight.view, dict[Key, Row]()
    for key, gone in referrers:
        row = fresh.get(key) or view.get(*key)
        if row is not None and is_live(row):
            lookup = _lookup(view, {**after, **fresh})
            fresh |= {(one[0], one[1]): one[2] for one in sight.rules[key[0]].uphold(row, gone, lookup, view.now)}
    return [(Change(*key, None, row), row) for key, row in fresh.items()]


def _lookup(view: HistoryView, after: Mapping[Key, Row]) -> Lookup:
    return lambda collection, row_id: after.get((collection, row_id)) or view.get(collection, row_id)


def _by_key(rows: Sequence[tuple[Change, Row]]) -> dict[Key, Row]:
    return {(change.collection, change.id): row for change, row in rows}
