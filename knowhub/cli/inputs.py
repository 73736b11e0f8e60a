"""Read what a command takes from a file or from stdin: texts, bytes, and files of messages."""

import codecs
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

STDIN = "-"
_FORMS = "a JSON array of messages, an object with `messages`, or one message per line"


def read_bytes(file: Path | str) -> bytes:
    """Return the content of a file, or stdin for `-`. Raises OSError."""
    return sys.stdin.buffer.read() if str(file) == STDIN else Path(file).read_bytes()


def read_text(file: Path) -> str:
    """Return the text of a file, or stdin for `-`. Ends with 2 when it is not UTF-8. Raises OSError."""
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8 text") from None


def read_argument(text: str) -> str:
    """Return the text of an argument, or stdin when it is `-`."""
    return read_bytes(STDIN).decode("utf-8", "replace") if text == STDIN else text


def read_messages(file: Path) -> dict[str, Any]:
    """Return `messages` from a file, or from stdin for `-`, with the other fields of its object.

    The messages themselves are not checked. Ends with 2 when the file is not a file of messages. Raises OSError.
    """
    # Editors on Windows put a byte order mark at the beginning.
    parsed = _parse(read_bytes(file).removeprefix(codecs.BOM_UTF8))
    if isinstance(parsed, Mapping):
        body = dict(parsed) if "messages" in parsed else {"messages": [parsed]}
    elif isinstance(parsed, list):
        body = {"messages": parsed}
    else:
        raise typer.BadParameter(f"FILE: has no messages; give {_FORMS}")
    if not body["messages"]:
        raise typer.BadParameter(f"FILE: has no message; give {_FORMS}")
    return body


def _parse(text: bytes) -> Any:  # noqa: ANN401 -- any JSON: the request model reports what is wrong
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) > 1 and _is_object(lines[0][1]):
        # The first line is a whole object, so each line is a message.
        return [_load_json(line, f"line {number}: ") for number, line in lines]
    return _load_json(text)


def _is_object(line: bytes) -> bool:
    import orjson

    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _load_json(text: bytes, where: str = "") -> Any:  # noqa: ANN401 -- any JSON
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        reason = f"{error.msg} at its character {error.pos + 1}" if where else str(error)
        raise typer.BadParameter(f"FILE: {where}is not JSON: {reason}") from error
