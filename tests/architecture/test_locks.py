"""The lock files: exact versions with hashes, from no particular index, and what pyproject.toml asks for."""

import re
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

LOCKS = ("requirements.lock", "requirements-runtime.lock")
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!]+)(?: ; [^\\]+)?(?P<hashes>(?: *--hash=sha256:[0-9a-f]{64})+)")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_an_exact_version_with_hashes(lock: str) -> None:
    assert [line for line in requirements(lock) if not PIN.fullmatch(line)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_an_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")

    assert re.findall(r"\S*(?:://|file:)\S*|--(?:extra-)?index-url|--find-links", text) == []


@pytest.mark.parametrize(("lock", "asked"), [(LOCKS[0], ALL), (LOCKS[1], RUNTIME)])
def test_a_lock_holds_what_the_project_asks_for(lock: str, asked: list[str]) -> None:
    pinned = pins(lock)
    missing = [
        line
        for line in asked
        for wanted in [Requirement(line)]
        if pinned.get(canonicalize_name(wanted.name), "none") not in wanted.specifier
    ]

    assert missing == [], "run make lock"


def test_the_image_runs_the_versions_that_the_tests_ran() -> None:
    assert pins(LOCKS[1]).items() <= pins(LOCKS[0]).items()


def pins(lock: str) -> dict[str, str]:
    found = [PIN.fullmatch(line) for line in requirements(lock)]
    return {canonicalize_name(pin["name"]): pin["version"] for pin in found if pin}


def requirements(lock: str) -> list[str]:
    """Return one line a requirement: continued lines joined, comments left out."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line for line in lines if line]
