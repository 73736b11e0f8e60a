"""Failures of the keyring file: a cancelled request, a failing disk, a foreign file."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from knowhub.core.data_keys import WrappedKey
from knowhub.core.errors import Conflict, StorageFull, Unavailable
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keys import FileKeyring, format_keyring
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.sealing import ACCOUNT, ID, vault_on

pytestmark = pytest.mark.anyio

KEY = WrappedKey("default", "cookies/a", "master-1", b"nonce", b"data")


async def test_a_change_that_is_given_up_is_ended_before_another_one_begins(tmp_path: Path) -> None:
    keyring = FileKeyring(FileSystem(), DataDirectory(tmp_path), 10)
    begun, may_end = threading.Event(), threading.Event()

    def slow(keys: Mapping[str, WrappedKey]) -> Mapping[str, WrappedKey]:
        begun.set()
        may_end.wait(10)
        return {**keys, "first": KEY}

    given_up = asyncio.create_task(keyring.change(slow))
    await asyncio.to_thread(begun.wait, 10)
    given_up.cancel()
    following = asyncio.create_task(keyring.change(lambda keys: {**keys, "second": KEY}))
    await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await given_up
    await following
    assert list(await keyring.keys()) == ["first", "second"]


async def test_a_keyring_that_another_process_holds_for_too_long_is_a_conflict(tmp_path: Path) -> None:
    holder, other = (FileKeyring(FileSystem(), DataDirectory(tmp_path), wait) for wait in (10, 0.1))
    begun, may_end = threading.Event(), threading.Event()

    def slow(_keys: Mapping[str, WrappedKey]) -> None:
        begun.set()
        may_end.wait(10)

    holding = asyncio.create_task(holder.change(slow))
    await asyncio.to_thread(begun.wait, 10)
    with pytest.raises(Conflict, match="held the keyring"):
        await other.change(lambda keys: {**keys, "first": KEY})
    may_end.set()
    await holding

    assert await other.keys() == {}


async def test_a_disk_that_does_not_read_is_named(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    vault = vault_on(tmp_path, files)
    sealed = vault.seal(await vault.make_data_key(ACCOUNT, ID), "secret", 1)

    for call in (1, 2, 3, 4):
        files.begin(Plan(fail_at=call, kinds=("read",)))
        with pytest.raises(Unavailable):
            await vault.open(ACCOUNT, ID, sealed)
    files.begin(Plan())

    assert await vault.open(ACCOUNT, ID, sealed) == "secret"


async def test_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    vault = vault_on(tmp_path, files)
    await vault.make_data_key(ACCOUNT, ID)
    files.begin(Plan(fail_at=1, error=28, kinds=("write_at",)))

    with pytest.raises(StorageFull, match="disk is full"):
        await vault.make_data_key(ACCOUNT, ID)


async def test_a_malformed_or_unreadable_foreign_keyring_is_not_imported(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    keyring = FileKeyring(files, DataDirectory(tmp_path / "data"), 10)
    theirs = tmp_path / "keyring.json"
    theirs.write_bytes(b"[]")

    with pytest.raises(Unavailable, match="no keyring"):
        await keyring.import_keys(theirs)
    theirs.write_bytes(format_keyring({"first": KEY}))
    files.begin(Plan(fail_at=1, kinds=("read",)))
    with pytest.raises(Unavailable, match=r"keyring\.json"):
        await keyring.import_keys(theirs)
    assert await keyring.keys() == {}
    await keyring.import_keys(theirs)
    await keyring.import_keys(tmp_path / "none.json")

    assert await keyring.keys() == {"first": KEY}
