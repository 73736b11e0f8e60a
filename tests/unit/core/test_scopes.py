"""Scopes: their syntax, their visibility, and their order in results."""

import pytest

from knowhub.core import scopes


@pytest.mark.parametrize(
    "scope", ["public", "user:li", "user:owner", "agent:a:b", "project:项目", "team:a b", "org:" + "x" * 200]
)
def test_a_scope_names_a_kind_and_an_id(scope: str) -> None:
    assert scopes.scope_problem(scope) is None


@pytest.mark.parametrize(
    "scope",
    ["", "user", "user:", "user: ", "public:x", "group:x", "USER:x", "user:a\nb", "user:a\0", "org:" + "x" * 201],
)
def test_an_invalid_scope_is_refused_with_a_reason(scope: str) -> None:
    assert scopes.scope_problem(scope)


@pytest.mark.parametrize(
    ("owner", "is_owner"),
    [("user:li", True), ("agent:bot", True), ("team:web", False), ("public", False), ("li", False), ("user:", False)],
)  # fmt: skip -- a table
def test_an_owner_is_a_user_or_an_agent(owner: str, is_owner: bool) -> None:
    assert (scopes.owner_problem(owner) is None) == is_owner


def test_user_owner_means_the_owner_only() -> None:
    assert scopes.audience(["user:owner"], "user:li") == {"user:li"}
    assert scopes.audience(["team:web"], "user:li") == {"team:web", "user:li"}


def test_the_narrowest_shared_scope_counts() -> None:
    row_scopes = ["public", "org:acme", "team:web"]

    assert scopes.best(row_scopes, "user:li", {"public", "team:web"}) == "team:web"
    assert scopes.best(row_scopes, "user:li", {"public", "user:li"}) == "user:li"
    assert scopes.best(row_scopes, "user:li", None) == "user:li"
    assert scopes.best(row_scopes, "user:li", {"team:other"}) is None


def test_precedence_is_user_project_agent_team_org_public() -> None:
    kinds = ["user:a", "project:a", "agent:a", "team:a", "org:a", "public"]

    ranks = [scopes.rank([kind], "user:li", {kind}) for kind in kinds]

    assert ranks == [0, 1, 2, 3, 4, 5]
    assert scopes.rank(["public"], "user:li", set()) == 6


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
