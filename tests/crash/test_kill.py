"""kill -9 under 32 writers: acknowledged rows are there, and operations on many rows are complete."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kill_writers(folder: Path, points: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.crash.killed_writers", str(folder), str(points), str(seed)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    answer = json.loads(finished.stdout)
    assert isinstance(answer, dict)
    return answer


def test_killed_writers_lose_nothing_and_leave_nothing_half_applied(tmp_path: Path) -> None:
    found = kill_writers(tmp_path, 40, 1)

    assert found["named"] == []
    assert found["points"] == 40
    assert found["operations"] > 400


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_killed_writers_lose_nothing(tmp_path: Path, seed: int) -> None:
    found = kill_writers(tmp_path, 100, 1000 + seed)

    assert found["named"] == []
    assert found["points"] == 100
    assert found["operations"] > 1000
