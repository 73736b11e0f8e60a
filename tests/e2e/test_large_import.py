"""An export of 25,000 records is imported again beside a server, and undone as one."""

import json
from pathlib import Path

import httpx
import pytest

from tests.e2e.command_line import Cli, run_server_command

RECORDS = 25_000
WAIT_S = 120


@pytest.mark.timeout(300)
def test_25000_records_are_exported_imported_again_and_undone_as_one(tmp_path: Path) -> None:
    cli, other = Cli(tmp_path / "data", WAIT_S), Cli(tmp_path / "other", WAIT_S)
    rows = (
        {"task": f"service {number}", "content": f"Clear the cache of service {number}."} for number in range(RECORDS)
    )
    lines = "".join(json.dumps({"id": f"k-{number}", **row}) + "\n" for number, row in enumerate(rows))
    assert cli.json("import", "-", stdin=lines.encode())["imported"] == RECORDS
    exported = cli("export").out.encode()

    with run_server_command(other.data) as url:
        done = other.json("import", "-", stdin=exported)
        assert (done["imported"], len(done["operation_ids"])) == (RECORDS, RECORDS // 1_000)
        assert httpx.get(f"{url}/api/knowledge/k-{RECORDS - 1}").json()["content"].endswith(f"{RECORDS - 1}.")

        assert other("undo", done["import_id"]).code == 0
        assert httpx.get(f"{url}/api/knowledge").json()["count"] == 0
