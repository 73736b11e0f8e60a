"""The API keys of every account in memory, following the log."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from knowhub.core.operation import Row
from knowhub.identity.decisions import key_of
from knowhub.identity.model import API_KEYS, KEY_USES, ApiKey


class StoredRows(Protocol):
    """The rows of one account."""

    def read_rows(self, name: str) -> Sequence[tuple[str, Row]]:
        """Return the id and the row of everything in a collection."""


class AccountsStore(Protocol):
    """What is read of a store when the table is made."""

    @property
    def accounts(self) -> Sequence[str]:
        """Every account that has rows."""

    def state(self, account: str) -> StoredRows:
        """Return the rows of an account."""


class KeyChange(Protocol):
    """A change of an operation."""

    @property
    def collection(self) -> str:
        """The collection of the row."""

    @property
    def after_row(self) -> Row:
        """The row after the change."""


class LogKeyTable:
    """Finds a key by its name, whatever its account. Keys are never taken out: a revoked one is known as that."""

    def __init__(self, store: AccountsStore) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._uses: dict[str, str] = {}
        for account in store.accounts:
            rows = store.state(account)
            for collection in (API_KEYS, KEY_USES):
                for _, row in rows.read_rows(collection):
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

    def follow(self, account: str, _seq: int, changes: Sequence[KeyChange]) -> None:
        """Take in an operation. Called by the store, in order."""
        for change in changes:
            self._take(account, change.collection, change.after_row)

    def _take(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        if collection == API_KEYS:
            key = key_of(account, row)
            self._keys[key.key_id] = key
        else:
            self._uses[str(row["id"])] = str(row["last_used_at"])
