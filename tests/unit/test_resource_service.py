"""The verbs on resources over a store in memory: who may do what, and what is sealed stays sealed (RS-001…015)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from knowhub.core.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    TooManyRequests,
    Unavailable,
    VersionConflict,
)
from knowhub.core.ids import random_bytes
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Outcome
from knowhub.core.request_context import RequestContext, Role, caller_context
from knowhub.providers.cipher import AesGcm
from knowhub.resources.model import RESOURCES, REVEALS, ResourceQuery
from knowhub.resources.reveal_quota import RevealQuota
from knowhub.resources.service import ResourceService
from knowhub.resources.vault import Vault
from knowhub.stores.files.rows.state_view import StateView
from tests.builders import OWNER, CountedIds, FakeClock, caller, local, retry_key
from tests.fakes.memory_keyring import HeldMasters, MemoryKeyring
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, SECRET, memory_vault, new_resource

pytestmark = pytest.mark.anyio

LI, WANG = caller(user_id="li"), caller(user_id="wang")
ATLAS = ["project:atlas"]


class Desk:
    """A service with all that it stands on."""

    def __init__(self, an_hour: int = 0) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, CountedIds())
        self.keyring = MemoryKeyring()
        self.service = ResourceService(
            self.store, memory_vault(self.keyring), RevealQuota(an_hour, lambda: self.clock.seconds)
        )

    def row(self, resource_id: str = ID) -> dict[str, Any]:
        return dict(self.store.view("default").get(RESOURCES, resource_id) or {})

    async def revealed(self, ctx: RequestContext, resource_id: str = ID) -> str | None:
        return (await self.service.reveal(ctx, resource_id)).secure_body


@pytest.fixture
def desk() -> Desk:
    return Desk()


def with_role(ctx: RequestContext, role: Role) -> RequestContext:
    ids = {"user_id": ctx.actor.partition(":")[2]}
    found = caller_context(ids, OWNER)
    return RequestContext(found.account, found.actor, found.own, found.visible, found.default_owner, role=role)


async def test_what_is_sealed_is_in_no_row_and_no_answer_but_the_revealed_one(desk: Desk) -> None:
    saved = await desk.service.save(local(), new_resource(secure_body=SECRET))
    read = await desk.service.get(local(), ID)
    listed = await desk.service.page(local(), ResourceQuery())

    shown = await desk.service.reveal(local(), ID)

    assert shown.secure_body == SECRET
    assert saved.record["has_secure_body"] is True
    for told in (saved.record, read, *listed.records, shown.record, desk.row()):
        assert SECRET not in str(told)
    for told in (saved.record, read, *listed.records, shown.record):
        assert "sealed" not in told


async def test_nothing_that_carries_a_secret_shows_it_of_itself(desk: Desk) -> None:
    new = new_resource(secure_body=SECRET)
    await desk.service.save(local(), new)

    shown = await desk.service.reveal(local(), ID)

    assert "SecurePass" not in repr(new)
    assert "SecurePass" not in repr(shown)


async def test_the_key_is_in_the_keyring_before_the_row_is_in_the_store(desk: Desk) -> None:
    seen: list[bool] = []

    class Watched(MemoryStore):
        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            seen.append(len(desk.keyring.held) == 1)
            return await super().commit(account, actor, decide, idempotency)

    store = Watched(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring), RevealQuota(0, lambda: 0.0))

    await service.save(local(), new_resource(secure_body=SECRET))

    assert seen == [True]


async def test_each_sealed_version_has_its_own_key_and_the_others_stay(desk: Desk) -> None:
    await desk.service.save(local(), new_resource(secure_body="first"))
    first = desk.row()["sealed"]
    await desk.service.patch(local(), ID, {"secure_body": "second"})
    second = desk.row()["sealed"]

    await desk.service.patch(local(), ID, {"title": "renamed"})

    assert (first["version"], second["version"], desk.row()["version"]) == (1, 2, 3)
    assert desk.row()["sealed"] == second
    assert await desk.revealed(local()) == "second"
    assert set(desk.keyring.held) == {first["key_id"], second["key_id"]}


async def test_null_takes_away_what_is_sealed_and_leaves_the_rest(desk: Desk) -> None:
    await desk.service.save(local(), new_resource(secure_body=SECRET))

    saved = await desk.service.patch(local(), ID, {"secure_body": None})
    again = await desk.service.patch(local(), ID, {"secure_body": None})

    assert saved.record["has_secure_body"] is False
    assert await desk.revealed(local()) is None
    assert (saved.record["body"], saved.record["version"]) == ("log in here", 2)
    assert again.operation_id is None


async def test_a_taken_id_is_a_conflict_that_tells_nothing_more(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(title="li's own"))

    for upsert in (False, True):
        with pytest.raises(Conflict) as refused:
            await desk.service.save(WANG, new_resource(secure_body=SECRET), upsert=upsert)
        assert refused.value.detail == f"resource id {ID!r} is taken"
        assert refused.value.extra == {}
    assert desk.keyring.held == {}


async def test_an_upsert_says_all_anew_and_keeps_owner_scopes_and_creation(desk: Desk) -> None:
    first = await desk.service.save(LI, new_resource(secure_body=SECRET, scopes=ATLAS, title="old"))
    desk.clock.advance(60)

    second = await desk.service.save(LI, new_resource(body="new"), upsert=True)

    assert second.is_new is False
    assert (second.record["body"], second.record["title"], second.record["version"]) == ("new", "", 2)
    assert second.record["has_secure_body"] is False
    for kept in ("owner", "scopes", "created_at"):
        assert second.record[kept] == first.record[kept]


async def test_an_upsert_that_says_the_same_writes_nothing(desk: Desk) -> None:
    await desk.service.save(local(), new_resource())

    again = await desk.service.save(local(), new_resource(), upsert=True)

    assert again.operation_id is None
    assert again.record["version"] == 1


async def test_an_upsert_by_who_sees_it_and_does_not_own_it_is_forbidden(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(scopes=["public"]))

    with pytest.raises(Forbidden):
        await desk.service.save(WANG, new_resource(body="mine now"), upsert=True)
    with pytest.raises(Forbidden):
        await desk.service.save(LI, new_resource(owner="user:wang"), upsert=True)


async def test_what_the_caller_does_not_see_is_not_there(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(secure_body=SECRET))

    deeds: list[Callable[[], Any]] = [
        lambda: desk.service.get(WANG, ID),
        lambda: desk.service.reveal(WANG, ID),
        lambda: desk.service.patch(WANG, ID, {"title": "x"}),
        lambda: desk.service.delete(WANG, ID),
    ]
    for deed in deeds:
        with pytest.raises(NotFound) as hidden:
            await deed()
        assert hidden.value.detail == f"no resource with id {ID!r}"
    assert (await desk.service.page(WANG, ResourceQuery())).records == []
    assert desk.service.missing(WANG, [ID]) == [ID]
    assert desk.service.missing(LI, [ID, "none/such"]) == ["none/such"]


async def test_who_sees_it_without_owning_it_changes_nothing(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(scopes=["public"]))

    with pytest.raises(Forbidden):
        await desk.service.patch(WANG, ID, {"title": "x"})
    with pytest.raises(Forbidden):
        await desk.service.delete(WANG, ID)


async def test_a_change_of_another_version_is_refused(desk: Desk) -> None:
    await desk.service.save(local(), new_resource())

    with pytest.raises(VersionConflict):
        await desk.service.patch(local(), ID, {"secure_body": SECRET}, expected=7)
    with pytest.raises(VersionConflict):
        await desk.service.delete(local(), ID, expected=7)
    assert desk.keyring.held == {}


async def test_a_deleted_id_can_be_saved_anew_by_its_owner_and_its_versions_go_on(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(secure_body=SECRET))
    await desk.service.delete(LI, ID)

    with pytest.raises(NotFound):
        await desk.service.reveal(LI, ID)
    with pytest.raises(Conflict, match="is taken"):
        await desk.service.save(WANG, new_resource(secure_body="another"))
    saved = await desk.service.save(LI, new_resource(secure_body="another"))

    assert (saved.is_new, saved.record["version"], saved.record["owner"]) == (True, 3, "user:li")
    assert await desk.revealed(LI) == "another"


@pytest.mark.parametrize(
    ("scopes", "role", "may"),
    [
        (ATLAS, Role.WRITER, True),
        (["user:wang"], Role.WRITER, True),
        (["public"], Role.WRITER, False),
        (["user:wang"], Role.READER, False),
    ],
)
async def test_who_may_see_it_by_more_than_public_and_may_write_may_reveal_it(
    desk: Desk, scopes: list[str], role: Role, may: bool
) -> None:
    await desk.service.save(LI, new_resource(secure_body=SECRET, scopes=scopes))
    ctx = caller(user_id="wang", project_id="atlas") if scopes == ATLAS else with_role(WANG, role)

    if may:
        assert await desk.revealed(ctx) == SECRET
    else:
        with pytest.raises(Forbidden):
            await desk.service.reveal(ctx, ID)
    assert await desk.revealed(LI) == SECRET


async def test_a_reader_is_refused_before_anything_is_looked_up(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(secure_body=SECRET, scopes=["user:wang"]))
    reader = with_role(WANG, Role.READER)

    details = set()
    for resource_id in (ID, "none/such"):
        with pytest.raises(Forbidden) as refused:
            await desk.service.reveal(reader, resource_id)
        details.add(refused.value.detail)
    for deed in (
        desk.service.save(reader, new_resource("mine/own")),
        desk.service.patch(reader, ID, {"title": "x"}),
        desk.service.delete(reader, ID),
    ):
        with pytest.raises(Forbidden):
            await deed

    assert len(details) == 1


async def test_a_reveal_is_on_record_before_it_is_answered(desk: Desk) -> None:
    await desk.service.save(LI, new_resource(secure_body=SECRET, scopes=ATLAS))
    wang = caller(user_id="wang", project_id="atlas")

    shown = await desk.service.reveal(wang, ID)
    await desk.service.reveal(LI, ID)

    operations = [one async for one in desk.store.operations("default") if one.op == "reveal_resource"]
    assert [one.actor for one in operations] == ["user:li", "user:wang"]
    assert operations[1].operation_id == shown.operation_id
    line = desk.store.view("default").get(REVEALS, ID)
    assert line is not None
    assert (line["revealed_by"], line["reveals"], line["resource_version"]) == ("user:li", 2, 1)
    assert (line["scopes"], line["owner"]) == (ATLAS, "user:li")


async def test_where_no_line_can_be_written_nothing_is_revealed(desk: Desk) -> None:
    class Full(MemoryStore):
        is_full = False

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if self.is_full:
                raise Unavailable("the disk is full")
            return await super().commit(account, actor, decide, idempotency)

    store = Full(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring), RevealQuota(0, lambda: 0.0))
    await service.save(local(), new_resource(secure_body=SECRET))
    store.is_full = True

    with pytest.raises(Unavailable, match="full"):
        await service.reveal(local(), ID)


async def test_what_was_resealed_while_it_was_opened_is_opened_again(desk: Desk) -> None:
    class Racing(MemoryStore):
        races = 1

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if self.races and actor == "user:li":
                self.races -= 1
                await service.patch(local(), ID, {"secure_body": "newer", "scopes": ["user:li"]})
            return await super().commit(account, actor, decide, idempotency)

    store = Racing(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring), RevealQuota(0, lambda: 0.0))
    await service.save(local(), new_resource(secure_body="older", scopes=["user:li"]))

    assert (await service.reveal(LI, ID)).secure_body == "newer"


async def test_a_principal_is_shown_so_many_an_hour_and_told_when_there_is_another() -> None:
    desk = Desk(an_hour=3)
    await desk.service.save(LI, new_resource(secure_body=SECRET))
    for _ in range(3):
        await desk.service.reveal(LI, ID)

    with pytest.raises(TooManyRequests) as refused:
        await desk.service.reveal(LI, ID)

    assert 1199 < refused.value.retry_after_s <= 1200
    assert await desk.revealed(local()) == SECRET
    desk.clock.advance(1200)
    assert await desk.revealed(LI) == SECRET
    with pytest.raises(TooManyRequests):
        await desk.service.reveal(LI, ID)


async def test_another_key_of_the_same_principal_is_no_other_allowance() -> None:
    desk = Desk(an_hour=2)
    await desk.service.save(LI, new_resource(secure_body=SECRET))
    for number in range(2):
        await desk.service.reveal(replace(LI, key_id=f"key-{number}"), ID)

    with pytest.raises(TooManyRequests):
        await desk.service.reveal(replace(LI, key_id="key-fresh"), ID)

    assert await desk.revealed(replace(local(), key_id="key-other")) == SECRET


async def test_what_has_nothing_sealed_costs_no_reveal_and_leaves_no_line() -> None:
    desk = Desk(an_hour=1)
    await desk.service.save(LI, new_resource())

    shown = [await desk.service.reveal(LI, ID) for _ in range(3)]

    assert [one.operation_id for one in shown] == [None] * 3


async def test_a_retry_is_answered_as_the_first_time_and_leaves_no_key(desk: Desk) -> None:
    key = retry_key(body="hash of the body")
    first = await desk.service.save(local(), new_resource(secure_body=SECRET), key)

    again = await desk.service.save(local(), new_resource(secure_body=SECRET), key)

    assert again == first
    assert [key_id for key_id, one in desk.keyring.held.items() if one.is_of_a_body] == [desk.row()["sealed"]["key_id"]]
    with pytest.raises(InvalidInput):
        await desk.service.save(local(), new_resource(secure_body="x"), retry_key(body="another"))
    outcome = await desk.store.operation("default", str(first.operation_id))
    assert outcome is not None
    assert outcome.idempotency is not None
    assert outcome.idempotency.body != "hash of the body"


async def test_without_a_key_what_needs_no_sealing_is_saved(desk: Desk) -> None:
    vault = Vault(AesGcm(random_bytes), desk.keyring, HeldMasters(), CountedIds(50))
    service = ResourceService(desk.store, vault, RevealQuota(0, lambda: 0.0))

    with pytest.raises(Unavailable, match="KNOWHUB_SECRET_KEY"):
        await service.save(local(), new_resource(secure_body=SECRET))
    saved = await service.save(local(), new_resource())

    assert saved.record["body"] == "log in here"


async def test_metadata_and_expiry_say_the_same(desk: Desk) -> None:
    facts = {"acquired_at": "2026-03-06", "expires_at": "2026-03-07T10:00:00+02:00"}
    saved = await desk.service.save(local(), new_resource(metadata=facts))
    assert saved.record["expires_at"] == "2026-03-07T08:00:00Z"
    assert saved.record["metadata"] == {"acquired_at": "2026-03-06", "expires_at": "2026-03-07T08:00:00Z"}

    later = await desk.service.patch(local(), ID, {"expires_at": "2027-01-01T00:00:00Z"})
    assert later.record["metadata"]["expires_at"] == "2027-01-01T00:00:00Z"

    without = await desk.service.patch(local(), ID, {"metadata": {}})
    assert without.record["expires_at"] is None

    given = await desk.service.patch(local(), ID, {"expires_at": "2028-01-01T00:00:00Z"})
    kept = await desk.service.patch(local(), ID, {"metadata": {"language": "python"}})
    assert given.record["metadata"] == {}
    assert kept.record["expires_at"] == "2028-01-01T00:00:00Z"

    with pytest.raises(InvalidInput, match="differs"):
        await desk.service.save(
            local(), new_resource("b", metadata={"expires_at": "2026-01-01"}, expires_at="2027-01-01T00:00:00Z")
        )
    for junk in ("soon", 5, ["2026-01-01"], "9999-99-99"):
        with pytest.raises(InvalidInput, match="ISO 8601"):
            await desk.service.save(local(), new_resource("b", metadata={"expires_at": junk}))


async def test_what_has_expired_is_shown_as_such_and_listed_by_it(desk: Desk) -> None:
    await desk.service.save(local(), new_resource("cookies/a", expires_at="2026-03-05T13:00:00Z"))
    await desk.service.save(local(), new_resource("cookies/b"))

    before = await desk.service.get(local(), "cookies/a")
    desk.clock.advance(7200)
    after = await desk.service.get(local(), "cookies/a")

    assert (before["expired"], after["expired"]) == (False, True)
    for expired, found in ((True, ["cookies/a"]), (False, ["cookies/b"]), (None, ["cookies/a", "cookies/b"])):
        page = await desk.service.page(local(), ResourceQuery(expired=expired))
        assert [one["id"] for one in page.records] == found


async def test_pages_go_by_id_through_what_the_caller_sees(desk: Desk) -> None:
    for number in (7, 3, 9, 1, 5, 2, 8, 4, 6, 0):
        mine = ["user:wang"] if number % 2 else ["user:owner"]
        await desk.service.save(LI, new_resource(f"code/{number}", scopes=mine, content_type="code"))
    await desk.service.save(WANG, new_resource("codex"))
    await desk.service.save(WANG, new_resource("code/6z", content_type="code"))
    await desk.service.delete(WANG, "code/6z")
    await desk.service.save(WANG, new_resource("code/9z", content_type="text"))

    seen: list[str] = []
    after: str | None = None
    while True:
        page = await desk.service.page(WANG, ResourceQuery(prefix="code/", content_type="code", limit=2, after=after))
        seen += [one["id"] for one in page.records]
        if page.next_after is None:
            break
        after = page.next_after

    assert seen == ["code/1", "code/3", "code/5", "code/7", "code/9"]


async def test_a_page_ends_at_what_it_shows_where_what_was_found_is_hidden_meanwhile(desk: Desk) -> None:
    class Moving(MemoryStore):
        earlier: MemoryStore | None = None

        def view(self, account: str) -> StateView:
            earlier, self.earlier = self.earlier, None
            return super().view(account) if earlier is None else earlier.view(account)

    store = Moving(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring), RevealQuota(0, lambda: 0.0))
    for name in "abcdef":
        await desk.service.save(LI, new_resource(name, scopes=["user:wang"]))
        await service.save(LI, new_resource(name, scopes=["user:wang"] if name in "aef" else ["user:owner"]))

    pages = []
    for after in (None, "a"):
        store.earlier = desk.store
        pages.append(await service.page(WANG, ResourceQuery(limit=2, after=after)))

    assert [[one["id"] for one in page.records] for page in pages] == [["a"], ["e", "f"]]
    assert [page.next_after for page in pages] == ["a", None]


async def test_undecided_outcomes_keep_their_key(desk: Desk) -> None:
    class Vague(MemoryStore):
        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            done = await super().commit(account, actor, decide, idempotency)
            assert isinstance(done, Committed)
            raise Unavailable("the sync failed; it is not certain whether it stands")

    store = Vague(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring), RevealQuota(0, lambda: 0.0))

    with pytest.raises(Unavailable, match="not certain"):
        await service.save(local(), new_resource(secure_body=SECRET))

    row = store.view("default").get(RESOURCES, ID)
    assert row is not None
    assert row["sealed"]["key_id"] in desk.keyring.held
