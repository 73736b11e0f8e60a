"""Who may reveal a sealed body, how often, and that a reveal is logged before it is answered."""

from dataclasses import replace
from typing import Any

import pytest

from knowhub.core.errors import TooManyRequests, Unavailable
from knowhub.core.operation import Decide, IdempotencyKey, Outcome
from knowhub.resources.model import REVEALS
from knowhub.resources.service import ResourceService
from tests.builders import CountedIds, caller, local
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, SECRET, memory_vault, new_resource
from tests.unit.resources.resource_bench import ATLAS, LI, ResourceBench

pytestmark = pytest.mark.anyio


async def test_a_reveal_is_logged_before_it_is_answered(bench: ResourceBench) -> None:
    await bench.service.save(LI, new_resource(secure_body=SECRET, scopes=ATLAS))
    wang = caller(user_id="wang", project_id="atlas")

    shown = await bench.service.reveal(wang, ID)
    await bench.service.reveal(LI, ID)

    operations = [item async for item in bench.store.operations("default") if item.op == "reveal_resource"]
    assert [item.actor for item in operations] == ["user:li", "user:wang"]
    assert operations[1].operation_id == shown.operation_id
    line = bench.store.view("default").get(REVEALS, ID)
    assert line is not None
    assert (line["revealed_by"], line["reveals"], line["resource_version"]) == ("user:li", 2, 1)
    assert (line["scopes"], line["owner"]) == (ATLAS, "user:li")


async def test_nothing_is_revealed_if_the_log_write_fails(bench: ResourceBench) -> None:
    class Full(MemoryStore):
        is_full = False

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if self.is_full:
                raise Unavailable("the disk is full")
            return await super().commit(account, actor, decide, idempotency)

    store = Full(bench.clock, CountedIds())
    service = ResourceService(store, memory_vault(bench.keyring))
    await service.save(local(), new_resource(secure_body=SECRET))
    store.is_full = True

    with pytest.raises(Unavailable, match="full"):
        await service.reveal(local(), ID)


async def test_a_body_resealed_during_a_reveal_is_opened_again(bench: ResourceBench) -> None:
    class Racing(MemoryStore):
        races = 1

        async def commit(
            self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
        ) -> Outcome:
            if self.races and actor == "user:li":
                self.races -= 1
                await service.patch(local(), ID, {"secure_body": "newer", "scopes": ["user:li"]})
            return await super().commit(account, actor, decide, idempotency)

    store = Racing(bench.clock, CountedIds())
    service = ResourceService(store, memory_vault(bench.keyring))
    await service.save(local(), new_resource(secure_body="older", scopes=["user:li"]))

    assert (await service.reveal(LI, ID)).secure_body == "newer"


async def test_keys_of_one_principal_share_the_reveal_limit() -> None:
    bench = ResourceBench(an_hour=2)
    await bench.service.save(LI, new_resource(secure_body=SECRET))
    for number in range(2):
        await bench.service.reveal(replace(LI, key_id=f"key-{number}"), ID)

    with pytest.raises(TooManyRequests):
        await bench.service.reveal(replace(LI, key_id="key-fresh"), ID)

    assert await bench.reveal(replace(local(), key_id="key-other")) == SECRET
