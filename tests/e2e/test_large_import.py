"""An export of thousands of records is imported again beside a server, and undone as one."""

import json
from pathlib import Path

import httpx
import pytest

from tests.e2e.command_line import Cli, run_server_command

WAIT_S = 120


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [5_000, pytest.param(25_000, marks=pytest.mark.nightly)])
def test_thousands_of_records_are_exported_imported_again_and_undone_as_one(tmp_path: Path, count: int) -> None:
    cli, other = Cli(tmp_path / "data", WAIT_S), Cli(tmp_path / "other", WAIT_S)
    rows = (
        {"task": f"service {number}", "content": f"Clear the cache of service {number}."} for number in range(count)
    )
    lines = "".join(json.dumps({"id": f"k-{number}", **row}) + "\n" for number, row in enumerate(rows))
    assert cli.json("import", "-", stdin=lines.encode())["imported"] == count
    exported = cli("export").out.encode()

    with run_server_command(other.data) as url:
        done = other.json("import", "-", stdin=exported)
        assert (done["imported"], len(done["operation_ids"])) == (count, count // 1_000)
        assert httpx.get(f"{url}/api/knowledge/k-{count - 1}").json()["content"].endswith(f"{count - 1}.")

        assert other("undo", done["import_id"]).code == 0
        assert httpx.get(f"{url}/api/knowledge").json()["count"] == 0
