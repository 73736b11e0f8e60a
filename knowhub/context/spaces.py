"""Into whose spaces a caller's memories go (CE-022, CE-061, C-68)."""

from contextlib import suppress

from knowhub.context import uri
from knowhub.context.model import Category, MemoryContext
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import RequestContext

_USER, _AGENT = "user:", "agent:"


def memory_context(ctx: RequestContext, session_id: str = "", trace_id: str = "") -> MemoryContext:
    """Return the spaces of who calls. Where no agent is named a user has one of their own, and the other way round.

    Raises InvalidInput where neither is named and no default takes their place: a project remembers nothing.
    """
    # The root key acts for whom it names, and for itself where it names nobody.
    own = (ctx.own - {ctx.actor} if ctx.is_root else ctx.own) or ctx.own
    named = {principal.partition(":")[0]: principal for principal in sorted(own)}
    if not named and ctx.visible is None:
        named = {ctx.default_owner.partition(":")[0]: ctx.default_owner}
    user, agent = named.get("user"), named.get("agent")
    if user is None and agent is None:
        raise InvalidInput.of("user_id", "name a user or an agent: a session belongs to one of them")
    return MemoryContext(
        account=ctx.account,
        user=_segment(user, agent or "", _USER),
        agent=_segment(agent, user or "", _AGENT),
        user_owner=user or agent or "",
        agent_owner=agent or user or "",
        session_id=session_id,
        trace_id=trace_id,
    )


def space_of(whose: MemoryContext, owner_scope: str) -> str:
    """Return the space of an owner scope, `user` or `agent` (C-68)."""
    return f"users/{whose.user}" if owner_scope == "user" else f"agents/{whose.agent}"


def owner_of(whose: MemoryContext, owner_scope: str) -> str:
    """Return the principal who owns what stands in the space of an owner scope."""
    return whose.user_owner if owner_scope == "user" else whose.agent_owner


def session_uri(whose: MemoryContext) -> str:
    """Return the URI of the session that is committed."""
    return uri.node_uri(whose.account, space_of(whose, "user"), Category.SESSIONS, whose.session_id)


def _segment(principal: str | None, other: str, prefix: str) -> str:
    try:
        if principal is not None:
            return uri.segment(principal.removeprefix(prefix))
        return uri.own_segment(other.partition(":")[2])
    except ValueError as problem:
        raise InvalidInput.of(f"{(principal or other).partition(':')[0]}_id", str(problem)) from problem


def seen_spaces(ctx: RequestContext) -> list[str] | None:
    """Return the spaces of which the caller may see something; None stands for all of the account."""
    if ctx.visible is None:
        return None
    spaces = []
    for principal in sorted(ctx.visible):
        kind, _, name = principal.partition(":")
        if kind not in {"user", "agent"}:
            continue
        other = "agents" if kind == "user" else "users"
        # Who has a name that no URI could hold has remembered nothing.
        with suppress(ValueError):
            spaces += [f"{kind}s/{uri.segment(name)}", f"{other}/{uri.own_segment(name)}"]
    return spaces
