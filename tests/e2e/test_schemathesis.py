"""schemathesis, all its phases, against a real server: no 5xx, no undocumented status, every answer of its schema."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server_process import ROOT, serving

# Not among them: what it thinks of resources that are deleted (a job that has ended can still be read), and of
# valid data that is refused (a body in which task and content are both blank fits its schema).
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "unsupported_method",
)
PHASES = ("examples", "coverage", "fuzzing", "stateful")


def explored(folder: Path, seed: int, *amount: str) -> dict[str, Any]:
    """Run schemathesis for so many examples or so long, and return its report."""
    report = folder / "report.json"
    variables = {"SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    with serving(folder / "data") as server:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{server.url}/openapi.json",
            *amount,
            f"--seed={seed}",
            f"--phases={','.join(PHASES)}",
            f"--checks={','.join(CHECKS)}",
            "--continue-on-failure",
            "--no-shrink",
            f"--report-json-path={report}",
        ]
        ended = subprocess.run(
            command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False
        )
    assert report.exists(), ended.stdout + ended.stderr
    told: dict[str, Any] = json.loads(report.read_text())
    return told | {"said": ended.stdout}


def assert_sound(told: dict[str, Any]) -> None:
    assert told["failures"] == [], told["said"]
    assert told["errors"] == [], told["said"]
    assert {name: phase["status"] for name, phase in told["phases"].items()} == dict.fromkeys(PHASES, "success")
    assert told["operations"]["tested"] == told["operations"]["total"] > 20


def test_two_thousand_cases_meet_no_failure_and_nothing_undocumented(tmp_path: Path) -> None:
    told = explored(tmp_path, 1, "--max-examples=12")

    assert_sound(told)
    assert told["test_cases"]["generated"] >= 2000


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_fifty_thousand_cases_meet_no_failure_and_nothing_undocumented(tmp_path: Path) -> None:
    cases = 0
    for seed in range(100, 130):
        folder = tmp_path / str(seed)
        folder.mkdir()
        told = explored(folder, seed, "--max-examples=50", "--max-time=120")
        assert_sound(told)
        cases += told["test_cases"]["generated"]
        if cases >= 50_000:
            return
    pytest.fail(f"only {cases} cases in an hour")
