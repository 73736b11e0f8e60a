"""The verbs on resources: save, read, list, edit, delete, and reveal what is sealed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from knowhub.core import permissions
from knowhub.core.allowances import Allowance
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, KnowHubError, NotFound, TooManyRequests
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    HistoryStore,
    IdempotencyKey,
    Outcome,
    Row,
    Unchanged,
    View,
    Write,
    is_live,
    next_of,
)
from knowhub.core.owned_rows import OwnedRows, SavedRow, Scan, list_visible
from knowhub.core.request_context import RequestContext
from knowhub.resources import decisions
from knowhub.resources.collections import RESOURCE, RESOURCE_TABLE, list_resources
from knowhub.resources.decisions import check_resource_id
from knowhub.resources.model import (
    RESOURCES,
    REVEALS,
    NewResource,
    ResourcePage,
    ResourceQuery,
    ResourceSummary,
    RevealedResource,
)
from knowhub.resources.vault import Vault

_TRIES = 5
_REFUSALS: Final[tuple[type[KnowHubError], ...]] = (Conflict, Forbidden, InvalidInput, NotFound)

_DecideSealed: TypeAlias = Callable[[View, Mapping[str, Any] | None], Draft | Unchanged]
"""A decision over a view and the sealed body."""


class ResourceService(OwnedRows):
    """Resources over a store that makes every decision durable before it is acknowledged.

    What is sealed leaves it through `reveal` only, and in a row as ciphertext. Its data key is durable before the row
    is: no row is ever stored that cannot be opened.
    """

    def __init__(self, store: HistoryStore, vault: Vault, reveals: Allowance | None = None) -> None:
        super().__init__(store, RESOURCE)
        self._vault = vault
        self._reveals = reveals

    async def save(
        self, ctx: RequestContext, new: NewResource, key: IdempotencyKey | None = None, *, upsert: bool = False
    ) -> SavedRow:
        """Save a resource, or with `upsert` a new version of it, which says all that it says anew.

        Raises InvalidInput, Forbidden, Conflict for an id that is taken, and Unavailable where nothing can be sealed.
        """
        permissions.check_can_write(ctx)

        def decide(view: View, sealed: Mapping[str, Any] | None) -> Draft | Unchanged:
            before = view.get(RESOURCES, new.id)
            row = decisions.make_row(new, before, view.now, ctx, upsert=upsert)
            if new.secure_body is None and decisions.is_unchanged(row, before):
                return Unchanged(before)
            row[decisions.SEALED] = sealed
            return Draft("save_resource", [self.write(row)])

        key = decisions.hide_secret(key, {**asdict(new), "upsert": upsert})
        return self.make_saved(ctx, await self._commit(ctx, new.id, new.secure_body, decide, key))

    async def patch(
        self,
        ctx: RequestContext,
        resource_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Change fields of a resource; `secure_body` None takes away what is sealed.

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Unavailable where nothing can be sealed.
        """
        permissions.check_can_write(ctx)
        is_resealed = decisions.SECURE_BODY in patch
        secure: str | None = patch.get(decisions.SECURE_BODY)

        def decide(view: View, sealed: Mapping[str, Any] | None) -> Draft | Unchanged:
            row = self.find_for_edit(view, ctx, resource_id, expected)
            after = decisions.apply_patch(row, patch, view.now, ctx)
            if is_resealed and (secure is not None or row[decisions.SEALED] is not None):
                after = after or next_of(row, row, view.now)
                after[decisions.SEALED] = sealed
            return Unchanged(row) if after is None else Draft("edit_resource", [self.write(after)])

        key = decisions.hide_secret(key, {**patch, "id": resource_id, "version": expected})
        return self.make_saved(ctx, await self._commit(ctx, resource_id, secure, decide, key))

    def find(self, view: View, ctx: RequestContext, row_id: str) -> Row:
        """Return a live resource that the caller sees. Raises InvalidInput for what is no id, and NotFound."""
        return super().find(view, ctx, check_resource_id(row_id))

    def show(self, view: View, ctx: RequestContext, row: Row) -> Mapping[str, Any]:  # noqa: ARG002 -- as `OwnedRows`
        """Return a resource without what is sealed of it."""
        return decisions.make_public_view(row, view.now)

    async def reveal(self, ctx: RequestContext, resource_id: str) -> RevealedResource:
        """Return a resource with what is sealed of it; who was shown it is durable in the log before this returns.

        Raises InvalidInput, NotFound, Forbidden, TooManyRequests, and Unavailable where it cannot be opened or logged.
        """
        decisions.check_role_can_reveal(ctx)
        await self._store.refresh(ctx.account)
        for _ in range(_TRIES):
            view = self._store.view(ctx.account)
            row = self.find(view, ctx, resource_id)
            decisions.check_can_reveal(ctx, row)
            sealed = row[decisions.SEALED]
            if sealed is None:
                return RevealedResource(self.show(view, ctx, row), None, None)
            await self._count_reveal(ctx)
            text = await self._vault.open(ctx.account, resource_id, sealed)
            outcome = await self._store.commit(ctx.account, ctx.actor, self._make_reveal_decision(ctx, row))
            if isinstance(outcome, Committed):
                return RevealedResource(self.show(view, ctx, row), text, outcome.operation.operation_id)
        raise Conflict("this resource is being written to without a pause; nothing was revealed, try it again")

    async def _count_reveal(self, ctx: RequestContext) -> None:
        # By who holds a key, as the limits of requests are: another key is no other allowance.
        wait_s = 0.0 if self._reveals is None else await self._reveals.take(f"{ctx.account}\n{ctx.quota_key}")
        if self._reveals is not None and wait_s > 0:
            limit = self._reveals.limit
            raise TooManyRequests(
                f"{limit} sealed bodies an hour are revealed to one principal (KNOWHUB_REVEALS_PER_HOUR)", wait_s
            )

    async def list_page(self, ctx: RequestContext, query: ResourceQuery) -> ResourcePage:
        """Return the resources that pass every filter and that the caller sees, by id, without what is sealed."""
        await self._store.refresh(ctx.account)

        def scan(view: View, last: ResourceSummary | None) -> Iterator[ResourceSummary]:
            return list_resources(view, query.prefix, query.after if last is None else last.id)

        def accept(view: View, summary: ResourceSummary) -> bool:
            has_expired = summary.expires_at is not None and summary.expires_at <= view.now
            return query.content_type in (None, summary.content_type) and query.expired in (None, has_expired)

        found = await list_visible(self._store, ctx, Scan(RESOURCE_TABLE, scan), query.limit + 1, accept)
        view = self._store.view(ctx.account)
        return ResourcePage(
            [self.show(view, ctx, self.find(view, ctx, summary.id)) for summary in found[: query.limit]],
            found[query.limit - 1].id if len(found) > query.limit else None,
        )

    def list_missing(self, ctx: RequestContext, resource_ids: Sequence[str]) -> list[str]:
        """Return the ids of resources that do not exist or that the caller does not see."""
        view = self._store.view(ctx.account)
        rows = ((resource_id, view.get(RESOURCES, resource_id)) for resource_id in dict.fromkeys(resource_ids))
        return [resource_id for resource_id, row in rows if row is None or not is_live(row) or not ctx.sees_row(row)]

    def _make_reveal_decision(self, ctx: RequestContext, row: Row) -> Decide[View]:
        def decide(view: View) -> Draft | Unchanged:
            newest = self.find(view, ctx, row["id"])
            decisions.check_can_reveal(ctx, newest)
            if newest[decisions.SEALED] != row[decisions.SEALED]:
                return Unchanged()
            before = view.get(REVEALS, row["id"])
            reveal = decisions.make_reveal_row(newest, ctx, before, view.now)
            return Draft("reveal_resource", [Write(REVEALS, row["id"], reveal)])

        return decide

    async def _commit(
        self,
        ctx: RequestContext,
        resource_id: str,
        secure: str | None,
        decide: _DecideSealed,
        key: IdempotencyKey | None,
    ) -> Outcome:
        """Commit a decision, after its data key is durable in the keyring."""
        if secure is None:
            return await self._store.commit(ctx.account, ctx.actor, lambda view: decide(view, None), key)
        # What will be refused is refused before a key is made for it.
        await self._store.refresh(ctx.account)
        done = await self._store.find_replay(ctx.account, key)
        if done is not None:
            return await self._check_same_secret(done, secure)
        planned = decide(self._store.view(ctx.account), None)
        version = 0 if isinstance(planned, Unchanged) else int(planned.writes[0].after["version"])
        data_key = await self._vault.make_data_key(ctx.account, resource_id)
        is_used = True
        try:
            # Another write may come first. The body names the version that it was sealed for, and opens with it.
            sealed = self._vault.seal(data_key, secure, version)
            outcome = await self._store.commit(ctx.account, ctx.actor, lambda view: decide(view, sealed), key)
            is_used = isinstance(outcome, Committed) and not outcome.replayed
        except _REFUSALS:
            is_used = False
            raise
        finally:
            # After any other failure the row may have been written and need its key.
            if not is_used:
                with suppress(KnowHubError):
                    # The answer is what became of the row: a key too many opens nothing.
                    await self._vault.discard(data_key)
        return outcome if is_used or isinstance(outcome, Unchanged) else await self._check_same_secret(outcome, secure)

    async def _check_same_secret(self, done: Committed, text: str) -> Committed:
        """Return what an earlier request with this key wrote. Raises InvalidInput if its secret was another."""
        row = done.operation.changes[0].after
        sealed = row[decisions.SEALED]
        if sealed is None or await self._vault.open(done.operation.account, row["id"], sealed) != text:
            raise InvalidInput.of("Idempotency-Key", "was used with another body; choose a new key for a new request")
        return done
