"""The API keys of every account in memory, following the log, and when they were last used."""

from collections.abc import Iterable, Sequence

from knowhub.core import clock
from knowhub.core.background_writes import BackgroundWrites
from knowhub.core.operation import Change, Draft, Row, Store, Unchanged, View, Write, add_version
from knowhub.identity.decisions import parse_key_row
from knowhub.identity.model import API_KEYS, KEY_USES, ApiKey


class KeyTable:
    """Finds a key by its name, whatever its account. Keys are never taken out: a revoked one is known as that.

    `rows` are the rows of API_KEYS and KEY_USES so far, each with its account and its collection.
    """

    def __init__(self, rows: Iterable[tuple[str, str, Row]]) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._uses: dict[str, str] = {}
        for account, collection, row in rows:
            self._take(account, collection, row)

    def get(self, key_id: str) -> ApiKey | None:
        """Return a key, a revoked one too; None if there is none."""
        return self._keys.get(key_id)

    def keys(self, account: str | None) -> Sequence[ApiKey]:
        """Return the keys of an account, or of all accounts, in the order in which they were issued."""
        return [key for key in self._keys.values() if account in {None, key.account}]

    def used_at(self, key_id: str) -> str | None:
        """Return when a key was last used, in ISO 8601, as far as that is known."""
        return self._uses.get(key_id)

    def follow(self, account: str, _seq: int, changes: Sequence[Change]) -> None:
        """Take in an operation. Called by the store, in order."""
        for change in changes:
            self._take(account, change.collection, change.after)

    def _take(self, account: str, collection: str, row: Row) -> None:
        if collection == API_KEYS:
            key = parse_key_row(account, row)
            self._keys[key.key_id] = key
        else:
            self._uses[str(row["id"])] = str(row["last_used_at"])


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

    def record(self, key: ApiKey, now: float) -> None:
        """Record that a key was used, in seconds since the epoch. Call it in a running event loop."""
        self._used[key.key_id] = now
        tried = self._tried.get(key.key_id)
        is_due = tried is None or now >= tried + EVERY_S
        if is_due and self.start(key.caller.context, lambda view: _decide(view, key, now)):
            self._tried[key.key_id] = now

    def find_last_use(self, key_id: str) -> str | None:
        """Return when a key was last used, in ISO 8601, as far as this process or the log knows; None if never."""
        here, written = self._used.get(key_id), self._table.used_at(key_id)
        if here is None:
            return written
        return clock.iso(max(here, clock.parse_iso(written) if written is not None else here))


def _decide(view: View, key: ApiKey, now: float) -> Draft | Unchanged:
    before = view.get(KEY_USES, key.key_id)
    if before is not None and now < clock.parse_iso(before["last_used_at"]) + EVERY_S:
        # Another process, or this one before it was started anew, has recorded it within the hour.
        return Unchanged()
    row = add_version({"id": key.key_id, "last_used_at": clock.iso(now)}, before, view.now)
    return Draft(OP, [Write(KEY_USES, key.key_id, row)])
