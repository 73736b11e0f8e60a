"""What `knowhub connect` adds to the files of a host, and how it is found and removed again.

An edit adds to a text, or removes from it what was added. An empty text is a file that does not exist.
"""

import difflib
import json
import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from knowhub.cli.hosts import jsonc
from knowhub.core.errors import Conflict

SERVER = "knowhub"


@dataclass(frozen=True, slots=True)
class McpServer:
    """An entry of a JSON file, at `keys`. `key_values` are its further values where a key is sent."""

    path: Path
    keys: Sequence[str]
    values: Mapping[str, Any]
    key_values: Mapping[str, Any]

    def add(self, text: str) -> str:
        """Return the text with the entry."""
        text = "{}\n" if text.isspace() else text
        if text and jsonc.find_value(text, self.keys) == self.values:
            return text
        return jsonc.add(self.remove(text), self.keys, dict(self.values))

    def remove(self, text: str) -> str:
        """Return the text without the entry."""
        return jsonc.remove(text, self.keys) if text.strip() else text

    def find_foreign(self, text: str) -> str | None:
        """Return the name of an entry that has the place of this one and is not as `connect` writes it."""
        if not text.strip() or self.keys[-1] not in jsonc.list_keys(text, self.keys[:-1]):
            return None
        is_managed = _is_managed(jsonc.find_value(text, self.keys), self.values, self.key_values)
        return None if is_managed else ".".join(self.keys)


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
        text = "{}\n" if text.isspace() else text or self.begin
        found = [(path[1], jsonc.find_value(text, path)) for path in self._find_hooks(text)]
        if len(found) == len(self.hooks) and dict(found) == self.hooks:
            return text
        text = self.remove(text) or self.begin
        for event, hook in self.hooks.items():
            item = {"hooks": [dict(hook)]} if self.is_grouped else dict(hook)
            text = jsonc.add(text, ("hooks", event, 0), item)
        return text

    def remove(self, text: str) -> str:
        """Return the text without the hooks of KnowHub."""
        while own := list(self._find_hooks(text)):
            *group, _, _ = path = own[-1]
            is_alone = self.is_grouped and len(jsonc.list_keys(text, path[:-1])) == 1
            text = jsonc.remove(text, group if is_alone else path)
        return "" if text == self.begin else text

    def find_foreign(self, _text: str) -> None:
        """Return None: hooks of others stand beside these."""

    def _find_hooks(self, text: str) -> Iterator[jsonc.Path]:
        if not text.strip():
            return
        for event in jsonc.list_keys(text, ("hooks",)):
            for place in jsonc.list_keys(text, ("hooks", event)):
                path = ("hooks", event, place)
                inner = [(*path, "hooks", number) for number in jsonc.list_keys(text, (*path, "hooks"))]
                for hook in inner if self.is_grouped else [path]:
                    if self.marker in json.dumps(jsonc.find_value(text, hook)):
                        yield hook


@dataclass(frozen=True, slots=True)
class TomlTable:
    """The table `[mcp_servers.knowhub]` of a TOML file. `key_values` are its further values where a key is sent."""

    path: Path
    values: Mapping[str, str]
    key_values: Mapping[str, str]

    def add(self, text: str) -> str:
        """Return the text with the table. Raises Conflict."""
        there = self._find_server(text)
        if there == self.values:
            return text
        table = f"{_TABLE}\n" + "".join(f"{line}\n" for line in _list_lines(self.values))
        # Without a blank line, the file did not end in a line break.
        before, after = _split_at_table(text, there) or (f"{text}{chr(10) if text else ''}", "")
        return self._check(text, f"{before}{table}{after}", self.values)

    def remove(self, text: str) -> str:
        """Return the text without the lines of the table. Raises Conflict."""
        parts = _split_at_table(text, self._find_server(text))
        if parts is None:
            return text
        before, after = parts
        return self._check(text, before + after if after else before.removesuffix("\n").removesuffix("\r"), None)

    def find_foreign(self, text: str) -> str | None:
        """Return the name of a server that has the place of this and is not as `connect` writes it. Raises Conflict."""
        there = self._find_server(text)
        if there is None:
            return None
        is_managed = _is_managed(there, self.values, self.key_values) and _split_at_table(text, there) is not None
        return None if is_managed else _TABLE[1:-1]

    def _find_server(self, text: str) -> object:
        try:
            servers = tomllib.loads(text).get("mcp_servers")
        except tomllib.TOMLDecodeError as error:
            raise _refuse(self.path, f"it is not TOML: {error}") from error
        return servers.get(SERVER) if isinstance(servers, dict) else None

    def _check(self, before: str, after: str, server: Mapping[str, str] | None) -> str:
        """Return `after` if it differs from `before` in this server only. Raises Conflict."""
        try:
            is_good = _list_others(before) == _list_others(after) and self._find_server(after) == server
        except (tomllib.TOMLDecodeError, Conflict):
            is_good = False
        if is_good:
            return after
        by_hand = (
            f"add knowhub = {{ {', '.join(_list_lines(server))} }} to mcp_servers" if server else f"remove {_TABLE}"
        )
        raise Conflict(f"{self.path}: its layout cannot be kept; {by_hand} by hand. Nothing was changed")


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
        """Write the file, whole or not at all, or delete it. Raises OSError.

        Its folder stays, which may have been there before.
        """
        # What a link names is written; the link stays.
        target = self.path.resolve()
        if not self.after:
            target.unlink(missing_ok=True)
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


