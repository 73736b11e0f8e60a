"""Erasing: a row whose content is to be gone for good, wherever it stands, while the fact that it stood stays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowhub.core import clock, permissions, scopes
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

    Among them are those that became part of it, and those of which it became one. `snapshots` still hold the row;
    `pending` names what another process has yet to build anew.
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
        permissions.check_may_write(ctx)
        rules = self._erase_rules[collection]

        def decide(view: HistoryView, found: Found) -> Draft:
            row = _erasable(view, ctx, (collection, row_id), rules, expected)
            gone = [Write(collection, row_id, _gone(rules, row, view.now))]
            gone += [Write(*place, _gone(rules, part, view.now)) for place, part in _standing(view, found.below)]
            bound = [
                Write(kind, bound_id, {**link, "deleted": True, **_touched(link, view.now)})
                for kind, bound_id in view.referrers(collection, row_id)
                if (kind, bound_id) not in found.below
                and self._undo_rules[kind].is_bound
                and (link := view.get(kind, bound_id)) is not None
            ]
            kin = [*rules.twins(view, row), *_parts_and_wholes(view, (collection, row_id), rules, found)]
            named = [*((collection, one) for one in kin), *rules.made_of(view, row)]
            others = _others(view, ctx, named, (collection, row_id), found)
            writes = [*gone, *bound, *_without_quotes(view, rules, row_id, found)]
            return Draft(rules.op, writes, reply={"other_rows": others})

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


def _gone(rules: EraseRules, row: Row, now: float) -> dict[str, Any]:
    return {**rules.stub(row), "deleted": True, **_touched(row, now)}


def _standing(view: HistoryView, places: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield the rows, deleted ones too, that were not erased before."""
    for place in places:
        row = view.get(*place)
        if row is not None and not is_erased(row):
            yield place, row


def _without_quotes(view: HistoryView, rules: EraseRules, row_id: str, found: Found) -> Iterator[Write]:
    """Yield the row that quotes an erased one as it stands without that, if it does."""
    place = rules.quoted_by(row_id)
    for _, row in _standing(view, [place] if place else []):
        fields, is_retold = [name for name in sorted(rules.quoting) if row.get(name)], rules.retells(row)
        quotes = [name for name in fields if is_retold or found.tells(str(row[name]))]
        if place and quotes:
            yield Write(*place, {**row, **dict.fromkeys(quotes, ""), **_touched(row, view.now)})


def _parts_and_wholes(view: HistoryView, place: tuple[str, str], rules: EraseRules, found: Found) -> list[str]:
    """Name the live rows that became part of this one, and those of which it became part, over several steps too.

    What they say need not be what it says: a part may have been written anew in the whole.
    """
    if rules.joined is None:
        return []
    collection, row_id = place

    def whole_of(part: str) -> str | None:
        row = view.get(collection, part)
        # Through one that is deleted or erased as well: what came by it stands on.
        return row.get(rules.joined) if row is not None and rules.joined is not None else None

    def wholes(part: str) -> list[str]:
        seen = [part]
        while (whole := whole_of(seen[-1])) is not None and whole not in seen:
            seen.append(whole)
        return seen[1:]

    named = [*wholes(row_id), *(part for part in found.parts if row_id in wholes(part))]
    return [one for one in named if is_live(view.get(collection, one))]


def _others(
    view: HistoryView, ctx: RequestContext, kin: Sequence[tuple[str, str]], place: tuple[str, str], found: Found
) -> list[str]:
    """Name the live rows that the caller sees and that say the same, or say it among other things; `kin` as well."""
    named = dict.fromkeys(one for one in kin if one != place)
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
