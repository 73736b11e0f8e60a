"""Who is calling, and what that lets them see and do; always named `ctx`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from knowhub.core import scopes

DEFAULT_ACCOUNT = "default"
CONTEXT_IDS = ("user_id", "agent_id", "project_id", "team_id", "org_id")


class Role(StrEnum):
    """What a caller may do; each may also do what those before it may."""

    READER = "reader"  # reads, and gives evidence
    WRITER = "writer"  # saves, and edits its own
    ADMIN = "admin"  # sees and edits everything of its account
    ROOT = "root"  # the root key, and the local principal where auth is off: every account, and the upkeep


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller of one request.

    `actor` is the principal written into the log: the agent if one is named. `default_owner` owns what is saved: the
    user if one is named, because several users may call as one agent. `own` are the principals whose rows are the
    caller's, `visible` the scopes that they see, None meaning all: the local principal, root and an account's admins.
    Without scopes a record or resource gets `default_record_scopes`, a keyword or info `default_keyword_scopes`.
    `grantable` are the scopes and owners that the caller may give to what they write, None meaning any. `key_id` names
    the key that the request came with.
    """

    account: str
    actor: str
    own: frozenset[str]
    visible: frozenset[str] | None
    default_owner: str
    default_record_scopes: tuple[str, ...] = (scopes.OWNER,)
    default_keyword_scopes: tuple[str, ...] = (scopes.PUBLIC,)
    role: Role = Role.WRITER
    grantable: frozenset[str] | None = None
    key_id: str | None = None

    @property
    def quota_key(self) -> str:
        """Name whose quota the request uses, in the account: two users may call as one agent, and are two.

        An allowance of one of them must not be used up by the other.
        """
        # Whoever the root key names, it is the root key.
        return self.actor if self.is_root or not self.own else "\n".join(sorted(self.own))

    @property
    def sees_everything(self) -> bool:
        """Return whether the caller sees everything of the account; who may keep the server up is `is_root`."""
        return self.visible is None

    @property
    def can_write(self) -> bool:
        """Return whether the caller may do more than read and give evidence."""
        return self.role is not Role.READER

    @property
    def is_admin(self) -> bool:
        """Return whether the caller may do everything in the account."""
        return self.role in {Role.ADMIN, Role.ROOT}

    @property
    def is_root(self) -> bool:
        """Return whether the caller may keep the server up, in every account."""
        return self.role is Role.ROOT

    def sees(self, audience: frozenset[str]) -> bool:
        """Return whether a row with this audience exists for the caller."""
        return self.visible is None or not self.visible.isdisjoint(audience)

    def sees_row(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row with an owner and scopes exists for the caller."""
        return self.visible is None or self.sees(scopes.audience(row["scopes"], row["owner"]))

    def can_edit(self, owner: str) -> bool:
        """Return whether the caller may change a row of this owner: the owner and admins may, readers never."""
        return self.can_write and (self.visible is None or owner in self.own)


def share_nothing_by_default(ctx: RequestContext) -> RequestContext:
    """Return a context whose keywords and infos have the default scopes of its records, as where keys are asked for."""
    return replace(ctx, default_keyword_scopes=ctx.default_record_scopes)


@lru_cache(maxsize=256)
def local_context(default_owner: str, account: str = DEFAULT_ACCOUNT) -> RequestContext:
    """Return the context of a request that names nobody: the local principal."""
    return RequestContext(
        account=account,
        actor=default_owner,
        own=frozenset({default_owner}),
        visible=None,
        default_owner=default_owner,
        role=Role.ROOT,
    )


def caller_context(ids: Mapping[str, str], default_owner: str, account: str = DEFAULT_ACCOUNT) -> RequestContext:
    """Return the context of a request that names its caller by any of CONTEXT_IDS."""
    visible = {f"{name.removesuffix('_id')}:{ids[name]}" for name in CONTEXT_IDS if name in ids}
    own = [f"{kind}:{ids[f'{kind}_id']}" for kind in ("agent", "user") if f"{kind}_id" in ids]
    # Who names only a project, team or org is nobody's owner: what they save is for those they named.
    named = tuple(sorted(visible))
    return RequestContext(
        account=account,
        actor=own[0] if own else named[0],
        own=frozenset(own),
        visible=frozenset({*visible, scopes.PUBLIC}),
        default_owner=own[-1] if own else default_owner,
        default_record_scopes=(scopes.OWNER,) if own else named,
    )
