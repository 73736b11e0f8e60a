"""Hubs that require keys, and keys for them."""

from pathlib import Path

from knowhub.bootstrap import Hub
from knowhub.core.request_context import RequestContext, Role
from knowhub.identity.decisions import make_root_context
from knowhub.identity.model import AuthenticatedCaller, IssuedKey, KeyHolder, NewKey
from knowhub.settings import Settings

ROOT_KEY = "root-" + "r" * 40
# A holder with a group of every kind, and two projects.
LI = KeyHolder("li", "crawler", ("atlas", "zeus"), ("web",), ("acme",))


def make_keyed_settings(folder: Path, root_key: str | None = ROOT_KEY) -> Settings:
    """Return the settings of a hub that requires keys."""
    return Settings(data_dir=folder, owner="user:local", auth="api-key", root_key=root_key)


def root_caller(account: str = "default") -> RequestContext:
    """Return the context of a request with the root key."""
    return make_root_context(account)


async def issue_key(
    hub: Hub,
    holder: KeyHolder,
    role: Role = Role.WRITER,
    *,
    account: str = "default",
    expires_at: str | None = None,
) -> IssuedKey:
    """Issue a key, and return it with its text."""
    return await hub.identity.issue(root_caller(account), NewKey(holder, role, expires_at))


async def issue_key_text(hub: Hub, user_id: str, role: Role = Role.WRITER, *, account: str = "default") -> str:
    """Issue a key for a user, and return its text."""
    return text_of(await issue_key(hub, KeyHolder(user_id), role, account=account))


def text_of(key: IssuedKey) -> str:
    """Return the text of a key that was just issued."""
    assert key.text is not None
    return key.text


async def caller_of(hub: Hub, text: str) -> AuthenticatedCaller:
    """Return the caller of a key, which must be valid."""
    caller = await hub.identity.authenticate(text)
    assert caller is not None
    return caller


def key_headers(key: str) -> dict[str, str]:
    """Return the headers of a request with a key."""
    return {"X-API-Key": key}
