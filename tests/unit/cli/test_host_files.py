"""How `knowhub connect` edits files: it adds its entries, keeps foreign ones, and removes exactly its own."""

import json
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.cli.hosts import jsonc
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
    write_changes(host, place, is_removal=False)


def disconnect(host: str, place: Connection) -> list[str]:
    """Remove the connection, and return what stays."""
    return write_changes(host, place, is_removal=True)


def write_changes(host: str, place: Connection, *, is_removal: bool) -> list[str]:
    changes, kept = plan_changes(list_edits(host, place, has_hooks=True, has_mcp=True), is_removal=is_removal)
    for change in changes:
        change.write()
    return kept


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
    after = jsonc.add(before, path, value)

    assert jsonc.find_value(after, path) == value
    for key in document.keys() - {path[0]}:
        assert json.loads(after)[key] == document[key]
    assert jsonc.remove(after, path) == before


@given(st.lists(VALUES, max_size=3), VALUES, INDENTS)
def test_removal_restores_a_list_to_its_text_before_the_addition(
    items: list[object], value: object, indent: int | str | None
) -> None:
    before = json.dumps({"a": items, "b": 1}, indent=indent)
    after = jsonc.add(before, ("a", len(items)), value)

    assert json.loads(after) == {"a": [*items, value], "b": 1}
    assert jsonc.remove(after, ("a", len(items))) == before


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


@pytest.mark.parametrize(
    ("host", "name", "own"),
    [
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"knowhub": {"command": "knowhub", "args": ["mcp"]}}}'),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"knowhub": {"url": "https://h/mcp", "type": "http"}}}'),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"knowhub": {"url": "https://h/mcp?user=li&key=1"}}}'),
        (
            "claude",
            ".claude.json",
            '{"mcpServers":{"knowhub":{"type":"http","url":"https://h/mcp","headers":{"X":"mine"}}}}',
        ),
        ("claude", ".claude.json", '{"mcpServers":{"knowhub":null}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.knowhub]\ncommand = "/opt/mcp-knowhub"\n'),
        ("codex", ".codex/config.toml", '[mcp_servers.knowhub]\nurl = "https://h/mcp"\nstartup_timeout_sec = 9\n'),
        ("codex", ".codex/config.toml", '[mcp_servers]\nknowhub = { url = "https://h/mcp" }\n'),
        ("codex", ".codex/config.toml", '[mcp_servers."knowhub"]\nurl = "https://h/mcp"\n'),
        ("codex", ".codex/config.toml", '[ mcp_servers.knowhub ]\nurl = "https://h/mcp"\n'),
        ("codex", ".codex/config.toml", '  [mcp_servers.knowhub]\n  url = "https://h/mcp"\n'),
        ("codex", ".codex/config.toml", 'mcp_servers.knowhub.url = "https://h/mcp"\n'),
        ("codex", ".codex/config.toml", 'mcp_servers = { knowhub = { url = "https://h/mcp" } }\n'),
        ("codex", ".codex/config.toml", '[mcp_servers.knowhub]\nurl = "https://h/mcp"\n[mcp_servers.knowhub.env]\n'),
    ],
)
def test_a_foreign_server_of_the_same_name_is_kept(host: str, name: str, own: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(own, "utf-8")
    place = Connection(tmp_path, ids=LI)
    with pytest.raises(Conflict, match="another server has the name knowhub"):
        connect(host, place)
    assert read_files(tmp_path) == {name: own.encode()}

    [foreign] = disconnect(host, place)
    assert read_files(tmp_path) == {name: own.encode()}
    assert foreign.startswith(f"{path}: mcp")


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (
            'mcp_servers = { other = { command = "x" } }\n',
            'add knowhub = { url = "http://127.0.0.1:8000/mcp" } to mcp_',
        ),
        ("mcp_servers = 3\n", "add knowhub"),
        ("mcp_servers = [\n", "it is not TOML: .*; repair"),
        ('text = """\n[mcp_servers.knowhub]\n', "it is not TOML"),
    ],
)
def test_toml_that_takes_no_table_is_refused_and_nothing_is_written(before: str, why: str, tmp_path: Path) -> None:
    assert_refused("codex", ".codex/config.toml", before, why, tmp_path)


