"""The kernel kills a writer at its N-th call, or fails that call: acknowledged rows are there and complete.

Nightly: each point is a process under strace. The seam has the same faults in test_crash_points.py and
test_write_faults.py; here it is shown that the real calls are those that the seam counts.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import rows_of
from tests.crash.killed_writers import Tally, compare, note_answer, open_writer_store, reopen_and_compare
from tests.crash.reporting_writer import LINES, VERBS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.anyio, pytest.mark.nightly, pytest.mark.timeout(3600)]

# The calls of knowhub/stores/files/filesystem.py:FileSystem that change something.
WRITING = ("pwrite64", "fdatasync", "fsync", "rename")
NEVER_REACHED = 200
ONE_SEGMENT, MANY_SEGMENTS = 64 * 1024 * 1024, 1
# Making a directory, appending, and beginning a fresh segment with every write but the first.
CASES = [
    *((call, False, ONE_SEGMENT) for call in WRITING),
    *((call, True, ONE_SEGMENT) for call in ("pwrite64", "fdatasync")),
    *((call, True, MANY_SEGMENTS) for call in WRITING),
]


@dataclass(frozen=True, slots=True)
class WriterReport:
    """The report of a writer and its exit code; 0 is success."""

    answers: Sequence[dict[str, Any]]
    ended: int

    @property
    def refusals(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if "refused" in answer]


def run_traced(folder: Path, segment_bytes: int, fault: str) -> WriterReport:
    """Run a writer on `folder` with one fault injected by the kernel."""
    strace = shutil.which("strace")
    assert strace, "install strace: these tests have the kernel fail and kill"
    calls = fault.partition(":")[0]
    command = [strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={fault}"]
    command += [sys.executable, "-m", "tests.crash.reporting_writer", str(folder), str(segment_bytes)]
    # Compiled modules are renamed into place too: those calls are not to be counted.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    lines = finished.stdout.splitlines(keepends=True)
    return WriterReport([orjson.loads(line) for line in lines if line.endswith(b"\n")], finished.returncode)


async def make_folder(root: Path, number: int, *, prepared: bool) -> Path:
    """Return a separate folder for a point: one that was opened before, or one that does not exist yet."""
    folder = root / str(number)
    if prepared:
        await open_writer_store(folder).close()
    return folder


async def check_report(folder: Path, told: WriterReport) -> None:
    """Reopen, compare with the report, write, and reopen again."""
    tally = Tally()
    for answer in told.answers:
        if "rows" in answer:
            note_answer(tally, answer)
    await reopen_and_compare(folder, tally)
    store = open_writer_store(folder)
    compare(store, tally)
    lines = Counter(row_id.rpartition("-")[0] for row_id in rows_of(store) if row_id.startswith("import-"))
    await store.close()
    assert tally.lost + tally.half_applied + tally.damage == []
    assert set(lines.values()) <= {LINES}
    shutil.rmtree(folder)


@pytest.mark.parametrize(("call", "prepared", "segment_bytes"), CASES)
async def test_a_writer_killed_at_any_system_call_loses_nothing(
    tmp_path: Path, call: str, prepared: bool, segment_bytes: int
) -> None:
    kills = 0
    for number in range(1, NEVER_REACHED):
        folder = await make_folder(tmp_path, number, prepared=prepared)
        told = run_traced(folder, segment_bytes, f"{call}:signal=KILL:when={number}")
        await check_report(folder, told)
        if told.ended == 0:
            break
        kills += 1

    assert kills >= 2


@pytest.mark.parametrize("call", WRITING)
async def test_after_a_device_error_writes_are_refused_and_reads_work(tmp_path: Path, call: str) -> None:
    faults = 0
    for number in range(1, NEVER_REACHED):
        folder = await make_folder(tmp_path, number, prepared=True)
        told = run_traced(folder, MANY_SEGMENTS, f"{call}:error=EIO:when={number}")
        await check_report(folder, told)
        if not told.refusals:
            break
        faults += 1

        # From the first refusal on, all is refused, and all that was acknowledged is read.
        first = told.answers.index(told.refusals[0])
        assert told.answers[first:] == told.refusals
        assert {answer["refused"] for answer in told.refusals} == {"ReadOnly"}
        assert {answer["read"] for answer in told.refusals} == {count_acknowledged(told)}
    assert told.ended == 0
    assert faults >= len(VERBS) * 2


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("call", WRITING)
async def test_a_full_disk_refuses_writes_and_reads_work(tmp_path: Path, call: str, lasting: bool) -> None:
    faults = 0
    for number in range(1, NEVER_REACHED):
        folder = await make_folder(tmp_path, number, prepared=True)
        told = run_traced(folder, MANY_SEGMENTS, f"{call}:error=ENOSPC:when={number}{'+' if lasting else ''}")
        await check_report(folder, told)
        if not told.refusals:
            break
        faults += 1

        assert {answer["refused"] for answer in told.refusals} == {"StorageFull"}
        if lasting:
            assert told.answers[-1] == told.refusals[-1]
        elif told.answers[-1] != told.refusals[0]:
            # Writing resumed by itself with the next write.
            assert len(told.refusals) == 1
    assert told.ended == 0
    assert faults >= len(VERBS) * 2


def count_acknowledged(told: WriterReport) -> int:
    ids = {row["id"] for answer in told.answers for row in answer.get("rows", ())}
    return len(ids)
