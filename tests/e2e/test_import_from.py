"""`knowhub import --from`: the how-to run as it is written, and imports beside a real server."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryFile

import httpx
import pytest

from tests.e2e.command_line import Cli, environment, run_server_command
from tests.e2e.forking import fork_command, variables_for_scripts
from tests.e2e.server_process import ROOT
from tests.e2e.test_tutorials import END_OF_BLOCK, is_as_shown, steps

FILES = ROOT / "tests/data/imports"
STORY = "5b0c1a52-0f4e-4c1c-9a55-2f6f0f1c7d10"
WAIT_S = 120


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home directory with what other programs wrote."""
    home = tmp_path / "home"
    for name, folder in {"projects": ".claude/projects", "codex": ".codex/sessions", "vault": "vault"}.items():
        shutil.copytree(FILES / name, home / folder)
    os.utime(next((home / ".claude/projects").rglob(f"{STORY}.jsonl")), (1_762_160_000, 1_762_160_000))
    return home


def test_the_how_to_runs_as_it_is_written(home: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    known = steps((ROOT / "docs/how-to/import.md").read_text("utf-8"))
    script = "".join(f"{typed}\necho '{END_OF_BLOCK}'\n" for typed, _ in known)
    variables = environment(tmp_path / "data", HOME=str(home))
    variables |= variables_for_scripts(tmp_path_factory.mktemp("bin"))

    done = subprocess.run(
        ["bash", "-eu"],
        input=script.encode(),
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        timeout=240,
        check=False,
    )
    printed = done.stdout.decode().split(f"{END_OF_BLOCK}\n")

    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert len(printed) == len(known) + 1 >= 7
    for (typed, expected), block in zip(known, printed, strict=False):
        assert is_as_shown(re.sub(r"import-[0-9a-f]{32}", "import-…", block), expected or ""), (typed, block)


def test_transcripts_are_imported_beside_a_server_with_their_times_and_undone_as_one(home: Path, cli: Cli) -> None:
    with run_server_command(cli.data) as url, httpx.Client(base_url=url, timeout=WAIT_S) as client:
        done = cli.json("import", "--from", "claude-code", str(home / ".claude/projects"))
        parts = client.get("/api/context/read", params={"uri": session_uri(client), "level": "L2"}).json()
        found = client.get("/api/context/search", params={"q": "two spaces for indentation"}).json()["blocks"]
        profile = client.get("/api/context/profile").json()
        again = cli.json("import", "--from", "claude-code", str(home / ".claude/projects"))
        undone = cli.json("undo", done["import_id"])
        left = client.get("/api/context/search", params={"q": "two spaces for indentation"}).json()["blocks"]
        back = cli.json("import", "--from", "claude-code", str(home / ".claude/projects"))

    assert (done["conversations"], done["messages"]["added"]) == (2, 7)
    assert "2025-11-03T09:00:01.000Z" in json.dumps(parts) + json.dumps(found)
    assert "two spaces" in json.dumps(profile)
    assert "Turin" not in json.dumps([parts, found, profile])
    assert (again["messages"]["added"], again["messages"]["known"], again["import_id"]) == (0, 7, None)
    assert len(undone["undone"]) == 2
    assert left == []
    assert back["messages"]["added"] == 7


def session_uri(client: httpx.Client) -> str:
    sessions = client.get("/api/context/sessions").json()["results"]
    return next(str(session["uri"]) for session in sessions if session["uri"].endswith(STORY))


CAPTURED = {
    "claude": ("claude-code", ".claude/projects", STORY, {"known": 6, "added": 1}),
    "codex": ("codex", ".codex/sessions", "0199c1a2-5f35-7742-a63b-ebb6fcdfc438", {"known": 3, "added": 2}),
}


@pytest.mark.parametrize("host", CAPTURED)
def test_sessions_captured_by_hooks_are_not_imported_again(host: str, home: Path, cli: Cli) -> None:
    form, folder, session_id, expected = CAPTURED[host]
    lines = next((home / folder).rglob(f"*{session_id}.jsonl")).read_text("utf-8")
    with run_server_command(cli.data) as url:
        payload = {"session_id": session_id, "transcript": lines, "hook_event_name": "SessionEnd"}
        assert httpx.post(f"{url}/api/hooks/{host}/SessionEnd", json=payload, timeout=WAIT_S).status_code == 200

        done = cli.json("import", "--from", form, str(home / folder))

    assert expected.items() <= done["messages"].items()


def test_a_dry_run_counts_and_an_undo_takes_sessions_and_records_together(cli: Cli) -> None:
    words = ("import", "--from", "claude", str(FILES / "claude"))
    planned = cli.json(*words, "--dry-run")
    assert not cli.data.exists()

    done = cli.json(*words)

    assert (planned["records"]["read"], planned["messages"]["read"], planned["import_id"]) == (4, 3, None)
    assert planned["left_out"] == done["left_out"]
    assert len(cli.json("undo", done["import_id"])["undone"]) == 2
    assert (cli.json("list")["count"], cli.json("context", "search", "garden")["blocks"]) == (0, [])


def test_an_unknown_source_and_a_wrong_folder_are_named(cli: Cli) -> None:
    assert cli("import", "--from", "nobody", str(FILES)).code == 2

    refused = cli("import", "--from", "chatgpt", str(FILES / "vault"))

    assert (refused.code, refused.out, cli.data.exists()) == (1, "", False)
    assert "holds nothing of chatgpt; left out: 3 files *.md" in refused.err


def test_an_interrupted_import_resumes_and_each_part_can_be_undone(cli: Cli, tmp_path: Path) -> None:
    folder, sessions, turns = tmp_path / "projects", 120, 40
    folder.mkdir()
    for number in range(sessions):
        rows = (
            {
                "type": "user",
                "uuid": f"{number}-{turn}",
                "parentUuid": f"{number}-{turn - 1}" if turn else None,
                "sessionId": f"s{number}",
                "message": {"role": "user", "content": f"Service {turn} of team {number} needs a larger cache."},
            }
            for turn in range(turns)
        )
        (folder / f"s{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("import", "--from", "claude-code", str(folder))
    log = cli.data / "change_log/segment-00000001.jsonl"

    with TemporaryFile() as out, TemporaryFile() as err:
        process = fork_command(words, environment(cli.data), stdout=out, stderr=err)
        while process.poll() is None and (not log.exists() or log.stat().st_size < 50_000):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)
        err.seek(0)
        errors = err.read().decode()
    broken = re.search(r"knowhub undo (import-[0-9a-f]{32})", errors)
    rest = cli.json(*words)

    assert process.returncode != 0
    assert broken is not None, errors
    assert 0 < rest["messages"]["known"] < sessions * turns
    assert rest["messages"]["known"] + rest["messages"]["added"] == sessions * turns
    for import_id in (rest["import_id"], broken[1]):
        assert cli("undo", import_id).code == 0
    assert cli.json("context", "search", "larger cache")["blocks"] == []
