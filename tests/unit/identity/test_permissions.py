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


def test_a_reader_may_not_edit_even_own_rows() -> None:
    owned = {who: ctx.can_edit("user:li") for who, ctx in EVERYBODY.items()}

    assert owned == {"reader": False, "writer": True, "admin": True, "root": True, "named": True, "local": True}
