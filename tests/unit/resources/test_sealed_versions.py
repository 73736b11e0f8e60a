"""What is sealed stays sealed: each version by a key of its own, which no failure loses or leaves behind."""

import asyncio
from typing import Any

import pytest

from knowhub.core.errors import InvalidInput, Unavailable
from knowhub.core.ids import random_bytes
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Outcome
from knowhub.providers.cipher import AesGcm
from knowhub.resources.model import RESOURCES, ResourceQuery
from knowhub.resources.service import ResourceService
from knowhub.resources.vault import Vault
from tests.builders import CountedIds, local, retry_key
from tests.fakes.memory_keyring import HeldMasters
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, SECRET, memory_vault, new_resource
from tests.unit.resources.resource_desk import Desk

pytestmark = pytest.mark.anyio


async def test_what_is_sealed_is_in_no_row_and_no_answer_but_the_revealed_one(desk: Desk) -> None:
    saved = await desk.service.save(local(), new_resource(secure_body=SECRET))
    read = await desk.service.read(local(), ID)
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
    service = ResourceService(store, memory_vault(desk.keyring))

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
    service = ResourceService(desk.store, vault)

    with pytest.raises(Unavailable, match="KNOWHUB_SECRET_KEY"):
        await service.save(local(), new_resource(secure_body=SECRET))
    saved = await service.save(local(), new_resource())

    assert saved.record["body"] == "log in here"


async def test_undecided_outcomes_keep_their_key(desk: Desk) -> None:
    class Vague(MemoryStore):
        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            done = await super().commit(account, actor, decide, idempotency)
            assert isinstance(done, Committed)
            raise Unavailable("the sync failed; it is not certain whether it stands")

    store = Vague(desk.clock, CountedIds())
    service = ResourceService(store, memory_vault(desk.keyring))

    with pytest.raises(Unavailable, match="not certain"):
        await service.save(local(), new_resource(secure_body=SECRET))

    row = store.view("default").get(RESOURCES, ID)
    assert row is not None
    assert row["sealed"]["key_id"] in desk.keyring.held


async def test_concurrent_saves_of_one_resource_are_sealed_for_their_own_versions(desk: Desk) -> None:
    texts = [f"secret {number}" for number in range(8)]

    await asyncio.gather(*(desk.service.save(local(), new_resource(secure_body=text), upsert=True) for text in texts))

    assert desk.row()["version"] == len(texts)
    assert (await desk.service.reveal(local(), ID)).secure_body in texts
    assert len(desk.keyring.held) == len(texts)


async def test_a_write_between_the_sealing_and_the_decision_has_the_body_sealed_again(desk: Desk) -> None:
    class Overtaken(MemoryStore):
        is_overtaken = False

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if not self.is_overtaken:
                self.is_overtaken = True
                await service.save(local(), new_resource(secure_body="other"))
            return await super().commit(account, actor, decide, idempotency)

    service = ResourceService(Overtaken(desk.clock, CountedIds()), memory_vault(desk.keyring))

    await service.save(local(), new_resource(secure_body=SECRET), upsert=True)

    shown = await service.reveal(local(), ID)
    assert (shown.secure_body, shown.record["version"]) == (SECRET, 2)
