"""The lock files: exact versions with hashes from no particular index, what they hold, and who installs them."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME: list[str] = PROJECT["project"]["dependencies"]
ALL: list[str] = [*RUNTIME, *(line for group in PROJECT["dependency-groups"].values() for line in group)]

BUILD: list[str] = PROJECT["dependency-groups"]["build"]

LOCKS = ("requirements.lock", "requirements-runtime.lock", "requirements-build.lock")
MADE_FROM = ("Makefile", "pyproject.toml", *LOCKS)
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!]+)(?: ; [^\\]+)?(?P<hashes>(?: *--hash=sha256:[0-9a-f]{64})+)")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_an_exact_version_with_hashes(lock: str) -> None:
    assert [line for line in requirements(lock) if not PIN.fullmatch(line)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_an_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")

    assert re.findall(r"\S*(?:://|file:)\S*|--(?:extra-)?index-url|--find-links", text) == []


@pytest.mark.parametrize(("lock", "asked"), [(LOCKS[0], ALL), (LOCKS[1], RUNTIME), (LOCKS[2], BUILD)])
def test_a_lock_has_every_required_package(lock: str, asked: list[str]) -> None:
    pinned = pins(lock)
    missing = [
        line
        for line in asked
        for wanted in [Requirement(line)]
        if pinned.get(canonicalize_name(wanted.name), "none") not in wanted.specifier
    ]

    assert missing == [], "run make lock"


@pytest.mark.parametrize("lock", LOCKS[1:])
def test_the_image_runs_the_versions_that_the_tests_ran(lock: str) -> None:
    assert pins(lock).items() <= pins(LOCKS[0]).items()


def test_make_serve_installs_no_test_tools(tmp_path: Path) -> None:
    assert list_installed_locks(tmp_path, "serve") == [*LOCKS[1:]]


def test_make_env_adds_the_test_tools_to_what_make_serve_installed(tmp_path: Path) -> None:
    assert list_installed_locks(tmp_path, "env", ".installed") == [LOCKS[0]]


def test_make_serve_installs_nothing_after_make_env(tmp_path: Path) -> None:
    assert list_installed_locks(tmp_path, "serve", ".installed", ".installed-dev") == []


def test_the_image_is_built_without_test_tools() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")

    assert re.findall(r"--require-hashes -r (\S+)", dockerfile) == [*LOCKS[1:]]


def list_installed_locks(folder: Path, target: str, *stamps: str) -> list[str]:
    """Return the lock files that `make TARGET` would install, with these stamps of earlier calls."""
    for name in MADE_FROM:
        shutil.copyfile(ROOT / name, folder / name)
        os.utime(folder / name, (0, 0))
    for age, stamp in enumerate(stamps, start=1):
        path = folder / ".venv" / stamp
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (age, age))
    command = ["make", "--dry-run", "--no-print-directory", target]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return [lock for line in done.stdout.splitlines() for lock in re.findall(r"-r (\S+)", line)]


def pins(lock: str) -> dict[str, str]:
    found = [PIN.fullmatch(line) for line in requirements(lock)]
    return {canonicalize_name(pin["name"]): pin["version"] for pin in found if pin}


def requirements(lock: str) -> list[str]:
    """Return one line a requirement: continued lines joined, comments left out."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line for line in lines if line]
