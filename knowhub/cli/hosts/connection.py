"""The files of each host, and what KnowHub adds to them: where the host finds KnowHub, and who calls."""

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import typer

from knowhub.cli.hosts.edits import SERVER, FileEdit, Hooks, McpServer, TomlTable

PLUGIN: Final = Path(__file__).with_name("claude_plugin")
"""The folder of the plugin for Claude Code."""
DEFAULT_URL: Final = "http://127.0.0.1:8000"
_URL: Final = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
KEY_VARIABLE: Final = "KNOWHUB_API_KEY"
_ENV_KEY: Final = f"${{env:{KEY_VARIABLE}}}"
_HTTP_SECONDS: Final = 1
# The program ends by itself before.
_COMMAND_SECONDS: Final = 3
_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
_CURSOR_EVENTS: Final = ("sessionStart", "preCompact", "stop", "sessionEnd")
# At the others, what was said is captured.
_SHOWING_EVENTS: Final = frozenset({"SessionStart", "UserPromptSubmit", "sessionStart"})
_CURSOR_FILE: Final = '{\n  "version": 1\n}\n'
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def check_url(url: str) -> None:
    """Raise BadParameter for what is no address of a KnowHub."""
    try:
        address = urlsplit(url)
        is_usable = bool(_URL.fullmatch(url)) and address.port != 0 and address.username is None
    except ValueError:
        is_usable = False
    if not is_usable:
        raise typer.BadParameter(f"--url must be an address such as {DEFAULT_URL}, without a user or without a query")


@dataclass(frozen=True, slots=True)
class Connection:
    """A host and a KnowHub. `ids` name the caller by short names, such as `user`.

    `home` is the home directory, `folder` that of a project or None, `config` the host's folder of files where that is
    not the usual one. With `has_key`, requests carry the key of KEY_VARIABLE.
    """

    home: Path
    url: str = DEFAULT_URL
    ids: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    config: Path | None = None
    has_key: bool = False

    @property
    def mcp_url(self) -> str:
        """Return the address of MCP."""
        return self._make_url("/mcp")

    @property
    def reads_files(self) -> bool:
        """Return whether the server can read the transcripts of the host by itself."""
        return urlsplit(self.url).hostname in _LOCAL and not self.has_key and self.config is None

    def make_http_hook(self, host: str, event: str) -> dict[str, Any]:
        """Return a hook that the host sends by itself."""
        hook: dict[str, Any] = {"type": "http", "url": self._make_url(f"/api/hooks/{host}/{event}")}
        if self.has_key:
            hook["headers"] = {"Authorization": f"Bearer ${KEY_VARIABLE}"}
            hook["allowedEnvVars"] = [KEY_VARIABLE]
        return {**hook, "timeout": _HTTP_SECONDS}

    def make_command(self, host: str, event: str) -> str:
        """Return a command line that sends what the host gives it on stdin."""
        words = [
            sys.executable,
            "-I",
            "-S",
            str(PLUGIN / "hooks" / "hook.py"),
            self._make_url(f"/api/hooks/{host}/{event}"),
        ]
        if event not in _SHOWING_EVENTS and not self.reads_files:
            words.append("--send-transcript")
        if self.has_key:
            words.append("--with-key")
        return shlex.join(words)

    def make_command_hook(self, host: str, event: str) -> dict[str, Any]:
        """Return a hook that the host runs as a command."""
        return {"type": "command", "command": self.make_command(host, event), "timeout": _COMMAND_SECONDS}

    def make_server_edit(self, path: Path, keys: Sequence[str], variable: str, **more: str) -> McpServer:
        """Return the MCP server for a JSON file, in which `variable` is the key."""
        key_values = {"headers": {"Authorization": f"Bearer {variable}"}}
        return McpServer(path, keys, {**more, "url": self.mcp_url, **(key_values if self.has_key else {})}, key_values)

    def _make_url(self, path: str) -> str:
        query = urlencode(self.ids)
        return f"{self.url.rstrip('/')}{path}{f'?{query}' if query else ''}"


def make_claude_hooks(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the hooks of Claude Code by event.

    HTTP costs no process. A start takes commands only, and of an end that fails by HTTP the user is warned.
    """
    by_http = {"UserPromptSubmit", *(("PreCompact", "Stop") if connection.reads_files else ())}
    return {
        event: connection.make_http_hook("claude", event)
        if event in by_http
        else connection.make_command_hook("claude", event)
        for event in _EVENTS
    }


def list_claude_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Claude Code. A project's are those of one person, which git ignores."""
    state = (connection.config or connection.home) / ".claude.json"
    settings = (connection.config or connection.home / ".claude") / "settings.json"
    keys: tuple[str, ...] = ("mcpServers", SERVER)
    if connection.folder is not None:
        settings = connection.folder / ".claude" / "settings.local.json"
        keys = ("projects", str(connection.folder), *keys)
    return (
        Hooks(settings, make_claude_hooks(connection), "/api/hooks/claude/"),
        connection.make_server_edit(state, keys, f"${{{KEY_VARIABLE}}}", type="http"),
    )


def list_codex_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Codex."""
    folder = connection.config or connection.home / ".codex"
    if connection.folder is not None:
        folder = connection.folder / ".codex"
    hooks = {event: connection.make_command_hook("codex", event) for event in _EVENTS}
    key_values = {"bearer_token_env_var": KEY_VARIABLE}
    values = {"url": connection.mcp_url, **(key_values if connection.has_key else {})}
    return (
        Hooks(folder / "hooks.json", hooks, "/api/hooks/codex/"),
        TomlTable(folder / "config.toml", values, key_values),
    )


def list_cursor_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Cursor."""
    folder = (connection.folder or connection.home) / ".cursor"
    hooks = {event: {"command": connection.make_command("cursor", event)} for event in _CURSOR_EVENTS}
    return (
        Hooks(folder / "hooks.json", hooks, "/api/hooks/cursor/", is_grouped=False, begin=_CURSOR_FILE),
        connection.make_server_edit(folder / "mcp.json", ("mcpServers", SERVER), _ENV_KEY),
    )


def list_vscode_edits(connection: Connection) -> tuple[None, FileEdit]:
    """Return the MCP server of VS Code, which has no hooks that KnowHub answers."""
    path = (connection.folder or Path.cwd()) / ".vscode" / "mcp.json"
    return None, connection.make_server_edit(path, ("servers", SERVER), _ENV_KEY, type="http")


class Host(NamedTuple):
    """How a host is connected: its edits, the variable that names its folder of files, and what its user does next."""

    list_edits: Callable[[Connection], tuple[FileEdit | None, FileEdit]]
    config_variable: str | None
    next_step: str


HOSTS: Final[Mapping[str, Host]] = {
    "claude": Host(list_claude_edits, "CLAUDE_CONFIG_DIR", "Claude Code uses it from the next session on."),
    "codex": Host(
        list_codex_edits, "CODEX_HOME", "Codex runs these hooks once you trust them: open Codex and enter /hooks."
    ),
    "cursor": Host(list_cursor_edits, None, "Cursor uses it from the next session on."),
    "vscode": Host(list_vscode_edits, None, "VS Code asks whether to start the server."),
}


def list_edits(host: str, connection: Connection, *, has_hooks: bool, has_mcp: bool) -> Sequence[FileEdit]:
    """Return what is to be added to the files of a host."""
    hooks, server = HOSTS[host].list_edits(connection)
    return [edit for edit, wanted in ((hooks, has_hooks), (server, has_mcp)) if edit is not None and wanted]
