"""`knowhub doctor` on bases, headers, LOCK and the disk, and on derived files after erasures and compactions."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, check_directory, open_hub, repair_directory
from knowhub.core.errors import Conflict, Unavailable
from knowhub.keywords.model import NewKeyword
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.table import list_live_records
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Severity
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.log.log_line import seal
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, local, new_knowledge
from tests.doctoring import inspect
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.fakes.plain_text import PlainText

SEGMENT_BYTES = 4096


def make_settings(root: Path) -> Settings:
    return Settings(data_dir=root, owner=OWNER, maps_interval_s=0, segment_bytes=SEGMENT_BYTES)


def run_in_hub(root: Path, work: Callable[[Hub], Any] | None = None) -> None:
    async def run() -> None:
        world = Overrides(text=PlainText(), files=FaultyFileSystem())
        async with open_hub(make_settings(root), world, maintain=False) as hub:
            if work is not None:
                await work(hub)

    asyncio.run(run())


async def fill(hub: Hub) -> None:
    await hub.keywords.tree.create(local(), NewKeyword("Python", allow_duplicate=True), auto_place=False)
    for number in range(12):
        await hub.knowledge.records.save(local(), new_knowledge(f"text {number}"))


async def compact(hub: Hub) -> None:
    await hub.compact(0)


async def erase(hub: Hub) -> None:
    (record,) = [head.id for head in list_live_records(hub.store.view("default"))][:1]
    await hub.operations.erasure.erase(local(), KNOWLEDGE, record)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    run_in_hub(root, fill)
    return root


def details_by_file(root: Path, severity: Severity, files: FileSystem | None = None) -> dict[str, str]:
    found = inspect(root, files)
    return {Path(finding.subject).name: finding.detail for finding in found if finding.severity is severity}


def list_segments(root: Path) -> list[Path]:
    return sorted((root / "change_log").glob("segment-*"))


def rewrite_line(path: Path, line: int, **fields: object) -> None:
    """Rewrite one line of a file with other fields and a right checksum."""
    lines = path.read_bytes().splitlines(keepends=True)
    record = orjson.loads(lines[line])
    del record["crc"]
    lines[line] = seal(orjson.dumps(record | fields)[:-1])
    path.write_bytes(b"".join(lines))


def test_a_compacted_directory_has_no_problem(data: Path) -> None:
    run_in_hub(data, compact)

    assert details_by_file(data, Severity.PROBLEM) == {}
    assert "operations since operation" in details_by_file(data, Severity.OK)["change_log"]
    assert details_by_file(data, Severity.OK)["records"] == "as the log says"
    assert details_by_file(data, Severity.OK)["maps"] == "as the record files say"


def test_leftovers_of_a_compaction_are_noted(data: Path, tmp_path: Path) -> None:
    oldest = list_segments(data)[0]
    shutil.copy(oldest, tmp_path)
    run_in_hub(data, compact)
    shutil.copy(tmp_path / oldest.name, oldest)

    assert details_by_file(data, Severity.PROBLEM) == {}
    assert "is not in force any more" in details_by_file(data, Severity.NOTE)[oldest.name]


def test_a_base_that_lost_rows_is_a_problem(data: Path) -> None:
    run_in_hub(data, compact)
    (base,) = (data / "change_log").glob("base-*")
    rewrite_line(base, -1, rows=99)

    assert details_by_file(data, Severity.PROBLEM)[base.name] == "holds 14 rows, and by its end it held 99"
    repair_directory(make_settings(data))
    assert details_by_file(data, Severity.PROBLEM) == {}


def damage_of(root: Path) -> list[tuple[str, str]]:
    """Return the damage that an open reports: file and reason."""
    found: list[tuple[str, str]] = []

    async def look(hub: Hub) -> None:
        found.extend((Path(damage.path).name, damage.reason) for damage in hub.store.status().damage)
        assert hub.store.status().writable is not bool(found)

    run_in_hub(root, look)
    return found


def test_an_opening_names_a_base_that_lost_rows(data: Path) -> None:
    run_in_hub(data, compact)
    assert damage_of(data) == []
    (base,) = (data / "change_log").glob("base-*")
    rewrite_line(base, -1, rows=99)

    assert damage_of(data) == [(base.name, "holds 14 rows, and by its end it held 99")]


def test_an_opening_names_the_header_of_another_segment(data: Path) -> None:
    last = list_segments(data)[-1]
    number = int(last.stem.removeprefix("segment-"))
    # As long as before: LOCK says where the segment ends.
    rewrite_line(last, 0, segment=number + 1)

    assert damage_of(data) == [(last.name, f"by its header this is segment {number + 1}")]


def test_a_missing_segment_after_a_base_is_repaired(data: Path) -> None:
    run_in_hub(data, compact)
    for path in list_segments(data):
        path.unlink()

    name = next(iter((data / "change_log").glob("base-*"))).name.replace("base", "segment").replace(".g2", "")
    assert details_by_file(data, Severity.PROBLEM)[name] == "is missing; the log goes on with it behind its base"
    repair_directory(make_settings(data))
    assert details_by_file(data, Severity.PROBLEM) == {}


def test_a_header_of_another_segment_is_repaired(data: Path) -> None:
    first, second = list_segments(data)[:2]
    length = orjson.loads(second.read_bytes().split(b"\n")[0])["previous_length"]
    rewrite_line(first, 0, segment=1_111_111)
    rewrite_line(second, 0, previous_length=length + 6)
    before = details_by_file(data, Severity.PROBLEM)

    done = repair_directory(make_settings(data))

    assert before[first.name] == "by its header this is segment 1111111"
    assert "written again from its good lines; no operation is lost" in [item.detail for item in done]
    header = orjson.loads(list_segments(data)[1].read_bytes().split(b"\n")[0])
    assert header["previous_length"] == list_segments(data)[0].stat().st_size
    assert details_by_file(data, Severity.PROBLEM) == {}


def test_derived_files_older_than_an_erasure_are_noted(data: Path, tmp_path: Path) -> None:
    for name in ("records", "indexes"):
        shutil.copytree(data / name, tmp_path / name)
    run_in_hub(data, erase)
    after = details_by_file(data, Severity.NOTE)
    for name in ("records", "indexes"):
        shutil.rmtree(data / name)
        shutil.copytree(tmp_path / name, data / name)

    noted = details_by_file(data, Severity.NOTE)
    repair_directory(make_settings(data))

    assert "records" not in after
    assert noted["records"] == noted["maps"] == "does not fit the log; the leader writes it again"
    assert [detail for subject, detail in noted.items() if subject not in {"records", "maps", "KEEPER"}] == [
        "does not fit the log; the leader writes it again"
    ]
    assert not list((data / "records").rglob("*.jsonl"))
    assert not (data / "quarantine").exists()


def test_an_index_that_is_older_than_the_base_is_noted(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "indexes", tmp_path / "indexes")
    run_in_hub(data, fill)
    run_in_hub(data, compact)
    shutil.rmtree(data / "indexes")
    shutil.copytree(tmp_path / "indexes", data / "indexes")

    assert details_by_file(data, Severity.PROBLEM) == {}
    assert "does not fit the log; the leader writes it again" in details_by_file(data, Severity.NOTE).values()


def test_a_lock_with_a_failed_write_is_noted(data: Path) -> None:
    lock = LockFile(FileSystem(), data / "LOCK")
    lock.mark_suspect()
    lock.close()

    assert details_by_file(data, Severity.NOTE)["LOCK"].endswith(
        "; a write behind it failed, so the next one begins a fresh segment"
    )


class SmallFreeSpace(FaultyFileSystem):
    """A disk with so many bytes free."""

    room = 0

    def free(self, folder: Path) -> int:
        del folder
        return self.room


@pytest.mark.parametrize(
    ("room", "severity", "detail"),
    [
        (100, Severity.PROBLEM, "100 bytes free"),
        (200 * 1024 * 1024, Severity.NOTE, "200 MiB free"),
        (2048 * 1024 * 1024, Severity.OK, "2048 MiB free"),
    ],
)
def test_a_disk_that_runs_full_is_named_in_time(data: Path, room: int, severity: Severity, detail: str) -> None:
    files = SmallFreeSpace()
    files.room = room

    assert details_by_file(data, severity, files)["disk"] == detail


def test_a_file_that_cannot_be_read_is_a_problem_and_the_rest_is_looked_at(data: Path) -> None:
    files = FaultyFileSystem()
    files.begin(Plan(fail_at=1, kinds=("read_at",)))

    assert "could not be read: [Errno 5]" in details_by_file(data, Severity.PROBLEM, files)["change_log"]
    assert "disk" in details_by_file(data, Severity.OK, files)


def test_a_repair_does_not_wait_for_a_writer(data: Path) -> None:
    lock = LockFile(FileSystem(), data / "LOCK")
    try:
        assert lock.try_acquire()

        with pytest.raises(Conflict, match="is open in a running KnowHub"):
            repair_directory(make_settings(data))
    finally:
        lock.close()


def test_a_repair_makes_do_without_a_lock_and_names_a_strange_file(data: Path) -> None:
    (data / "LOCK").write_bytes(b"short")
    assert repair_directory(make_settings(data)) == []

    (data / "change_log/segment-x.jsonl").write_bytes(b"")
    with pytest.raises(Unavailable, match="no number"):
        repair_directory(make_settings(data))


def test_each_repair_keeps_the_record_files_that_it_found(data: Path) -> None:
    for _ in range(2):
        path = list_segments(data)[0]
        content = path.read_bytes()
        at = content.index(b'"content":"text')
        path.write_bytes(content[:at] + b"#" + content[at + 1 :])
        repair_directory(make_settings(data))
        run_in_hub(data)

    kept = sorted(path.name for path in (data / "quarantine").glob("records-*knowledge.jsonl"))
    assert kept == ["records-1-knowledge.jsonl", "records-2-knowledge.jsonl"]
    assert [item.severity for item in check_directory(make_settings(data)) if item.severity is Severity.PROBLEM] == []


class ForbiddenAccess(FaultyFileSystem):
    """A file system of a user without full access; the user that runs the tests has it."""

    forbidden = 0

    def has_access(self, path: Path, mode: int) -> bool:
        return not mode & self.forbidden and super().has_access(path, mode)


@pytest.mark.parametrize(
    ("forbidden", "detail"),
    [
        (os.R_OK, "is not readable"),
        (os.X_OK, "is not readable"),
        (os.W_OK, "is not writable for this user"),
    ],
)
def test_a_directory_that_this_user_may_not_use_is_a_problem(data: Path, forbidden: int, detail: str) -> None:
    files = ForbiddenAccess()
    files.forbidden = forbidden

    assert details_by_file(data, Severity.PROBLEM, files) == {data.name: detail}
