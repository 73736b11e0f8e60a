"""Where a host finds KnowHub, and who calls: the addresses and commands that its files name."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

PLUGIN: Final = Path(__file__).with_name("claude_plugin")
"""The folder of the plugin for Claude Code."""
DEFAULT_URL: Final = "http://127.0.0.1:8000"
KEY_VARIABLE: Final = "KNOWHUB_API_KEY"
_HTTP_SECONDS: Final = 1
# The program ends by itself before.
_COMMAND_SECONDS: Final = 3
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


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

    def make_command(self, host: str, event: str, *, is_capture: bool) -> str:
        """Return a command line that sends what the host gives it on stdin."""
        words = [
            sys.executable,
            "-I",
            "-S",
            str(PLUGIN / "hooks" / "hook.py"),
            self._make_url(f"/api/hooks/{host}/{event}"),
        ]
        if is_capture and not self.reads_files:
            words.append("--send-transcript")
        if self.has_key:
            words.append("--with-key")
        return shlex.join(words)

    def make_command_hook(self, host: str, event: str, *, is_capture: bool) -> dict[str, Any]:
        """Return a hook that the host runs as a command."""
        command = self.make_command(host, event, is_capture=is_capture)
        return {"type": "command", "command": command, "timeout": _COMMAND_SECONDS}

    def make_server(self, variable: str) -> dict[str, Any]:
        """Return an MCP server, whose key is `variable` in the files of the host."""
        server: dict[str, Any] = {"url": self.mcp_url}
        return {**server, "headers": {"Authorization": f"Bearer {variable}"}} if self.has_key else server

    def _make_url(self, path: str) -> str:
        query = urlencode(self.ids)
        return f"{self.url.rstrip('/')}{path}{f'?{query}' if query else ''}"
