"""What each role may do. A service checks this first, before it looks up any row.

A refusal is then the same for rows that exist and for rows that do not. Owners and visibility are checked later, on the
row: `RequestContext.can_edit` and `RequestContext.sees`.
"""

from collections.abc import Collection

from knowhub.core import scopes
from knowhub.core.errors import Forbidden
from knowhub.core.request_context import RequestContext


def check_can_write(ctx: RequestContext) -> None:
    """Raise Forbidden for a reader, who may only read and give evidence."""
    if not ctx.can_write:
        raise Forbidden("this key may only read and give evidence; other writes need a key of role writer")


def check_can_import(ctx: RequestContext) -> None:
    """Raise Forbidden unless the caller is an admin: imported lines bring ids, owners, scopes and evidence."""
    check_can_write(ctx)
    if ctx.key_id is not None and not ctx.is_admin:
        raise Forbidden("an import sets owners, scopes and evidence of records; it needs an admin's key")


def check_can_maintain(ctx: RequestContext) -> None:
    """Raise Forbidden unless the caller is the local principal or the root key: maintenance is of the whole server."""
    if not ctx.is_root:
        raise Forbidden(
            "upkeep, and work that is not waited for, is for the local principal: leave the caller's ids away; "
            "where keys are asked for, for the root key"
        )


def check_scopes(ctx: RequestContext, wanted: Collection[str], current: Collection[str] = ()) -> None:
    """Raise Forbidden if the caller's key may not give one of the wanted scopes.

    `current` are the scopes that the row has already: they may stay.
    """
    if ctx.grantable is None:
        return
    others = [item for item in wanted if item not in current and not _is_grantable(ctx, item)]
    if others:
        raise Forbidden(f"this key gives no scope but its own: {', '.join(map(repr, others[:5]))} is not among them")


def owner_for(ctx: RequestContext, wanted: str | None, noun: str) -> str:
    """Return the owner of a new row. `noun` names the row in the error. Raises Forbidden for another's owner."""
    if wanted is None:
        return ctx.default_owner
    if not ctx.can_edit(wanted):
        raise Forbidden(f"the caller may not save {noun} that is owned by {wanted!r}")
    return wanted


def filter_grantable(ctx: RequestContext, wanted: Collection[str]) -> list[str]:
    """Return those of the scopes that the caller may give, in their order."""
    return [item for item in wanted if ctx.grantable is None or _is_grantable(ctx, item)]


def _is_grantable(ctx: RequestContext, scope: str) -> bool:
    if scope == scopes.PUBLIC:
        return ctx.can_write
    # `user:owner` is whoever owns the row: who that may be is asked where an owner is given.
    return scope == scopes.OWNER or (ctx.grantable is not None and scope in ctx.grantable)
