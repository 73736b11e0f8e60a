"""Pure functions of resources: ids, and the rows that saving, editing and revealing write."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from knowhub.core import clock, permissions, scopes
from knowhub.core.erasing import OWNED_FIELDS, EraseRules, is_erased
from knowhub.core.errors import Conflict, Forbidden, InvalidInput
from knowhub.core.operation import IdempotencyKey, Row, add_version, is_live, next_of
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import normalize
from knowhub.resources.model import NewResource

MAX_ID_CHARS = 512

_NO_PART = frozenset({"", ".", ".."})
_ALWAYS_REFUSED = ("%", "\\")
_REFUSED_KINDS = ("Cc", "Cs")


def find_id_problem(resource_id: str) -> str | None:
    """Return what is wrong with an id; None when nothing is.

    No file is named by it here. But whoever lays resources out as files, and unquotes or normalises what they are
    given first, must not be led out of their folder: so the id is looked at as that would leave it, too.
    """
    if len(resource_id) > MAX_ID_CHARS:
        return f"must have at most {MAX_ID_CHARS} characters"
    if not resource_id.isprintable() and any(unicodedata.category(char) in _REFUSED_KINDS for char in resource_id):
        return "must not hold control characters"
    forms = {resource_id} if resource_id.isascii() else {resource_id, normalize("NFKC", resource_id)}
    if any(char in form for form in forms for char in _ALWAYS_REFUSED) or any(
        part.strip() in _NO_PART for form in forms for part in form.split("/")
    ):
        return "must be a path such as code/selenium/login, without %, \\, or an empty, . or .. part"
    return None


def check_resource_id(resource_id: str) -> str:
    """Return the id. Raises InvalidInput where it is none."""
    problem = find_id_problem(resource_id)
    if problem:
        raise InvalidInput.of("id", problem)
    return resource_id


SEALED: Final = "sealed"
SECURE_BODY: Final = "secure_body"
_EXPIRES_AT: Final = "expires_at"
_SEALED_FIELDS = ("key_id", "version", "nonce", "data")
SEALED_GROUP: Final = frozenset({(SEALED,), *((SEALED, name) for name in _SEALED_FIELDS)})
"""What is sealed opens only with its own key, nonce and version."""


def make_row(new: NewResource, before: Row | None, now: float, ctx: RequestContext, *, upsert: bool) -> dict[str, Any]:
    """Make the row of a resource, or with `upsert` its next version; nothing is sealed yet.

    The owner stays, and so do the scopes if `new` has none. Raises InvalidInput, Conflict for an id
    that is taken, whoever has it, and Forbidden where the caller may not write this.
    """
    check_resource_id(new.id)
    if before is not None and (is_live(before) or is_erased(before)):
        _check_replaceable(new, before, ctx, upsert=upsert)
    elif before is not None and not ctx.can_edit(str(before["owner"])):
        # Whoever deleted it may take that back; and who took its place could have it erased.
        raise Conflict(f"resource id {new.id!r} is taken")
    current = before if is_live(before) else None
    owner = permissions.owner_for(ctx, new.owner, "a resource") if current is None else str(current["owner"])
    wanted = new.scopes or (ctx.default_record_scopes if current is None else current["scopes"])
    own_scopes = list(dict.fromkeys(wanted))
    permissions.check_scopes(ctx, own_scopes, current=() if current is None else current["scopes"])
    metadata, expires_at = _merge_expiry(dict(new.metadata), new.expires_at)
    fields = {
        "id": new.id,
        "title": new.title,
        "body": new.body,
        SEALED: None,
        "content_type": new.content_type,
        "metadata": metadata,
        "scopes": own_scopes,
        "owner": owner,
        _EXPIRES_AT: expires_at,
    }
    return add_version(fields, before, now)


def apply_patch(row: Row, patch: Mapping[str, Any], now: float, ctx: RequestContext) -> dict[str, Any] | None:
    """Return `row` with the fields of `patch`, or None when that changes nothing; what is sealed stays as it is.

    Raises InvalidInput, and Forbidden for a scope that is not the caller's to give.
    """
    permissions.check_scopes(ctx, patch.get("scopes", ()), current=row["scopes"])
    changed = {**row, **{name: value for name, value in patch.items() if name != SECURE_BODY}}
    if "metadata" in patch or _EXPIRES_AT in patch:
        changed["metadata"], changed[_EXPIRES_AT] = _merge_patch(row, patch)
    if changed == row:
        return None
    return next_of(changed, row, now)


def hide_secret(key: IdempotencyKey | None, request: Mapping[str, Any]) -> IdempotencyKey | None:
    """Return an idempotency key that says nothing of the secret body of its request: the log stores it.

    A hash of a short secret could be guessed. So the hash is of the rest alone.
    """
    if key is None or request.get(SECURE_BODY) is None:
        return key
    rest = json.dumps({**request, SECURE_BODY: None}, sort_keys=True, default=list)
    return replace(key, body=sha256(rest.encode("utf-8", "surrogatepass")).hexdigest())


def is_unchanged(row: Row, before: Row | None) -> bool:
    """Return whether a row has the content of its earlier version, and neither has a sealed body."""
    kept = ("version", "updated_at")
    return is_live(before) and {**row, **{name: (before or {})[name] for name in kept}} == before


def check_role_can_reveal(ctx: RequestContext) -> None:
    """Raise Forbidden for a reader, before anything is looked up."""
    if not ctx.can_write:
        raise Forbidden("this key may read; revealing what is sealed needs a key of role writer")


def check_can_reveal(ctx: RequestContext, row: Row) -> None:
    """Raise Forbidden unless the caller may see the sealed body of a resource.

    Its owner, admins, and callers who see it through a scope narrower than `public` may reveal it:
    `public` shows that it is there, and not what it hides.
    """
    named = scopes.audience(row["scopes"], row["owner"]) - {scopes.PUBLIC}
    if not ctx.can_edit(row["owner"]) and not ctx.sees(named):
        raise Forbidden("what is public is not revealed by that: the owner of this resource may give you a scope of it")


def make_reveal_row(row: Row, ctx: RequestContext, before: Row | None, now: float) -> dict[str, Any]:
    """Make the line that says who was shown what is sealed; whoever sees the resource may see it."""
    fields = {
        "id": row["id"],
        "resource_version": row["version"],
        "revealed_by": ctx.actor,
        "reveals": 1 if before is None else int(before["reveals"]) + 1,
        "scopes": row["scopes"],
        "owner": row["owner"],
    }
    return add_version(fields, before, now)


def make_public_view(row: Row, now: float | None = None) -> dict[str, Any]:
    """Return a resource as anybody is shown it: without what is sealed, and with whether it has expired by `now`."""
    public = {name: value for name, value in row.items() if name != SEALED} | {"has_secure_body": bool(row.get(SEALED))}
    return public if now is None else public | {"expired": is_expired(row.get(_EXPIRES_AT), now)}


def is_expired(expires_at: str | None, now: float) -> bool:
    """Return whether a moment has passed; False if there is none."""
    return expires_at is not None and clock.parse_iso(expires_at) <= now


def _check_replaceable(new: NewResource, current: Row, ctx: RequestContext, *, upsert: bool) -> None:
    # The only answer about a hidden row: its id is taken, and nothing more.
    if not upsert or not ctx.sees_row(current):
        raise Conflict(f"resource id {new.id!r} is taken")
    if is_erased(current):
        # A row on top of it would let a snapshot bring back what was erased.
        raise Conflict(f"resource id {new.id!r} is taken: what was erased stays erased, and keeps its id")
    if not ctx.can_edit(current["owner"]):
        raise Forbidden("only the owner of a resource may save a new version of it")
    if new.owner is not None and new.owner != current["owner"]:
        raise Forbidden("a resource keeps its owner")


def _merge_expiry(metadata: dict[str, Any], expires_at: str | None) -> tuple[dict[str, Any], str | None]:
    """Return metadata and expiry with the same time; `metadata.expires_at` counts as `expires_at`."""
    if _EXPIRES_AT not in metadata:
        return metadata, expires_at
    moment = _parse_time(metadata[_EXPIRES_AT])
    if expires_at is not None and moment != expires_at:
        raise InvalidInput.of("metadata.expires_at", "differs from expires_at; send one of them")
    return {**metadata, _EXPIRES_AT: moment}, moment


def _merge_patch(row: Row, patch: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    metadata = dict(patch.get("metadata", row["metadata"]))
    if _EXPIRES_AT not in patch:
        current = None if _EXPIRES_AT in row["metadata"] else row[_EXPIRES_AT]
        return _merge_expiry(metadata, None if _EXPIRES_AT in metadata else current)
    if "metadata" not in patch and _EXPIRES_AT in metadata:
        metadata[_EXPIRES_AT] = patch[_EXPIRES_AT]
    return _merge_expiry(metadata, patch[_EXPIRES_AT])


def _parse_time(value: object) -> str | None:
    if value is None:
        return None
    try:
        return clock.normalize_iso(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidInput.of(
            "metadata.expires_at", "must be a date or time in ISO 8601, such as 2026-03-05T12:00:00Z or 2026-03-05"
        ) from None


ERASE_RULES = EraseRules(
    noun="resource",
    kept=OWNED_FIELDS | {"content_type"},
    blanks={"title": "", "body": "", SEALED: None, "metadata": {}, _EXPIRES_AT: None},
    texts=("body", "title"),
    optional=("metadata", SEALED, _EXPIRES_AT),
)
