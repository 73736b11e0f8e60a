"""Faults planted in a copy of the storage code: the suite must catch each one.

Each names a text that occurs exactly once in a file, its replacement, and the tests that must then fail. If the code
has changed, the text is not found and this list must be updated, so it cannot go stale unnoticed.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORE = Path("knowhub") / "stores" / "files"
# What the chosen tests import; the copy must not reach back into this tree.
COPIED = ("knowhub", "tests/crash", "tests/fakes", "tests/*.py", "pyproject.toml")

CRASH_POINTS = "test_crash_points.py::test_a_crash_leaves_the_state_before_or_after"
FAILED_WRITE = "test_write_faults.py::test_after_a_failed_write_or_sync_writes_are_refused"
FULL_DISK = "test_write_faults.py::test_a_full_disk_is_reported_and_writing_resumes_by_itself"
TAILS = "test_damaged_logs.py::test_bytes_after_the_end_are_cut_and_quarantined"
PREFIXES = "test_damaged_logs.py::test_every_prefix_of_a_log_is_recovered_up_to_its_last_whole_line"
BITS = "test_damaged_logs.py::test_every_single_bit_of_a_small_log_is_guarded"
SAVE_APPENDING, SAVE_ROTATING = "[save-append-half]", "[save-rotate-whole]"
ROTATING_PROCESSES = "test_two_processes.py::test_two_processes_that_rotate_segments_follow_each_other"


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong change of the storage code, and the tests that must fail."""

    name: str
    file: str
    old: str
    new: str
    caught_by: Sequence[str]
    folder: Path = STORE


FAULTS = (
    Fault(
        "skip the data sync",
        "log/change_log.py",
        "            offset += len(piece)\n        self._files.sync_data(descriptor)\n",
        "            offset += len(piece)\n",
        ["test_log_syncs.py::test_one_writer_costs_one_sync_per_write"],
    ),
    Fault(
        "acknowledge before the write and its sync",
        "group_commit.py",
        "        await self.in_thread(lambda: self._log.append(segment, batch.pieces(), batch.offset))\n",
        "        self._thread.submit(lambda: self._log.append(segment, batch.pieces(), batch.offset))\n",
        [FAILED_WRITE],
    ),
    Fault(
        "publish the durable offset before the sync",
        "group_commit.py",
        "        await self.in_thread(lambda: self._log.append(segment, batch.pieces(), batch.offset))\n",
        "        position = self._follower.position\n"
        "        self._follower.publish(Position(position.generation, segment, batch.offset + batch.size))\n"
        "        await self.in_thread(lambda: self._log.append(segment, batch.pieces(), batch.offset))\n",
        [CRASH_POINTS + SAVE_APPENDING],
    ),
    Fault(
        "drop the checksum test",
        "log/log_line.py",
        'b"%08x" % zlib.crc32(memoryview(line)[:cut])',
        "line[cut + len(_CRC_HEAD) : -len(_CRC_TAIL)]",
        [BITS],
    ),
    Fault("keep the torn tail", "log/loader.py", "context.log.truncate(segment, end)", "segment + end", [TAILS]),
    Fault(
        "throw away what is cut",
        "log/log_reader.py",
        "replace_file(files, path, data)",
        "replace_file(files, path, data[:0])",
        [TAILS],
    ),
    Fault(
        "replay each line twice",
        "log/log_reader.py",
        "            load(line)\n",
        "            load(line)\n            load(line)\n",
        [CRASH_POINTS + SAVE_APPENDING],
    ),
    Fault("apply half a group", "log/log_reader.py", "group.index == group.of - 1", "group.index >= 0", [PREFIXES]),
    Fault(
        "take a line that is out of sequence",
        "log/log_reader.py",
        "if seq == next_seq or (",
        "if seq > 0 or (",
        ["test_damaged_logs.py::test_whole_lines_that_change_places_are_named"],
    ),
    Fault(
        "reuse the descriptor after EIO",
        "group_commit.py",
        "self._read_only = failure.detail",
        "failure.detail",
        [FAILED_WRITE],
    ),
    Fault(
        "write on in a segment that a failed write has spoilt",
        "group_commit.py",
        "if self._lock.is_suspect or stale_tail or",
        "if",
        [FULL_DISK, FAILED_WRITE],
    ),
    Fault(
        "not sync the folder of a new segment",
        "filesystem.py",
        "    if is_durable:\n        files.sync_folder(path.parent)\n",
        "",
        [CRASH_POINTS + SAVE_ROTATING],
    ),
    Fault(
        "ignore where the segment before ended",
        "log/log_reader.py",
        "return following.previous_length if following else None",
        "return log.size(segment) if following else None",
        [FAILED_WRITE],
    ),
    Fault(
        "decide without catching up",
        "group_commit.py",
        "while not self._follower.catch_up(CATCH_UP_BYTES)",
        "while False",
        [ROTATING_PROCESSES],
    ),
    Fault(
        "read without catching up",
        "replica.py",
        "return self._lock.stamp != self._stamp",
        "return False",
        [ROTATING_PROCESSES],
    ),
    Fault(
        "believe a LOCK of another boot",
        "lock.py",
        "and tuple(words[_BOOT_AT : _BOOT_AT + 2]) == self._boot",
        "",
        ["test_lock_and_format.py::test_a_lock_of_another_boot_is_not_believed"],
    ),
    Fault(
        "write without the lock",
        "group_commit.py",
        "while self._holds_lock or not self._lock.try_acquire():",
        "while self._holds_lock:",
        ["test_two_processes.py::test_a_stopped_writer_holds_up_writes_for_the_timeout_and_reads_not_at_all"],
    ),
    Fault(
        "write on a damaged log",
        "group_commit.py",
        "if self.damage:",
        "if not self.damage:",
        ["test_damaged_logs.py::test_a_damaged_log_is_read_and_never_written"],
    ),
    Fault(
        "take a short write for a whole one",
        "filesystem.py",
        "rest = rest[written:]",
        "rest = rest[len(rest) :]",
        ["test_write_faults.py::test_short_writes_are_continued"],
    ),
    Fault(
        "begin a new log where the old one is gone",
        "data_directory.py",
        "if witness is None or",
        "if witness is not None or",
        ["test_files_gone.py::test_a_missing_log_is_not_created_again"],
    ),
    Fault(
        "not look for replaced files",
        "group_commit.py",
        "if not (self._lock.is_in_place and self._log.is_in_place(position.segment)):",
        "if position is None:",
        ["test_files_gone.py::test_two_processes_never_write_under_two_locks"],
    ),
    Fault(
        "compact away what another process has not read",
        "compaction.py",
        "while not all(is_free(self._context.files, self._log.folder / str(name)) for name in versions):",
        "while False:",
        ["test_compaction.py::test_operations_unread_by_another_process_are_not_dropped"],
    ),
    Fault(
        "forget what is younger than the retention",
        "compaction.py",
        "if last_seq < history.base_seq or is_young or",
        "if last_seq < history.base_seq or",
        ["test_compaction.py::test_operations_within_the_retention_can_still_be_undone"],
    ),
    Fault(
        "publish an erase without announcing it",
        "erasing/eraser.py",
        "new, number, self._context.lock.begin_publication)",
        "new, number)",
        ["test_erasing_faults.py::test_another_process_continues_after_a_death_at_any_call"],
    ),
    Fault(
        "begin a segment without announcing it",
        "group_commit.py",
        "            self._lock.begin_publication()",
        "            pass",
        ["test_compaction.py::test_another_process_continues_after_a_death_at_any_call"],
    ),
    Fault(
        "go by the newer files of a copy that lacks them",
        "log/log_manifest.py",
        "files = next((files for files in sets if files.names <= there), manifest.files)",
        "files = manifest.files",
        ["test_log_manifest.py::test_a_copy_with_a_new_manifest_and_old_files_opens"],
    ),
    Fault(
        "keep reading the files that a rewrite has replaced",
        "replica.py",
        "if target.generation != self._log.generation:",
        "if target.generation < 0:",
        ["test_erasing_faults.py::test_a_process_that_is_open_reads_all_right_before_and_after"],
    ),
)
IN_MAKE_TEST = 1
"""So many of them are planted in `make test`; all are nightly."""


