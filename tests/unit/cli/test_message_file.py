"""Message files: every format is read, and an error names its line."""

from pathlib import Path
from typing import Any

import pytest
import typer

from knowhub.cli.inputs import read_messages

MESSAGE: dict[str, Any] = {"role": "user", "content": "你好"}
LINE = '{"role": "user", "content": "你好"}'


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (f"[{LINE}, {LINE}]", [MESSAGE, MESSAGE]),
        (f'{{"messages": [{LINE}]}}', [MESSAGE]),
        (LINE, [MESSAGE]),
        (f"{LINE}\r\n\r\n{LINE}\r\n", [MESSAGE, MESSAGE]),
        (f"\ufeff{LINE}\n{LINE}\n", [MESSAGE, MESSAGE]),
        (f"\ufeff[\n{LINE}\n]", [MESSAGE]),
    ],
)
def test_messages_are_read_in_each_form(tmp_path: Path, text: str, messages: list[dict[str, Any]]) -> None:
    file = tmp_path / "said.json"
    file.write_text(text, encoding="utf-8", newline="")

    assert read_messages(file) == {"messages": messages}


def test_other_fields_of_a_message_file_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    file.write_text(f'{{"session_id": "s", "messages": [{LINE}]}}', encoding="utf-8")

    assert read_messages(file) == {"session_id": "s", "messages": [MESSAGE]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "an object with `messages`"),
        ("", "FILE: is not JSON"),
        ("[]", "FILE: has no message"),
        ('{"messages": []}', "FILE: has no message"),
        (f'{LINE}\n\n{{"role": \n', "FILE: line 3: is not JSON"),
        (f"{LINE}\nnonsense\n", "FILE: line 2: is not JSON"),
    ],
)
def test_an_invalid_file_of_messages_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "said.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(typer.BadParameter, match=message):
        read_messages(file)
