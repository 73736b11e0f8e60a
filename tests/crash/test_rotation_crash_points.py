"""A process dies at any disk call of a master key rotation: all sealed bodies open afterwards."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from knowhub.core.errors import KnowHubError, StorageFull, Unavailable
from knowhub.resources.vault import Vault
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan
from tests.sealing import ACCOUNT, ID, MASTER, OTHER_MASTER, SECRET, vault_on

pytestmark = pytest.mark.anyio

BODIES = 5


async def seal_bodies(vault: Vault) -> list[dict[str, object]]:
    return [
        vault.seal(await vault.make_data_key(ACCOUNT, ID), f"{SECRET} {number}", number)
        for number in range(1, BODIES + 1)
    ]


async def assert_all_open(vault: Vault, bodies: Sequence[dict[str, object]]) -> None:
    for number, sealed in enumerate(bodies, 1):
        assert await vault.open(ACCOUNT, ID, sealed) == f"{SECRET} {number}"


async def count_rotation_calls(root: Path) -> int:
    files = FaultyFileSystem()
    vault = vault_on(root, files)
    await seal_bodies(vault)
    files.begin(Plan())
    await vault.rotate()
    return files.calls


async def test_a_rotation_killed_at_any_call_keeps_all_bodies_readable(tmp_path: Path) -> None:
    calls = await count_rotation_calls(tmp_path / "counted")
    assert calls >= 10

    for point in range(1, calls + 1):
        root = tmp_path / str(point)
        files = FaultyFileSystem()
        vault = vault_on(root, files)
        bodies = await seal_bodies(vault)
        first_master = DataDirectory(root).master_key.read_bytes()
        files.begin(Plan(crash_at=point, half_written=bool(point % 2)))

        with pytest.raises(CrashNow):
            await vault.rotate()
        files.bury()

        after = vault_on(root, FileSystem(), ids=100)
        await assert_all_open(after, bodies)
        sealed_between = after.seal(await after.make_data_key(ACCOUNT, ID), f"{SECRET} {BODIES + 1}", BODIES + 1)
        await after.rotate()
        later = vault_on(root, FileSystem(), ids=200)
        await assert_all_open(later, [*bodies, sealed_between])
        assert DataDirectory(root).master_key.read_bytes() != first_master
        assert not (root / "keys" / "master.key.next").exists()


async def test_a_first_sealing_killed_at_every_call_leaves_a_directory_that_seals(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    await vault_on(tmp_path / "counted", files).make_data_key(ACCOUNT, ID)
    calls = files.calls
    assert calls >= 8

    for point in range(1, calls + 1):
        root = tmp_path / str(point)
        files = FaultyFileSystem(Plan(crash_at=point))
        with pytest.raises(CrashNow):
            await vault_on(root, files).make_data_key(ACCOUNT, ID)
        files.bury()

        after = vault_on(root, FileSystem(), ids=100)

        await assert_all_open(after, await seal_bodies(after))


async def test_a_rotation_failing_on_disk_keeps_all_bodies_readable(tmp_path: Path) -> None:
    calls = await count_rotation_calls(tmp_path / "counted")

    for point in range(1, calls + 1):
        root = tmp_path / str(point)
        files = FaultyFileSystem()
        vault = vault_on(root, files)
        bodies = await seal_bodies(vault)
        files.begin(Plan(fail_at=point, error=28 if point % 2 else 5))

        with pytest.raises((Unavailable, StorageFull)):
            await vault.rotate()

        await assert_all_open(vault, bodies)
        await vault.rotate()
        await assert_all_open(vault, bodies)


async def test_a_killed_rotation_to_a_given_key_keeps_all_bodies_readable(
    tmp_path: Path,
) -> None:
    point = 0
    while True:
        point += 1
        root = tmp_path / str(point)
        files = FaultyFileSystem()
        bodies = await seal_bodies(vault_on(root, files, given=MASTER))
        files.begin(Plan(crash_at=point))
        try:
            await vault_on(root, files, given=OTHER_MASTER, former=[MASTER]).rotate()
        except CrashNow:
            files.bury()
            await assert_all_open(vault_on(root, FileSystem(), given=OTHER_MASTER, former=[MASTER]), bodies)
            continue
        break

    assert point > 4
    await assert_all_open(vault_on(root, FileSystem(), given=OTHER_MASTER), bodies)


async def test_keys_of_a_key_file_open_after_switching_to_a_given_key(tmp_path: Path) -> None:
    bodies = await seal_bodies(vault_on(tmp_path, FileSystem()))
    given = vault_on(tmp_path, FileSystem(), given=MASTER, ids=100)

    await assert_all_open(given, bodies)
    done = await given.rotate()
    (tmp_path / "keys" / "master.key").unlink()

    assert (done.master, done.rewrapped) == (MASTER.name, BODIES)
    await assert_all_open(given, bodies)


async def test_others_seal_and_open_while_keys_are_rotated(tmp_path: Path) -> None:
    first, second = (vault_on(tmp_path, FileSystem(), ids=number) for number in (0, 1000))
    bodies = await seal_bodies(first)

    async def sealing() -> list[dict[str, object]]:
        made = []
        for number in range(BODIES + 1, BODIES + 11):
            await assert_all_open(second, bodies)
            made.append(second.seal(await second.make_data_key(ACCOUNT, ID), f"{SECRET} {number}", number))
        return made

    async def rotating() -> None:
        for _ in range(5):
            await first.rotate()

    made, _ = await asyncio.gather(sealing(), rotating())

    await assert_all_open(first, [*bodies, *made])
    await assert_all_open(vault_on(tmp_path, FileSystem()), [*bodies, *made])


async def test_concurrent_processes_create_one_master_key(tmp_path: Path) -> None:
    vaults = [vault_on(tmp_path, FileSystem(), ids=1000 * number) for number in range(8)]

    keys = await asyncio.gather(*(vault.make_data_key(ACCOUNT, ID) for vault in vaults))

    bodies = [vault.seal(key, SECRET, 1) for vault, key in zip(vaults, keys, strict=True)]
    fresh = vault_on(tmp_path, FileSystem())
    assert [await fresh.open(ACCOUNT, ID, sealed) for sealed in bodies] == [SECRET] * 8


async def test_a_rotation_without_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnowHubError, match="nothing to rotate"):
        await vault_on(tmp_path, FileSystem()).rotate()


@pytest.mark.parametrize("junk", [b"", b"short\n", b"\xff\xfe"])
async def test_a_malformed_key_file_is_reported_and_kept(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys" / "master.key"
    key.write_bytes(junk)

    with pytest.raises(Unavailable, match="holds no key"):
        await vault_on(tmp_path, FileSystem()).make_data_key(ACCOUNT, ID)

    assert key.read_bytes() == junk


async def test_no_master_key_is_created_if_not_allowed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="KNOWHUB_SECRET_KEY"):
        await vault_on(tmp_path, FileSystem(), can_create=False).make_data_key(ACCOUNT, ID)

    assert not (tmp_path / "keys" / "master.key").exists()