def copy_project(folder: Path) -> Path:
    for source in (path for name in COPIED for path in ROOT.glob(name)):
        target = folder / source.relative_to(ROOT)
        if source.is_dir():
            # With the compiled modules: Python compiles a changed source again.
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return folder


def run_copy(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, on the copy."""
    names = [f"tests/crash/{name}" for name in tests]
    without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "hypothesispytest")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", *without, *names]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(folder)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def read_source(fault: Fault) -> str:
    return (ROOT / fault.folder / fault.file).read_text(encoding="utf-8")


def list_quick_faults() -> list[Fault]:
    return [FAULTS[index * len(FAULTS) // IN_MAKE_TEST] for index in range(IN_MAKE_TEST)]


def mark_faults() -> list[object]:
    """Mark the faults as nightly, except those that `make test` plants."""
    chosen = list_quick_faults()
    return [
        pytest.param(fault, id=fault.name, marks=[] if fault in chosen else [pytest.mark.nightly]) for fault in FAULTS
    ]


def test_each_fault_replaces_one_text_and_compiles() -> None:
    for fault in FAULTS:
        text = read_source(fault)
        assert text.count(fault.old) == 1, fault.name
        compile(text.replace(fault.old, fault.new), fault.file, "exec")

    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 10


@pytest.mark.parametrize(
    "faults", [list_quick_faults(), pytest.param(FAULTS, marks=pytest.mark.nightly)], ids=["some", "all"]
)
def test_without_a_fault_the_chosen_tests_pass(tmp_path: Path, faults: Sequence[Fault]) -> None:
    tests = sorted({test for fault in faults for test in fault.caught_by})

    finished = run_copy(copy_project(tmp_path), tests)

    assert finished.returncode == 0, finished.stdout
    assert re.search(r"\d+ passed", finished.stdout)


@pytest.mark.parametrize("fault", mark_faults())
def test_a_planted_fault_is_caught(tmp_path: Path, fault: Fault) -> None:
    folder = copy_project(tmp_path)
    (folder / fault.folder / fault.file).write_text(read_source(fault).replace(fault.old, fault.new), encoding="utf-8")

    finished = run_copy(folder, fault.caught_by)

    # 1: tests ran and failed. Anything else is not the fault that was planted.
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert not re.search(r"NameError|SyntaxError|ImportError|UnboundLocalError", finished.stdout), finished.stdout
