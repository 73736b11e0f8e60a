"""Erasing: removes the content of a row everywhere and for good, and keeps the fact that the row existed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowhub.core import permissions
from knowhub.core.collection import Collections, Key
from knowhub.core.erasing import ERASED, EraseRequest, EraseRules, RowTraces, is_erased
from knowhub.core.errors import Conflict, Forbidden, NotFound, VersionConflict
from knowhub.core.operation import (
    Committed,
    Draft,
    IdempotencyKey,
    Operation,
    Outcome,
    Reads,
    Row,
    View,
    Write,
    get_operation,
    is_live,
    make_tombstone,
    next_of,
)
from knowhub.core.request_context import RequestContext

_NAMED = 1_000
# In bytes. A shorter text occurs in other texts by chance.
_WORTH_FINDING = 22


class ErasureStore(Reads, Protocol):
    """A store that can erase."""

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        """Return what a request with this key wrote; None if none did."""

    async def erase(self, wanted: EraseRequest) -> Outcome:
        """Make an erasing durable: when it returns, the log tells nothing of the row any more."""


class ErasureFollower(Protocol):
    """Files outside the log that may hold the content of an erased row."""

    async def follow(self, operation: Operation) -> Sequence[str]:
        """Rebuild the projections; return the names of those that wait for another process."""

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        """Return the names of the snapshots in which the row still says something, oldest first."""


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of erasing a row.

    `other_rows` are live rows with the same text that the caller sees, and rows that were merged with it. `snapshots`
    still hold the row. `pending` names the projections that another process has yet to rebuild.
    """

    operation_id: str
    other_rows: Sequence[str]
    snapshots: Sequence[str]
    pending: Sequence[str]