def plan_changes(edits: Iterable[FileEdit], *, is_removal: bool) -> tuple[list[FileChange], list[str]]:
    """Return the files that differ after the edits, and what a removal leaves: it is not as `connect` writes it.

    Raises Conflict for a file that cannot be read as JSON or TOML, and for a server of another to be added to; OSError.
    """
    texts: dict[Path, tuple[str, str]] = {}
    kept: list[str] = []
    for edit in edits:
        before, text = texts.get(edit.path) or (_read(edit.path),) * 2
        try:
            foreign = edit.find_foreign(text)
            if not foreign:
                texts[edit.path] = before, edit.remove(text) if is_removal else edit.add(text)
            elif is_removal:
                kept.append(f"{edit.path}: {foreign}")
            else:
                raise Conflict(
                    f"{edit.path}: another server has the name {SERVER}: {foreign} is not as connect writes it. "
                    "Rename or remove it, and try again. Nothing was changed"
                )
        except jsonc.MalformedJson as error:
            raise _refuse(edit.path, str(error)) from error
    changes = [FileChange(path, before, after) for path, (before, after) in texts.items() if before != after]
    return changes, list(dict.fromkeys(kept))


_TABLE = f"[mcp_servers.{SERVER}]"
_PARAMETERS: tuple[list[str], ...] = ([], ["user"], ["project"], ["user", "project"])


def _is_managed(server: object, written: Mapping[str, Any], key_values: Mapping[str, Any]) -> bool:
    """Return whether a server is as `connect` writes it, at any address, with the values for a key or without them.

    The address ends in `/mcp`, and may name a user, a project or both.
    """
    if not isinstance(server, dict):
        return False
    url = server.get("url")
    plain = {name: value for name, value in written.items() if name not in key_values} | {"url": url}
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        named = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return False
    names = [name for name, value in named if value]
    is_mcp = parts.scheme in {"http", "https"} and bool(parts.netloc) and parts.path.endswith("/mcp")
    is_own_url = is_mcp and not parts.fragment and len(names) == len(named) and names in _PARAMETERS
    return is_own_url and server in (plain, {**plain, **key_values})


def _list_lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _split_at_table(text: str, server: object) -> tuple[str, str] | None:
    """Return what is before the table and what is behind, without its lines; None where it is written differently."""
    lines = text.splitlines(keepends=True)
    bare = [line.rstrip("\r\n") for line in lines]
    if not isinstance(server, dict) or _TABLE not in bare:
        return None
    # The last: one before may stand in a text of several lines.
    start = len(bare) - 1 - bare[::-1].index(_TABLE)
    end = next((at for at in range(start + 1, len(bare)) if bare[at].lstrip().startswith("[")), len(bare))
    own = _list_lines(server)
    if any(line not in bare[start:end] for line in own):
        return None
    inside = [line for line, name in zip(lines[start + 1 : end], bare[start + 1 : end], strict=True) if name not in own]
    return "".join(lines[:start]), "".join([*inside, *lines[end:]])


def _list_others(text: str) -> str:
    """Return the values of a TOML file without the server of KnowHub. Raises TOMLDecodeError."""
    values = tomllib.loads(text)
    servers = values.pop("mcp_servers", {})
    others = (
        {name: value for name, value in servers.items() if name != SERVER} if isinstance(servers, dict) else servers
    )
    # Not the values themselves: nan differs from nan.
    return repr((values, others))


def _refuse(path: Path, why: str) -> Conflict:
    return Conflict(f"{path}: {why}; repair or move the file, and try again. Nothing was changed")


def _read(path: Path) -> str:
    """Return the text of a file, a line break for an empty one, and nothing where there is none."""
    try:
        return path.read_bytes().decode() or "\n"
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise _refuse(path, "it is not UTF-8") from error
