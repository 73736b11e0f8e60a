"""Changes JSON as text, so that everything else in a file stays as it was written, comments too.

What is added can be removed again exactly. A container that was there and empty gets its first member right behind its
bracket; a member that stands so leaves an empty container. A container that was added goes with its last member.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_SPACE: Final = re.compile(r"\s*")
_SCALAR: Final = re.compile(r"[\w.+-]+")
_DECODER: Final = json.JSONDecoder(strict=False)
_MAX_DEPTH: Final = 100

Path = Sequence[str | int]


class MalformedJson(ValueError):
    """A text that is not JSON, with the line where it ends to be."""


@dataclass(frozen=True, slots=True)
class Child:
    """A member of an object, or an item of a list: where it begins, where its value begins, and where it ends."""

    key: str | int
    start: int
    value: int
    end: int


def find_value(text: str, path: Path) -> Any:  # noqa: ANN401 -- any JSON value
    """Return the value at a path, None where there is none, or where it holds comments. Raises MalformedJson."""
    start = _find(text, path)
    if start is None:
        return None
    try:
        return json.loads(text[start : _find_end(text, start)])
    except ValueError:
        return None


def list_keys(text: str, path: Path) -> list[str | int]:
    """Return the keys of an object, or the positions of a list; none where there is neither. Raises MalformedJson."""
    start = _find(text, path)
    return [] if start is None else [child.key for child in _list_children(text, start)]


def add(text: str, path: Path, value: object) -> str:
    """Add a value at a path behind its neighbours, with the containers that are missing; an `int` appends to a list.

    An empty text is a file that does not exist yet. Raises MalformedJson, also where a container is no container.
    """
    if not text.strip():
        return f"{_render(_nest(path, value), '', '  ', chr(10))}\n"
    for depth in range(len(path) - 1, -1, -1):
        start = _find(text, path[:depth])
        if start is not None:
            if text[start] != ("[" if isinstance(path[depth], int) else "{"):
                wanted = "a list" if isinstance(path[depth], int) else "a JSON object"
                raise MalformedJson(f"{'.'.join(map(str, path[:depth])) or 'its content'} must be {wanted}")
            return _insert(text, start, path[depth], _nest(path[depth + 1 :], value))
    raise MalformedJson("it is empty")


def remove(text: str, path: Path) -> str:
    """Remove what is at a path, with the containers that were added with it; an empty text is a file to delete."""
    if not path:
        return ""
    container = _find(text, path[:-1])
    children = [] if container is None else _list_children(text, container)
    place = next((place for place, child in enumerate(children) if child.key == path[-1]), None)
    if place is None or container is None:
        return text
    child = children[place]
    if place:
        return text[: children[place - 1].end] + text[child.end :]
    if len(children) > 1:
        return text[: child.start] + text[children[1].start :]
    if child.start == container + 1:
        return text[: child.start] + text[child.end :]
    return remove(text, path[:-1])


def _insert(text: str, container: int, key: str | int, value: object) -> str:
    children = _list_children(text, container)
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _find_unit(text)
    label = "" if isinstance(key, int) else f"{json.dumps(key)}: "
    indent = _get_indent(text, children[-1].start) if children else _get_line_indent(text, container)
    rendered = label + _render(value, indent or "", unit, newline)
    if not children:
        return text[: container + 1] + rendered + text[container + 1 :]
    comma = ", " if indent is None else f",{newline}{indent}"
    return text[: children[-1].end] + comma + rendered + text[children[-1].end :]


def _render(value: object, indent: str, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _nest(path: Path, value: object) -> object:
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    return value


def _find_unit(text: str) -> str:
    """Return the indent of one level."""
    root = _find(text, ())
    children = _list_children(text, root) if root is not None else []
    return (_get_indent(text, children[0].start) if children else None) or "  "


def _get_indent(text: str, at: int) -> str | None:
    """Return the white space before a position in its line; None where something else is before it."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip() and "\n" in text[:at] else None


def _get_line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find(text: str, path: Path) -> int | None:
    """Return where the value at a path begins."""
    at = _skip(text, 0)
    if not path and _skip(text, _find_end(text, at)) != len(text):
        raise MalformedJson(_name_line(text, _find_end(text, at)))
    for key in path:
        child = next((child for child in _list_children(text, at) if child.key == key), None)
        if child is None:
            return None
        at = child.value
    return at


def _list_children(text: str, start: int, depth: int = 0) -> list[Child]:
    children: list[Child] = []
    if text[start] not in "{[":
        return children
    closing = "}" if text[start] == "{" else "]"
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        begin, key = at, len(children)
        name: str | int = key
        if closing == "}":
            name, end = _read_string(text, at)
            at = _skip(text, end)
            at = _skip(text, _expect(text, at, ":"))
        end = _find_end(text, at, depth + 1)
        children.append(Child(name, begin, at, end))
        at = _skip(text, end)
        if text[at : at + 1] != closing:
            at = _skip(text, _expect(text, at, ","))
    return children


def _find_end(text: str, start: int, depth: int = 0) -> int:
    """Return where the value that begins at a position ends."""
    if depth > _MAX_DEPTH:
        raise MalformedJson("it is nested too deeply")
    opening = text[start : start + 1]
    if opening and opening in "{[":
        children = _list_children(text, start, depth)
        at = _skip(text, children[-1].end if children else start + 1)
        # Where comments are allowed, so is a comma at the end.
        return (_skip(text, at + 1) if text[at] == "," else at) + 1
    if opening == '"':
        return _read_string(text, start)[1]
    found = _SCALAR.match(text, start)
    if found is None:
        raise MalformedJson(_name_line(text, start))
    return found.end()


def _read_string(text: str, start: int) -> tuple[str, int]:
    """Return the string that begins at a position, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except ValueError:
        value, end = None, start
    if not isinstance(value, str):
        raise MalformedJson(_name_line(text, start))
    return value, end


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise MalformedJson(_name_line(text, at))
    return at + 1


def _skip(text: str, at: int) -> int:
    """Return the next position that is no white space and no comment."""
    while True:
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        if text.startswith("//", at):
            end = text.find("\n", at)
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2) + 2
        else:
            return at
        # What is not closed goes on to the end.
        at = end if end > at else len(text)


def _name_line(text: str, at: int) -> str:
    return f"it is not JSON in line {text.count(chr(10), 0, at) + 1}"
