"""The power of a real file system is cut under 32 writers: acknowledged rows are on the disk afterwards."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.power_cuts import MAKE

ROOT = Path(__file__).resolve().parents[2]
NEEDS_ROOT = "mounting an image needs root; test_kill.py and test_crash_points.py stand for it elsewhere"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", sorted(MAKE))
def test_five_hundred_power_cuts_lose_nothing(tmp_path: Path, kind: str, seed: int) -> None:
    assert shutil.which(MAKE[kind][0]), f"install {MAKE[kind][0]} (Debian: e2fsprogs, xfsprogs)"
    command = [sys.executable, "-m", "tests.crash.power_cuts", kind, str(tmp_path), "50", str(seed)]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    # Parts of unacknowledged writes may be on the disk: they are quarantined, and are no damage.
    assert found["named"] == []
    assert found["points"] == 50
    assert found["operations"] > 500
