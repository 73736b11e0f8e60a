"""The verbs on resources (seed 003): save, read, list, edit, delete, and reveal what is sealed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from knowhub.core import permissions
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, KnowHubError, NotFound
from knowhub.core.operation import Committed, Draft, IdempotencyKey, Outcome, Row, Unchanged, is_live, next_of
from knowhub.core.request_context import RequestContext
from knowhub.resources import decisions
from knowhub.resources.ids import check_resource_id
from knowhub.resources.model import (
    RESOURCES,
    REVEALS,
    NewResource,
    ResourceHead,
    ResourcePage,
    ResourceQuery,
    Revealed,
    SavedResource,
)
from knowhub.resources.ports import ResourceStore, ResourceView
from knowhub.resources.reveal_quota import RevealQuota
from knowhub.resources.vault import Vault

_TRIES = 5
_HEADS_A_TURN = 5_000
_REFUSALS: Final[tuple[type[KnowHubError], ...]] = (Conflict, Forbidden, InvalidInput, NotFound)

_Seal: TypeAlias = Callable[[int], Mapping[str, Any] | None]
"""From the version of a row to what is sealed in it."""
_DecideSealed: TypeAlias = Callable[[ResourceView, _Seal], Draft | Unchanged]


class ResourceService:
    """Resources over a store that makes every decision durable before it is acknowledged.

    What is sealed leaves it through `reveal` only, and in a row as ciphertext. Its data key is durable before the row
    is: no row ever stands that does not open.
    """

    def __init__(self, store: ResourceStore, vault: Vault, quota: RevealQuota) -> None:
        self._store = store
        self._vault = vault
        self._quota = quota

    async def save(
        self, ctx: RequestContext, new: NewResource, key: IdempotencyKey | None = None, *, upsert: bool = False
    ) -> SavedResource:
        """Save a resource, or with `upsert` a new version of it, which says all that it says anew (RS-005).

        Raises InvalidInput, Forbidden, Conflict for an id that is taken, and Unavailable where nothing can be sealed.
        """
        permissions.check_may_write(ctx)

        def decide(view: ResourceView, seal: _Seal) -> Draft | Unchanged:
            before = view.get(RESOURCES, new.id)
            row = decisions.saved_row(new, before, view.now, ctx, upsert=upsert)
            if new.secure_body is None and decisions.says_the_same(row, before):
                return Unchanged(before)
            row[decisions.SEALED] = seal(row["version"])
            return Draft("save_resource", [decisions.write(row)])

        outcome = await self._commit(ctx, new.id, new.secure_body, decide, key)
        return self._saved(ctx, outcome)

    async def patch(
        self,
        ctx: RequestContext,
        resource_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedResource:
        """Change fields of a resource; `secure_body` None takes away what is sealed.

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Unavailable where nothing can be sealed.
        """
        permissions.check_may_write(ctx)
        is_resealed = decisions.SECURE_BODY in patch
        secure: str | None = patch.get(decisions.SECURE_BODY)

        def decide(view: ResourceView, seal: _Seal) -> Draft | Unchanged:
            row = decisions.editable_row(view, ctx, resource_id, expected)
            after = decisions.patched_row(row, patch, view.now, ctx)
            if is_resealed and (secure is not None or row[decisions.SEALED] is not None):
                after = after or next_of(row, row, view.now)
                after[decisions.SEALED] = seal(after["version"])
            return Unchanged(row) if after is None else Draft("edit_resource", [decisions.write(after)])

        return self._saved(ctx, await self._commit(ctx, resource_id, secure, decide, key))

    async def get(self, ctx: RequestContext, resource_id: str) -> Mapping[str, Any]:
        """Return a resource without what is sealed of it (RS-013). Raises InvalidInput for no id, and NotFound."""
        check_resource_id(resource_id)
        await self._store.refresh()
        view = self._store.view(ctx.account)
        return decisions.shown(decisions.readable_row(view, ctx, resource_id), view.now)

    async def reveal(self, ctx: RequestContext, resource_id: str) -> Revealed:
        """Return a resource with what is sealed of it; who was shown it is durable in the log before this returns.

        Raises InvalidInput, NotFound, Forbidden, TooManyRequests, and Unavailable where it cannot be opened or logged.
        """
        decisions.check_may_reveal(ctx)
        check_resource_id(resource_id)
        await self._store.refresh()
        for _ in range(_TRIES):
            view = self._store.view(ctx.account)
            row = decisions.revealable_row(view, ctx, resource_id)
            sealed = row[decisions.SEALED]
            if sealed is None:
                return Revealed(decisions.shown(row, view.now), None, None)
            self._quota.take(ctx)
            text = await self._vault.open(ctx.account, resource_id, sealed)
            outcome = await self._store.commit(ctx.account, ctx.actor, _note_reveal(ctx, row))
            if isinstance(outcome, Committed):
                return Revealed(decisions.shown(row, view.now), text, outcome.operation.operation_id)
        raise Conflict("this resource is being written to without a pause; nothing was revealed, try it again")

    async def page(self, ctx: RequestContext, query: ResourceQuery) -> ResourcePage:
        """Return the resources that pass every filter and that the caller sees, by id, without what is sealed."""
        await self._store.refresh()
        while True:
            found = [head.id async for head in self._found(ctx, query)]
            view = self._store.view(ctx.account)
            # Others had their turns meanwhile: what was found may have been deleted or hidden since.
            rows = [row for row in (_seen(view, ctx, one) for one in found[: query.limit]) if row is not None]
            more = len(found) > query.limit
            if rows or not more:
                # A page ends at what it shows: the next one looks anew at what went, and names none of it.
                shown = [decisions.shown(row, view.now) for row in rows]
                return ResourcePage(shown, str(rows[-1]["id"]) if more else None)
            query = replace(query, after=found[query.limit - 1])

    def missing(self, ctx: RequestContext, resource_ids: Sequence[str]) -> list[str]:
        """Name those of the resources that are not there, or that the caller does not see (RS-015)."""
        return decisions.missing_references(self._store.view(ctx.account), ctx, resource_ids)

    async def delete(
        self, ctx: RequestContext, resource_id: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete a resource and return the operation, which can be undone. Raises as `patch`."""
        permissions.check_may_write(ctx)

        def decide(view: ResourceView) -> Draft:
            row = decisions.editable_row(view, ctx, resource_id, expected)
            return Draft("delete_resource", [decisions.write(next_of({**row, "deleted": True}, row, view.now))])

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            raise NotFound.of("resource", resource_id)
        return outcome.operation.operation_id

    async def _commit(
        self,
        ctx: RequestContext,
        resource_id: str,
        secure: str | None,
        decide: _DecideSealed,
        key: IdempotencyKey | None,
    ) -> Outcome:
        """Commit a decision, with the key of what it seals in the keyring before."""
        if secure is None:
            return await self._store.commit(ctx.account, ctx.actor, lambda view: decide(view, _nothing), key)
        text = secure
        # What will be refused is refused before a key is made for it.
        await self._store.refresh()
        view = self._store.view(ctx.account)
        key = await self._vault.blinded(ctx.account, key)
        done = await self._store.replayed(ctx.account, key)
        if done is not None:
            return done
        decide(view, _nothing)
        data_key = await self._vault.new_key(ctx.account, resource_id)
        is_used = True
        try:
            outcome = await self._store.commit(
                ctx.account,
                ctx.actor,
                lambda newest: decide(newest, lambda version: self._vault.seal(data_key, text, version)),
                key,
            )
            is_used = isinstance(outcome, Committed) and not outcome.replayed
        except _REFUSALS:
            is_used = False
            raise
        finally:
            # After any other failure the row may stand all the same, and needs its key.
            if not is_used:
                with suppress(KnowHubError):
                    # The answer is what became of the row: a key too many opens nothing.
                    await self._vault.discard(data_key)
        return outcome

    def _saved(self, ctx: RequestContext, outcome: Outcome) -> SavedResource:
        now = self._store.view(ctx.account).now
        if isinstance(outcome, Unchanged):
            return SavedResource(decisions.shown(outcome.answer, now), None)
        change, operation_id = outcome.operation.changes[0], outcome.operation.operation_id
        return SavedResource(decisions.shown(change.after, now), operation_id, not is_live(change.before))

    async def _found(self, ctx: RequestContext, query: ResourceQuery) -> AsyncIterator[ResourceHead]:
        """Yield one more than the page holds, where there are as many."""
        found, after = 0, query.after
        while True:
            view = self._store.view(ctx.account)
            looked = 0
            for head in view.resource_heads(query.prefix, after):
                looked, after = looked + 1, head.id
                if ctx.sees(head.audience) and _passes(head, query, view.now):
                    yield head
                    found += 1
                if found > query.limit:
                    return
                if looked == _HEADS_A_TURN:
                    break
            if looked < _HEADS_A_TURN:
                return
            # A million may be somebody else's: others take their turns.
            await asyncio.sleep(0)


def _note_reveal(ctx: RequestContext, row: Row) -> Callable[[ResourceView], Draft | Unchanged]:
    def decide(view: ResourceView) -> Draft | Unchanged:
        newest = decisions.revealable_row(view, ctx, row["id"])
        if newest[decisions.SEALED] != row[decisions.SEALED]:
            return Unchanged()
        before = view.get(REVEALS, row["id"])
        return Draft("reveal_resource", [decisions.write_reveal(decisions.reveal_row(newest, ctx, before, view.now))])

    return decide


def _passes(head: ResourceHead, query: ResourceQuery, now: float) -> bool:
    if query.content_type is not None and head.content_type != query.content_type:
        return False
    return query.expired is None or query.expired == (head.expires_at is not None and head.expires_at <= now)


def _seen(view: ResourceView, ctx: RequestContext, resource_id: str) -> Row | None:
    try:
        return decisions.readable_row(view, ctx, resource_id)
    except NotFound:
        return None


def _nothing(_version: int) -> None:
    return None