class ErasureService:
    """Erases rows of each collection that declares what is left of an erased row."""

    def __init__(
        self,
        store: ErasureStore,
        derived_files: ErasureFollower,
        collections: Collections,
    ) -> None:
        self._store = store
        self._derived_files = derived_files
        self._collections = collections

    async def erase(
        self,
        ctx: RequestContext,
        collection: str,
        row_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Erased:
        """Erase a row that the caller owns; it may be deleted already.

        Raises NotFound, Forbidden, VersionConflict, and Conflict for a row that is erased already.
        """
        permissions.check_can_write(ctx)
        rules = self._collections[collection].erase_rules

        def decide(view: View, found: RowTraces) -> Draft:
            row = _check_can_erase(view, ctx, (collection, row_id), rules, expected)
            gone = [Write(collection, row_id, _make_stub(rules, row, view.now))]
            gone += [
                Write(*row_key, _make_stub(rules, part, view.now)) for row_key, part in _iter_rows(view, found.below)
            ]
            related = [*rules.find_equal(view, row), *_find_merged(view, (collection, row_id), rules, found)]
            named = [*((collection, related_id) for related_id in related), *rules.find_derived(view, row)]
            others = _find_similar(view, ctx, named, (collection, row_id), found)
            bound = self._delete_referrers(view, (collection, row_id), found)
            writes = [*gone, *bound, *_clear_quotes(view, rules, row, found)]
            return Draft(rules.op, writes, reply={"other_rows": others})

        outcome: Outcome | None = await self._store.find_replay(ctx.account, key)
        if outcome is None:
            # Checked before the log is searched: a caller who may not erase must not cause that work.
            _check_can_erase(self._store.view(ctx.account), ctx, (collection, row_id), rules, expected)
            wanted = EraseRequest(ctx.account, ctx.actor, collection, row_id, rules, decide, key)
            outcome = await self._store.erase(wanted)
        operation = get_operation(outcome)
        pending = await self._derived_files.follow(operation)
        snapshots = await self._derived_files.snapshots_with(ctx.account, collection, row_id)
        return Erased(operation.operation_id, (operation.reply or {}).get("other_rows", ()), snapshots, pending)

    def _delete_referrers(self, view: View, target: Key, found: RowTraces) -> Iterator[Write]:
        """Yield the tombstones of rows that need the erased one, such as links to it."""
        for name, row_id in view.referrers(*target):
            row = view.get(name, row_id)
            needed = [
                reference.key(row) for reference in self._collections[name].references if reference.is_required and row
            ]
            if row is not None and target in needed and (name, row_id) not in found.below:
                yield Write(name, row_id, make_tombstone(row, view.now))


def _check_can_erase(
    view: View, ctx: RequestContext, row_key: tuple[str, str], rules: EraseRules, expected: int | None
) -> Row:
    row = view.get(*row_key)
    if row is None or not ctx.sees_row(row):
        raise NotFound.of(rules.noun, row_key[1])
    if not ctx.can_edit(row["owner"]):
        raise Forbidden(f"only the owner of this {rules.noun} may erase it")
    if is_erased(row):
        raise Conflict(f"{rules.noun} {row_key[1]!r} is erased already", {ERASED: True})
    if expected is not None and expected != row["version"]:
        raise VersionConflict(row["version"])
    if rules.must_be_deleted and is_live(row):
        raise Conflict(f"delete this {rules.noun} before it is erased: others may hang on it")
    return row


def _make_stub(rules: EraseRules, row: Row, now: float) -> dict[str, Any]:
    return next_of({**rules.make_stub(row), "deleted": True}, row, now)


def _iter_rows(view: View, row_keys: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield the rows, deleted ones too, that were not erased before."""
    for row_key in row_keys:
        row = view.get(*row_key)
        if row is not None and not is_erased(row):
            yield row_key, row


def _clear_quotes(view: View, rules: EraseRules, erased: Row, found: RowTraces) -> Iterator[Write]:
    """Yield the row that quotes or counts the erased row, without it."""
    row_key = rules.quoted_by(erased["id"])
    for _, row in _iter_rows(view, [row_key] if row_key else []):
        fields, is_paraphrased = [name for name in sorted(rules.quoting) if row.get(name)], rules.is_paraphrase(row)
        changed: dict[str, Any] = {
            name: "" for name in fields if is_paraphrased or found.mentions(str(row[name]))
        } | _count_without(rules, row, erased)
        if row_key and changed:
            yield Write(*row_key, next_of({**row, **changed}, row, view.now))


def _count_without(rules: EraseRules, row: Row, erased: Row) -> dict[str, Any]:
    """Return the metadata of a row with one live row less; nothing where it did not count that."""
    metadata = row.get("metadata") or {}
    if rules.counted_as is None or not metadata.get(rules.counted_as) or not is_live(erased):
        return {}
    return {"metadata": {**metadata, rules.counted_as: metadata[rules.counted_as] - 1}}


def _find_merged(view: View, row_key: tuple[str, str], rules: EraseRules, found: RowTraces) -> list[str]:
    """Return the ids of live rows that were merged into this row, and of those into which it was merged.

    Merges are followed over several steps. The texts may differ, because a merge may rewrite them.
    """
    if rules.merge_field is None:
        return []
    collection, row_id = row_key

    def get_parent(part: str) -> str | None:
        row = view.get(collection, part)
        # A deleted or erased row in between does not end the chain.
        return row.get(rules.merge_field) if row is not None and rules.merge_field is not None else None

    def list_parents(part: str) -> list[str]:
        seen = [part]
        while (whole := get_parent(seen[-1])) is not None and whole not in seen:
            seen.append(whole)
        return seen[1:]

    named = [*list_parents(row_id), *(part for part in found.parts if row_id in list_parents(part))]
    return [merged_id for merged_id in named if is_live(view.get(collection, merged_id))]


def _find_similar(
    view: View, ctx: RequestContext, related: Sequence[tuple[str, str]], row_key: tuple[str, str], found: RowTraces
) -> list[str]:
    """Name the live rows that the caller sees and that hold the same text, also within another; `related` ones too."""
    named = dict.fromkeys(other for other in related if other != row_key)
    for other in found.rows:
        row = view.get(*other)
        if is_live(row) and any(_contains_text(row, text) for text in found.texts):
            named[other] = None
    rows = ((other_id, view.get(kind, other_id)) for kind, other_id in named)
    owned = ((other_id, row) for other_id, row in rows if row is not None and "scopes" in row)
    return [other_id for other_id, row in owned if ctx.sees_row(row)][:_NAMED]


def _contains_text(value: Any, text: str) -> bool:  # noqa: ANN401 -- any JSON value
    return any(
        text == found or (text in found and len(text.encode()) >= _WORTH_FINDING) for found in _iter_texts(value)
    )


def _iter_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)
