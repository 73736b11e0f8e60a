"""The context of a request that comes with a key: what the key says, which the request may only narrow."""

import random
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.errors import Forbidden
from knowhub.core.request_context import CONTEXT_IDS, RequestContext, Role
from knowhub.identity.decisions import narrow_context
from knowhub.identity.model import AuthenticatedCaller, KeyHolder
from knowhub.settings import Settings
from tests.keys import LI, ROOT_KEY, caller_of, issue_key, make_keyed_settings, root_caller, text_of

pytestmark = pytest.mark.anyio


def make_context(caller: AuthenticatedCaller, account: str | None = None, **ids: str) -> RequestContext:
    return narrow_context(caller, ids, account)


async def test_a_writer_sees_and_grants_the_scopes_of_its_key_and_public(hub: Hub) -> None:
    issued = await issue_key(hub, LI, account="acme")
    caller = await caller_of(hub, text_of(issued))

    ctx = make_context(caller)

    own = frozenset({"user:li", "agent:crawler"})
    assert ctx.visible == own.union(("project:atlas", "project:zeus", "team:web", "org:acme", "public"))
    assert ctx.grantable == ctx.visible
    assert (ctx.account, ctx.actor, ctx.default_owner, ctx.own) == ("acme", "agent:crawler", "user:li", own)
    assert (ctx.role, ctx.can_write, ctx.is_admin, ctx.is_root) == (Role.WRITER, True, False, False)
    assert ctx.default_record_scopes == ("user:owner",)
    assert ctx.key_id == issued.key.key_id


async def test_naming_one_of_several_narrows_that_kind_and_leaves_the_others(hub: Hub) -> None:
    caller = await caller_of(hub, text_of(await issue_key(hub, LI)))

    ctx = make_context(caller, user_id="li", project_id="zeus")

    assert ctx.visible == frozenset({"user:li", "agent:crawler", "project:zeus", "team:web", "org:acme", "public"})
    assert ctx.grantable == ctx.visible
    assert ctx.actor == "agent:crawler"
    assert make_context(caller, account="default") == make_context(caller)


async def test_without_a_root_key_nobody_is_root(tmp_path: Path) -> None:
    async with open_hub(make_keyed_settings(tmp_path / "rootless", root_key=None), maintain=False) as hub:
        assert await hub.identity.authenticate(ROOT_KEY) is None
        assert not await hub.identity.can_anybody_call()
        key = await issue_key(hub, LI)
        assert await hub.identity.can_anybody_call()
        await hub.identity.revoke(root_caller(), key.key.key_id)
        assert not await hub.identity.can_anybody_call()


@pytest.mark.parametrize("wrong", ["short", "r" * 31, "r" * 513, "密" * 40, "r " * 20, "r" * 40 + "\n"])
def test_a_weak_or_malformed_root_key_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(ValueError, match="root_key") as refused:
        Settings(root_key=wrong)

    assert all(error["loc"] == ("root_key",) for error in refused.value.errors())  # type: ignore[attr-defined]  # pydantic's
    assert ROOT_KEY not in repr(Settings(root_key=ROOT_KEY))


async def test_a_request_never_exceeds_the_scopes_of_its_key(hub: Hub) -> None:
    rng = random.Random(5)
    names = ("li", "chen", "web", "ops")
    callers = []
    for _ in range(40):
        groups = [tuple(rng.sample(names, rng.randrange(3))) for _ in range(3)]
        holder = KeyHolder(rng.choice(names), rng.choice([None, *names]), *groups)
        role = rng.choice([Role.READER, Role.WRITER])
        callers.append((await issue_key(hub, holder, role, account=rng.choice(["default", "acme"]))).key.caller)
    narrowed = refused = 0

    for _ in range(4_000):
        caller = rng.choice(callers)
        whole = caller.context
        ids = {name: rng.choice(names) for name in CONTEXT_IDS if rng.random() < 0.25}
        try:
            ctx = narrow_context(caller, ids, rng.choice([None, None, "default", "acme"]))
        except Forbidden:
            refused += 1
            continue
        assert ctx.visible is not None
        assert whole.visible is not None
        assert ctx.visible <= whole.visible
        assert (ctx.grantable or frozenset()) <= (whole.grantable or frozenset())
        assert (ctx.account, ctx.actor, ctx.own) == (whole.account, whole.actor, whole.own)
        assert (ctx.role, ctx.key_id, ctx.default_owner) == (whole.role, whole.key_id, whole.default_owner)
        narrowed += ctx.visible < whole.visible
    assert narrowed > 50
    assert refused > 500