def assert_refused(host: str, name: str, text: str, why: str, home: Path) -> None:
    """Connect a host with such a file: it is refused, and nothing is written."""
    path = home / name
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    with pytest.raises(Conflict, match=why):
        connect(host, Connection(home))
    assert read_files(home) == {name: text.encode()}


@pytest.mark.parametrize(
    "before",
    [
        "[mcp_servers]\n",
        'mcp_servers.other.command = "x"\n',
        'text = """\n[mcp_servers.knowhub]\nurl = "https://h/mcp"\n"""\nlimit = nan\n',
        '[mcp_servers]\nother = { command = "x" }\n',
    ],
)
def test_a_table_is_added_to_toml_of_any_other_layout(before: str, tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(before, "utf-8")
    connect("codex", Connection(tmp_path))
    servers = tomllib.loads(path.read_text("utf-8"))["mcp_servers"]
    assert servers["knowhub"] == {"url": "http://127.0.0.1:8000/mcp"}
    disconnect("codex", Connection(tmp_path))
    assert path.read_text("utf-8") == before


def test_comments_and_tables_around_the_table_stay(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "config.toml"
    connect("codex", Connection(tmp_path, ids=LI, has_key=True))
    heading, url, key = path.read_text("utf-8").splitlines(keepends=True)
    later = '# mine\n\n# of another\n  [mcp_servers.other]\n  url = "https://o/mcp"\n'
    path.write_text(f"# first\n{heading}# inside\n{url}{key}{later}", "utf-8")

    connect("codex", Connection(tmp_path, ids={"user": "eve"}))
    url = 'url = "http://127.0.0.1:8000/mcp?user=eve"\n'
    assert path.read_text("utf-8") == f"# first\n{heading}{url}# inside\n{later}"
    disconnect("codex", Connection(tmp_path))
    assert path.read_text("utf-8") == f"# first\n# inside\n{later}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('// mine\n{"s": {"k": 1}}\n', '// mine\n{"s": {}}\n'),
        ('// mine\n{\n  "k": 1\n}\n', "// mine\n{}\n"),
        ('{\n  // mine\n  "k": 1,\n}', "{\n  // mine\n  \n}"),
        ('{\n  "k": 1,\n  // b\n  "b": 2\n}', '{\n  // b\n  "b": 2\n}'),
        ('{\n  "b": 2, // b\n  "k": 1\n}', '{\n  "b": 2 // b\n  \n}'),
    ],
)
def test_removal_from_json_keeps_comments(before: str, after: str) -> None:
    assert jsonc.remove(before, ("s", "k") if '"s"' in before else ("k",)) == after


@pytest.mark.parametrize("name", [".claude.json", ".claude/settings.json", ".codex/config.toml", ".codex/hooks.json"])
def test_an_empty_file_and_its_folder_are_there_after_disconnecting(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    host = "codex" if "codex" in name else "claude"
    connect(host, Connection(tmp_path))
    disconnect(host, Connection(tmp_path))
    assert list(read_files(tmp_path)) == [name]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"hooks": ', "it is not JSON in line 1"),
        ("[]", "its content must be a JSON object"),
        ("7", "its content must be a JSON object"),
        ('"\n"', "its content must be a JSON object"),
        ('{"hooks": []}', "hooks must be a JSON object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop must be a list"),
        *(
            (text, "it is not JSON in line 1")
            for text in ("\x00", "{", '{"a" 1}', '{"a":1} x', "nope nope", '{"a":', "[1,,2]")
        ),
        ("[" * 200, "it is nested too deeply"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_nothing_is_written(text: str, why: str, tmp_path: Path) -> None:
    why = f"settings.json: {why}; repair or move the file"
    assert_refused("claude", ".claude/settings.json", text, why, tmp_path)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_disconnected_host_leaves_no_file_and_the_folder(host: str, tmp_path: Path) -> None:
    place = Connection(tmp_path, ids=LI, folder=tmp_path if host == "vscode" else None)
    folder = tmp_path / f".{host}"
    folder.mkdir()
    connect(host, place)
    written = read_files(tmp_path)
    connect(host, place)
    assert (read_files(tmp_path), len(written) > 0) == (written, True)
    disconnect(host, place)
    assert list(tmp_path.rglob("*")) == [folder]


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
