"""Sealed versions: each has its own key, which no failure loses or leaves behind."""

import asyncio
from typing import Any

import pytest

from knowhub.core.errors import Unavailable
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Outcome
from knowhub.resources.decisions import hide_secret
from knowhub.resources.model import RESOURCES
from knowhub.resources.service import ResourceService
from tests.builders import CountedIds, local
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, SECRET, memory_vault, new_resource
from tests.unit.resources.resource_bench import ResourceBench

pytestmark = pytest.mark.anyio


async def test_objects_with_a_secret_hide_it_in_their_repr(bench: ResourceBench) -> None:
    new = new_resource(secure_body=SECRET)
    await bench.service.save(local(), new)

    shown = await bench.service.reveal(local(), ID)

    assert "SecurePass" not in repr(new)
    assert "SecurePass" not in repr(shown)


async def test_undecided_outcomes_keep_their_key(bench: ResourceBench) -> None:
    class Vague(MemoryStore):
        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            done = await super().commit(account, actor, decide, idempotency)
            assert isinstance(done, Committed)
            raise Unavailable("the sync failed; it is not certain whether it stands")

    store = Vague(bench.clock, CountedIds())
    service = ResourceService(store, memory_vault(bench.keyring))

    with pytest.raises(Unavailable, match="not certain"):
        await service.save(local(), new_resource(secure_body=SECRET))

    row = store.view("default").get(RESOURCES, ID)
    assert row is not None
    assert row["sealed"]["key_id"] in bench.keyring.held


async def test_concurrent_saves_each_have_their_own_key(bench: ResourceBench) -> None:
    texts = [f"secret {number}" for number in range(8)]

    await asyncio.gather(*(bench.service.save(local(), new_resource(secure_body=text), upsert=True) for text in texts))

    assert bench.row()["version"] == len(texts)
    assert (await bench.service.reveal(local(), ID)).secure_body in texts
    assert len(bench.keyring.held) == len(texts)


async def test_a_body_opens_after_a_write_between_sealing_and_commit(bench: ResourceBench) -> None:
    class Overtaken(MemoryStore):
        is_overtaken = False

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if not self.is_overtaken:
                self.is_overtaken = True
                await service.save(local(), new_resource(secure_body="other"))
            return await super().commit(account, actor, decide, idempotency)

    service = ResourceService(Overtaken(bench.clock, CountedIds()), memory_vault(bench.keyring))

    await service.save(local(), new_resource(secure_body=SECRET), upsert=True)

    shown = await service.reveal(local(), ID)
    assert (shown.secure_body, shown.record["version"]) == (SECRET, 2)


def test_the_hash_of_a_retry_does_not_depend_on_the_secret() -> None:
    key = IdempotencyKey("user:li", "POST", "/api/resource", "k1", "hash of everything")

    hashes = [hide_secret(key, {"title": title, "secure_body": body}) for title in "ab" for body in (SECRET, "pin")]

    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
    assert key not in hashes
    assert hide_secret(key, {"title": "a", "secure_body": None}) == key
