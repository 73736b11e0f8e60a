"""schemathesis, all its phases, against a real server: no 5xx, no undocumented status, every answer of its schema."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ROOT, run_server

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
ROOT_KEY = "root-key-of-a-test-which-is-long-enough"
WITH_KEYS = {
    "KNOWHUB_AUTH": "api-key",
    "KNOWHUB_ROOT_KEY": ROOT_KEY,
    "KNOWHUB_SECRET_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
}


def run_schemathesis(
    folder: Path, seed: int, *amount: str, role: str | None = None, phases: Sequence[str] = PHASES
) -> dict[str, Any]:
    """Run schemathesis for so many examples or so long, with a key of a role where one is named."""
    report = folder / "report.json"
    variables = {"SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    with run_server(folder / "data", **(WITH_KEYS if role else {})) as server:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{server.url}/openapi.json",
            *amount,
            *([f"--header=X-API-Key: {key_of(server.url, role)}"] if role else []),
            f"--seed={seed}",
            f"--phases={','.join(phases)}",
            f"--checks={','.join(CHECKS)}",
            "--continue-on-failure",
            "--no-shrink",
            # For a path that is an id with slashes it discards most generated cases, which would fail its health check.
            "--suppress-health-check=filter_too_much",
            f"--report-json-path={report}",
        ]
        ended = subprocess.run(
            command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False
        )
    assert report.exists(), ended.stdout + ended.stderr
    result: dict[str, Any] = json.loads(report.read_text())
    return result | {"said": ended.stdout}


def key_of(url: str, role: str) -> str:
    """Make a key of this role; the root key is one already."""
    if role == "root":
        return ROOT_KEY
    holder = {"user_id": "li", "agent_id": "crawler", "team_ids": ["web"], "role": role}
    made = httpx.post(f"{url}/api/admin/keys", json=holder, headers={"X-API-Key": ROOT_KEY}, trust_env=False)
    assert made.status_code == 201, made.text
    return str(made.json()["key"])


def assert_sound(report: dict[str, Any], phases: Sequence[str] = PHASES) -> None:
    assert report["failures"] == [], report["said"]
    assert report["errors"] == [], report["said"]
    assert {name: phase["status"] for name, phase in report["phases"].items()} == {
        name: "success" if name in phases else "skip" for name in PHASES
    }
    assert report["operations"]["tested"] == report["operations"]["total"] > 20


# The borders of each schema, most of all cases, are the same for every caller.
WITHOUT_BORDERS = tuple(name for name in PHASES if name != "coverage")


@pytest.mark.parametrize(
    ("role", "examples", "cases", "phases"),
    [
        ("writer", 4, 250, WITHOUT_BORDERS),
        pytest.param(None, 12, 2000, PHASES, marks=pytest.mark.nightly),
        pytest.param("root", 16, 1000, WITHOUT_BORDERS, marks=pytest.mark.nightly),
        pytest.param("writer", 16, 1000, WITHOUT_BORDERS, marks=pytest.mark.nightly),
    ],
)
def test_generated_requests_find_no_failure(
    tmp_path: Path, role: str | None, examples: int, cases: int, phases: Sequence[str]
) -> None:
    result = run_schemathesis(tmp_path, 1, f"--max-examples={examples}", role=role, phases=phases)

    assert_sound(result, phases)
    assert result["test_cases"]["generated"] >= cases


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("roles", [(None,), ("root", "writer")], ids=["without keys", "with keys"])
def test_fifty_thousand_generated_requests_find_no_failure(tmp_path: Path, roles: Sequence[str | None]) -> None:
    cases = 0
    for seed in range(100, 130):
        folder = tmp_path / str(seed)
        folder.mkdir()
        result = run_schemathesis(folder, seed, "--max-examples=50", "--max-time=120", role=roles[seed % len(roles)])
        assert_sound(result)
        cases += result["test_cases"]["generated"]
        if cases >= 50_000:
            return
    pytest.fail(f"only {cases} cases in an hour")
