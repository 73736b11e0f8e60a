"""What `knowhub doctor` reports of the keys of sealed bodies: missing and destroyed ones."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub
from knowhub.core.data_keys import WrappedKey
from knowhub.resources.model import RESOURCES
from knowhub.stores.files.data_directory import KEYRING
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.keys import format_keyring, parse_keyring
from tests.builders import local, retry_key
from tests.doctoring import inspect
from tests.hubs import open_hub_at
from tests.sealing import ID, SECRET, new_resource

pytestmark = pytest.mark.anyio


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub_at(tmp_path) as opened:
        yield opened


async def save_sealed(hub: Hub, *ids: str) -> None:
    for resource_id in ids:
        await hub.resources.save(local(), new_resource(resource_id, secure_body=SECRET))


def keys_in(root: Path) -> dict[str, WrappedKey]:
    return parse_keyring((root / KEYRING).read_bytes())


def put_keys(root: Path, keys: dict[str, WrappedKey]) -> None:
    (root / KEYRING).write_bytes(format_keyring(keys))


def list_findings(root: Path, severity: Severity = Severity.PROBLEM) -> list[Finding]:
    return [
        item
        for item in inspect(root)
        if item.severity is severity and (item.subject == "keys" or item.subject.startswith(str(root / "keys")))
    ]


async def test_sealed_bodies_with_their_keys_are_ok(hub: Hub, tmp_path: Path) -> None:
    await save_sealed(hub, "a", "b", "c")
    await hub.resources.patch(local(), "a", {"secure_body": "another"})
    await hub.resources.save(local(), new_resource("d", secure_body=SECRET), retry_key())
    await hub.operations.erasure.erase(local(), RESOURCES, "b")
    await hub.maintenance.tick()

    assert list_findings(tmp_path) == list_findings(tmp_path, Severity.NOTE) == []
    assert list_findings(tmp_path, Severity.OK)[0].detail == "4 keys of sealed bodies, 1 destroyed"


@pytest.mark.parametrize("lost", [KEYRING, "keys"])
async def test_a_lost_keyring_is_a_problem_that_names_the_bodies(hub: Hub, tmp_path: Path, lost: str) -> None:
    await save_sealed(hub, "credentials/a", "credentials/b", "credentials/c", "credentials/d")
    await hub.resources.patch(local(), "credentials/b", {"secure_body": None})
    await hub.resources.delete(local(), "credentials/c")
    await hub.operations.erasure.erase(local(), RESOURCES, "credentials/d")
    (tmp_path / lost).rename(tmp_path / "elsewhere")

    (problem,) = list_findings(tmp_path)

    assert problem.subject == str(tmp_path / KEYRING)
    assert problem.detail == "lacks keys of sealed bodies of account 'default': credentials/a"
    assert "backup" in problem.advice


async def test_a_keyring_that_lacks_keys_is_named_after_a_compaction_too(hub: Hub, tmp_path: Path) -> None:
    await save_sealed(hub, "a", "b")
    await hub.resources.patch(local(), "a", {"secure_body": "another"})
    await hub.compact(0.0)
    named = (hub.store.view("default").get(RESOURCES, "a") or {})["sealed"]["key_id"]
    put_keys(tmp_path, {key_id: key for key_id, key in keys_in(tmp_path).items() if key_id != named})

    assert [item.detail for item in list_findings(tmp_path)] == ["lacks keys of sealed bodies of account 'default': a"]


async def test_a_body_whose_key_was_destroyed_is_noted(hub: Hub, tmp_path: Path) -> None:
    await save_sealed(hub, ID)
    ring = keys_in(tmp_path)
    put_keys(
        tmp_path, {key_id: replace(item, nonce=b"", data=b"", destroyed_at="then") for key_id, item in ring.items()}
    )

    assert list_findings(tmp_path) == []
    assert [item.detail for item in list_findings(tmp_path, Severity.NOTE)] == [
        f"keys of sealed bodies of account 'default' were destroyed: {ID}"
    ]


async def test_a_damaged_keyring_is_reported_once(hub: Hub, tmp_path: Path) -> None:
    await save_sealed(hub, "a", "b")
    (tmp_path / KEYRING).write_bytes(b"{")

    (problem,) = list_findings(tmp_path)

    assert "is damaged" in problem.detail
