"""Archives and files that are cut, hostile or of another version: they are refused, or left out by name."""

import hashlib
import io
import json
import os
import stat
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from knowhub.cli.importers import source as source_module
from knowhub.cli.importers.model import Conversation, Note
from knowhub.core.errors import InvalidInput, KnowHubError, TooLarge
from tests.unit.cli.importers.test_readers import FILES, list_turns, read_source

CONVERSATIONS = (FILES / "chatgpt/conversations.json").read_bytes()


def write_zip(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def symlink_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def test_an_archive_is_read_like_its_folder(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "export.zip", ("conversations.json", CONVERSATIONS), ("user.json", b"{}"), ("chat.html", b"")
    )

    items, left_out = read_source("chatgpt", path)

    assert list_turns(items) == list_turns(read_source("chatgpt", FILES / "chatgpt")[0])
    assert left_out["files *.html"] == left_out["file user.json"] == 1
    assert [name.name for name in tmp_path.iterdir()] == ["export.zip"]


@pytest.mark.parametrize(
    "entry",
    [
        "../conversations.json",
        "/etc/conversations.json",
        "a/../../b.json",
        "C:/b.json",
        "a\\..\\b.json",
        symlink_entry("b.json"),
    ],
)
def test_an_archive_with_paths_outside_is_refused(entry: str | zipfile.ZipInfo, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", ("conversations.json", CONVERSATIONS), (entry, b"/etc/passwd"))
    if isinstance(entry, str) and "\\" in entry:
        # The module writes slashes on its own.
        path.write_bytes(path.read_bytes().replace(b"a/../b.json", b"a\\..\\b.json"))

    with pytest.raises(InvalidInput, match="nothing was imported"):
        read_source("chatgpt", path)


def test_a_zip_bomb_is_refused_at_once(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "bomb.zip", ("conversations.json", b"[" + b" " * (200 * 1024 * 1024) + b"]"))
    started = time.process_time()

    with pytest.raises(TooLarge, match="nothing was imported"):
        read_source("chatgpt", path)
    assert time.process_time() - started < 1


def test_a_damaged_or_cut_archive_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", ("conversations.json", CONVERSATIONS))
    whole = path.read_bytes()
    for end in range(4, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(InvalidInput):
            read_source("chatgpt", path)
    at = len(whole) // 3
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    with pytest.raises(InvalidInput, match="cannot be unpacked"):
        read_source("chatgpt", path)


def test_an_export_cut_at_any_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    whole = CONVERSATIONS.rstrip()
    for end in range(1, len(whole), 61):
        path.write_bytes(whole[:end])
        with pytest.raises(InvalidInput, match="cut off"):
            read_source("chatgpt", path)


@pytest.mark.parametrize("end", [b"]]{", b"x", b" " * 2_000_000 + b"[]"])
@pytest.mark.parametrize("whole", [CONVERSATIONS, b'{"conversations": %b}' % CONVERSATIONS])
def test_an_export_that_goes_on_after_its_end_is_refused(whole: bytes, end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(whole + b" " * 2_000_000)
    assert len(read_source("chatgpt", path)[0]) == 1

    path.write_bytes(whole + end)
    with pytest.raises(InvalidInput, match=r"^conversations\.json goes on after the end of its JSON, .*nothing was"):
        read_source("chatgpt", path)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'[{"mapping":' + b'{"a":' * 100_000, b"\xff\xfe", b"", b"[1e999999,", b"nope"]
)
def test_hostile_json_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(text)

    with pytest.raises(InvalidInput):
        read_source("chatgpt", path)


def test_an_array_is_read_in_pieces_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = json.loads(CONVERSATIONS)[0]
    took = []
    for count in (500, 2_000):
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps([item | {"id": str(n), "conversation_id": str(n)} for n in range(count)]))
        rounds = []
        for _ in range(3):
            started = time.process_time()
            assert len(read_source("chatgpt", path)[0]) == count
            rounds.append(time.process_time() - started)
        took.append(min(rounds))
    assert took[1] < 8 * took[0]

    # Values larger than a piece, and pieces that end anywhere in a value.
    monkeypatch.setattr(source_module, "_CHUNK_CHARS", 7)
    assert list_turns(read_source("chatgpt", FILES / "chatgpt")[0]).keys() == {"chatgpt-6775-coffee"}


def test_lines_of_a_transcript_may_be_of_any_length_and_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 2_000)
    good = b'{"type":"user","uuid":"%s","sessionId":"s","message":{"role":"user","content":"%s"}}\n'
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        good % (b"a", b"one")
        + good % (b"b", b"x" * 5_000)
        + b'\0\xff{{\n{"a":"\\ud800"}\n'
        + b"[" * 1_500
        + b"\n"
        + good % (b"c", b"two \\ud83d")
    )

    items, left_out = read_source("claude-code", path)

    assert list_turns(items) == {"s": [("user", "one"), ("user", "two ?")]}
    assert left_out["lines of over 64 MiB"] == 1
    assert left_out["lines that are no JSON objects, or cut off"] == 2


