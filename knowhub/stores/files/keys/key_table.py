"""The API keys of every account in memory, following the log."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from knowhub.identity.decisions import key_of
from knowhub.identity.model import API_KEYS, KEY_USES, ApiKey
from knowhub.stores.files.log.log_line import RawChange
from knowhub.stores.files.rows.state import AccountState


class Accounts(Protocol):
    """What is read of a store when the table is made."""

    @property
    def accounts(self) -> Sequence[str]: ...
    def state(self, account: str) -> AccountState: ...


class LogKeyTable:
    """Finds a key by its name, whatever its account. Keys are never taken out: a revoked one is known as that."""

    def __init__(self, store: Accounts) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._uses: dict[str, str] = {}
        for account in store.accounts:
            rows = store.state(account).rows
            for collection in (API_KEYS, KEY_USES):
                for text in rows.get(collection, {}).values():
                    self._take(account, collection, orjson.loads(text))

    def get(self, key_id: str) -> ApiKey | None:
        return self._keys.get(key_id)

    def keys(self, account: str | None) -> Sequence[ApiKey]:
        return [key for key in self._keys.values() if account in {None, key.account}]

    def used_at(self, key_id: str) -> str | None:
        return self._uses.get(key_id)

    def follow(self, account: str, _seq: int, changes: Sequence[RawChange]) -> None:
        """Take in an operation. Called by the store, in order."""
        for change in changes:
            if change.collection in {API_KEYS, KEY_USES}:
                self._take(account, change.collection, change.after_row)

    def _take(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        if collection == API_KEYS:
            key = key_of(account, row)
            self._keys[key.key_id] = key
        else:
            self._uses[str(row["id"])] = str(row["last_used_at"])
