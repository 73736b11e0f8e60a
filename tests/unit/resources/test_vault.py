"""Sealed bodies open only for their account and resource, under rotating master keys, until their key is destroyed."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from knowhub.core.errors import Unavailable
from knowhub.core.ids import random_bytes
from knowhub.providers.cipher import AesGcm
from knowhub.resources.vault import Vault
from tests.builders import CountedIds
from tests.fakes.memory_keyring import HeldMasters, MemoryKeyring
from tests.sealing import ACCOUNT, ID, MASTER, OTHER_MASTER, SECRET, memory_vault

pytestmark = pytest.mark.anyio


@pytest.fixture
def keyring() -> MemoryKeyring:
    return MemoryKeyring()


async def seal(vault: Vault, version: int = 1, text: str = SECRET) -> dict[str, Any]:
    return vault.seal(await vault.make_data_key(ACCOUNT, ID), text, version)


async def test_a_body_opens_for_no_other_account_or_resource() -> None:
    vault = memory_vault()
    key = await vault.make_data_key("a", "bc/d")
    sealed = vault.seal(key, SECRET, 1)

    for account, resource_id in (("b", "bc/d"), ("a", "bc/e"), ("ab", "c/d"), ("a/bc", "d"), ("", "abc/d")):
        with pytest.raises(Unavailable, match="does not open"):
            await vault.open(account, resource_id, sealed)


@pytest.mark.parametrize("field", ["key_id", "version", "nonce", "data"])
async def test_a_body_with_a_part_of_another_version_is_refused(field: str) -> None:
    vault = memory_vault()
    first, second = await seal(vault, 1), await seal(vault, 2)

    with pytest.raises(Unavailable, match="does not open"):
        await vault.open(ACCOUNT, ID, {**second, field: first[field]})


@pytest.mark.parametrize("junk", ["", "%%%", "AAAA", "密"])
async def test_a_body_that_is_junk_is_refused(junk: str) -> None:
    vault = memory_vault()
    sealed = await seal(vault)

    with pytest.raises(Unavailable, match="does not open"):
        await vault.open(ACCOUNT, ID, {**sealed, "data": junk})


async def test_a_wrapped_key_under_the_name_of_another_is_refused(keyring: MemoryKeyring) -> None:
    vault = memory_vault(keyring)
    first, second = await seal(vault, 1), await seal(vault, 2)
    keyring.held[first["key_id"]] = keyring.held[second["key_id"]]

    with pytest.raises(Unavailable, match="does not open"):
        await vault.open(ACCOUNT, ID, first)


async def test_a_missing_master_key_is_not_replaced(
    keyring: MemoryKeyring,
) -> None:
    sealed = await seal(memory_vault(keyring))
    without = Vault(AesGcm(random_bytes), keyring, HeldMasters(), CountedIds(100))

    with pytest.raises(Unavailable, match="not here"):
        await without.open(ACCOUNT, ID, sealed)
    with pytest.raises(Unavailable, match="not here"):
        await without.make_data_key(ACCOUNT, ID)


async def test_a_destroyed_key_is_empty_and_opens_nothing(keyring: MemoryKeyring) -> None:
    vault = memory_vault(keyring)
    first, second = await seal(vault, 1), await seal(vault, 2)
    other = vault.seal(await vault.make_data_key(ACCOUNT, "code/x"), SECRET, 1)

    destroyed = await vault.destroy(lambda account, resource_id: (account, resource_id) == (ACCOUNT, ID), "2026-11-21")

    assert destroyed == 2
    for sealed in (first, second):
        held = keyring.held[sealed["key_id"]]
        assert (held.nonce, held.data, held.destroyed_at) == (b"", b"", "2026-11-21")
        with pytest.raises(Unavailable, match="was destroyed at 2026-11-21"):
            await vault.open(ACCOUNT, ID, sealed)
    assert await vault.open(ACCOUNT, "code/x", other) == SECRET
    assert await vault.destroy(lambda *_: True, "2026-11-22") == 1


async def test_a_rotation_rewraps_every_key_and_no_body(keyring: MemoryKeyring) -> None:
    old = memory_vault(keyring)
    bodies = [await seal(old, version) for version in range(1, 6)]
    gone = await seal(old, 6)
    keyring.held[gone["key_id"]] = replace(keyring.held[gone["key_id"]], nonce=b"", data=b"", destroyed_at="then")

    done = await memory_vault(keyring, OTHER_MASTER, MASTER).rotate()

    assert (done.master, done.keys, done.rewrapped) == (OTHER_MASTER.name, 5, 5)
    new = memory_vault(keyring, OTHER_MASTER)
    assert [await new.open(ACCOUNT, ID, sealed) for sealed in bodies] == [SECRET] * 5
    with pytest.raises(Unavailable, match="not here"):
        await memory_vault(keyring, MASTER).open(ACCOUNT, ID, bodies[0])
    assert keyring.held[gone["key_id"]].destroyed_at == "then"


async def test_a_rotation_changes_nothing_if_one_key_does_not_open(keyring: MemoryKeyring) -> None:
    old = memory_vault(keyring)
    first, second = await seal(old, 1), await seal(old, 2)
    keyring.held[second["key_id"]] = replace(keyring.held[second["key_id"]], data=b"x" * 48)
    before = dict(keyring.held)

    with pytest.raises(Unavailable, match="nothing was rotated"):
        await memory_vault(keyring, OTHER_MASTER, MASTER).rotate()

    assert keyring.held == before
    assert await old.open(ACCOUNT, ID, first) == SECRET


async def test_another_master_key_may_not_seal(
    keyring: MemoryKeyring,
) -> None:
    mine = memory_vault(keyring)
    sealed = await seal(mine)
    before = dict(keyring.held)
    foreign = memory_vault(keyring, OTHER_MASTER, ids=100)

    for account in (ACCOUNT, "other"):
        with pytest.raises(Unavailable, match="another one sealed would split the keyring"):
            await foreign.make_data_key(account, ID)

    assert keyring.held == before
    assert (await memory_vault(keyring, OTHER_MASTER, MASTER).rotate()).rewrapped == 1
    assert await memory_vault(keyring, OTHER_MASTER).open(ACCOUNT, ID, sealed) == SECRET


@pytest.mark.parametrize("order", list(permutations(("first", "second", "rotation"))))
async def test_servers_restarted_in_any_order_survive_a_rotation(
    keyring: MemoryKeyring, order: tuple[str, ...]
) -> None:
    servers = {name: memory_vault(keyring, ids=100 * number) for number, name in enumerate(("first", "second"), 1)}
    bodies = [await seal(servers["first"])]

    refused = []
    for step in order:
        if step == "rotation":
            await memory_vault(keyring, OTHER_MASTER, MASTER).rotate()
        else:
            servers[step] = memory_vault(keyring, OTHER_MASTER, MASTER, ids=1000 * (1 + order.index(step)))
        for name, server in servers.items():
            try:
                bodies.append(await seal(server, len(bodies) + 1))
            except Unavailable:
                refused.append((step, name))
                continue
    await memory_vault(keyring, OTHER_MASTER, MASTER).rotate()
    ended = memory_vault(keyring, OTHER_MASTER)

    # Only who still has the old key alone when everything is wrapped by the new one has to come up anew.
    late = {name for name in ("first", "second") if order.index(name) > order.index("rotation")}
    assert {name for _, name in refused} <= late
    assert [await ended.open(ACCOUNT, ID, sealed) for sealed in bodies] == [SECRET] * len(bodies)
