"""`knowhub snapshot`: back up, go back, and move a directory to another machine, as a person does it."""

import shutil
from pathlib import Path

from tests.archives import read_folder
from tests.e2e.command_line import Cli, run_server_command


def contents(cli: Cli) -> set[str]:
    return {record["content"] for record in cli.json("list")["results"]}


def test_a_snapshot_is_made_listed_restored_undone_and_deleted(cli: Cli) -> None:
    cli.json("save", "--content", "as it was")
    made = cli.json("snapshot", "create")
    cli.json("save", "--content", "written since")

    restored = cli.json("snapshot", "restore", made["ts"])
    after_restore = contents(cli)
    cli.json("undo", restored["restore_id"])

    assert after_restore == {"as it was"}
    assert contents(cli) == {"as it was", "written since"}
    listed = cli.json("snapshot", "list")["results"]
    assert [item["ts"] for item in listed] == [restored["safety_snapshot"], made["ts"]]
    assert [item["reason"] for item in listed] == ["before_restore", "demand"]
    assert cli.json("snapshot", "delete", made["ts"]) == {"ts": made["ts"], "deleted": True}
    printed = cli("snapshot", "list").out
    assert restored["safety_snapshot"] in printed
    assert made["ts"] not in printed.replace(restored["safety_snapshot"], "")


def test_a_restore_beside_a_running_server_shows_there_at_once(cli: Cli) -> None:
    import httpx  # noqa: PLC0415 -- only this test asks a server

    cli.json("save", "--content", "as it was")
    ts = cli.json("snapshot", "create")["ts"]
    with run_server_command(cli.data) as url:
        httpx.post(f"{url}/api/knowledge", json={"content": "written since"}).raise_for_status()

        cli.json("snapshot", "restore", ts)

        found = httpx.get(f"{url}/api/knowledge").json()["results"]
    assert [record["content"] for record in found] == ["as it was"]


def test_a_snapshot_is_unpacked_on_another_machine_with_all_its_history(cli: Cli, tmp_path: Path) -> None:
    cli.json("save", "--content", "as it was")
    made = cli.json("snapshot", "create")
    cli.json("save", "--content", "written since")
    carried = Path(shutil.copy(made["path"], tmp_path / "carried.tar.gz"))
    shutil.rmtree(cli.data)
    elsewhere = Cli(tmp_path / "elsewhere" / "data")
    elsewhere.data.parent.mkdir()

    unpacked = elsewhere.json("snapshot", "unpack", str(carried))

    assert unpacked == {"ts": made["ts"], "path": str(elsewhere.data), "last_seq": 1}
    assert contents(elsewhere) == {"as it was"}
    assert read_folder(elsewhere.data).keys() >= {"FORMAT", "change_log/segment-00000001.jsonl"}
    again = elsewhere("snapshot", "unpack", str(carried))
    assert again.code == 1
    assert "is not empty" in again.err


def test_a_damaged_snapshot_and_one_that_is_not_there_are_refused(cli: Cli, tmp_path: Path) -> None:
    cli.json("save", "--content", "as it was")
    path = Path(cli.json("snapshot", "create")["path"])
    spoilt = tmp_path / "spoilt.tar.gz"
    spoilt.write_bytes(path.read_bytes()[:-30])

    damaged = cli("snapshot", "unpack", str(spoilt), "--data-dir", str(tmp_path / "new"))
    missing = cli("snapshot", "restore", "20200101T000000Z")

    assert (damaged.code, missing.code) == (1, 1)
    assert "spoilt.tar.gz: change_log/segment-00000001.jsonl: " in damaged.err
    assert "no snapshot with id '20200101T000000Z'" in missing.err
    assert read_folder(tmp_path / "new") == {}
