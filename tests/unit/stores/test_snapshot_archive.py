"""Opening an untrusted snapshot: errors name the member, and nothing is written outside the folder."""

import asyncio
import errno
import gzip
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from knowhub.core.errors import Conflict, StorageFull
from knowhub.stores.files.data_directory import ARCHIVE_VERSION, DataDirectory, format_text
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_manifest import MANIFEST as LOG_MANIFEST
from knowhub.stores.files.snapshots.archive import (
    DamagedSnapshot,
    Manifest,
    check_snapshot,
    read_manifest,
    temporary_path,
    unpack_snapshot,
    write_archive,
)
from knowhub.stores.files.snapshots.restore import unpack_directory
from knowhub.stores.files.store import LogEnd, StoreOptions
from tests.archives import MANIFEST, Archive, ArchiveMember, pack_tar, read_folder
from tests.builders import local, new_knowledge, open_domain
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

FILES = FileSystem()
SEGMENT = "change_log/segment-00000001.jsonl"
MANY = 10**9


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return the snapshot of a small directory."""
    return asyncio.run(make_snapshot(tmp_path / "data"))


async def make_snapshot(root: Path) -> Path:
    directory, end, manifest = await prepare_log(root, records=3)
    write_archive(FILES, directory, manifest, end.numbers, end.position.offset)
    return temporary_path(directory, manifest.ts)


async def prepare_log(
    root: Path, options: StoreOptions | None = None, records: int = 1
) -> tuple[DataDirectory, LogEnd, Manifest]:
    """Make a directory with records; return it, the end of its log, and the manifest of a snapshot of it."""
    async with open_domain(root, None, options) as hub:
        for number in range(records):
            await hub.knowledge.records.save(local(), new_knowledge(f"zebra {number}"))
        end = await hub.store.get_end()
    directory = DataDirectory(root)
    directory.snapshots.mkdir()
    manifest = Manifest("20261120T154500Z", end.log_id, end.last_seq, 1, 0, "demand", "2026-11-20T15:45:00.000Z", {})
    return directory, end, manifest


def test_a_snapshot_holds_the_log_and_a_manifest(snapshot: Path, tmp_path: Path) -> None:
    manifest = unpack_snapshot(FILES, snapshot, tmp_path / "out", MANY)

    log = tmp_path / "data" / "change_log"
    whole = {name: data for name, data in read_folder(log).items() if name != LOG_MANIFEST}
    assert read_folder(tmp_path / "out" / "change_log") == whole
    assert (tmp_path / "out" / "FORMAT").read_text() == format_text(ARCHIVE_VERSION)
    assert set(manifest.members) == {"FORMAT", SEGMENT}
    assert manifest.members[SEGMENT].sha256 == sha256((log / "segment-00000001.jsonl").read_bytes()).hexdigest()
    assert check_snapshot(FILES, snapshot) == read_manifest(FILES, snapshot) == manifest


def test_ordinary_tools_unpack_it_the_manifest_first(snapshot: Path, tmp_path: Path) -> None:
    with tarfile.open(snapshot) as archive:
        assert archive.getnames() == [MANIFEST, "FORMAT", SEGMENT]
        archive.extractall(tmp_path / "out", filter="data")

    assert (tmp_path / "out" / SEGMENT).read_bytes() == (tmp_path / "data" / SEGMENT).read_bytes()


OUTSIDE = "/tmp/knowhub-outside"  # noqa: S108 -- it must not be made
# Members that are in no manifest, and members that replace the log.
UNDECLARED = {
    "an absolute path": ArchiveMember(OUTSIDE, b"x"),
    "a path upwards": ArchiveMember("change_log/../../outside", b"x"),
    "a file of its own": ArchiveMember("change_log/segment-00000002.jsonl", b"x"),
}
IN_PLACE_OF_THE_LOG = {
    "a symbolic link": ArchiveMember(SEGMENT, b"", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": ArchiveMember(SEGMENT, b"", tarfile.LNKTYPE, "../../LOCK"),
    "a device": ArchiveMember(SEGMENT, b"", tarfile.CHRTYPE),
    "a folder": ArchiveMember(SEGMENT, b"", tarfile.DIRTYPE),
    "a sparse file": ArchiveMember(SEGMENT, b"", tarfile.GNUTYPE_SPARSE),
}


def list_spoilt(archive: Archive) -> Iterator[tuple[Archive, str]]:
    """Yield archives that are not as they should be, each with the member that is to be named."""
    layout, log = archive.members
    for member in UNDECLARED.values():
        yield archive.with_undeclared(member), member.name
    for member in IN_PLACE_OF_THE_LOG.values():
        yield archive.with_members(layout, member), SEGMENT
    yield archive.with_undeclared(ArchiveMember("change_log/" + "a" * 300, b"x")), "././@LongLink"
    yield archive.with_undeclared(log), SEGMENT
    yield archive.with_members(*archive.members, ArchiveMember("../outside", b"x")), MANIFEST
    yield archive.with_members(layout), MANIFEST
    yield archive.with_members(ArchiveMember("FORMAT", b'{"knowhub_data":2}\n'), log), "FORMAT"
    for members in (
        [layout],
        [layout, ArchiveMember(SEGMENT, log.data + b"\n")],
        [layout, ArchiveMember(SEGMENT, log.data[::-1])],
    ):
        yield Archive(archive.manifest, members), SEGMENT
    for fields in (
        {"knowhub_snapshot": 2},
        {"created_at": 5},
        {"members": {"FORMAT": {"bytes": 1, "sha256": "../"}}},
    ):
        yield archive.with_manifest(**fields), MANIFEST


def test_invalid_members_are_refused_by_name(snapshot: Path, tmp_path: Path) -> None:
    count = 0
    for spoilt, named in list_spoilt(Archive.read(snapshot)):
        path = spoilt.write(tmp_path / f"spoilt-{count}.tar.gz")
        before = read_folder(tmp_path)

        with pytest.raises(DamagedSnapshot) as refused:
            unpack_snapshot(FILES, path, tmp_path / f"out-{count}", MANY)

        assert refused.value.member == named
        assert [error.field for error in refused.value.errors] == [named]
        after = {name: data for name, data in read_folder(tmp_path).items() if not name.startswith(f"out-{count}/")}
        assert after == before
        assert not Path(OUTSIDE).exists()
        count += 1
    assert count == 19


def test_the_manifest_must_be_the_first_member(snapshot: Path, tmp_path: Path) -> None:
    archive = Archive.read(snapshot)
    manifest = ArchiveMember(MANIFEST, orjson.dumps(archive.manifest))
    (tmp_path / "late.tar.gz").write_bytes(gzip.compress(pack_tar([*archive.members, manifest])))

    with pytest.raises(DamagedSnapshot, match="is not the first member"):
        check_snapshot(FILES, tmp_path / "late.tar.gz")


def test_every_prefix_of_an_archive_is_refused(snapshot: Path, tmp_path: Path) -> None:
    whole, part = snapshot.read_bytes(), tmp_path / "part.tar.gz"

    for length in range(len(whole)):
        part.write_bytes(whole[:length])
        with pytest.raises(DamagedSnapshot):
            check_snapshot(FILES, part)


@pytest.mark.parametrize(
    "tail",
    [b"x", gzip.compress(b"more"), gzip.compress(bytes(2 * 1024 * 1024)), b"\x1f\x8b"],
    ids=["a byte", "another file", "no end of zeros", "half a header"],
)
def test_bytes_after_the_end_of_an_archive_are_refused(snapshot: Path, tmp_path: Path, tail: bytes) -> None:
    longer = tmp_path / "longer.tar.gz"
    longer.write_bytes(snapshot.read_bytes() + tail)

    with pytest.raises(DamagedSnapshot):
        check_snapshot(FILES, longer)


def test_an_archive_bomb_is_refused_before_writing(snapshot: Path, tmp_path: Path) -> None:
    archive = Archive.read(snapshot)
    bomb = archive.with_members(archive.members[0], ArchiveMember(SEGMENT, bytes(50 * 1024 * 1024)))
    told = bomb.write(tmp_path / "told.tar.gz")
    # One whose manifest keeps silent about it ends where the manifest says that the member does.
    lying = Archive(archive.manifest, bomb.members).write(tmp_path / "lying.tar.gz")

    with pytest.raises(DamagedSnapshot, match="KNOWHUB_SNAPSHOT_MAX_BYTES"):
        unpack_snapshot(FILES, told, tmp_path / "out", 1024 * 1024)
    with pytest.raises(DamagedSnapshot, match="the manifest says"):
        unpack_snapshot(FILES, lying, tmp_path / "out", MANY)

    assert sum(map(len, read_folder(tmp_path / "out").values())) < 1024


def test_a_snapshot_larger_than_the_free_space_is_refused(snapshot: Path, tmp_path: Path) -> None:
    huge = Archive.read(snapshot)
    huge.manifest["members"][SEGMENT]["bytes"] = 2**60
    path = huge.write(tmp_path / "huge.tar.gz")

    with pytest.raises(StorageFull, match="are free"):
        unpack_snapshot(FILES, path, tmp_path / "out", 2**61)

    assert read_folder(tmp_path / "out") == {}


def test_a_manifest_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless.tar.gz"
    path.write_bytes(gzip.compress(pack_tar([ArchiveMember(MANIFEST, bytes(8 * 1024 * 1024))])))

    with pytest.raises(DamagedSnapshot, match="is longer than"):
        read_manifest(FILES, path)


@pytest.mark.parametrize("kind", ["write_at", "sync"])
async def test_a_failed_snapshot_leaves_no_file(tmp_path: Path, kind: str) -> None:
    directory, end, manifest = await prepare_log(tmp_path)
    files = FaultyFileSystem(Plan(fail_at=1, error=errno.ENOSPC, kinds=(kind,)))

    with pytest.raises(OSError, match="No space"):
        write_archive(files, directory, manifest, end.numbers, end.position.offset)

    assert read_folder(directory.snapshots) == {}


@pytest.mark.parametrize("is_header", [False, True], ids=["truncated", "a damaged header"])
async def test_a_damaged_log_makes_no_snapshot(tmp_path: Path, *, is_header: bool) -> None:
    directory, end, manifest = await prepare_log(tmp_path, StoreOptions(segment_bytes=1))
    last = tmp_path / "change_log" / f"segment-{end.numbers[-1]:08d}.jsonl"
    last.write_bytes(b"x" + last.read_bytes()[1:] if is_header else last.read_bytes()[:-1])

    with pytest.raises(OSError, match=f"{last.name} is damaged, so that no snapshot can be made"):
        write_archive(FILES, directory, manifest, end.numbers, end.position.offset)

    assert read_folder(directory.snapshots) == {}


def test_a_snapshot_is_unpacked_only_into_an_empty_directory(snapshot: Path, tmp_path: Path) -> None:
    taken, file = tmp_path / "taken", tmp_path / "file"
    taken.mkdir()
    (taken / "a note of mine.txt").write_bytes(b"stays")
    file.write_bytes(b"stays")
    # As a call leaves it that died.
    (tmp_path / "begun" / ".unpack" / "change_log").mkdir(parents=True)

    for root in (taken, file, tmp_path / "data"):
        with pytest.raises(Conflict, match="is not empty"):
            unpack_directory(FILES, snapshot, root, MANY)
    unpack_directory(FILES, snapshot, tmp_path / "begun", MANY)

    assert read_folder(taken) == {"a note of mine.txt": b"stays"}
    assert set(read_folder(tmp_path / "begun")) == {"FORMAT", SEGMENT}


async def test_unacknowledged_bytes_are_not_in_a_snapshot(tmp_path: Path) -> None:
    root = tmp_path / "data"
    directory, end, manifest = await prepare_log(root, StoreOptions(segment_bytes=1), records=2)
    for number in end.numbers[-2:]:
        with (root / "change_log" / f"segment-{number:08d}.jsonl").open("ab") as segment:
            segment.write(b"torn bytes of a write that failed")
    write_archive(FILES, directory, manifest, end.numbers, end.position.offset)

    unpack_directory(FILES, temporary_path(directory, manifest.ts), tmp_path / "out", MANY)

    assert not any(b"torn" in data for data in read_folder(tmp_path / "out").values())
    async with open_domain(tmp_path / "out") as hub:
        assert (hub.store.last_seq, hub.store.status().quarantined) == (2, [])
