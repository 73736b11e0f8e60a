"""What the log says of keys, and to whom; what no undo and no restore brings back; when a key was used."""

from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.request_context import Role
from knowhub.identity.model import API_KEYS, KEY_USES, KeyHolder, NewKey
from knowhub.operations.model import OperationFilter
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import LI, keyed, minted, root, text_of

pytestmark = pytest.mark.anyio

HOUR = 3600.0


# ── keys in the log ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_admin_who_is_none_any_more_is_not_told_of_the_keys_that_they_made(hub: Hub) -> None:
    admin = (await minted(hub, KeyHolder("boss"), Role.ADMIN)).key.caller.context
    made = await hub.identity.mint(admin, NewKey(LI, Role.READER))
    writer = (await minted(hub, KeyHolder("boss"))).key.caller.context

    told = await hub.operations.history.get(writer, made.operation_id)

    assert list(told.operation.changes) == []


async def test_a_restore_brings_no_revoked_key_back(tmp_path: Path) -> None:
    async with open_hub(keyed(tmp_path / "kept"), maintain=False) as hub:
        key = await minted(hub, LI)
        snapshot = await hub.operations.snapshots.create()
        await hub.identity.revoke(root(), key.key.key_id)
        later = await minted(hub, LI)

        await hub.operations.snapshots.restore(root(), snapshot.ts)

        assert await hub.identity.caller(text_of(key)) is None
        assert await hub.identity.caller(text_of(later)) is not None


# ── when it was used ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_last_use_is_known_at_once_and_written_once_an_hour(hub: Hub, clock: FakeClock) -> None:
    key = await minted(hub, LI)
    assert hub.identity.uses.last(key.key.key_id) is None

    for _ in range(3):
        await hub.identity.caller(text_of(key))
        clock.advance(HOUR / 2)
    await hub.identity.uses.close()

    assert hub.identity.uses.last(key.key.key_id) == "2026-03-05T13:00:00.000Z"
    row = hub.store.view("default").get(KEY_USES, key.key.key_id)
    assert row is not None
    assert (row["last_used_at"], row["version"]) == ("2026-03-05T13:00:00.000Z", 2)
    assert (hub.store.view("default").get(API_KEYS, key.key.key_id) or {})["version"] == 1


async def test_the_last_use_outlives_the_process_and_is_no_entry_of_the_list(tmp_path: Path, clock: FakeClock) -> None:
    settings = keyed(tmp_path / "again")
    async with open_hub(settings, Overrides(clock=clock), maintain=False) as hub:
        key = await minted(hub, LI)
        await hub.identity.caller(text_of(key))
    async with open_hub(settings, Overrides(clock=clock), maintain=False) as hub:
        assert hub.identity.uses.last(key.key.key_id) == "2026-03-05T12:00:00.000Z"
        assert [one.operation.op for one in (await hub.operations.history.page(root(), _any())).entries] == [
            "create_key"
        ]
        assert [
            one.operation.op for one in (await hub.operations.history.page(root(), _any(op="note_key_use"))).entries
        ] == ["note_key_use"]


async def test_two_processes_note_one_use_an_hour_between_them(tmp_path: Path, clock: FakeClock) -> None:
    settings, world = keyed(tmp_path / "both"), Overrides(clock=clock)
    async with open_hub(settings, world, maintain=False) as one, open_hub(settings, world, maintain=False) as other:
        text = text_of(await minted(one, LI))
        await one.identity.caller(text)
        await one.identity.uses.close()
        await other.identity.caller(text)
        await other.identity.uses.close()
        await one.store.refresh()

        page = await one.operations.history.page(root(), _any(op="note_key_use"))

    assert len(page.entries) == 1


def _any(op: str | None = None) -> OperationFilter:
    return OperationFilter(op=op)
