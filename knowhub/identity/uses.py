"""When keys were last used: known at once in this process, and written down once an hour, behind the request."""

from typing import Any

from knowhub.core import clock
from knowhub.core.background_writes import BackgroundWrites
from knowhub.core.operation import Draft, Store, Unchanged, View, Write, next_version
from knowhub.identity.key_table import KeyTable
from knowhub.identity.model import KEY_USES, ApiKey

OP = "note_key_use"
EVERY_S = 3600.0
MAX_PENDING = 64


class KeyUses(BackgroundWrites):
    """Records when keys are used. A use that is not written is tried again with the next hour."""

    def __init__(self, store: Store, table: KeyTable) -> None:
        super().__init__(store, MAX_PENDING)
        self._table = table
        self._used: dict[str, float] = {}
        self._tried: dict[str, float] = {}

    def note(self, key: ApiKey, now: float) -> None:
        """Note that a key was used, in seconds since the epoch. Call it in a running event loop."""
        self._used[key.key_id] = now
        tried = self._tried.get(key.key_id)
        is_due = tried is None or now >= tried + EVERY_S
        if is_due and self.start(key.caller.context, lambda view: _decide(view, key, now)):
            self._tried[key.key_id] = now

    def last(self, key_id: str) -> str | None:
        """Return when a key was last used, in ISO 8601, as far as this process or the log knows; None if never."""
        here, written = self._used.get(key_id), self._table.used_at(key_id)
        if here is None:
            return written
        return clock.iso(max(here, clock.parse_iso(written) if written is not None else here))


def _decide(view: View, key: ApiKey, now: float) -> Draft | Unchanged:
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
