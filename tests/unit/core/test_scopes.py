"""Scopes: their syntax, their visibility, and their order in results."""

import pytest

from knowhub.core import scopes


@pytest.mark.parametrize(
    "scope",
    ["", "user", "user:", "user: ", "public:x", "group:x", "USER:x", "user:a\nb", "user:a\0", "org:" + "x" * 201],
)
def test_an_invalid_scope_is_refused_with_a_reason(scope: str) -> None:
    assert scopes.scope_problem(scope)


def test_the_narrowest_shared_scope_counts() -> None:
    row_scopes = ["public", "org:acme", "team:web"]

    assert scopes.best(row_scopes, "user:li", {"public", "team:web"}) == "team:web"
    assert scopes.best(row_scopes, "user:li", {"public", "user:li"}) == "user:li"
    assert scopes.best(row_scopes, "user:li", None) == "user:li"
    assert scopes.best(row_scopes, "user:li", {"team:other"}) is None


@pytest.mark.parametrize(
    ("own", "visibility"),
    [
        (["user:owner"], "private"),
        (["user:a", "user:b"], "shared"),
        (["project:x"], "shared"),
        (["org:x", "user:a"], "org"),
        (["public", "org:x"], "public"),
    ],
)
def test_the_reach_of_scopes_has_a_name(own: list[str], visibility: str) -> None:
    assert scopes.derive_visibility(own) == visibility
