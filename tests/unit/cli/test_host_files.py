"""How `knowhub connect` edits files: it adds its entries, keeps foreign ones, and removes exactly its own."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.cli.hosts import json_text
from knowhub.cli.hosts.connection import HOSTS, PLUGIN, Connection, list_edits
from knowhub.cli.hosts.edits import plan_changes
from knowhub.core.errors import Conflict

LI = {"user": "li"}
KEYS = st.text("ab", min_size=1, max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\\n{[,:/ü', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])
OTHERS = """{
\t"model": "opus", // mine
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": [{"type": "command", "command": "say done"}]}
\t\t],
\t\t"Notification": []
\t},
\t"mcpServers": {"github": {"command": "gh-mcp"}},
}
"""


def connect(host: str, place: Connection) -> None:
    for change in plan_changes(list_edits(host, place, has_hooks=True, has_mcp=True), is_removal=False):
        change.write()


def disconnect(host: str, place: Connection) -> None:
    for change in plan_changes(list_edits(host, place, has_hooks=True, has_mcp=True), is_removal=True):
        change.write()


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(KEYS, min_size=1, max_size=3), VALUES, INDENTS)
def test_removal_restores_json_to_its_text_before_the_addition(
    document: dict[str, Any], path: list[str], value: object, indent: int | str | None
) -> None:
    before = json.dumps(document, indent=indent)
    at: Any = document
    for key in path[:-1]:
        at = at.get(key, {}) if isinstance(at, dict) else None
    if not isinstance(at, dict) or path[-1] in at:
        return
    after = json_text.add(before, path, value)

    assert json_text.find_value(after, path) == value
    for key in document.keys() - {path[0]}:
        assert json.loads(after)[key] == document[key]
    assert json_text.remove(after, path) == before


@given(st.lists(VALUES, max_size=3), VALUES, INDENTS)
def test_removal_restores_a_list_to_its_text_before_the_addition(
    items: list[object], value: object, indent: int | str | None
) -> None:
    before = json.dumps({"a": items, "b": 1}, indent=indent)
    after = json_text.add(before, ("a", len(items)), value)

    assert json.loads(after) == {"a": [*items, value], "b": 1}
    assert json_text.remove(after, ("a", len(items))) == before


@pytest.mark.parametrize("text", ["{", '{"a" 1}', '{"a":1} x', "[1,,2]", "nope nope", '{"a":', "[" * 200, '"\n"'])
def test_malformed_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(json_text.MalformedJson):
        json_text.add(text, ("b",), 1)


@pytest.mark.parametrize(
    ("host", "name", "before"),
    [
        ("claude", ".claude/settings.json", OTHERS),
        ("claude", ".claude/settings.json", OTHERS.replace("\n", "\r\n")),
        ("claude", ".claude/settings.json", "{}"),
        ("claude", ".claude/settings.json", '{\n  "hooks": {}\n}'),
        ("claude", ".claude.json", '{"numStartups":3,"projects":{"/home/li":{"mcpServers":{}}}}'),
        ("claude", ".claude.json", '{"mcpServers":{ }}\n'),
        ("codex", ".codex/hooks.json", '{"hooks":{"Stop":[]}}'),
        ("codex", ".codex/config.toml", 'model = "gpt-5"\n\n[mcp_servers.github]\ncommand = "gh-mcp"\n'),
        ("codex", ".codex/config.toml", 'model = "gpt-5"'),
        ("cursor", ".cursor/hooks.json", '{"version": 1, "hooks": {"stop": [{"command": "say done"}]}}\n'),
        ("cursor", ".cursor/hooks.json", '{"version": 1}'),
        ("cursor", ".cursor/mcp.json", OTHERS),
    ],
)
def test_connecting_leaves_other_settings_byte_for_byte(host: str, name: str, before: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before.encode())
    connect(host, Connection(tmp_path, ids=LI))
    after = path.read_bytes().decode()
    rest = iter(after)
    assert after != before
    assert all(char in rest for char in before)

    disconnect(host, Connection(tmp_path))
    assert path.read_bytes() == before.encode()


def test_connecting_as_another_user_replaces_the_connection(tmp_path: Path) -> None:
    for host in ("claude", "codex", "cursor"):
        connect(host, Connection(tmp_path, ids=LI))
        connect(host, Connection(tmp_path, "https://hub.example", {"user": "eve"}, has_key=True))
    texts = b"\n".join(read_files(tmp_path).values()).decode()

    assert "user=li" not in texts
    assert texts.count("user=eve") == 5 + 1 + 5 + 1 + 4 + 1
    assert texts.count("--send-transcript --with-key") == 3 + 3 + 3
    assert "Bearer ${env:KNOWHUB_API_KEY}" in texts


@pytest.mark.parametrize("indent", [None, 2])
def test_disconnecting_keeps_later_changes_of_the_user(indent: int | None, tmp_path: Path) -> None:
    connect("claude", Connection(tmp_path, ids=LI))
    path = tmp_path / ".claude" / "settings.json"
    document = json.loads(path.read_text("utf-8"))
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "say done"}]})
    document["model"] = "opus"
    path.write_text(json.dumps(document, indent=indent), "utf-8")
    disconnect("claude", Connection(tmp_path))

    left = json.loads(path.read_text("utf-8"))
    assert left["model"] == "opus"
    assert {event: groups for event, groups in left["hooks"].items() if groups} == {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
    }


def test_a_foreign_server_of_the_same_name_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    own = '{"mcpServers": {"knowhub": {"command": "knowhub", "args": ["mcp"]}}}'
    path.write_text(own, "utf-8")
    for change in (connect, disconnect):
        change("cursor", Connection(tmp_path, ids=LI))
        assert path.read_text("utf-8") == own


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"hooks": ', "it is not JSON in line 1"),
        ("[]", "its content must be a JSON object"),
        ("7", "its content must be a JSON object"),
        ('{"hooks": []}', "hooks must be a JSON object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop must be a list"),
        ("\x00", "it is not JSON in line 1"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_nothing_is_written(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text, "utf-8")

    with pytest.raises(Conflict, match=f"settings.json: {why}; repair or move the file"):
        connect("claude", Connection(tmp_path))
    assert read_files(tmp_path) == {".claude/settings.json": text.encode()}


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_disconnected_host_leaves_no_folder_that_only_held_its_files(host: str, tmp_path: Path) -> None:
    place = Connection(tmp_path, ids=LI, folder=tmp_path if host == "vscode" else None)
    connect(host, place)
    written = read_files(tmp_path)
    connect(host, place)
    assert (read_files(tmp_path), len(written) > 0) == (written, True)
    disconnect(host, place)
    assert list(tmp_path.iterdir()) == []

    connect(host, place)
    folder = tmp_path / f".{host}"
    (folder / "notes").mkdir()
    disconnect(host, place)
    assert list(tmp_path.rglob("*")) == [folder, folder / "notes"]


def test_connecting_keeps_symlinks_and_file_modes(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text('{"a": 1}', "utf-8")
    real.chmod(0o640)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").symlink_to(real)
    connect("claude", Connection(tmp_path, ids=LI))

    assert (tmp_path / ".claude" / "settings.json").is_symlink()
    assert (real.stat().st_mode & 0o777, "/api/hooks/claude/" in real.read_text("utf-8")) == (0o640, True)


def test_a_connection_of_a_project_is_in_the_folder_of_the_project(tmp_path: Path) -> None:
    place = Connection(tmp_path / "home", ids={"user": "li", "project": "atlas"}, folder=tmp_path / "atlas")
    for host in HOSTS:
        connect(host, place)

    state = json.loads((tmp_path / "home" / ".claude.json").read_text("utf-8"))
    assert list(read_files(tmp_path / "home")) == [".claude.json"]
    assert list(state["projects"]) == [str(tmp_path / "atlas")]
    assert sorted(read_files(tmp_path / "atlas")) == [
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".codex/hooks.json",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
        ".vscode/mcp.json",
    ]


def test_the_plugin_has_the_hooks_and_the_server_that_connect_writes(tmp_path: Path) -> None:
    connect("claude", Connection(tmp_path))
    written = json.loads((tmp_path / ".claude" / "settings.json").read_text("utf-8"))["hooks"]
    server = json.loads((tmp_path / ".claude.json").read_text("utf-8"))
    shipped = json.loads((PLUGIN / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
    program = '"${CLAUDE_PLUGIN_ROOT}/hooks/hook.py"'
    for event in ("SessionStart", "SessionEnd"):
        [theirs], [ours] = (hooks.pop(event) for hooks in (shipped, written))
        address = ours["hooks"][0]["command"].split()[-1]
        assert theirs["hooks"][0]["command"].split() == ["python3", program, address]

    assert (shipped, json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))) == (written, server)
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    assert (manifest["name"], manifest["version"]) == ("knowhub", version("knowhub"))
