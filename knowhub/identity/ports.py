"""What identity needs from the store."""

from collections.abc import Sequence
from typing import Protocol

from knowhub.identity.model import ApiKey


class KeyTable(Protocol):
    """Every key of every account, as the acknowledged log has them."""

    def get(self, key_id: str) -> ApiKey | None:
        """Return a key, a revoked one too; None when there is none."""

    def keys(self, account: str | None) -> Sequence[ApiKey]:
        """Return the keys of an account, of all when None, in the order in which they were made."""

    def used_at(self, key_id: str) -> str | None:
        """Return when a key was last used, in ISO 8601, as far as that is written down."""
