"""docs/how-to/generate-a-client.md, run as it is written: generators make clients of a server's OpenAPI document."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server_process import ROOT, run_server

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

PAGE = ROOT / "docs/how-to/generate-a-client.md"
# A file that the page says to save, or a block of commands, or what the commands before it print.
BLOCK = re.compile(r"^(?:Save this as `([\w.]+)`[^\n]*\n\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"
LAST = "==== the last block ===="
EMPTY = re.compile(r"^export interface \w+ \{\s*\}", re.MULTILINE)
METHOD = re.compile(r"^    async (\w+)\(", re.MULTILINE)


def run_section(heading: str, url: str, folder: Path) -> tuple[str, str]:
    """Do what a section of the page says; return what its last commands print, and what the page says of it."""
    _, _, section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    commands, expected = ["set -e\n"], ""
    for name, kind, text in BLOCK.findall(section.partition("\n## ")[0]):
        body = text.replace(ADDRESS, url)
        if name:
            (folder / name).write_text(body, "utf-8")
        elif kind == "sh":
            commands.append(body)
        else:
            expected = body
    commands.insert(-1, f"echo '{LAST}'\n")
    # Python of this environment, and none of its settings.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWHUB_", "PYTHON"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", "".join(commands)], cwd=folder, env=variables | {"PATH": path}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout.partition(f"{LAST}\n")[2], expected


def list_operations(folder: Path) -> set[str]:
    document = json.loads((folder / "openapi.json").read_bytes())
    return {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}


def test_a_python_client_has_every_operation_and_types(tmp_path: Path) -> None:
    with run_server(tmp_path / "data") as server:
        folder = tmp_path / "client"
        folder.mkdir()
        printed, expected = run_section("Python", server.url, folder)

    assert printed == expected
    modules = (folder / "knowhub-client/knowhub_client/api").glob("*/*.py")
    operations = list_operations(folder)
    assert {module.stem for module in modules if module.stem != "__init__"} == operations
    assert len(operations) > 90

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", "env/bin/python", "first.py"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


def test_a_typescript_client_has_every_operation_and_types(tmp_path: Path) -> None:
    for program in ("java", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing, which makes or compiles the TypeScript client")
    with run_server(tmp_path / "data") as server:
        folder = tmp_path / "client"
        folder.mkdir()
        # The compiler refuses the program if a type does not fit.
        printed, expected = run_section("TypeScript", server.url, folder)

    assert printed == expected
    apis = [path.read_text("utf-8") for path in (folder / "knowhub-client/src/apis").glob("*.ts")]
    methods = {method for api in apis for method in METHOD.findall(api)}
    operations = list_operations(folder)
    assert {re.sub("_([a-z])", lambda found: found[1].upper(), name) for name in operations} <= methods
    # A model without fields means a type that the generator did not understand.
    models = (folder / "knowhub-client/src/models").glob("*.ts")
    assert [path.name for path in models if EMPTY.search(path.read_text("utf-8"))] == []
