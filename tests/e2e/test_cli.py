"""The `knowhub` command as a person and an agent use it: real processes, real directories."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.e2e.command_line import COMMAND, Cli, environment, run_server_command
from tests.e2e.forking import fork_command
from tests.e2e.server_process import ROOT, WAIT_S, run_server

EXAMPLES = ROOT / "examples/knowledge.jsonl"
SEGMENT = "change_log/segment-00000001.jsonl"


def test_a_chinese_record_is_saved_found_listed_and_read(cli: Cli) -> None:
    saved = cli.json(
        "save", "--task", "用 Selenium 登录网站", "--content", "绕过反爬检测", "--type", "tool", "--type", "strategy",
        "--tag", "domain=爬虫", "--scope", "project:atlas", "--url", "https://example.com/a", "--score", "4",
    )  # fmt: skip

    assert saved["types"] == ["tool", "strategy"]
    assert saved["tags"] == {"domain": "爬虫"}
    assert (saved["owner"], saved["scopes"], saved["eval"]["score"]) == ("user:li", ["project:atlas"], 4)
    assert saved["source"]["urls"] == ["https://example.com/a"]
    assert saved["operation_id"]
    assert "duplicate_of" not in saved

    found = cli.json("search", "登陆 selenium", "--explain", "--type", "tool")
    assert [record["id"] for record in found["results"]] == [saved["id"]]
    assert found["results"][0]["why"]["recall"]["matched"]
    assert {"count", "degraded", "index_lag", "explanation"} <= found.keys()

    listed = cli.json("list", "--tag", "domain=爬虫", "--since", "2020-01-01")
    assert cli.json("list", "--until", "2020-01-01")["results"] == []
    assert listed["count"] == 1
    record = cli.json("get", saved["id"])
    assert record.pop("similar") == []
    assert record == listed["results"][0]
    assert saved == {**record, "operation_id": saved["operation_id"]}
    # Text for a person is Chinese too, whatever the locale says.
    variables = environment(cli.data, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="utf-8")
    printed = subprocess.run([*COMMAND, "list"], capture_output=True, env=variables, timeout=WAIT_S, check=True).stdout
    assert "用 Selenium 登录网站" in printed.decode()


def test_the_answers_are_those_of_the_http_api(cli: Cli) -> None:
    for number in range(3):
        cli.json("save", "--content", f"number {number}")

    with run_server_command(cli.data) as url:
        listed = httpx.get(f"{url}/api/knowledge", params={"limit": 2}).json()
        assert cli.json("list", "--limit", "2") == listed
        cursor = listed["next_cursor"]
        assert cli.json("list", "--cursor", cursor) == httpx.get(f"{url}/api/knowledge?cursor={cursor}").json()
        theirs = httpx.get(f"{url}/api/knowledge/search", params={"q": "number", "explain": "true"}).json()
        assert cli.json("search", "number", "--explain")["results"] == theirs["results"]
        knowledge_id = listed["results"][0]["id"]
        ours = cli.json("feedback", knowledge_id, "--score", "5")
        theirs = httpx.put(f"{url}/api/knowledge/{knowledge_id}", json={"update_score": 4}).json()
        assert ours.keys() == theirs.keys()
        undone = cli.json("undo", theirs["operation_id"], "--dry-run")
        answer = httpx.post(f"{url}/api/operations/{theirs['operation_id']}/undo", json={"dry_run": True}).json()
        assert undone.keys() == answer.keys()
        assert undone["undone"] == answer["undone"]


def test_a_server_and_the_command_see_each_others_writes(cli: Cli) -> None:
    with run_server_command(cli.data) as url:
        ours = cli.json("save", "--task", "从命令行", "--content", "written beside a running server")
        theirs = httpx.post(f"{url}/api/knowledge", json={"task": "从网页", "content": "through the server"}).json()

        assert httpx.get(f"{url}/api/knowledge/{ours['id']}").json()["task"] == "从命令行"
        found = httpx.get(f"{url}/api/knowledge/search", params={"q": "running server"}).json()
        assert found["results"][0]["id"] == ours["id"]
        assert cli.json("get", theirs["id"])["task"] == "从网页"
        assert cli.json("search", "网页")["results"][0]["id"] == theirs["id"]
        cli.json("undo", ours["operation_id"])
        assert httpx.get(f"{url}/api/knowledge/{ours['id']}").status_code == 404

        # The server maintains the indexes from its first turn on, which is a second after its start.
        assert httpx.post(f"{url}/api/maintenance/reindex").status_code == 200
        refused = cli("reindex")
        assert (refused.code, "running server" in refused.err) == (1, True)
        assert cli("doctor").code == 0
    assert cli.json("reindex") == {"records": 1}


def test_an_equal_record_is_saved_once(cli: Cli) -> None:
    first = cli.json("save", "--content", "the same", "--task", "again")
    second = cli.json("save", "--content", "-", "--task", "again", stdin=b"the same")

    assert second["duplicate_of"] == first["id"]
    assert second["operation_id"] is None
    assert cli.json("save", "--content", "the same", "--task", "again", "--no-dedup")["id"] != first["id"]


def test_feedback_changes_the_order_and_undo_brings_it_back(cli: Cli) -> None:
    first = cli.json("save", "--content", "wait for the table")["id"]
    second = cli.json("save", "--content", "wait for the row")["id"]

    done = cli.json("feedback", second, "--helpful", "--task", "一个任务", "--outcome", "good")
    assert done["eval"]["helpful_history"][0]["task"] == "一个任务"
    assert [record["id"] for record in cli.json("search", "wait for")["results"]] == [second, first]
    cli.json("feedback", second, "--harmful", "--reason", "stale")

    undone = cli.json("undo", done["operation_id"])
    assert undone["dry_run"] is False
    assert cli.json("get", second)["eval"]["helpful"] == 1
    assert cli.json("get", second)["eval"]["harmful"] == 1


def test_a_blocked_undo_names_the_later_operation(cli: Cli) -> None:
    saved = cli.json("save", "--content", "x")
    older = cli.json("feedback", saved["id"], "--score", "4")
    newer = cli.json("feedback", saved["id"], "--score", "5")

    refused = cli("undo", older["operation_id"])

    assert (refused.code, refused.out) == (1, "")
    assert newer["operation_id"] in refused.err


def test_an_export_can_be_imported_and_an_import_is_undone_as_one(cli: Cli, tmp_path: Path) -> None:
    done = cli.json("import", str(EXAMPLES))
    assert (done["imported"], done["replaced"], done["skipped"]) == (129, 0, 0)
    assert cli.json("export", str(tmp_path / "out.jsonl"))["exported"] == 129
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    other = Cli(tmp_path / "other")
    text = (tmp_path / "out.jsonl").read_bytes()
    assert other.json("import", "-", stdin=text)["imported"] == 129
    for mine, theirs in zip(text.splitlines(), other("export").out.splitlines(), strict=True):
        apart = {"updated_at": None, "version": None}
        assert json.loads(mine) | apart == json.loads(theirs) | apart

    taken = other("import", "-", stdin=text)
    assert (taken.code, "--on-conflict skip" in taken.err) == (1, True)
    assert other.json("import", str(EXAMPLES), "--on-conflict", "skip")["skipped"] == 129
    assert len(cli.json("undo", done["import_id"])["changes"]) == 129
    assert cli.json("list")["count"] == 0


def test_a_workspace_is_written_into_an_empty_folder_only(cli: Cli, tmp_path: Path) -> None:
    cli.json("import", str(EXAMPLES))
    folder = tmp_path / "workspace"

    done = cli.json("export", str(folder), "--layout", "workspace")
    records = [record for path in done["files"] for record in json.loads(Path(path).read_text())]

    assert len(records) == 129
    assert {path.name for path in folder.iterdir()} == {"global", "agents", "users"}
    assert cli("export", str(folder), "--layout", "workspace").code == 1
    assert cli("export", "--layout", "workspace").code == 2


def test_a_wrong_import_names_its_lines_and_writes_nothing(cli: Cli) -> None:
    refused = cli("import", "-", stdin=b'{"content":"good"}\n{"content":"bad","score":9}\nnot json\n')

    assert (refused.code, refused.out) == (1, "")
    assert "lines.2.score" in refused.err
    assert "lines.3" in refused.err
    assert not (cli.data / "change_log").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["search"], "Missing"),
        (["search", " "], "QUERY"),
        (["search", "x", "--tag", "nonsense"], "--tag"),
        (["search", "x", "--since", "nonsense"], "--since"),
        (["search", "x", "--min-relevance", "2"], "--min-relevance"),
        (["save", "--content", "x", "--scope", "nonsense"], "--scope"),
        (["save", "--content", "x", "--tag", "nonsense"], "--tag"),
        (["save", "--content", "x", "--valid-from", "yesterday"], "--valid-from"),
        (["feedback", "knowledge-1"], "--helpful"),
        (["list", "--cursor", "nonsense"], "--cursor"),
        (["get", "x", "--user-id", "a\nb"], "--user-id"),
        (["audit", "--limit", "0"], "--limit"),
        (["context", "search", " "], "QUERY"),
        (["context", "read", "x", "--level", "L9"], "--level"),
        (["context", "edit", "ctx://x"], "--content"),
        (["resource", "save", "../x"], "must be a path"),
        (["feedback", "x", "--evolve", " "], "--evolve"),
        (["feedback", "x", "--evolve", "x" * 20_000], "--evolve"),
        (["feedback", "x", "--evolve", "x", "--task", "y"], "--task"),
        (["feedback", "x", "--helpful", "--outcome", "x" * 60_000], "--outcome"),
        (["tree", "search", " "], "QUERY"),
        (["tree", "add", ""], "NAME"),
        (["tree", "add", "x", "--alias", "y" * 201], "--alias"),
        (["tree", "show", "--depth", "-1"], "--depth"),
        (["tree", "rm", "x", "--infos", "burn"], "--infos"),
        (["tree", "info", "add", " "], "CONTENT"),
        (["tree", "info", "list", "x", "--page", "-1"], "--page"),
        (["tree", "reorganize", "x", "--plan", "y"], "--plan"),
        (["replay", "--limit", "0"], "--limit"),
    ],
)
def test_wrong_usage_ends_with_2_and_names_the_option(cli: Cli, words: list[str], named: str) -> None:
    ended = cli(*words)

    assert (ended.code, ended.out) == (2, "")
    assert named in ended.err
    assert not cli.data.exists()


@pytest.mark.parametrize("words", [["get", "x"], ["search", "x"], ["audit"], ["undo", "x"], ["export"]])
def test_reading_does_not_create_a_directory(cli: Cli, words: list[str]) -> None:
    ended = cli(*words)

    assert (ended.code, ended.out) == (1, "")
    assert "--data-dir" in ended.err
    assert not cli.data.exists()


def test_saved_text_has_no_effect_on_the_terminal(cli: Cli) -> None:
    cli.json("save", "--task", "[red]not markup[/red] \x1b[31m", "--content", "\x07 bell")

    for printed in (cli("list").out, cli("search", "markup").out):
        assert "[red]not markup[/red]" in printed
        assert "\x1b" not in printed
        assert "\x07" not in printed


@pytest.fixture
def damaged(cli: Cli) -> bytes:
    """Damage the second of three saved records, and return the segment as it was."""
    for number in range(3):
        cli.json("save", "--content", f"number {number}")
    healthy = cli("doctor", "--json")
    assert (healthy.code, healthy.json["problems"]) == (0, 0)
    content = (cli.data / SEGMENT).read_bytes()
    (cli.data / SEGMENT).write_bytes(content.replace(b"number 1", b"number 7"))
    return content


def test_the_doctor_finds_a_damaged_line_and_ends_with_1(cli: Cli, damaged: bytes) -> None:
    lines = damaged.splitlines(keepends=True)
    offset = len(lines[0]) + len(lines[1])

    ill = cli("doctor", "--json")

    assert ill.code == 1
    (problem,) = [result for result in ill.json["results"] if result["severity"] == "problem"]
    assert problem["subject"].endswith(SEGMENT)
    assert f"offset {offset}" in problem["detail"]
    # What is good is still read, and nothing is written on top of it.
    assert cli.json("list")["count"] == 2
    assert cli("save", "--content", "more").code == 1


def test_a_model_of_no_use_is_named_by_the_doctor_and_at_start_and_words_go_on(cli: Cli, tmp_path: Path) -> None:
    saved = cli.json("save", "--content", "zebra")
    directory = str(tmp_path / "nowhere")

    doctor, found = (
        cli(*words, "--json", KNOWHUB_EMBEDDING_DIR=directory) for words in (["doctor"], ["search", "zebra"])
    )
    printed = cli("doctor", KNOWHUB_EMBEDDING_DIR=directory)
    with run_server(cli.data, KNOWHUB_EMBEDDING_DIR=directory) as server:
        ready = httpx.get(f"{server.url}/ready").json()

    problem = "the model of KNOWHUB_EMBEDDING_DIR cannot be used"
    assert (doctor.code, doctor.json["problems"], problem in doctor.json["embedder"]["problems"][0]) == (1, 1, True)
    assert (printed.code, "problems: 1" in printed.out) == (1, True)
    assert [record["id"] for record in found.json["results"]] == [saved["id"]]
    assert (ready["degraded"], problem in ready["embedder"]["problems"][0]) == (["embedder"], True)


@pytest.mark.usefixtures("damaged")
def test_a_damaged_log_is_repaired_and_written_again(cli: Cli) -> None:
    repaired = cli("doctor", "--repair", "--json")
    result = cli("doctor")

    assert (repaired.code, repaired.json["problems"]) == (0, 0)
    assert any("operations 2 are lost" in item["detail"] for item in repaired.json["repaired"])
    assert result.code == 0
    assert "lost to damage" in result.out
    assert len(list((cli.data / "quarantine").glob("*-damaged-*.bytes"))) == 1
    assert cli.json("list")["count"] == 2
    assert cli("save", "--content", "more").code == 0
    assert cli.json("doctor", "--repair")["repaired"] == []


def test_a_repair_beside_a_running_server_is_refused(cli: Cli) -> None:
    cli.json("save", "--content", "kept")
    with run_server_command(cli.data):
        refused = cli("doctor", "--repair")

    assert refused.code == 1
    assert "is open in a running KnowHub" in refused.err


def test_a_newer_format_is_refused_before_a_byte_is_touched(cli: Cli) -> None:
    cli.json("save", "--content", "of a later time")
    (cli.data / "FORMAT").write_text('{"knowhub_data":99}\n')
    before = everything_in(cli.data)

    for words in (["serve", "--port", "0"], ["save", "--content", "x"], ["doctor"]):
        ended = cli(*words)
        assert ended.code == 1
        assert "data format 99" in ended.out + ended.err

    assert everything_in(cli.data) == before


def test_an_open_bind_is_refused_unless_it_is_allowed(cli: Cli) -> None:
    refused = cli("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 -- refusing it is what is tested

    assert refused.code == 1
    assert "KNOWHUB_ALLOW_OPEN_BIND=yes" in refused.err
    assert not cli.data.exists()


def test_a_used_port_and_a_wrong_setting_are_reported_in_a_line(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = cli("serve", "--port", str(taken.getsockname()[1]))
    wrong = cli("serve", KNOWHUB_PORT="many")

    assert (busy.code, "--port" in busy.err) == (1, True)
    assert (wrong.code, "KNOWHUB_PORT" in wrong.err) == (2, True)
    assert not cli.data.exists()


def test_the_demo_finds_what_it_should_and_leaves_a_server(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    cli = Cli(folder)

    with run_server_command(folder, "demo", "--data-dir", str(folder)) as url:
        assert httpx.get(f"{url}/api/knowledge/search", params={"q": "验签"}).json()["count"] == 5

    again = cli("demo", "--data-dir", str(folder), "--no-serve")
    assert (again.code, "not an empty folder" in again.err) == (1, True)


def test_the_demo_without_a_directory_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    once = cli("demo", "--no-serve", "--json", TMPDIR=str(temporary))
    process = fork_command(["demo", "--port", "0", "--json"], environment(cli.data, TMPDIR=str(temporary)))
    assert process.stdout is not None
    with process.stdout as lines:
        folder = Path(json.loads(lines.readline())["data_dir"])
        assert json.loads(lines.readline())["data_dir"] == str(folder)
        is_served = folder.is_dir()
        process.send_signal(signal.SIGTERM)
        code = process.wait(WAIT_S)

    assert (once.code, once.json["data_dir"].startswith(str(temporary)), is_served, code) == (0, True, True, 0)
    assert (list(temporary.iterdir()), cli.data.exists()) == ([], False)
    assert "KNOWHUB_DATA_DIR" not in cli("demo", "--help").out


def test_the_demo_shows_an_agent_that_learns_and_an_undo(tmp_path: Path) -> None:
    result = Cli(tmp_path / "other").json("demo", "--no-serve", "--data-dir", str(tmp_path / "demo"))
    printed = Cli(tmp_path / "other")("demo", "--no-serve", "--data-dir", str(tmp_path / "demo2"))

    assert [question["place"] is not None for question in result["questions"]] == [True] * 10
    feedback = result["feedback"]
    assert feedback["before"][0]["id"] == feedback["misled_by"]
    assert feedback["after"][0]["id"] == feedback["learned"]
    assert feedback["undone"] == feedback["before"]
    assert (printed.code, printed.err) == (0, "")
    assert "10 of 10 expected records" in printed.out
    assert "✓" in printed.out
    assert "second run" in printed.out


def test_the_version_and_the_help_answer_at_once(cli: Cli) -> None:
    assert cli("--version").out.startswith("knowhub 0.")
    assert "doctor" in cli("--help").out


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
