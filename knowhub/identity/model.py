"""What identity speaks of: API keys, who holds them, and who a request with one comes from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.request_context import RequestContext, Role

API_KEYS = "api_keys"
KEY_USES = "key_uses"
ROOT = "user:root"


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The holder of a key: a user, an agent or both, and their projects, teams and orgs."""

    user_id: str | None = None
    agent_id: str | None = None
    project_ids: Sequence[str] = ()
    team_ids: Sequence[str] = ()
    org_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is asked for; `expires_at` in ISO 8601."""

    holder: KeyHolder
    role: Role
    expires_at: str | None = None


@dataclass(frozen=True, slots=True)
class AuthenticatedCaller:
    """Who a request comes from, as its key says; `context` is that of a request that names nobody.

    The root key has no holder, and opens every account.
    """

    holder: KeyHolder
    context: RequestContext


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key in memory: `row` as the log holds it, `expires_at` in seconds since the epoch."""

    account: str
    row: dict[str, Any]
    caller: AuthenticatedCaller
    expires_at: float | None

    @property
    def key_id(self) -> str:
        """The name of the key, which is no secret."""
        return str(self.row["id"])

    @property
    def digest(self) -> str:
        """The SHA-256 of the key's text."""
        return str(self.row["hash"])

    def has_expired(self, now: float) -> bool:
        """Return whether its time is over at this moment, in seconds since the epoch."""
        return self.expires_at is not None and now >= self.expires_at

    def holds(self, now: float) -> bool:
        """Return whether the key opens anything at this moment."""
        return self.row["revoked_at"] is None and not self.has_expired(now)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. Its `text` is answered once; a retry of the request gets None.

    `operation_id` is the operation that made it, and ended `replaces` where it takes the place of another.
    """

    key: ApiKey
    text: str | None = field(repr=False)
    operation_id: str
    replaces: str | None = None
