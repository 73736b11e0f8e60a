"""Edits of JSON with comments (JSONC) as text: everything else in a file stays as it was written.

What is added can be removed again exactly. A container that was there and empty gets its first member right behind its
bracket; removing such a member leaves an empty container. A container that was added goes with its last member.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

# White space and comments. What is not closed goes on to the end.
_SPACE: Final = re.compile(r"(?:\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)*+")
_SCALAR: Final = re.compile(r"[\w.+-]+")
_DECODER: Final = json.JSONDecoder(strict=False)
_MAX_DEPTH: Final = 100

Path = Sequence[str | int]


class MalformedJson(ValueError):
    """A text that is not JSON, with the line where it ends to be."""


@dataclass(frozen=True, slots=True)
class Node:
    """A member of an object or an item of a list: where it begins, where its value begins, where it ends, its parts."""

    key: str | int
    start: int
    value: int
    end: int
    children: Sequence["Node"] = ()


def find_value(text: str, path: Path) -> Any:  # noqa: ANN401 -- any JSON value
    """Return the value at a path, None where there is none, or where it holds comments. Raises MalformedJson."""
    node = _find(text, path)
    if node is None:
        return None
    try:
        return json.loads(text[node.value : node.end])
    except ValueError:
        return None


def list_keys(text: str, path: Path) -> list[str | int]:
    """Return the keys of an object, or the positions of a list; none where there is neither. Raises MalformedJson."""
    node = _find(text, path)
    return [] if node is None else [child.key for child in node.children]


def add(text: str, path: Path, value: object) -> str:
    """Add a value at a path behind its neighbours, with the containers that are missing; an `int` appends to a list.

    An empty text is a file that does not exist yet. Raises MalformedJson, also where a container is no container.
    """
    if not text.strip():
        return f"{_render(_nest(path, value), '', '  ', chr(10))}\n"
    depth, container = len(path) - 1, _find(text, path[:-1])
    while container is None:
        depth -= 1
        container = _find(text, path[:depth])
    if text[container.value] != ("[" if isinstance(path[depth], int) else "{"):
        wanted = "a list" if isinstance(path[depth], int) else "a JSON object"
        raise MalformedJson(f"{'.'.join(map(str, path[:depth])) or 'its content'} must be {wanted}")
    return _insert(text, container, path[depth], _nest(path[depth + 1 :], value))


def remove(text: str, path: Path) -> str:
    """Remove what is at a path, with the containers that were added with it; an empty text is a file to delete.

    Comments beside it stay, and the container that holds them.
    """
    if not path:
        root = _parse(text)
        is_alone = text.strip() == text[root.value : root.end]
        return "" if is_alone else f"{text[: root.value]}{{}}{text[root.end :]}"
    container = _find(text, path[:-1])
    children = [] if container is None else container.children
    position = next((position for position, child in enumerate(children) if child.key == path[-1]), None)
    if position is None or container is None:
        return text
    child = children[position]
    if position:
        before = children[position - 1].end
        comma = _skip(text, before)
        kept = text[before:comma] + text[comma + 1 : child.start]
        return text[:before] + (kept if kept.strip() else "") + text[child.end :]
    comma = _skip(text, child.end)
    if len(children) > 1:
        return text[: child.start] + text[comma + 1 :].lstrip()
    end = comma + 1 if text[comma : comma + 1] == "," else child.end
    if (
        child.start == container.value + 1
        or (text[container.value + 1 : child.start] + text[end : container.end - 1]).strip()
    ):
        return text[: child.start] + text[end:]
    return remove(text, path[:-1])


def _insert(text: str, container: Node, key: str | int, value: object) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    label = "" if isinstance(key, int) else f"{json.dumps(key)}: "
    top = _parse(text).children
    unit = (_get_indent(text, top[0].start) if top else None) or "  "
    if not container.children:
        line = text[text.rfind("\n", 0, container.value) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        rendered = label + _render(value, indent, unit, newline)
        return text[: container.value + 1] + rendered + text[container.value + 1 :]
    last = container.children[-1]
    beside = _get_indent(text, last.start)
    comma = ", " if beside is None else f",{newline}{beside}"
    return text[: last.end] + comma + label + _render(value, beside or "", unit, newline) + text[last.end :]


def _render(value: object, indent: str, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _nest(path: Path, value: object) -> object:
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    return value


def _get_indent(text: str, at: int) -> str | None:
    """Return the white space before a position in its line; None where something else is before it."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip() and "\n" in text[:at] else None


def _find(text: str, path: Path) -> Node | None:
    node: Node | None = _parse(text)
    for key in path:
        node = next((child for child in node.children if child.key == key), None) if node else None
    return node


def _parse(text: str) -> Node:
    start = _skip(text, 0)
    root = _read(text, "", start, start, 0)
    if _skip(text, root.end) != len(text):
        raise MalformedJson(_name_line(text, root.end))
    return root


def _read(text: str, key: str | int, start: int, value: int, depth: int) -> Node:
    """Read what begins at `value`, whose key begins at `start`."""
    if depth > _MAX_DEPTH:
        raise MalformedJson("it is nested too deeply")
    opening = text[value : value + 1]
    if opening == '"':
        return Node(key, start, value, _read_string(text, value)[1])
    if opening not in {"{", "["}:
        found = _SCALAR.match(text, value)
        if found is None:
            raise MalformedJson(_name_line(text, value))
        return Node(key, start, value, found.end())
    closing = "}" if opening == "{" else "]"
    children: list[Node] = []
    at = _skip(text, value + 1)
    while text[at : at + 1] != closing:
        begin = at
        name: str | int = len(children)
        if closing == "}":
            name, at = _read_string(text, at)
            at = _skip(text, _expect(text, _skip(text, at), ":"))
        children.append(_read(text, name, begin, at, depth + 1))
        at = _skip(text, children[-1].end)
        # Where comments are allowed, so is a comma at the end.
        if text[at : at + 1] != closing:
            at = _skip(text, _expect(text, at, ","))
    return Node(key, start, value, at + 1, children)


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
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _name_line(text: str, at: int) -> str:
    return f"it is not JSON in line {text.count(chr(10), 0, at) + 1}"
