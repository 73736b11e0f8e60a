import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import check_directory, open_hub
from knowhub.core.request_context import local_context
from knowhub.knowledge.model import NewKnowledge
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile, try_flock

SEGMENT = "change_log/segment-00000001.jsonl"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    save_records(root, 3)
    return root


def save_records(root: Path, count: int, segment_bytes: int = 64 * 1024 * 1024) -> None:
    async def run() -> None:
        async with open_hub(make_settings(root, segment_bytes), maintain=False) as hub:
            for number in range(count):
                new = NewKnowledge(task=f"登录 {number} {segment_bytes}", content="用 undetected_chromedriver")
                await hub.knowledge.records.save(local_context("user:li"), new)

    asyncio.run(run())


def make_settings(root: Path, segment_bytes: int = 64 * 1024 * 1024) -> Settings:
    given: dict[str, Any] = {"data_dir": root, "segment_bytes": segment_bytes, "owner": "user:li"}
    return Settings(**given)


def list_findings(root: Path) -> list[Finding]:
    return check_directory(make_settings(root))


def list_problems(root: Path) -> list[Finding]:
    return [finding for finding in list_findings(root) if finding.severity is Severity.PROBLEM]


def findings_on(root: Path, subject: str) -> list[Finding]:
    return [finding for finding in list_findings(root) if finding.subject.endswith(subject)]


