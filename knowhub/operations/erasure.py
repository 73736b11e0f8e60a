"""Erasing: a row whose content is to be gone for good, wherever it stands, while the fact that it stood stays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowhub.core import clock, scopes
from knowhub.core.erasing import ERASED, EraseRules, Erasing, Found, is_erased
from knowhub.core.errors import Conflict, Forbidden, NotFound, VersionConflict
from knowhub.core.operation import (
    Committed,
    Draft,
    IdempotencyKey,
    Operation,
    Outcome,
    Row,
    Write,
    is_live,
    next_version,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import RowRules
from knowhub.operations.ports import HistoryView

_NAMED = 1_000
# A shorter text, in bytes, stands within others by chance.
_WORTH_FINDING = 22


class ErasureStore(Protocol):
    """A store that can erase."""

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged."""

    def view(self, account: str) -> HistoryView:
        """Return the acknowledged state of one account."""

    async def replayed(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        """Return what a request with this key wrote; None if none did."""

    async def erase(self, wanted: Erasing) -> Outcome:
        """Make an erasing durable: when it returns, the log tells nothing of the row any more."""


class Surroundings(Protocol):
    """What lies around the log and may tell of an erased row."""

    async def follow(self, operation: Operation) -> Sequence[str]:
        """Have what is derived from the log built anew; return the names of what still waits for another process."""

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        """Return the names of the snapshots in which the row still says something, oldest first."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What erasing a row did. `other_rows` are live ones that hold the same text, as far as the caller sees them.

    `snapshots` still hold the row; `pending` names what another process has yet to build anew.
    """

    operation_id: str
    other_rows: Sequence[str]
    snapshots: Sequence[str]
    pending: Sequence[str]


class ErasureService:
    """Erases rows of any collection; `erase_rules` and `undo_rules` have one entry each."""

    def __init__(
        self,
        store: ErasureStore,
        surroundings: Surroundings,
        erase_rules: Mapping[str, EraseRules],
        undo_rules: Mapping[str, RowRules],
    ) -> None:
        self._store = store
        self._surroundings = surroundings
        self._erase_rules = erase_rules
        self._undo_rules = undo_rules

    async def erase(
        self,
        ctx: RequestContext,
        collection: str,
        row_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Erased:
        """Erase a row that the caller owns, one that was deleted before too.

        Raises NotFound, Forbidden, VersionConflict, and Conflict for a row that is erased already.
        """
        rules = self._erase_rules[collection]

        def decide(view: HistoryView, found: Found) -> Draft:
            row = _erasable(view, ctx, (collection, row_id), rules, expected)
            tombstone = {**rules.stub(row), "deleted": True, **_touched(row, view.now)}
            bound = [
                Write(kind, bound_id, {**link, "deleted": True, **_touched(link, view.now)})
                for kind, bound_id in view.referrers(collection, row_id)
                if self._undo_rules[kind].is_bound and (link := view.get(kind, bound_id)) is not None
            ]
            others = _others(view, ctx, rules.twins(view, row), (collection, row_id), found)
            return Draft(rules.op, [Write(collection, row_id, tombstone), *bound], reply={"other_rows": others})

        outcome: Outcome | None = await self._store.replayed(ctx.account, key)
        if outcome is None:
            # Looked at before the whole log is: who may not erase must not have it read.
            _erasable(self._store.view(ctx.account), ctx, (collection, row_id), rules, expected)
            wanted = Erasing(ctx.account, ctx.actor, collection, row_id, rules, decide, key)
            outcome = await self._store.erase(wanted)
        if not isinstance(outcome, Committed):
            # Its decision always writes; only a store that breaks its contract comes here.
            raise TypeError("an erasing was answered with nothing written")
        return await self._answer(collection, row_id, outcome.operation)

    async def _answer(self, collection: str, row_id: str, operation: Operation) -> Erased:
        pending = await self._surroundings.follow(operation)
        snapshots = await self._surroundings.snapshots_with(operation.account, collection, row_id)
        return Erased(operation.operation_id, (operation.reply or {}).get("other_rows", ()), snapshots, pending)


def _erasable(
    view: HistoryView, ctx: RequestContext, place: tuple[str, str], rules: EraseRules, expected: int | None
) -> Row:
    row = view.get(*place)
    if row is None or not ctx.sees(scopes.audience(row["scopes"], row["owner"])):
        raise NotFound.of(rules.noun, place[1])
    if not ctx.may_edit(row["owner"]):
        raise Forbidden(f"only the owner of this {rules.noun} may erase it")
    if is_erased(row):
        raise Conflict(f"{rules.noun} {place[1]!r} is erased already", {ERASED: True})
    if expected is not None and expected != row["version"]:
        raise VersionConflict(row["version"])
    if rules.is_rooted and is_live(row):
        raise Conflict(f"delete this {rules.noun} before it is erased: others may hang on it")
    return row


def _others(
    view: HistoryView, ctx: RequestContext, twins: Sequence[str], place: tuple[str, str], found: Found
) -> list[str]:
    """Name the live rows that the caller sees and that say the same, or say it among other things."""
    collection, row_id = place
    named = dict.fromkeys((collection, twin) for twin in twins if twin != row_id)
    for other in found.rows:
        row = view.get(*other)
        if is_live(row) and any(_says(row, text) for text in found.texts):
            named[other] = None
    rows = ((other_id, view.get(kind, other_id)) for kind, other_id in named)
    return [other_id for other_id, row in rows if row is not None and _is_seen(ctx, row)][:_NAMED]


def _is_seen(ctx: RequestContext, row: Row) -> bool:
    return "scopes" in row and ctx.sees(scopes.audience(row["scopes"], row["owner"]))


def _says(value: Any, text: str) -> bool:  # noqa: ANN401 -- any JSON value
    return any(text == one or (text in one and len(text.encode()) >= _WORTH_FINDING) for one in _texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _touched(row: Row, now: float) -> dict[str, Any]:
    return {"version": next_version(row), "updated_at": clock.iso(now)}
