"""Snapshots with random changes: each is refused with nothing changed, or restored correctly."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.errors import InvalidInput, StorageFull
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.keywords.tree import BY_NAME
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.wiring.adapters import Overrides
from tests.archives import MANIFEST, Archive, ArchiveMember, read_folder
from tests.builders import OWNER, local, new_knowledge
from tests.whole_state import state_of

pytestmark = pytest.mark.anyio

MAX_BYTES = 4 * 1024 * 1024


def flip(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def take_out(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 2000) :]


def put_in(rng: random.Random, data: bytes) -> bytes:
    place, piece = rng.randrange(len(data)), rng.randbytes(rng.randrange(1, 2000))
    return data[:place] + piece + data[place:]


def overwrite(rng: random.Random, data: bytes) -> bytes:
    place, piece = rng.randrange(len(data)), rng.choice([bytes(512), b"../" * 40, rng.randbytes(100), b"9" * 12])
    return data[:place] + piece + data[place + len(piece) :]


def repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(0, len(data), 512)
    return data + data[start : start + 512 * rng.randrange(1, 9)]


BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (flip, cut, take_out, put_in, overwrite, repeat)


def mutate_file(rng: random.Random, path: Path) -> bytes:
    return rng.choice(BYTES)(rng, path.read_bytes())


def mutate_tar(rng: random.Random, path: Path) -> bytes:
    return gzip.compress(rng.choice(BYTES)(rng, gzip.decompress(path.read_bytes())), 1)


def mutate_header(rng: random.Random, path: Path) -> bytes:
    """Change a name, a size or a kind, and make the header's own checksum right again."""
    data = bytearray(gzip.decompress(path.read_bytes()))
    start = rng.choice([place for place in range(0, len(data), 512) if data[place + 257 : place + 262] == b"ustar"])
    place, value = rng.choice(
        [(0, b"../../outside\0"), (0, b"/tmp/outside\0"), (156, rng.choice([b"1", b"2", b"3", b"5", b"S", b"x", b"L"])),
         (124, b"77777777777\0"), (124, b"\x80" + rng.randbytes(11)), (124, b"\xff" * 12), (157, b"../../LOCK\0")]
    )  # fmt: skip
    data[start + place : start + place + len(value)] = value
    data[start + 148 : start + 156] = b" " * 8
    data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
    return gzip.compress(bytes(data), 1)


def mutate_member(rng: random.Random, path: Path) -> bytes:
    """Change the log itself, under a manifest that says the truth of it."""
    archive = Archive.read(path)
    layout, log = archive.members
    mutated = archive.with_members(layout, ArchiveMember(log.name, rng.choice(BYTES)(rng, log.data)))
    return gzip.compress(mutated.to_tar(), 1)


def mutate_manifest(rng: random.Random, path: Path) -> bytes:
    archive = Archive.read(path)
    text = rng.choice(BYTES)(rng, orjson.dumps(archive.manifest))
    whole = Archive({}, [ArchiveMember(MANIFEST, text), *archive.members]).to_tar()
    # Less the manifest that packing put in front.
    return gzip.compress(whole[1024:], 1)


def make_bomb(rng: random.Random, path: Path) -> bytes:
    archive = Archive.read(path)
    huge = ArchiveMember(archive.members[1].name, bytes(MAX_BYTES * rng.randrange(2, 4)))
    told = archive.with_members(archive.members[0], huge)
    return gzip.compress((told if rng.random() < 0.5 else Archive(archive.manifest, told.members)).to_tar(), 1)


MUTATIONS = (mutate_file, mutate_tar, mutate_header, mutate_member, mutate_manifest)


async def fill(hub: Hub) -> None:
    await hub.knowledge.records.save(local(), new_knowledge("as it was"))
    made = await hub.keywords.tree.create(local(), NewKeyword("zebra"), auto_place=False)
    await hub.keywords.infos.create(local(), NewInfo("striped", keyword_ids=[made.record["id"]]))


async def change_filled(hub: Hub) -> None:
    await hub.knowledge.records.save(local(), new_knowledge("written since"))
    found = next(iter(hub.store.view("default").lookup(BY_NAME, "zebra")))
    await hub.keywords.tree.delete(local(), found.id)


def copy(path: Path, data: Callable[[], bytes]) -> None:
    path.write_bytes(data())


async def restore_or_refuse(tmp_path: Path, rounds: int, seed: int) -> tuple[int, int]:
    """Restore a mutated archive in each round; return how many were refused, and how many restored."""
    rng, root = random.Random(seed), tmp_path / "around" / "data"
    settings = Settings(data_dir=root, owner=OWNER, snapshot_max_bytes=MAX_BYTES, segment_bytes=1024**3)
    refused = done = 0
    async with open_hub(settings, Overrides(files=FileSystem()), maintain=False) as hub:
        await fill(hub)
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
        await change_filled(hub)
        now, source, kept = state_of(hub.store), Path(entry.path), tmp_path / "kept.tar.gz"
        copy(kept, source.read_bytes)
        outside = read_folder(tmp_path).keys()
        for number in range(rounds):
            mutate = make_bomb if number % 100 == 0 else rng.choice(MUTATIONS)
            copy(source, lambda: mutate(rng, kept))  # noqa: B023 -- called at once
            size = hub.store.last_seq
            try:
                restored = await hub.operations.snapshots.restore(local(), entry.ts)
            except (InvalidInput, StorageFull):
                refused += 1
                assert hub.store.last_seq == size
            else:
                done += 1
                assert state_of(hub.store) == then
                assert restored.restore_id is not None
                await hub.operations.log.undo(local(), restored.restore_id)
                await hub.operations.snapshots.delete(str(restored.safety_snapshot))
            assert state_of(hub.store) == now
            assert {path.name for path in source.parent.iterdir()} == {source.name}
        after = read_folder(tmp_path).keys()
    assert after == outside
    return refused, done


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])])
async def test_mutated_archives_are_refused_or_restored_correctly(tmp_path: Path, count: int) -> None:
    refused, done = await restore_or_refuse(tmp_path, count, seed=1)

    # Padding, and a few bits of a gzip header, mean nothing.
    assert refused > 0.9 * count
    assert refused + done == count
