"""API keys: what opens them, what ends them, and what the log keeps of them."""

import random
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.errors import Conflict
from knowhub.core.request_context import Role
from knowhub.identity.decisions import hash_key
from knowhub.identity.model import API_KEYS, KEY_USES, KeyHolder, NewKey
from knowhub.operations.model import OperationFilter
from knowhub.wiring.adapters import Overrides
from tests.builders import START, FakeClock
from tests.keys import LI, ROOT_KEY, caller_of, issue_key, make_keyed_settings, root_caller, text_of

pytestmark = pytest.mark.anyio


HOUR = 3600.0


# ── what a key is ─────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_key_identifies_its_holder_and_only_its_hash_is_stored(hub: Hub, tmp_path: Path) -> None:
    key = await issue_key(hub, LI, account="acme")
    text = text_of(key)

    assert (await caller_of(hub, text)).holder == LI
    assert (await caller_of(hub, text)).context.account == "acme"
    assert key.key.digest == hash_key(text)
    kept = _read_all_bytes(tmp_path)
    assert hash_key(text).encode() in kept
    assert text.encode() not in kept
    assert text.split("_", 2)[2].encode() not in kept


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "kh",
        "kh__",
        "kh_0000000000000000_" + "A" * 43,
        ROOT_KEY[:-1],
        ROOT_KEY + "r",
        "kh_" + "0" * 5000,
        "密钥",
        "\ud800",
    ],
)
async def test_a_malformed_key_identifies_nobody(hub: Hub, forged: str) -> None:
    await issue_key(hub, LI)

    assert await hub.identity.authenticate(forged) is None


async def test_ten_thousand_altered_keys_are_all_refused(hub: Hub) -> None:
    texts = [text_of(await issue_key(hub, LI)), text_of(await issue_key(hub, LI)), ROOT_KEY]
    rng = random.Random(5)

    for _ in range(10_000):
        spoilt = list(rng.choice(texts))
        place = rng.randrange(len(spoilt))
        spoilt[place] = rng.choice(["", "A", "a", "_", "-", "0", "=", " ", spoilt[place] * 2, spoilt[place].swapcase()])
        text = "".join(spoilt)
        assert text in texts or await hub.identity.authenticate(text) is None, text


async def test_the_hash_of_a_key_is_not_a_key(hub: Hub) -> None:
    key = await issue_key(hub, LI)

    assert await hub.identity.authenticate(key.key.digest) is None
    assert await hub.identity.authenticate(hash_key(ROOT_KEY)) is None


# ── how it ends ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_key_is_valid_until_the_second_it_expires(hub: Hub, clock: FakeClock) -> None:
    text = text_of(await issue_key(hub, LI, expires_at="2026-03-05T13:00:00Z"))

    clock.seconds = START + HOUR - 0.001
    assert await hub.identity.authenticate(text) is not None
    clock.seconds = START + HOUR
    assert await hub.identity.authenticate(text) is None


async def test_an_expired_or_revoked_key_is_not_rotated(hub: Hub, clock: FakeClock) -> None:
    revoked, expired = await issue_key(hub, LI), await issue_key(hub, LI, expires_at="2026-03-06")
    await hub.identity.revoke(root_caller(), revoked.key.key_id)
    clock.advance(24 * HOUR)

    for key in (revoked, expired):
        with pytest.raises(Conflict):
            await hub.identity.rotate(root_caller(), key.key.key_id)


async def test_keys_and_revocations_survive_a_restart(tmp_path: Path) -> None:
    settings = make_keyed_settings(tmp_path / "again")
    async with open_hub(settings, maintain=False) as hub:
        kept, ended = await issue_key(hub, LI, account="acme"), await issue_key(hub, LI)
        await hub.identity.revoke(root_caller(), ended.key.key_id)
        await hub.compact(0)
    async with open_hub(settings, maintain=False) as hub:
        assert (await caller_of(hub, text_of(kept))).context.account == "acme"
        assert await hub.identity.authenticate(text_of(ended)) is None
        assert [item.key_id for item in await hub.identity.list_keys(root_caller(), None)] == [
            kept.key.key_id,
            ended.key.key_id,
        ]


def _read_all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


# ── keys in the log ───────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_former_admin_does_not_see_the_keys_they_issued(hub: Hub) -> None:
    admin = (await issue_key(hub, KeyHolder("boss"), Role.ADMIN)).key.caller.context
    made = await hub.identity.issue(admin, NewKey(LI, Role.READER))
    writer = (await issue_key(hub, KeyHolder("boss"))).key.caller.context

    told = await hub.operations.log.get(writer, made.operation_id)

    assert list(told.operation.changes) == []


async def test_a_restore_does_not_revive_revoked_keys(tmp_path: Path) -> None:
    async with open_hub(make_keyed_settings(tmp_path / "kept"), maintain=False) as hub:
        key = await issue_key(hub, LI)
        snapshot = await hub.operations.snapshots.create()
        await hub.identity.revoke(root_caller(), key.key.key_id)
        later = await issue_key(hub, LI)

        await hub.operations.snapshots.restore(root_caller(), snapshot.ts)

        assert await hub.identity.authenticate(text_of(key)) is None
        assert await hub.identity.authenticate(text_of(later)) is not None


# ── when it was used ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_last_use_is_known_at_once_and_written_once_an_hour(hub: Hub, clock: FakeClock) -> None:
    key = await issue_key(hub, LI)
    assert hub.identity.uses.find_last_use(key.key.key_id) is None

    for _ in range(3):
        await hub.identity.authenticate(text_of(key))
        clock.advance(HOUR / 2)
    await hub.identity.uses.close()

    assert hub.identity.uses.find_last_use(key.key.key_id) == "2026-03-05T13:00:00.000Z"
    row = hub.store.view("default").get(KEY_USES, key.key.key_id)
    assert row is not None
    assert (row["last_used_at"], row["version"]) == ("2026-03-05T13:00:00.000Z", 2)
    assert (hub.store.view("default").get(API_KEYS, key.key.key_id) or {})["version"] == 1


async def test_two_processes_note_one_use_an_hour_between_them(tmp_path: Path, clock: FakeClock) -> None:
    settings, world = make_keyed_settings(tmp_path / "both"), Overrides(clock=clock)
    async with open_hub(settings, world, maintain=False) as first, open_hub(settings, world, maintain=False) as other:
        text = text_of(await issue_key(first, LI))
        await first.identity.authenticate(text)
        await first.identity.uses.close()
        await other.identity.authenticate(text)
        await other.identity.uses.close()
        await first.store.refresh()

        page = await first.operations.log.page(root_caller(), _any_operation(op="note_key_use"))

    assert len(page.entries) == 1


def _any_operation(op: str | None = None) -> OperationFilter:
    return OperationFilter(op=op)
