"""A file of messages as a person has one: a JSON array, an object with `messages`, or an object a line."""

import codecs
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import typer

_FORMS = "a JSON array of messages, an object with `messages`, or a message a line"


def read_messages(file: Path) -> dict[str, Any]:
    """Return what a file, or stdin for `-`, says: `messages`, and what an object has beside them.

    What a message is made of is not looked at. Ends with 2 where the file holds none. Raises OSError.
    """
    text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    # As editors on Windows begin a text.
    parsed = _parsed(text.removeprefix(codecs.BOM_UTF8))
    if isinstance(parsed, Mapping):
        return dict(parsed) if "messages" in parsed else {"messages": [parsed]}
    if not isinstance(parsed, list):
        raise typer.BadParameter(f"FILE: holds no messages; give {_FORMS}")
    return {"messages": parsed}


def check_not_empty(body: Mapping[str, Any]) -> None:
    """End with 2 where there is no message."""
    if not body["messages"]:
        raise typer.BadParameter(f"FILE: holds no message; give {_FORMS}")


def _parsed(text: bytes) -> Any:  # noqa: ANN401 -- any JSON: the model says what is wrong with it
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) > 1 and _is_object(lines[0][1]):
        # Of many lines each is one message, where the first is one: an object that is complete.
        return [_loaded(line, f"line {number}: ") for number, line in lines]
    return _loaded(text)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _loaded(text: bytes, where: str = "") -> Any:  # noqa: ANN401 -- any JSON
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        said = f"{problem.msg} at its character {problem.pos + 1}" if where else str(problem)
        raise typer.BadParameter(f"FILE: {where}is no JSON: {said}") from problem
