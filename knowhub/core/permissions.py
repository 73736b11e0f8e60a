"""What each role may do, in one place: a service asks here first, before it looks anything up.

So what is refused for want of a right answers the same for what is there and for what is not. Who owns a row, and who
sees one, is no matter of roles: `RequestContext.may_edit` and `sees` say that, of rows that were looked up.
"""

from collections.abc import Collection

from knowhub.core import scopes
from knowhub.core.errors import Forbidden
from knowhub.core.request_context import RequestContext


def check_may_write(ctx: RequestContext) -> None:
    """Raise Forbidden for a reader, who reads and gives evidence, and does nothing else."""
    if not ctx.may_write:
        raise Forbidden("this key may read and give evidence; what else is written needs a key of role writer")


def check_may_import(ctx: RequestContext) -> None:
    """Raise Forbidden where a key is no admin's: a line brings its own id, owner, scopes and evidence."""
    check_may_write(ctx)
    if ctx.key_id is not None and not ctx.is_admin:
        raise Forbidden("an import gives records to anybody and brings their evidence along; it needs an admin's key")


def check_may_keep_up(ctx: RequestContext) -> None:
    """Raise Forbidden for everybody but the local principal and the root key: upkeep is for the whole server."""
    if not ctx.is_root:
        raise Forbidden(
            "upkeep, and work that is not waited for, is for the local principal: leave the caller's ids away; "
            "where keys are asked for, for the root key"
        )


def check_scopes(ctx: RequestContext, wanted: Collection[str], standing: Collection[str] = ()) -> None:
    """Raise Forbidden where a row would be shown to somebody to whom the caller's key cannot show it.

    `standing` are the scopes that the row has already: who leaves them gives nothing.
    """
    if ctx.grantable is None:
        return
    others = [item for item in wanted if item not in standing and not _is_grantable(ctx, item)]
    if others:
        raise Forbidden(f"this key gives no scope but its own: {', '.join(map(repr, others[:5]))} is not among them")


def owner_for(ctx: RequestContext, wanted: str | None, noun: str) -> str:
    """Return the owner of a new row. `noun` names the row in the error. Raises Forbidden for another's owner."""
    if wanted is None:
        return ctx.default_owner
    if not ctx.may_edit(wanted):
        raise Forbidden(f"the caller may not save {noun} that is owned by {wanted!r}")
    return wanted


def filter_grantable(ctx: RequestContext, wanted: Collection[str]) -> list[str]:
    """Return those of the scopes that the caller may give, in their order."""
    return [item for item in wanted if ctx.grantable is None or _is_grantable(ctx, item)]


def _is_grantable(ctx: RequestContext, scope: str) -> bool:
    if scope == scopes.PUBLIC:
        return ctx.may_write
    # `user:owner` is whoever owns the row: who that may be is asked where an owner is given.
    return scope == scopes.OWNER or (ctx.grantable is not None and scope in ctx.grantable)
