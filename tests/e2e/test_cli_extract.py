"""`knowhub extract` as a person and an agent use it: a real process on a real directory."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command_line import Cli

MESSAGES = [
    {"role": "user", "content": "请以后都用中文回答我。", "message_id": "m-1"},
    {"role": "assistant", "content": "好的。"},
]


def forms() -> list[Any]:
    lines = "\n".join(json.dumps(message) for message in MESSAGES)
    pretty, wrapped = json.dumps(MESSAGES, indent=2), json.dumps({"messages": MESSAGES}, indent=2)
    return [lines, json.dumps(MESSAGES), pretty, wrapped, json.dumps({"messages": MESSAGES})]


@pytest.mark.parametrize("text", forms(), ids=["lines", "array", "pretty", "object", "object on a line"])
def test_a_conversation_is_read_in_every_form(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "conversation"
    file.write_text(text, encoding="utf-8")

    result = cli.json("extract", str(file), "--user-id", "li")

    assert [(candidate["status"], candidate["category"]) for candidate in result["candidates"]] == [
        ("new", "preference")
    ]
    assert result["saved"][0]["owner"] == "user:li"
    assert result["messages_read"] == 2


def test_a_person_sees_the_result_and_how_to_undo_it(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversation"
    file.write_text(json.dumps(MESSAGES), encoding="utf-8")

    shown = cli("extract", str(file))
    again = cli("extract", str(file), "--dry-run")

    assert "用户说：请以后都用中文回答我。" in shown.out
    assert "undo it with: knowhub undo " in shown.out
    assert "its message was counted before" in again.out


def test_an_invalid_message_is_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversation"
    file.write_text('[{"role": "user", "content": "x"}, {"role": "user"}]', encoding="utf-8")

    ended = cli("extract", str(file))

    assert ended.code == 2
    assert "messages.1.content" in ended.err


def test_an_invalid_file_ends_with_2(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversation"

    for text in ("", "nonsense", '{"role": "user"}', "[1]"):
        file.write_text(text, encoding="utf-8")
        ended = cli("extract", str(file))
        assert (ended.code, ended.out) == (2, ""), text
