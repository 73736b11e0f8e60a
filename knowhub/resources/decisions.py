"""Rows in, rows out: what saving, editing and revealing do to a resource, with no store, no clock and no key."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.core import clock, permissions, scopes
from knowhub.core.erasing import EraseRules, is_erased
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Row, View, Write, is_live, next_of, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import RowRules
from knowhub.resources.ids import check_resource_id
from knowhub.resources.model import RESOURCES, REVEALS, NewResource

SEALED: Final = "sealed"
SECURE_BODY: Final = "secure_body"
_EXPIRES_AT: Final = "expires_at"
_SEALED_FIELDS = ("key_id", "version", "nonce", "data")


def saved_row(new: NewResource, before: Row | None, now: float, ctx: RequestContext, *, upsert: bool) -> dict[str, Any]:
    """Make the row of a resource, or with `upsert` the next version of the one that stands; nothing is sealed yet.

    Who owns it, and where `new` does not say it who sees it, stay as they are. Raises InvalidInput, Conflict for an id
    that is taken, whoever has it, and Forbidden where the caller may not write this.
    """
    check_resource_id(new.id)
    if before is not None and (is_live(before) or is_erased(before)):
        _check_replaceable(new, before, ctx, upsert=upsert)
    elif before is not None and not ctx.may_edit(str(before["owner"])):
        # Whoever deleted it may take that back; and who took its place could have it erased.
        raise Conflict(f"resource id {new.id!r} is taken")
    standing = before if is_live(before) else None
    owner = permissions.owner_for(ctx, new.owner, "a resource") if standing is None else str(standing["owner"])
    wanted = new.scopes or (ctx.default_scopes if standing is None else standing["scopes"])
    own_scopes = list(dict.fromkeys(wanted))
    permissions.check_scopes(ctx, own_scopes, standing=() if standing is None else standing["scopes"])
    moment = clock.iso(now)
    metadata, expires_at = _folded(dict(new.metadata), new.expires_at)
    return {
        "id": new.id,
        "title": new.title,
        "body": new.body,
        SEALED: None,
        "content_type": new.content_type,
        "metadata": metadata,
        "scopes": own_scopes,
        "owner": owner,
        _EXPIRES_AT: expires_at,
        "version": next_version(before),
        "created_at": moment if standing is None else standing["created_at"],
        "updated_at": moment,
    }


def patched_row(row: Row, patch: Mapping[str, Any], now: float, ctx: RequestContext) -> dict[str, Any] | None:
    """Return `row` with the fields of `patch`, or None when that changes nothing; what is sealed stays as it is.

    Raises InvalidInput, and Forbidden for a scope that is not the caller's to give.
    """
    permissions.check_scopes(ctx, patch.get("scopes", ()), standing=row["scopes"])
    changed = {**row, **{name: value for name, value in patch.items() if name != SECURE_BODY}}
    if "metadata" in patch or _EXPIRES_AT in patch:
        changed["metadata"], changed[_EXPIRES_AT] = _folded_patch(row, patch)
    if changed == row:
        return None
    return next_of(changed, row, now)


def says_the_same(row: Row, before: Row | None) -> bool:
    """Tell whether a row says what stood before, with nothing sealed in either."""
    kept = ("version", "updated_at")
    return is_live(before) and {**row, **{name: (before or {})[name] for name in kept}} == before


def readable_row(view: View, ctx: RequestContext, resource_id: str) -> Row:
    """Return a live resource that the caller sees. Raises NotFound."""
    row = view.get(RESOURCES, resource_id)
    if row is None or not is_live(row) or not _is_seen(ctx, row):
        raise NotFound.of("resource", resource_id)
    return row


def editable_row(view: View, ctx: RequestContext, resource_id: str, expected: int | None) -> Row:
    """Return a resource that the caller may change. Raises NotFound, Forbidden and VersionConflict."""
    row = readable_row(view, ctx, resource_id)
    if not ctx.may_edit(row["owner"]):
        raise Forbidden("only the owner of a resource may change or delete it")
    if expected is not None and expected != row["version"]:
        raise VersionConflict(row["version"])
    return row


def check_may_reveal(ctx: RequestContext) -> None:
    """Raise Forbidden for a reader, before anything is looked up."""
    if not ctx.may_write:
        raise Forbidden("this key may read; revealing what is sealed needs a key of role writer")


def revealable_row(view: View, ctx: RequestContext, resource_id: str) -> Row:
    """Return a resource whose sealed body the caller may see.

    That may its owner, who sees everything of the account, and whoever sees it by a scope narrower than `public`:
    `public` shows that it is there, and not what it hides. Raises NotFound and Forbidden.
    """
    row = readable_row(view, ctx, resource_id)
    named = scopes.audience(row["scopes"], row["owner"]) - {scopes.PUBLIC}
    if not ctx.may_edit(row["owner"]) and not ctx.sees(named):
        raise Forbidden("what is public is not revealed by that: the owner of this resource may give you a scope of it")
    return row


def reveal_row(row: Row, ctx: RequestContext, before: Row | None, now: float) -> dict[str, Any]:
    """Make the line that says who was shown what is sealed; whoever sees the resource may see it."""
    moment = clock.iso(now)
    return {
        "id": row["id"],
        "resource_version": row["version"],
        "revealed_by": ctx.actor,
        "reveals": 1 if before is None else int(before["reveals"]) + 1,
        "scopes": row["scopes"],
        "owner": row["owner"],
        "version": next_version(before),
        "created_at": moment if before is None else before["created_at"],
        "updated_at": moment,
    }


def write(row: Row) -> Write:
    """Say that a resource shall stand as `row`."""
    return Write(RESOURCES, row["id"], row)


def write_reveal(row: Row) -> Write:
    """Say that a reveal shall be on record."""
    return Write(REVEALS, row["id"], row)


def shown(row: Row, now: float | None = None) -> dict[str, Any]:
    """Return a resource as anybody is shown it: without what is sealed, and with whether it has expired by `now`."""
    told = {name: value for name, value in row.items() if name != SEALED} | {"has_secure_body": bool(row.get(SEALED))}
    return told if now is None else told | {"expired": is_expired(row.get(_EXPIRES_AT), now)}


def is_expired(expires_at: str | None, now: float) -> bool:
    """Tell whether a moment, of which there need be none, has come (RS-014)."""
    return expires_at is not None and clock.parse_iso(expires_at) <= now


def missing_references(view: View, ctx: RequestContext, resource_ids: Sequence[str]) -> list[str]:
    """Name those of the resources that are not there, or that the caller does not see (RS-015)."""
    rows = ((resource_id, view.get(RESOURCES, resource_id)) for resource_id in dict.fromkeys(resource_ids))
    return [resource_id for resource_id, row in rows if row is None or not is_live(row) or not _is_seen(ctx, row)]


def _check_replaceable(new: NewResource, standing: Row, ctx: RequestContext, *, upsert: bool) -> None:
    # The one answer that tells of what the caller does not see: an id is taken, and nothing more.
    if not upsert or not ctx.sees(scopes.audience(standing["scopes"], standing["owner"])):
        raise Conflict(f"resource id {new.id!r} is taken")
    if is_erased(standing):
        # A row on top of it would let a snapshot bring back what was erased.
        raise Conflict(f"resource id {new.id!r} is taken: what was erased stays erased, and keeps its id")
    if not ctx.may_edit(standing["owner"]):
        raise Forbidden("only the owner of a resource may save a new version of it")
    if new.owner is not None and new.owner != standing["owner"]:
        raise Forbidden("a resource keeps its owner")


def _is_seen(ctx: RequestContext, row: Row) -> bool:
    return not is_erased(row) and ctx.sees(scopes.audience(row["scopes"], row["owner"]))


def _folded(metadata: dict[str, Any], expires_at: str | None) -> tuple[dict[str, Any], str | None]:
    """Return metadata and expiry that say the same: what `metadata.expires_at` says counts as said (RS-011)."""
    if _EXPIRES_AT not in metadata:
        return metadata, expires_at
    moment = _moment(metadata[_EXPIRES_AT])
    if expires_at is not None and moment != expires_at:
        raise InvalidInput.of("metadata.expires_at", "differs from expires_at; send one of them")
    return {**metadata, _EXPIRES_AT: moment}, moment


def _folded_patch(row: Row, patch: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    metadata = dict(patch.get("metadata", row["metadata"]))
    if _EXPIRES_AT not in patch:
        stands = None if _EXPIRES_AT in row["metadata"] else row[_EXPIRES_AT]
        return _folded(metadata, None if _EXPIRES_AT in metadata else stands)
    if "metadata" not in patch and _EXPIRES_AT in metadata:
        metadata[_EXPIRES_AT] = patch[_EXPIRES_AT]
    return _folded(metadata, patch[_EXPIRES_AT])


def _moment(value: object) -> str | None:
    if value is None:
        return None
    try:
        return clock.normalised_iso(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        raise InvalidInput.of(
            "metadata.expires_at", "must be a date or time in ISO 8601, such as 2026-03-05T12:00:00Z or 2026-03-05"
        ) from None


UNDO_RULES = RowRules(
    # What is sealed opens with its own key, nonce and version only.
    units=(frozenset({(SEALED,), *((SEALED, name) for name in _SEALED_FIELDS)}),),
)

ERASE_RULES = EraseRules(
    noun="resource",
    kept=frozenset({"id", "content_type", "scopes", "owner", "version", "created_at", "updated_at", "deleted"}),
    blanks={"title": "", "body": "", SEALED: None, "metadata": {}, _EXPIRES_AT: None},
    spare=("metadata", SEALED, _EXPIRES_AT),
    says=lambda row: row["body"] if row["body"].strip() else row["title"],
)
