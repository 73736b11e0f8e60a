"""Keys and callers as pure functions: the text of a key, its rows, and the context of a request that came with it."""

import unicodedata
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from knowhub.core import clock, scopes
from knowhub.core.errors import Forbidden, InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import Row, add_version, next_of
from knowhub.core.request_context import DEFAULT_ACCOUNT, RequestContext, Role
from knowhub.core.unicode_forms import normalize
from knowhub.identity.model import ROOT, ApiKey, AuthenticatedCaller, KeyHolder, NewKey

_PREFIX = "kh"
_ID_PREFIX = "key-"
_ID_DIGITS = 16
_SECRET_DIGITS = 64
_MAX_TEXT_CHARS = 512
_GROUPS = ("project", "team", "org")


def make_key(ids: Ids) -> tuple[str, str]:
    """Make the name of a key and its text, which has the name in it, so that it is found by it, and 256 random bits."""
    name = ids.hex(_ID_DIGITS)
    secret = urlsafe_b64encode(bytes.fromhex(ids.hex(_SECRET_DIGITS))).decode().rstrip("=")
    return f"{_ID_PREFIX}{name}", f"{_PREFIX}_{name}_{secret}"


def parse_key_name(text: str) -> str | None:
    """Return the name of the key that a text says it is; None when it cannot be one."""
    prefix, _, rest = text.partition("_")
    named, _, secret = rest.partition("_")
    if prefix != _PREFIX or len(named) != _ID_DIGITS or not secret or len(text) > _MAX_TEXT_CHARS:
        return None
    return _ID_PREFIX + named


def hash_key(text: str) -> str:
    """Hash the text of a key. It holds 256 random bits: to slow down a hash of that guards nothing."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_new_key(new: NewKey, now: float) -> None:
    """Raise InvalidInput for a key that would have no access or no holder."""
    if new.holder.user_id is None and new.holder.agent_id is None:
        raise InvalidInput.of("user_id", "a key stands for a user or an agent; name one of them, or both")
    if f"user:{new.holder.user_id}" == scopes.OWNER:
        raise InvalidInput.of("user_id", f"{scopes.OWNER} means whoever owns a record; choose another id")
    for kind, named in (("user", new.holder.user_id), ("agent", new.holder.agent_id)):
        if named is not None and ROOT in {_fold_name(named), f"{kind}:{_fold_name(named)}"}:
            raise InvalidInput.of(f"{kind}_id", f"{ROOT} is who the root key stands for; choose another id")
    if new.expires_at is not None and clock.parse_iso(new.expires_at) <= now:
        raise InvalidInput.of("expires_at", "must lie in the future")


def make_key_row(new: NewKey, key_id: str, digest: str, now: float) -> dict[str, Any]:
    """Return the row of a fresh key."""
    fields = {
        "id": key_id,
        "hash": digest,
        "user_id": new.holder.user_id,
        "agent_id": new.holder.agent_id,
        "role": new.role.value,
        "project_ids": list(new.holder.project_ids),
        "team_ids": list(new.holder.team_ids),
        "org_ids": list(new.holder.org_ids),
        "expires_at": new.expires_at,
        "revoked_at": None,
        "replaced_by": None,
    }
    return add_version(fields, None, now)


def make_replacing_row(row: Row, key_id: str, digest: str, now: float) -> dict[str, Any]:
    """Return the row of a key that takes the place of another: it opens what that one did, for as long."""
    return add_version({**row, "id": key_id, "hash": digest}, None, now)


def make_ended_row(row: Row, now: float, replaced_by: str | None = None) -> dict[str, Any]:
    """Return the row of a key that opens nothing from now on."""
    return next_of({**row, "revoked_at": clock.iso(now), "replaced_by": replaced_by}, row, now)


def parse_key_row(account: str, row: Row) -> ApiKey:
    """Return a key as memory holds it."""
    holder = KeyHolder(
        row["user_id"], row["agent_id"], tuple(row["project_ids"]), tuple(row["team_ids"]), tuple(row["org_ids"])
    )
    caller = AuthenticatedCaller(holder, _make_context(account, Role(row["role"]), holder, str(row["id"])))
    expires_at = None if row["expires_at"] is None else clock.parse_iso(row["expires_at"])
    return ApiKey(account, dict(row), caller, expires_at)


def narrow_context(caller: AuthenticatedCaller, ids: Mapping[str, str], account: str | None) -> RequestContext:
    """Return the context of a request, which may name no more than the key does. Raises Forbidden.

    `ids` are the context ids that it names; `account` is None where it names none. One of several projects, teams or
    orgs narrows that kind to it; a kind that is not named stays as the key has it.
    """
    own = caller.context
    if own.is_root:
        return make_root_context(account or DEFAULT_ACCOUNT, **ids)
    if account not in {None, own.account}:
        raise Forbidden("the key belongs to another account; leave `account` away")
    if not ids:
        return own
    return _make_context(own.account, own.role, _narrow_holder(caller.holder, ids), own.key_id)


@lru_cache(maxsize=256)
def make_root_context(account: str, **ids: str) -> RequestContext:
    """Return the context of a request with the root key, which sees and may do everything in every account.

    What it saves belongs to the user that it names, else to the agent, and to `user:root` where it names none.
    """
    own = [f"{kind}:{ids[f'{kind}_id']}" for kind in ("agent", "user") if f"{kind}_id" in ids]
    return RequestContext(
        account=account,
        # Whoever it names: the log tells that it was the root key.
        actor=ROOT,
        own=frozenset({ROOT, *own}),
        visible=None,
        default_owner=own[-1] if own else ROOT,
        default_keyword_scopes=(scopes.OWNER,),
        role=Role.ROOT,
    )


def _fold_name(name: str) -> str:
    """Return what a reader takes a name for: without case, width, spaces around it and characters that show nothing."""
    shown = "".join(char for char in normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return normalize("NFKC", shown.casefold()).strip()


def _narrow_holder(holder: KeyHolder, ids: Mapping[str, str]) -> KeyHolder:
    for kind in ("user", "agent"):
        named = ids.get(f"{kind}_id")
        if named is not None and named != getattr(holder, f"{kind}_id"):
            raise _make_forbidden(kind)
    groups: dict[str, tuple[str, ...]] = {}
    for kind in _GROUPS:
        named, held = ids.get(f"{kind}_id"), tuple(getattr(holder, f"{kind}_ids"))
        if named is not None and named not in held:
            raise _make_forbidden(kind)
        groups[f"{kind}_ids"] = held if named is None else (named,)
    return KeyHolder(holder.user_id, holder.agent_id, **groups)


def _make_forbidden(kind: str) -> Forbidden:
    return Forbidden(f"{kind}_id is not one that the key stands for; a request may only narrow what its key says")


def _make_context(account: str, role: Role, holder: KeyHolder, key_id: str | None) -> RequestContext:
    own = [f"{kind}:{item}" for kind in ("agent", "user") if (item := getattr(holder, f"{kind}_id")) is not None]
    shared = [f"{kind}:{item}" for kind in _GROUPS for item in getattr(holder, f"{kind}_ids")]
    visible = frozenset({*own, *shared, scopes.PUBLIC})
    is_admin = role is Role.ADMIN
    return RequestContext(
        account=account,
        actor=own[0],
        own=frozenset(own),
        visible=None if is_admin else visible,
        default_owner=own[-1],
        default_keyword_scopes=(scopes.OWNER,),
        role=role,
        grantable=None if is_admin else visible if role is Role.WRITER else frozenset(),
        key_id=key_id,
    )
