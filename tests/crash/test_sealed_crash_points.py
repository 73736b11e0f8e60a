"""A process dies while it seals or erases: committed bodies open, and erased ones stay closed."""

from pathlib import Path

import pytest

from knowhub.core.errors import KnowHubError
from knowhub.resources.model import RESOURCES
from knowhub.resources.service import ResourceService
from knowhub.stores.files.data_directory import KEYRING
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keys import parse_keyring
from knowhub.stores.files.snapshots.restore import unpack_directory
from knowhub.stores.files.store import FileStore
from tests.builders import local, open_files
from tests.crash.process_death import NEVER_REACHED, wait_for_death
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan
from tests.fakes.no_follow_up import erasures_on
from tests.hubs import open_hub_at
from tests.sealing import ID, SECRET, find_texts_in_files, new_resource, vault_on

pytestmark = pytest.mark.anyio

MANY = 1 << 40


def service_on(store: FileStore, root: Path, files: FileSystem, ids: int = 0) -> ResourceService:
    return ResourceService(store, vault_on(root, files, ids=ids))


async def test_every_committed_body_opens_after_a_crash(tmp_path: Path) -> None:
    seen = []
    for call in range(1, NEVER_REACHED):
        root, files = tmp_path / str(call), FaultyFileSystem()
        store = open_files(root, files)
        service = service_on(store, root, files)
        await service.save(local(), new_resource(secure_body="before"))
        files.begin(Plan(crash_at=call))

        died = await wait_for_death(store, files, service.patch(local(), ID, {"secure_body": SECRET}))

        if not died:
            break
        after = open_files(root)
        shown = await service_on(after, root, FileSystem(), ids=100).reveal(local(), ID)
        await after.close()
        seen.append(shown.secure_body)
        assert shown.record["version"] == (2 if shown.secure_body == SECRET else 1)
    assert seen.count("before") >= 6
    assert seen == ["before"] * seen.count("before") + [SECRET] * seen.count(SECRET)


async def test_the_next_process_destroys_keys_of_an_interrupted_erasure(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    await service_on(store, tmp_path, FileSystem()).save(local(), new_resource(secure_body=SECRET))
    await erasures_on(store).erase(local(), RESOURCES, ID)
    await store.close()
    left = parse_keyring((tmp_path / KEYRING).read_bytes())

    async with open_hub_at(tmp_path) as hub:
        await hub.maintenance.tick()

    assert [item.destroyed_at for item in left.values()] == [None]
    keys = parse_keyring((tmp_path / KEYRING).read_bytes())
    assert keys.keys() == left.keys()
    assert all(key.destroyed_at is not None and not key.data for key in keys.values())
    assert find_texts_in_files(tmp_path, ['"nonce"', '"wrapped"']) == []


async def test_a_crash_while_unpacking_keys_can_be_retried_or_is_complete(
    tmp_path: Path,
) -> None:
    async with open_hub_at(tmp_path / "old") as hub:
        await hub.resources.save(local(), new_resource(secure_body=SECRET))
        archive = Path((await hub.operations.snapshots.create()).path)
    master = (tmp_path / "old" / "keys" / "master.key").read_bytes()
    deaths = 0
    for call in range(1, NEVER_REACHED):
        root, files = tmp_path / str(call), FaultyFileSystem(Plan(crash_at=call, half_written=bool(call % 2)))
        died = False
        try:
            unpack_directory(files, archive, root, MANY)
        except CrashNow:
            files.bury()
            died, deaths = True, deaths + 1

        if not (root / "change_log").exists():
            unpack_directory(FileSystem(), archive, root, MANY)

        (root / "keys" / "master.key").write_bytes(master)
        async with open_hub_at(root) as moved:
            assert (await moved.resources.reveal(local(), ID)).secure_body == SECRET
        if not died:
            break
    assert deaths >= 20


async def test_keys_that_cannot_be_destroyed_now_are_named_and_destroyed_later(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.resources.save(local(), new_resource(secure_body=SECRET))
        ring = tmp_path / KEYRING
        kept = ring.read_bytes()
        ring.write_bytes(b"damaged")

        erased = await hub.operations.erasure.erase(local(), RESOURCES, ID)
        ring.write_bytes(kept)
        await hub.maintenance.tick()

        assert erased.pending == ["keys"]
        assert all(item.destroyed_at is not None for item in parse_keyring(ring.read_bytes()).values())
        with pytest.raises(KnowHubError):
            await hub.resources.reveal(local(), ID)
