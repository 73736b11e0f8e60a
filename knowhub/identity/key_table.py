"""The API keys of every account in memory, following the log."""

from collections.abc import Iterable, Sequence

from knowhub.core.operation import Change, Row
from knowhub.identity.decisions import key_of
from knowhub.identity.model import API_KEYS, ApiKey


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
            key = key_of(account, row)
            self._keys[key.key_id] = key
        else:
            self._uses[str(row["id"])] = str(row["last_used_at"])
