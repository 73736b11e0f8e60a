"""Who is calling, and the keys that say so: made, listed, replaced and ended."""

import hmac
from collections.abc import Sequence

from knowhub.core.clock import Clock
from knowhub.core.errors import Conflict, Forbidden, NotFound
from knowhub.core.ids import Ids
from knowhub.core.operation import Committed, Draft, IdempotencyKey, Store, Unchanged, View, Write
from knowhub.core.request_context import DEFAULT_ACCOUNT, RequestContext
from knowhub.identity import decisions
from knowhub.identity.key_table import KeyTable, KeyUses
from knowhub.identity.model import API_KEYS, ApiKey, AuthenticatedCaller, IssuedKey, KeyHolder, NewKey

ADMINS_ONLY = "keys are for the root key and the account's admins"


class IdentityService:
    """Tells callers by their keys, and keeps the keys. What ends a key holds at once, in every process."""

    def __init__(self, store: Store, table: KeyTable, clock: Clock, ids: Ids, root_key: str | None) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._ids = ids
        self._root = None if root_key is None else decisions.hash_key(root_key)
        self._root_caller = AuthenticatedCaller(KeyHolder(), decisions.make_root_context(DEFAULT_ACCOUNT))
        self.uses = KeyUses(store, table)

    async def authenticate(self, text: str) -> AuthenticatedCaller | None:
        """Return the caller of a key; None if the key is unknown, expired or revoked. Raises OSError."""
        if self.is_root(text):
            return self._root_caller
        digest = decisions.hash_key(text)
        # What another process has revoked must not open anything here.
        await self._store.refresh()
        named = decisions.parse_key_name(text)
        key = None if named is None else self._table.get(named)
        now = self._clock.now()
        if key is None or not hmac.compare_digest(digest, key.digest) or not key.holds(now):
            return None
        self.uses.record(key, now)
        return key.caller

    def is_root(self, text: str) -> bool:
        """Return whether this is the root key."""
        return self._root is not None and hmac.compare_digest(decisions.hash_key(text), self._root)

    async def can_anybody_call(self) -> bool:
        """Return whether there is any key at all with which a request would be answered."""
        await self._store.refresh()
        now = self._clock.now()
        return self._root is not None or any(key.holds(now) for key in self._table.keys(None))

    async def issue(self, ctx: RequestContext, new: NewKey, key: IdempotencyKey | None = None) -> IssuedKey:
        """Make a key in the caller's account. Raises Forbidden, InvalidInput and what a commit raises."""
        _check_admin(ctx)
        key_id, text = decisions.make_key(self._ids)

        def decide(view: View) -> Draft:
            decisions.check_new_key(new, view.now)
            row = decisions.make_key_row(new, key_id, decisions.hash_key(text), view.now)
            return Draft("create_key", [Write(API_KEYS, key_id, row)])

        return _make_issued_key(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key), text)

    async def list_keys(self, ctx: RequestContext, account: str | None) -> Sequence[ApiKey]:
        """Return the keys of an account, of all when None, the oldest first. Raises Forbidden."""
        _check_admin(ctx)
        await self._store.refresh()
        return self._table.keys(account)

    async def rotate(self, ctx: RequestContext, key_id: str, key: IdempotencyKey | None = None) -> IssuedKey:
        """Put a new key in the place of one, which ends with that.

        Raises Forbidden, NotFound, Conflict for a key that has ended, and what a commit raises.
        """
        _check_admin(ctx)
        new_id, text = decisions.make_key(self._ids)

        def decide(view: View) -> Draft:
            row = view.get(API_KEYS, key_id)
            if row is None:
                raise NotFound.of("key", key_id)
            if not decisions.parse_key_row(ctx.account, row).holds(view.now):
                raise Conflict(f"key {key_id} has expired or was revoked; make a new one")
            new = decisions.make_replacing_row(row, new_id, decisions.hash_key(text), view.now)
            ended = decisions.make_ended_row(row, view.now, new_id)
            return Draft("rotate_key", [Write(API_KEYS, new_id, new), Write(API_KEYS, key_id, ended)])

        return _make_issued_key(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key), text, key_id)

    async def revoke(self, ctx: RequestContext, key_id: str, key: IdempotencyKey | None = None) -> str | None:
        """End a key; return the operation, None when it was revoked before. Raises Forbidden and NotFound."""
        _check_admin(ctx)

        def decide(view: View) -> Draft | Unchanged:
            row = view.get(API_KEYS, key_id)
            if row is None:
                raise NotFound.of("key", key_id)
            if row["revoked_at"] is not None:
                return Unchanged()
            return Draft("revoke_key", [Write(API_KEYS, key_id, decisions.make_ended_row(row, view.now))])

        done = await self._store.commit(ctx.account, ctx.actor, decide, key)
        return done.operation.operation_id if isinstance(done, Committed) else None

    def has_expired(self, key: ApiKey) -> bool:
        """Return whether a key's time is over."""
        return key.has_expired(self._clock.now())

    async def find_account(self, key_id: str) -> str | None:
        """Return the account of a key, for those who may do everything in each; None when there is no such key."""
        await self._store.refresh()
        key = self._table.get(key_id)
        return None if key is None else key.account


def _check_admin(ctx: RequestContext) -> None:
    if not ctx.is_admin:
        raise Forbidden(ADMINS_ONLY)


def _make_issued_key(
    ctx: RequestContext, done: Committed | Unchanged, text: str, replaces: str | None = None
) -> IssuedKey:
    if isinstance(done, Unchanged):
        # Never: each decision above that makes a key writes one.
        raise Conflict("no key was made")
    key = decisions.parse_key_row(ctx.account, done.operation.changes[0].after)
    return IssuedKey(key, None if done.replayed else text, done.operation.operation_id, replaces)
