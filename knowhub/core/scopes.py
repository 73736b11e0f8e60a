"""Scopes: who a row is for, `{entity_type}:{entity_id}` or `public`."""

import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

PUBLIC = "public"
OWNER = "user:owner"
PRECEDENCE = ("user", "project", "agent", "team", "org", PUBLIC)
MAX_ID_CHARS = 200

_RANK = {kind: rank for rank, kind in enumerate(PRECEDENCE)}
_OWNER_KINDS = ("user", "agent")
_REFUSED = ("Cc", "Cs")


def entity_id_problem(entity_id: str) -> str | None:
    """Say what is wrong with an id of a person, agent, project …; None when nothing is."""
    if not entity_id.strip():
        return "must not be blank"
    if len(entity_id) > MAX_ID_CHARS:
        return f"must have at most {MAX_ID_CHARS} characters"
    if not entity_id.isprintable() and any(unicodedata.category(char) in _REFUSED for char in entity_id):
        return "must not hold control characters"
    return None


def scope_problem(scope: str) -> str | None:
    """Say what is wrong with a scope; None when nothing is."""
    if scope == PUBLIC:
        return None
    kind, colon, entity_id = scope.partition(":")
    if not colon or kind not in _RANK or kind == PUBLIC:
        return f"{scope!r} is not a scope: use user:ID, agent:ID, project:ID, team:ID, org:ID or public"
    problem = entity_id_problem(entity_id)
    return problem and f"the id in scope {scope!r} {problem}"


def owner_problem(owner: str) -> str | None:
    """Say what is wrong with an owner, which is one `user:` or `agent:` principal."""
    kind = owner.partition(":")[0]
    if kind not in _OWNER_KINDS:
        return f"{owner!r} is not an owner: use user:ID or agent:ID"
    return scope_problem(owner)


def audience(scopes: Iterable[str], owner: str) -> frozenset[str]:
    """Resolve `user:owner` and add the owner, who always sees their own row."""
    return frozenset({owner, *(scope for scope in scopes if scope != OWNER)})


@lru_cache(maxsize=65_536)
def intern_access(owner: str, own_scopes: tuple[str, ...]) -> tuple[str, tuple[str, ...], frozenset[str]]:
    """Return an owner, scopes and their audience: the same objects for equal values, as most rows share them."""
    return owner, own_scopes, audience(own_scopes, owner)


@lru_cache(maxsize=65_536)
def visibility_facets(audience: frozenset[str]) -> frozenset[str]:
    """Return the facets of a row with this audience. Whoever has one of these scopes sees the row."""
    return frozenset(f"sees:{scope}" for scope in audience)


def rank(scopes: Iterable[str], owner: str, visible: Collection[str] | None) -> int:
    """Rank by the best scope that the caller shares, 0 being `user`."""
    found = best(scopes, owner, visible)
    return len(PRECEDENCE) if found is None else order(found)[0]


def best(scopes: Iterable[str], owner: str, visible: Collection[str] | None) -> str | None:
    """Return the scope through which the caller sees the row."""
    return min(_list_shared(scopes, owner, visible), key=order, default=None)


def widest(scopes: Iterable[str], owner: str, visible: Collection[str] | None) -> str:
    """Return the scope through which the caller sees the row, and that reaches most others."""
    return max(_list_shared(scopes, owner, visible), key=order, default="")


def _list_shared(scopes: Iterable[str], owner: str, visible: Collection[str] | None) -> list[str]:
    """Return the scopes of a row that the caller shares: all where `visible` is None, which is access to everything."""
    return [scope for scope in audience(scopes, owner) if visible is None or scope in visible]


def order(scope: str) -> tuple[int, str]:
    """Return the key that sorts scopes: `user` first, `public` last."""
    return _RANK[scope.partition(":")[0]], scope


def name_readers(scopes: Iterable[str], owner: str) -> list[str]:
    """Return scopes with `user:owner` replaced by the owner."""
    return [owner if scope == OWNER else scope for scope in scopes]


def derive_visibility(scopes: Collection[str]) -> str:
    """Return how far `scopes` reach: private, shared, org or public."""
    kinds = {scope.partition(":")[0] for scope in scopes}
    if PUBLIC in kinds:
        return "public"
    if "org" in kinds:
        return "org"
    if len(scopes) > 1 or kinds & {"project", "team"}:
        return "shared"
    return "private"
