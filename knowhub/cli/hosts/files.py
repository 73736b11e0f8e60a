"""The files of each host, and what KnowHub adds to them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from knowhub.cli.hosts.connection import KEY_VARIABLE, Connection
from knowhub.cli.hosts.edits import SERVER, FileEdit, Hooks, McpServer, TomlTable

_SHOWS: Final = ("SessionStart", "UserPromptSubmit")
_CAPTURES: Final = ("PreCompact", "Stop", "SessionEnd")
_CURSOR_EVENTS: Final = ("sessionStart", "preCompact", "stop", "sessionEnd")
_CURSOR_FILE: Final = '{\n  "version": 1\n}\n'


def make_claude_hooks(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the hooks of Claude Code by event.

    HTTP costs no process. A start takes commands only, and of an end that fails by HTTP the user is warned.
    """
    hooks = {}
    for event in (*_SHOWS, *_CAPTURES):
        is_capture = event in _CAPTURES
        is_http = event not in {"SessionStart", "SessionEnd"} and (connection.reads_files or not is_capture)
        hooks[event] = (
            connection.make_http_hook("claude", event)
            if is_http
            else connection.make_command_hook("claude", event, is_capture=is_capture)
        )
    return hooks


def list_claude_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Claude Code. A project's are those of one person, which git ignores."""
    state = (connection.config or connection.home) / ".claude.json"
    settings = (connection.config or connection.home / ".claude") / "settings.json"
    keys: tuple[str, ...] = ("mcpServers", SERVER)
    if connection.folder is not None:
        settings = connection.folder / ".claude" / "settings.local.json"
        keys = ("projects", str(connection.folder), *keys)
    server = {"type": "http", **connection.make_server(f"${{{KEY_VARIABLE}}}")}
    return Hooks(settings, make_claude_hooks(connection), "/api/hooks/claude/"), McpServer(state, keys, server)


def list_codex_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Codex."""
    folder = connection.config or connection.home / ".codex"
    if connection.folder is not None:
        folder = connection.folder / ".codex"
    hooks = {
        event: connection.make_command_hook("codex", event, is_capture=event in _CAPTURES)
        for event in (*_SHOWS, *_CAPTURES)
    }
    values = {"url": connection.mcp_url}
    if connection.has_key:
        values["bearer_token_env_var"] = KEY_VARIABLE
    return Hooks(folder / "hooks.json", hooks, "/api/hooks/codex/"), TomlTable(folder / "config.toml", values)


def list_cursor_edits(connection: Connection) -> tuple[FileEdit, FileEdit]:
    """Return the hooks and the MCP server of Cursor."""
    folder = (connection.folder or connection.home) / ".cursor"
    hooks = {
        event: {"command": connection.make_command("cursor", event, is_capture=event != "sessionStart")}
        for event in _CURSOR_EVENTS
    }
    server = connection.make_server(f"${{env:{KEY_VARIABLE}}}")
    return (
        Hooks(folder / "hooks.json", hooks, "/api/hooks/cursor/", is_grouped=False, begin=_CURSOR_FILE),
        McpServer(folder / "mcp.json", ("mcpServers", SERVER), server),
    )


def list_vscode_edits(connection: Connection) -> tuple[None, FileEdit]:
    """Return the MCP server of VS Code, which has no hooks that KnowHub answers."""
    server = {"type": "http", **connection.make_server(f"${{env:{KEY_VARIABLE}}}")}
    path = (connection.folder or Path.cwd()) / ".vscode" / "mcp.json"
    return None, McpServer(path, ("servers", SERVER), server)


HOSTS: Final[Mapping[str, Callable[[Connection], tuple[FileEdit | None, FileEdit]]]] = {
    "claude": list_claude_edits,
    "codex": list_codex_edits,
    "cursor": list_cursor_edits,
    "vscode": list_vscode_edits,
}


def list_edits(host: str, connection: Connection, *, has_hooks: bool, has_mcp: bool) -> Sequence[FileEdit]:
    """Return what is to be added to the files of a host."""
    hooks, server = HOSTS[host](connection)
    return [edit for edit, wanted in ((hooks, has_hooks), (server, has_mcp)) if edit is not None and wanted]
