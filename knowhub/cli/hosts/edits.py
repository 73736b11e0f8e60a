"""What `knowhub connect` adds to the files of a host, and how it is found and removed again.

An edit adds to a text, or removes from it what was added. An empty text is a file that does not exist.
"""

import difflib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from knowhub.cli.hosts import json_text
from knowhub.core.errors import Conflict

SERVER = "knowhub"
_HOST_FOLDERS = (".claude", ".codex", ".cursor", ".vscode")


@dataclass(frozen=True, slots=True)
class McpServer:
    """An entry of a JSON file, at `keys`. An entry of the same name that somebody else wrote is kept."""

    path: Path
    keys: Sequence[str]
    entry: Mapping[str, Any]

    def add(self, text: str) -> str:
        """Return the text with the entry."""
        there = json_text.find_value(text, self.keys) if text else None
        is_there = bool(text) and self.keys[-1] in json_text.list_keys(text, self.keys[:-1])
        if there == self.entry or (is_there and not _is_own_server(there)):
            return text
        return json_text.add(self.remove(text), self.keys, dict(self.entry))

    def remove(self, text: str) -> str:
        """Return the text without the entry."""
        there = json_text.find_value(text, self.keys) if text else None
        return json_text.remove(text, self.keys) if _is_own_server(there) else text


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks by their events, in a JSON file. `marker` is in the command or address of each hook of KnowHub.

    `begin` is what a new file begins with. Where `is_grouped`, each hook is in a list `hooks` of its own.
    """

    path: Path
    hooks: Mapping[str, Mapping[str, Any]]
    marker: str
    is_grouped: bool = True
    begin: str = ""

    def add(self, text: str) -> str:
        """Return the text with the hooks."""
        text = text or self.begin
        found = [(path[1], json_text.find_value(text, path)) for path in self._find_own(text)]
        if len(found) == len(self.hooks) and dict(found) == self.hooks:
            return text
        text = self.remove(text) or self.begin
        for event, hook in self.hooks.items():
            item = {"hooks": [dict(hook)]} if self.is_grouped else dict(hook)
            text = json_text.add(text, ("hooks", event, 0), item)
        return text

    def remove(self, text: str) -> str:
        """Return the text without the hooks of KnowHub."""
        while own := list(self._find_own(text)):
            *group, _, _ = path = own[-1]
            is_alone = self.is_grouped and len(json_text.list_keys(text, path[:-1])) == 1
            text = json_text.remove(text, group if is_alone else path)
        return "" if text == self.begin else text

    def _find_own(self, text: str) -> Iterator[json_text.Path]:
        if not text:
            return
        for event in json_text.list_keys(text, ("hooks",)):
            for place in json_text.list_keys(text, ("hooks", event)):
                path = ("hooks", event, place)
                inner = [(*path, "hooks", number) for number in json_text.list_keys(text, (*path, "hooks"))]
                for hook in inner if self.is_grouped else [path]:
                    if self.marker in json.dumps(json_text.find_value(text, hook)):
                        yield hook


@dataclass(frozen=True, slots=True)
class TomlTable:
    """The table `[mcp_servers.knowhub]` at the end of a TOML file."""

    path: Path
    values: Mapping[str, str]

    def add(self, text: str) -> str:
        """Return the text with the table."""
        own = _find_table(text)
        if own is not None and "/mcp" not in text[slice(*own)]:
            return text
        table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.values.items())
        table = f"{_TABLE}\n{table}"
        if own is not None and text[slice(*own)].strip() == table.strip():
            return text
        text = self.remove(text)
        # Without a blank line, the file did not end in a line break.
        return f"{text}{chr(10) if text else ''}{table}"

    def remove(self, text: str) -> str:
        """Return the text without the table."""
        own = _find_table(text)
        if own is None or "/mcp" not in text[slice(*own)]:
            return text
        before, after = text[: own[0]], text[own[1] :]
        return before.removesuffix("\n") + after if before and not after else before + after


FileEdit: TypeAlias = McpServer | Hooks | TomlTable


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; an empty text is a file that does not exist."""

    path: Path
    before: str
    after: str

    def make_diff(self) -> str:
        """Return the difference as `diff -u` shows it."""
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        diff = difflib.unified_diff(before, after, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in diff)

    def write(self) -> None:
        """Write the file, whole or not at all, or delete it with the host's folder if that is empty. Raises OSError."""
        # What a link names is written; the link stays.
        target = self.path.resolve()
        if not self.after:
            target.unlink(missing_ok=True)
            folder = self.path.parent
            if folder.name in _HOST_FOLDERS and not folder.is_symlink() and not any(folder.iterdir()):
                folder.rmdir()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.after.encode())
            Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o600)
            Path(name).replace(target)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def plan_changes(edits: Iterable[FileEdit], *, is_removal: bool) -> list[FileChange]:
    """Return the files that differ after the edits. Raises Conflict for a file that is no JSON, and OSError."""
    texts: dict[Path, tuple[str, str]] = {}
    for edit in edits:
        before, text = texts.get(edit.path) or (_read(edit.path),) * 2
        try:
            texts[edit.path] = before, edit.remove(text) if is_removal else edit.add(text)
        except json_text.MalformedJson as error:
            raise Conflict(
                f"{edit.path}: {error}; repair or move the file, and try again. Nothing was changed"
            ) from error
    return [FileChange(path, before, after) for path, (before, after) in texts.items() if before != after]


_TABLE = f"[mcp_servers.{SERVER}]"


def _find_table(text: str) -> tuple[int, int] | None:
    """Return where the table with its sub-tables begins and ends."""
    start: int | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        if line.startswith((_TABLE, f"{_TABLE[:-1]}.")):
            start = at if start is None else start
        elif line.startswith("[") and start is not None:
            return start, at
        at += len(line)
    return None if start is None else (start, at)


def _is_own_server(entry: object) -> bool:
    return isinstance(entry, dict) and "/mcp" in str(entry.get("url"))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise Conflict(
            f"{path}: it is not UTF-8; repair or move the file, and try again. Nothing was changed"
        ) from error
