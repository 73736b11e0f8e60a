"""Sealed bodies in snapshots: wrapped keys are included, the master key is not, and destroyed keys stay destroyed."""

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from knowhub.bootstrap import Hub, unpack_snapshot
from knowhub.core.data_keys import WrappedKey
from knowhub.core.errors import InvalidInput, NotFound, Unavailable
from knowhub.resources.model import RESOURCES
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import KEYRING, DataDirectory
from knowhub.stores.files.keys import format_keyring, merge_keys, parse_keyring
from tests.builders import OWNER, local
from tests.doctoring import inspect
from tests.hubs import open_hub_at
from tests.sealing import ID, SECRET, new_resource

pytestmark = pytest.mark.anyio


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub_at(tmp_path / "data") as opened:
        yield opened


def read_members(path: str) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {item.name: found.read() for item in archive if (found := archive.extractfile(item)) is not None}


async def reveal(hub: Hub, resource_id: str = ID) -> str | None:
    return (await hub.resources.reveal(local(), resource_id)).secure_body


async def test_a_snapshot_holds_the_wrapped_keys_and_no_master_key(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))

    entry = await hub.operations.snapshots.create()

    held = read_members(entry.path)
    master = (tmp_path / "data" / "keys" / "master.key").read_bytes().strip()
    assert held[KEYRING] == (tmp_path / "data" / KEYRING).read_bytes()
    assert not any("master.key" in name for name in held)
    assert all(master not in data and SECRET.encode() not in data for data in held.values())


async def test_a_restore_restores_sealed_bodies_with_their_keys(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    entry = await hub.operations.snapshots.create()
    await hub.resources.patch(local(), ID, {"secure_body": "another"})
    ring = tmp_path / "data" / KEYRING
    ring.unlink()

    await hub.operations.snapshots.restore(local(), entry.ts)

    assert await reveal(hub) == SECRET
    assert (await hub.resources.read(local(), ID))["version"] == 3


async def test_a_restore_does_not_revive_destroyed_keys(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    await hub.resources.save(local(), new_resource("cookies/b", secure_body="kept"))
    entry = await hub.operations.snapshots.create()
    erased = await hub.operations.erasure.erase(local(), RESOURCES, ID)
    await hub.resources.delete(local(), "cookies/b")

    restored = await hub.operations.snapshots.restore(local(), entry.ts)

    assert erased.snapshots == [entry.ts]
    assert (RESOURCES, ID) in restored.erased
    with pytest.raises(NotFound):
        await reveal(hub)
    assert await reveal(hub, "cookies/b") == "kept"
    keys = parse_keyring((tmp_path / "data" / KEYRING).read_bytes())
    assert sorted(key.destroyed_at is None for key in keys.values()) == [False, True]


async def test_a_snapshot_is_unpacked_beside_a_copied_master_key(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    entry = await hub.operations.snapshots.create()
    moved = tmp_path / "moved"
    (moved / "keys").mkdir(parents=True)
    (moved / "keys" / "master.key").write_bytes((tmp_path / "data" / "keys" / "master.key").read_bytes())

    unpack_snapshot(Path(entry.path), Settings(data_dir=moved, owner=OWNER))

    async with open_hub_at(moved) as there:
        assert await reveal(there) == SECRET


async def test_unpacking_keeps_destroyed_keys_of_the_existing_keyring(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    entry = await hub.operations.snapshots.create()
    moved = tmp_path / "moved"
    (moved / "keys").mkdir(parents=True)
    ours = {
        key_id: WrappedKey(item.account, item.resource_id, item.master, destroyed_at="then")
        for key_id, item in parse_keyring((tmp_path / "data" / KEYRING).read_bytes()).items()
    }
    (moved / KEYRING).write_bytes(format_keyring(ours))

    unpack_snapshot(Path(entry.path), Settings(data_dir=moved, owner=OWNER))

    assert parse_keyring((moved / KEYRING).read_bytes()) == ours


async def test_restoring_a_snapshot_without_keys_keeps_existing_keys(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource())
    entry = await hub.operations.snapshots.create()
    await hub.resources.save(local(), new_resource("cookies/b", secure_body=SECRET))
    kept = (tmp_path / "data" / KEYRING).read_bytes()

    restored = await hub.operations.snapshots.restore(local(), entry.ts)

    assert restored.removed == 1
    assert (tmp_path / "data" / KEYRING).read_bytes() == kept


@pytest.mark.parametrize(
    "junk",
    [
        b"{",
        b"[]",
        b'{"knowhub_keyring":2,"keys":{}}',
        b'{"knowhub_keyring":1,"keys":{"a":{}}}',
        b'{"knowhub_keyring":1,"keys":{"a":{"account":"a","resource":"r","master":"m"}}}',
    ],
)
async def test_a_damaged_keyring_stops_sealing_and_is_never_overwritten(hub: Hub, tmp_path: Path, junk: bytes) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    ring = tmp_path / "data" / KEYRING
    ring.write_bytes(junk)

    with pytest.raises(Unavailable, match=r"keyring\.json"):
        await reveal(hub)
    with pytest.raises(Unavailable, match=r"keyring\.json"):
        await hub.resources.save(local(), new_resource("b", secure_body=SECRET))

    assert ring.read_bytes() == junk
    found = inspect(tmp_path / "data")
    assert any(item.severity == "problem" and item.subject == str(ring) for item in found)


async def test_a_snapshot_with_an_invalid_keyring_is_refused(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    ring = tmp_path / "data" / KEYRING
    kept = ring.read_bytes()
    ring.write_bytes(b"[]\n")
    entry = await hub.operations.snapshots.create()
    ring.write_bytes(kept)
    await hub.resources.delete(local(), ID)

    with pytest.raises(InvalidInput, match=r"keys/keyring\.json"):
        await hub.operations.snapshots.restore(local(), entry.ts)

    assert ring.read_bytes() == kept


async def test_keys_are_private_and_doctor_reports_if_not(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    master = tmp_path / "data" / "keys" / "master.key"
    directory = DataDirectory(tmp_path / "data")

    assert master.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / KEYRING).stat().st_mode & 0o777 == 0o600
    assert not any(item.severity == "problem" for item in inspect(directory.root))
    master.chmod(0o644)

    found = inspect(directory.root)

    assert [item.subject for item in found if item.severity == "problem"] == [str(master)]


async def test_temporary_keyrings_of_dead_processes_are_removed(hub: Hub, tmp_path: Path) -> None:
    await hub.resources.save(local(), new_resource(secure_body=SECRET))
    ring = tmp_path / "data" / KEYRING
    left = ring.with_name("keyring.json.4711.tmp")
    left.write_bytes(ring.read_bytes())

    await hub.operations.erasure.erase(local(), RESOURCES, ID)

    assert not left.exists()


def test_merging_keyrings_never_replaces_own_keys() -> None:
    ours = {"a": WrappedKey("default", "x", "m", destroyed_at="then")}
    others = {"a": WrappedKey("default", "x", "m", b"n", b"d"), "b": WrappedKey("default", "y", "m", b"n", b"d")}

    joined = merge_keys(ours, others)

    assert joined == {"a": ours["a"], "b": others["b"]}
    assert parse_keyring(format_keyring(joined)) == joined
    assert orjson.loads(format_keyring(joined))["keys"]["a"] == {
        "account": "default",
        "resource": "x",
        "master": "m",
        "destroyed": "then",
    }