def read_files(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def line_starts(path: Path) -> list[int]:
    content = path.read_bytes()
    return [0, *(index + 1 for index, byte in enumerate(content[:-1]) if byte == ord("\n"))]


def test_a_healthy_directory_has_no_problem_and_reports_its_size(data: Path) -> None:
    assert list_problems(data) == []
    assert findings_on(data, "change_log")[0].detail.startswith("segments: 1, operations: 3,")
    assert findings_on(data, "LOCK")[0].severity is Severity.OK
    assert findings_on(data, "records")[0].severity is Severity.OK


@pytest.mark.parametrize("spoil", ["nothing", "lock", "tail", "keeper", "line"])
def test_an_inspection_writes_nothing(data: Path, spoil: str) -> None:
    match spoil:
        case "lock":
            (data / "LOCK").unlink()
        case "keeper":
            (data / "KEEPER").unlink()
        case "tail":
            with (data / SEGMENT).open("ab") as file:
                file.write(b'{"seq":4')
        case "line":
            flip(data / SEGMENT, line_starts(data / SEGMENT)[2] + 30)
    before = read_files(data)

    list_findings(data)

    assert read_files(data) == before


def test_a_missing_directory_is_a_problem_and_is_not_created(tmp_path: Path) -> None:
    found = list_findings(tmp_path / "elsewhere")

    assert [finding.severity for finding in found] == [Severity.PROBLEM]
    assert "--data-dir" in found[0].advice
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_instead_of_the_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")

    assert "is not a directory" in list_problems(tmp_path / "data")[0].detail


def test_an_empty_directory_is_no_problem(tmp_path: Path) -> None:
    assert list_problems(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_newer_format_is_reported_and_nothing_else_is_checked(data: Path) -> None:
    (data / "FORMAT").write_text('{"knowhub_data":99}\n')

    found = list_problems(data)

    assert [finding.subject for finding in found] == ["FORMAT"]
    assert "99" in found[0].detail
    assert findings_on(data, "change_log") == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_damaged_line_is_named_with_its_file_and_offset(data: Path, number: int) -> None:
    offset = line_starts(data / SEGMENT)[number]
    flip(data / SEGMENT, offset + 30)

    (found,) = list_problems(data)

    assert found.subject == str(data / SEGMENT)
    assert f"offset {offset}: its checksum" in found.detail
    assert "backup" in found.advice


def test_a_damaged_header_is_a_problem(data: Path) -> None:
    flip(data / SEGMENT, 5)

    assert "header is damaged" in list_problems(data)[0].detail


def test_missing_acknowledged_bytes_are_a_problem(data: Path) -> None:
    path = data / SEGMENT
    length, start = path.stat().st_size, line_starts(path)[3]
    os.truncate(path, start)

    assert f"offset {start}: the file ends here, {length - start} acknowledged" in list_problems(data)[0].detail


def test_bytes_after_the_durable_end_are_torn_not_damaged(data: Path) -> None:
    length = (data / SEGMENT).stat().st_size
    with (data / SEGMENT).open("ab") as file:
        file.write(b'{"seq":4,"ba')

    assert list_problems(data) == []
    assert f"offset {length}: 12 bytes of a write that was never acknowledged" in findings_on(data, SEGMENT)[0].detail


def test_a_copied_lock_is_not_trusted(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    with (tmp_path / "copy" / SEGMENT).open("ab") as file:
        file.write(bytes(100))

    assert list_problems(tmp_path / "copy") == []
    assert findings_on(tmp_path / "copy", "LOCK")[0].severity is Severity.NOTE
    assert "100 bytes" in findings_on(tmp_path / "copy", SEGMENT)[0].detail


def test_a_missing_segment_is_named(data: Path) -> None:
    save_records(data, 12, segment_bytes=4096)
    assert list_problems(data) == []
    names = sorted(path.name for path in (data / "change_log").iterdir())
    assert len(names) > 2

    (data / "change_log" / names[1]).unlink()

    assert any(finding.subject.endswith(names[1]) and "is missing" in finding.detail for finding in list_problems(data))


def test_a_missing_last_segment_is_detected_by_the_lock(data: Path) -> None:
    save_records(data, 12, segment_bytes=4096)
    last = max((data / "change_log").iterdir())
    last.unlink()

    assert [finding.subject for finding in list_problems(data) if last.name in finding.detail] == ["LOCK"]


def test_a_missing_log_beside_record_files_is_a_problem(data: Path) -> None:
    shutil.rmtree(data / "change_log")

    assert (
        "the log is gone" in next(finding for finding in list_problems(data) if finding.subject == "change_log").detail
    )


def test_an_index_of_another_log_is_noted_and_the_leader_builds_it_again(data: Path) -> None:
    (note,) = data.glob("indexes/*/*/built.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "log_id": "f" * 32}))

    assert list_problems(data) == []
    assert "does not fit the log" in findings_on(data, str(note.parent.relative_to(data)))[0].detail


def test_a_malformed_index_note_is_a_problem(data: Path) -> None:
    (note,) = data.glob("indexes/*/*/built.json")
    note.write_text("[1")

    (found,) = list_problems(data)
    assert found.detail.startswith("not as the log says: indexes/lexical/")
    assert "knowhub reindex" in found.advice


def test_an_outdated_index_reports_its_lag(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "indexes", tmp_path / "old")
    save_records(data, 2, segment_bytes=5000)
    shutil.rmtree(data / "indexes")
    shutil.copytree(tmp_path / "old", data / "indexes")

    (found,) = [finding for finding in list_findings(data) if finding.subject.startswith("indexes")]

    assert found.severity is Severity.NOTE
    assert "2 operations behind" in found.detail


def test_an_edited_record_file_is_a_problem_without_loss(data: Path) -> None:
    flip(data / "records/knowledge.jsonl", 50)

    (found,) = list_problems(data)

    assert found.detail == "not as the log says: records/knowledge.jsonl"
    assert "nothing is lost" in found.advice


def test_truncated_record_files_are_to_be_rewritten_by_the_leader(data: Path) -> None:
    os.truncate(data / "records/knowledge.jsonl", 10)

    assert list_problems(data) == []
    assert "does not fit the log" in findings_on(data, "records")[0].detail


def test_quarantined_bytes_are_listed(data: Path) -> None:
    with (data / SEGMENT).open("ab") as file:
        file.write(bytes(100))
    save_records(data, 1, segment_bytes=5000)

    (found,) = [finding for finding in list_findings(data) if "/quarantine/" in finding.subject]

    assert found.severity is Severity.NOTE
    assert "100 bytes" in found.detail


def test_a_running_leader_is_reported(data: Path) -> None:
    descriptor = os.open(data / "KEEPER", os.O_RDWR)
    try:
        assert try_flock(descriptor)

        assert findings_on(data, "KEEPER")[0].severity is Severity.OK
    finally:
        os.close(descriptor)
    assert findings_on(data, "KEEPER")[0].severity is Severity.NOTE


def test_a_lock_that_is_never_released_is_a_problem(data: Path) -> None:
    lock = LockFile(FileSystem(), data / "LOCK")
    try:
        assert lock.try_acquire()

        assert "has held it" in list_problems(data)[0].detail
    finally:
        lock.close()


@pytest.mark.parametrize("name", ["segment-x.jsonl", "segment-.jsonl"])
def test_a_strange_segment_name_is_named_and_not_stumbled_over(data: Path, name: str) -> None:
    (data / "change_log" / name).write_text("")

    assert "no number" in list_problems(data)[0].detail


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), lambda path: path.write_bytes(bytes(10))])
def test_a_truncated_lock_is_no_problem(data: Path, spoil: Callable[[Path], int]) -> None:
    spoil(data / "LOCK")

    assert list_problems(data) == []
