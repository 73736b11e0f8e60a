"""When keys were last used: known at once in this process, and written down once an hour, behind the request."""

import asyncio
from typing import Any

from knowhub.core import clock
from knowhub.core.clock import Clock
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Draft, Store, Unchanged, View, Write, next_version
from knowhub.identity.key_table import KeyTable
from knowhub.identity.model import KEY_USES, ApiKey

OP = "note_key_use"
EVERY_S = 3600.0
MAX_PENDING = 64
CLOSE_S = 5.0


class KeyUses:
    """Records when keys are used. A failed write never fails the request: it is counted in `failed` and retried."""

    def __init__(self, store: Store, table: KeyTable, clock: Clock, close_s: float = CLOSE_S) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._close_s = close_s
        self._used: dict[str, float] = {}
        self._tried: dict[str, float] = {}
        self._pending: set[asyncio.Task[None]] = set()
        self.failed = 0

    def note(self, key: ApiKey, now: float) -> None:
        """Note that a key was used, in seconds since the epoch. Call it in a running event loop."""
        self._used[key.key_id] = now
        tried = self._tried.get(key.key_id)
        if (tried is not None and now < tried + EVERY_S) or len(self._pending) >= MAX_PENDING:
            return
        self._tried[key.key_id] = now
        task = asyncio.get_running_loop().create_task(self._write(key, now))
        # The loop itself holds tasks weakly.
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    def last(self, key_id: str) -> str | None:
        """Return when a key was last used, in ISO 8601, as far as this process or the log knows; None if never."""
        here, written = self._used.get(key_id), self._table.used_at(key_id)
        if here is None:
            return written
        return clock.iso(max(here, clock.parse_iso(written) if written is not None else here))

    async def close(self) -> None:
        """Wait for what is being written, a few seconds at most."""
        if not self._pending:
            return
        _, late = await asyncio.wait(set(self._pending), timeout=self._close_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _write(self, key: ApiKey, now: float) -> None:
        def decide(view: View) -> Draft | Unchanged:
            before = view.get(KEY_USES, key.key_id)
            if before is not None and now < clock.parse_iso(before["last_used_at"]) + EVERY_S:
                # Another process, or this one before it was started anew, has noted it within the hour.
                return Unchanged()
            moment = clock.iso(view.now)
            row: dict[str, Any] = {
                "id": key.key_id,
                "last_used_at": clock.iso(now),
                "version": next_version(before),
                "created_at": moment if before is None else before["created_at"],
                "updated_at": moment,
            }
            return Draft(OP, [Write(KEY_USES, key.key_id, row)])

        try:
            await self._store.commit(key.account, key.caller.context.actor, decide)
        except KnowHubError:
            self.failed += 1
