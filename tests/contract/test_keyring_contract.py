"""What every keyring guarantees: changes are atomic, apply to the newest state, and none is lost."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.core.data_keys import WrappedKey
from knowhub.core.errors import Unavailable
from knowhub.resources.ports import Keyring
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keys import FileKeyring
from tests.fakes.memory_keyring import MemoryKeyring

pytestmark = pytest.mark.anyio

KEY = WrappedKey("default", "cookies/a", "master-1", b"nonce", b"data")


@pytest.fixture(params=["file", "memory"])
def keyring(request: pytest.FixtureRequest, tmp_path: Path) -> Keyring:
    if request.param == "memory":
        return MemoryKeyring()
    return FileKeyring(FileSystem(), DataDirectory(tmp_path), 10)


def add_key(key_id: str) -> Callable[[Mapping[str, WrappedKey]], Mapping[str, WrappedKey]]:
    return lambda keys: {**keys, key_id: KEY}


async def test_a_new_keyring_is_empty_and_added_keys_are_returned(keyring: Keyring) -> None:
    assert await keyring.keys() == {}
    gone = WrappedKey("default", "密码/网站", "master-1", destroyed_at="2026-11-21T12:00:00.000Z")

    await keyring.change(lambda _keys: {"key-1": KEY, "key-2": gone})

    assert await keyring.keys() == {"key-1": KEY, "key-2": gone}


async def test_concurrent_changes_lose_nothing(keyring: Keyring) -> None:
    await asyncio.gather(*(keyring.change(add_key(f"key-{number}")) for number in range(20)))

    assert sorted(await keyring.keys()) == sorted(f"key-{number}" for number in range(20))


async def test_an_empty_change_keeps_the_keys(keyring: Keyring) -> None:
    await keyring.change(add_key("key-1"))

    await keyring.change(lambda _keys: None)

    assert list(await keyring.keys()) == ["key-1"]


async def test_a_failed_change_keeps_the_keys(keyring: Keyring) -> None:
    await keyring.change(add_key("key-1"))

    def failing(_keys: Mapping[str, WrappedKey]) -> None:
        raise Unavailable("no key")

    with pytest.raises(Unavailable, match="no key"):
        await keyring.change(failing)
    await keyring.change(add_key("key-2"))

    assert list(await keyring.keys()) == ["key-1", "key-2"]
