"""Programs from npm, installed once on a machine in a temporary directory."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def install_packages(name: str, *packages: str) -> Path:
    """Install packages into the folder `name`, and return its `node_modules`; skip the test where npm cannot."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is missing, which installs {packages}")
    folder = Path(tempfile.gettempdir()) / name
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=False)
        if done.returncode != 0:
            pytest.skip(f"npm does not install {packages} here: {done.stderr.decode()[-300:]}")
        complete.touch()
    return folder / "node_modules"