def test_links_hidden_folders_and_special_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    vault = tmp_path / "vault"
    (vault / ".git").mkdir(parents=True)
    (vault / ".git/a.md").write_text("hidden")
    (vault / "a.md").write_text("seen")
    (vault / "b.md").symlink_to(secret)
    (vault / "c").symlink_to(tmp_path)
    os.mkfifo(vault / "d.md")

    items, left_out = read_source("markdown", vault)

    assert [item.text for item in items if isinstance(item, Note)] == ["seen"]
    assert left_out == {"symbolic links and special files": 3}


def test_a_header_cannot_grow_or_make_objects(tmp_path: Path) -> None:
    merges = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 60))
    (tmp_path / "a.md").write_text(f"---\na0: &a0 {{k: v}}\n{merges}---\nbomb\n")
    (tmp_path / "b.md").write_text("---\ntitle: !!python/object/apply:os.system [true]\n---\nobject\n")
    (tmp_path / "c.md").write_text("---\ntitle: " + "[" * 5_000 + "\n---\ndeep\n")
    started = time.process_time()

    items, _ = read_source("markdown", tmp_path)

    assert [item.text.split("\n")[-1] for item in items if isinstance(item, Note)] == ["object", "deep"]
    assert time.process_time() - started < 3


def test_a_note_with_aliases_or_anchors_is_left_out_by_name(tmp_path: Path) -> None:
    aliases = "".join(f"k{n}: &a{n} [{','.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 10))
    (tmp_path / "bomb.md").write_text(f"---\na: &a0 [x,x,x,x,x,x,x,x]\n{aliases}title: *a9\n---\nbomb\n")
    (tmp_path / "anchor.md").write_text("---\ntitle: &one One\n---\nanchor\n")
    (tmp_path / "plain.md").write_text("---\ntitle: R&D * 2\ntags: ['*a', \"&b\"]\n---\nplain\n")

    items, left_out = read_source("markdown", tmp_path)

    assert [(item.title, item.tags["tag"]) for item in items if isinstance(item, Note)] == [("R&D * 2", ["*a", "&b"])]
    assert [name.partition(":")[0] for name in left_out] == [
        f"note {name}.md, whose header has YAML anchors or aliases" for name in ("anchor", "bomb")
    ]


def test_spaces_of_any_number_take_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(b" " + CONVERSATIONS.rstrip()[:-1] + b" " * 20_000_000 + b"]")
    started = time.process_time()

    assert list_turns(read_source("chatgpt", path)[0]).keys() == {"chatgpt-6775-coffee"}
    assert time.process_time() - started < 2


# Packs of OpenViking.

NOTE = (
    b"# Tabs\n\nThe user prefers tabs.\n\n<!-- MEMORY_FIELDS\n"
    b'{"memory_type": "preferences", "created_at": "2026-04-01T08:00:00Z"}\n-->\n'
)
SESSION = (
    b'{"id":"msg_1","role":"user","parts":[{"type":"text","text":"I prefer tabs."},{"type":"context","uri":"x"}],'
    b'"created_at":"2026-04-01T07:59:00Z"}\n{"id":"msg_2","role":"assistant","parts":[{"type":"tool"}]}\n'
)


def make_pack(path: Path, *, old: bool = False, **changes: Any) -> Path:  # noqa: ANN401 -- fields of the manifest
    texts = {
        "memories/preferences/tabs.md": NOTE,
        "memories/preferences/.abstract.md": b"tabs",
        "sessions/s-1/messages.jsonl": SESSION,
    }
    entries = [
        {"path": name, "kind": "file", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in texts.items()
    ]
    manifest = {
        "kind": "openviking.ovpack",
        "format_version": 2,
        "root": {"name": "li", "uri": "viking://user/li", "scope": "user"},
        "entries": [{"path": "", "kind": "directory"}, *entries],
        **changes,
    }
    named = json.dumps(manifest).encode()
    if old:
        files = [(f"li/{name.replace('/.', '/_._')}", data) for name, data in texts.items()]
        return write_zip(path, *files, ("li/_._ovpack_manifest.json", named), ("li/_._ovpack/index_records.jsonl", b""))
    files = [(f"li/files/{name}", data) for name, data in texts.items()]
    return write_zip(path, *files, ("li/_ovpack/manifest.json", named), ("li/_ovpack/index_records.jsonl", b""))


@pytest.mark.parametrize("old", [False, True])
def test_a_pack_of_openviking_has_notes_and_sessions(old: bool, tmp_path: Path) -> None:
    items, left_out = read_source("openviking", make_pack(tmp_path / "li.ovpack", old=old))

    note = next(item for item in items if isinstance(item, Note))
    assert (note.key, note.title, note.text, note.type, note.created_at) == (
        "viking://user/li/memories/preferences/tabs.md",
        "Tabs",
        "# Tabs\n\nThe user prefers tabs.",
        "user_profile",
        "2026-04-01T08:00:00Z",
    )
    session = next(item for item in items if isinstance(item, Conversation))
    assert (session.session_id, list_turns(items)[session.session_id]) == (
        "openviking-s-1",
        [("user", "I prefer tabs.")],
    )
    assert session.messages[0].timestamp == "2026-04-01T07:59:00Z"
    assert left_out == {"summaries and other files that OpenViking derived": 1, "messages without text": 1}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format_version": 999}, "version 999; version 2 of 'openviking.ovpack' can be read"),
        ({"kind": "other"}, "of the kind 'other'"),
        ({"entries": [{"path": "memories/lost.md", "kind": "file"}]}, "lacks memories/lost.md"),
        ({"entries": [{"path": "memories/preferences/tabs.md", "kind": "file", "sha256": "0" * 64}]}, "is not as"),
    ],
)
def test_a_pack_that_differs_from_its_manifest_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(KnowHubError, match=why):
        read_source("openviking", make_pack(tmp_path / "li.ovpack", **changes))


def test_a_pack_without_a_folder_or_with_another_name_for_its_version_is_named_too(tmp_path: Path) -> None:
    for name in ("_ovpack/manifest.json", "li/_ovpack/manifest.json"):
        path = write_zip(tmp_path / "li.ovpack", (name, b'{"kind": "openviking.ovpack", "version": 999}'))
        with pytest.raises(InvalidInput, match="version 999; version 2"):
            read_source("openviking", path)


def test_an_archive_without_a_manifest_is_not_a_pack(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/b.md", "text")
    (tmp_path / "a.ovpack").write_bytes(buffer.getvalue())

    with pytest.raises(InvalidInput, match="no manifest"):
        read_source("openviking", tmp_path / "a.ovpack")
