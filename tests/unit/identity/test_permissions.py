"""What each role may do, asked of the one place that says it."""

import pytest

from knowhub.core import permissions
from knowhub.core.errors import Forbidden
from knowhub.core.request_context import RequestContext, Role
from knowhub.identity.decisions import context_for, key_of, new_row, root_context
from knowhub.identity.model import KeyHolder, NewKey
from tests.builders import START, caller, local

LI = KeyHolder("li", "coder", ("atlas",), ("web",))


def context_of_role(role: Role) -> RequestContext:
    """Return the context of a request with a key of this role."""
    return context_for(key_of("default", new_row(NewKey(LI, role), "key-1", "hash", START)).caller, {}, None)


EVERYBODY = {
    "reader": context_of_role(Role.READER),
    "writer": context_of_role(Role.WRITER),
    "admin": context_of_role(Role.ADMIN),
    "root": root_context("default"),
    "named": caller(user_id="li"),
    "local": local(),
}


@pytest.mark.parametrize(
    ("check", "may"),
    [
        (permissions.check_can_write, {"writer", "admin", "root", "named", "local"}),
        # Without keys there is nobody whose word counts for more: who names a caller imports as before.
        (permissions.check_can_import, {"admin", "root", "named", "local"}),
        (permissions.check_can_maintain, {"root", "local"}),
    ],
)
def test_each_role_passes_exactly_its_checks(check: object, may: set[str]) -> None:
    assert callable(check)

    for who, ctx in EVERYBODY.items():
        if who in may:
            check(ctx)
        else:
            with pytest.raises(Forbidden):
                check(ctx)


@pytest.mark.parametrize(
    ("role", "given"),
    [
        (Role.READER, {"user:owner"}),
        (Role.WRITER, {"user:owner", "public", "user:li", "agent:coder", "project:atlas", "team:web"}),
        (Role.ADMIN, None),
    ],
)
def test_a_key_grants_its_own_scopes_and_a_writer_also_public(role: Role, given: set[str] | None) -> None:
    wanted = ["user:owner", "public", "user:li", "agent:coder", "project:atlas", "team:web", "user:coder", "org:web"]
    ctx = context_of_role(role)

    assert set(permissions.filter_grantable(ctx, wanted)) == set(wanted if given is None else given)
    for scope in wanted:
        if given is None or scope in given:
            permissions.check_scopes(ctx, [scope])
        else:
            with pytest.raises(Forbidden, match=scope):
                permissions.check_scopes(ctx, ["user:owner", scope])


def test_an_existing_scope_may_stay() -> None:
    permissions.check_scopes(context_of_role(Role.WRITER), ["org:acme", "team:web"], current=["org:acme"])

    with pytest.raises(Forbidden, match="org:other"):
        permissions.check_scopes(context_of_role(Role.WRITER), ["org:acme", "org:other"], current=["org:acme"])


def test_without_keys_any_scope_may_be_granted() -> None:
    for ctx in (local(), caller(user_id="li")):
        permissions.check_scopes(ctx, ["org:anything"])


def test_a_reader_may_not_edit_even_own_rows() -> None:
    owned = {who: ctx.can_edit("user:li") for who, ctx in EVERYBODY.items()}

    assert owned == {"reader": False, "writer": True, "admin": True, "root": True, "named": True, "local": True}
