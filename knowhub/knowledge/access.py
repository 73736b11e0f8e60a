"""Who can see a record, and why the caller does (seed 004, 知识结构: scopes, owner, visibility)."""

from typing import Any

from knowhub.core import scopes
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import Head

_LOCAL = "local_principal"
_ADMIN = "admin"


def access_of(ctx: RequestContext, head: Head, visibility: str) -> dict[str, Any]:
    """Return the readers of a record that the caller sees, each with its reason, and the caller's own rights."""
    may_edit = ctx.may_edit(head.owner)
    rights = ["read", "add_evidence", *(("edit", "set_score", "evolve", "delete", "erase") if may_edit else ())]
    readers = [{"scope": head.owner, "because": "owner"}]
    readers += [{"scope": one, "because": "scope"} for one in sorted(head.audience - {head.owner}, key=_precedence)]
    return {
        "knowledge_id": head.id,
        "owner": head.owner,
        "scopes": list(head.scopes),
        "visibility": visibility,
        "readers": readers,
        "caller": {
            "principal": ctx.actor,
            "seen_by": _seen_by(ctx, head),
            "is_owner": head.owner in ctx.own,
            "rights": rights,
        },
    }


def _seen_by(ctx: RequestContext, head: Head) -> str | None:
    if ctx.unrestricted:
        return _LOCAL if ctx.is_root else _ADMIN
    return scopes.best(head.scopes, head.owner, ctx.visible)


def _precedence(scope: str) -> tuple[int, str]:
    return scopes.PRECEDENCE.index(scope.partition(":")[0]), scope
