"""`knowhub extract`, `slim`, `audit` and `feedback --evolve` as a person and an agent use them."""

import json
from pathlib import Path

import pytest

from tests.e2e.command_line import Cli
from tests.e2e.scripted_llm import running_llm

ADVICE = "Wait for the element to be clickable before you click it, and never sleep for a fixed time."
MESSAGES = [
    {"role": "user", "content": "请以后都用中文回答我。", "message_id": "m-1"},
    {"role": "assistant", "content": "好的。"},
]
BEFORE = "Call driver.get.\nThen click at once."
AFTER = "Call driver.get.\nThen wait for the element, and click."
FEEDBACK = "the click came too early"
REWRITE = {"content": AFTER, "summary_of_change": "waits before the click"}


def test_the_report_is_a_table_for_a_person_and_json_for_a_program(cli: Cli) -> None:
    first = cli.json("save", "--content", ADVICE)["id"]
    copy = cli.json("save", "--content", ADVICE, "--agent-id", "crawler")["id"]
    cli.json("save", "--content", "登录密码是 Tr0ub4dor&3xyz")

    printed = cli("audit")
    result = cli.json("audit", "--kind", "duplicate", "--kind", "stale", "--limit", "5", "--stale-days", "7")

    assert printed.code == 0
    assert "junk rate: 33.3% (1 of 3 records and infos)" in printed.out
    assert "secret 1, duplicate 1" in printed.out
    assert "ub4dor" not in printed.out
    assert [(finding["id"], finding["related"]) for finding in result["findings"]] == [(first, [copy])]
    assert result["summary"] == {"duplicate": 1, "stale": 0}


def test_a_person_sees_the_result_and_how_to_undo_it(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversation"
    file.write_text(json.dumps(MESSAGES), encoding="utf-8")

    printed = cli("extract", str(file))
    again = cli("extract", str(file), "--dry-run")

    assert "用户说：请以后都用中文回答我。" in printed.out
    assert "undo it with: knowhub undo " in printed.out
    assert "its message was counted before" in again.out


def test_an_invalid_message_is_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversation"
    file.write_text('[{"role": "user", "content": "x"}, {"role": "user"}]', encoding="utf-8")

    ended = cli("extract", str(file))

    assert ended.code == 2
    assert "messages.1.content" in ended.err


def test_copies_are_shown_merged_and_brought_back(cli: Cli) -> None:
    lines = b'{"id":"a","content":"Use pnpm here."}\n{"id":"b","content":"use PNPM here."}\n'
    cli.json("import", "-", stdin=lines)

    printed = cli("slim", "--dry-run")
    planned = cli.json("slim", "--dry-run")
    done = cli.json("slim")

    assert (printed.code, "2 records would become 1" in printed.out) == (0, True)
    assert [(item["into"], item["sources"]) for item in planned["merged"]] == [("a", ["b"])]
    assert (planned["slim_id"], done["records_after"]) == (None, 1)
    assert [row["id"] for row in cli.json("list")["results"]] == ["a"]
    assert cli("undo", done["slim_id"]).code == 0
    assert sorted(row["id"] for row in cli.json("list")["results"]) == ["a", "b"]
    assert "knowhub undo slim-" in cli("slim").out


def save_record(cli: Cli) -> str:
    return str(cli.json("save", "--task", "登录", "--content", BEFORE)["id"])


@pytest.mark.anyio
async def test_a_person_is_shown_what_changed_and_replay_shows_the_decision(cli: Cli) -> None:
    row_id = save_record(cli)
    async with running_llm({"answer": REWRITE}) as llm:
        result = cli("feedback", row_id, "--evolve", FEEDBACK, KNOWHUB_LLM_BASE_URL=llm.url).out
    replayed = cli("replay", "--function", "evolve_knowledge").out

    assert "-Then click at once.\n+Then wait for the element, and click.\n" in result
    assert "waits before the click" in result
    assert f"changed  {row_id}  (version 2)" in result
    assert cli.json("get", row_id)["content"] == AFTER
    assert "undo it with: knowhub undo " in result
    assert f"evolve_knowledge  {FEEDBACK}" in replayed
    assert "summary_of_change waits before the click" in replayed


def test_without_a_model_the_content_stays_and_the_rest_counts(cli: Cli) -> None:
    row_id = save_record(cli)

    result = cli("feedback", row_id, "--evolve", FEEDBACK, "--score", "5")
    again = cli("feedback", row_id, "--evolve", FEEDBACK)

    assert (result.code, "there is no language model; the words are kept" in result.out) == (0, True)
    assert f"unchanged  {row_id}" in again.out
    record = cli.json("get", row_id)
    assert (record["content"], record["eval"]["score"]) == (BEFORE, 5)
