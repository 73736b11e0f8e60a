"""What each importer reads from real file formats: texts, times, ids, and the parts that it leaves out."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowhub.cli.importers.formats import ImportFormat
from knowhub.cli.importers.model import Conversation, Item, Note
from knowhub.cli.importers.run import READERS
from knowhub.cli.importers.source import ImportSource
from knowhub.core.errors import InvalidInput

FILES = Path(__file__).parents[3] / "data/imports"
STORY = "5b0c1a52-0f4e-4c1c-9a55-2f6f0f1c7d10"
Read = tuple[list[Item], dict[str, int]]


def read_source(form: str, path: Path) -> Read:
    # A checkout makes all files at about the same time.
    os.utime(FILES / f"projects/-home-li-atlas/{STORY}.jsonl", (1_762_160_000, 1_762_160_000))
    source = ImportSource(path, lambda _read, _total: None)
    items = list(READERS[ImportFormat(form)](source))
    return items, {name: count for name, count in source.left_out.items() if count}


def list_turns(items: list[Item]) -> dict[str, list[tuple[str, str]]]:
    return {
        item.session_id: [(message.role, message.content) for message in item.messages]
        for item in items
        if isinstance(item, Conversation)
    }


def list_notes(items: list[Item]) -> list[Note]:
    return [item for item in items if isinstance(item, Note)]


def test_a_claude_code_transcript_is_read_in_order() -> None:
    items, left_out = read_source("claude-code", FILES / "projects")

    first, second = items
    assert isinstance(first, Conversation)
    assert (first.session_id, list_turns(items)[first.session_id]) == (
        STORY,
        [
            ("user", "Remember that I prefer two spaces for indentation."),
            ("assistant", "Noted."),
            ("user", "Run the tests and the linter."),
            ("tool", "31 tests passed"),
            ("tool", "no lint"),
            ("assistant", "Both pass."),
        ],
    )
    assert [message.message_id for message in first.messages] == ["u1", "a2", "u3", "r1-0", "r2-0", "a7"]
    assert first.messages[0].timestamp == "2025-11-03T09:00:01.000Z"
    assert isinstance(second, Conversation)
    assert [message.content for message in second.messages] == ["I moved to Lisbon last week."]
    assert left_out == {
        "entries summary": 1,
        "entries file-history-snapshot": 1,
        "entries with isMeta": 1,
        "attachments hook_additional_context": 1,
        "entries of sub-agents": 1,
        "entries telemetry_blob": 1,
        "entries of branches that were given up": 2,
        "entries that another session has too": 2,
        "lines that are no JSON objects, or cut off": 1,
        "lines that came from KnowHub": 2,
    }


def test_messages_of_chatgpt_without_an_author_or_a_text_are_of_an_unknown_shape(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"author": None, "content": None},
        {"author": {"role": None}, "content": {"content_type": "text", "parts": ["a"]}},
        {"author": {"role": "user"}, "content": {"content_type": None, "parts": None}},
        {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [None, "b"]}},
    ]
    mapping = {str(place): {"parent": str(place - 1), "message": message} for place, message in enumerate(messages)}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"id": "c", "mapping": mapping, "current_node": "3"}]))

    items, left_out = read_source("chatgpt", path)

    assert list_turns(items) == {"chatgpt-c": [("user", "\nb")]}
    assert left_out == {"messages of an unknown shape": 3}


def test_rollouts_of_codex_are_read_in_both_of_their_shapes() -> None:
    items, left_out = read_source("codex", FILES / "codex")

    assert list_turns(items) == {
        "0199c1a2-5f35-7742-a63b-ebb6fcdfc438": [
            ("user", "I always deploy on Tuesdays."),
            ("tool", "ok"),
            ("assistant", "Deployed."),
        ],
        "a1b2c3d4-0000-4000-8000-000000000001": [
            ("user", "My staging server is called Heron."),
            ("assistant", "Good to know."),
        ],
    }
    assert left_out["entries world_state"] == left_out["entries response_item reasoning"] == 1


def test_a_conversation_of_chatgpt_follows_its_current_branch() -> None:
    items, left_out = read_source("chatgpt", FILES / "chatgpt")

    assert list_turns(items) == {
        "chatgpt-6775-coffee": [
            ("user", "My favourite coffee is a flat white."),
            ("tool", "1"),
            ("user", "\nI live in Porto.\nSee the picture."),
            ("assistant", "Lovely."),
        ]
    }
    assert isinstance(items[0], Conversation)
    times = [message.timestamp for message in items[0].messages]
    assert times == ["2025-01-01T10:00:00.500Z", "2025-01-01T10:00:21Z", None, "2025-01-01T10:00:40.250Z"]
    assert left_out == {
        "file user.json": 1,
        "messages of other branches": 1,
        "hidden messages": 1,
        "calls of tools": 1,
        "messages thoughts": 1,
        "conversations that are not to be remembered": 1,
        "conversations of an unknown shape": 1,
    }


def test_a_conversation_of_chatgpt_without_a_current_node_ends_with_its_last_leaf(tmp_path: Path) -> None:
    conversation = json.loads((FILES / "chatgpt/conversations.json").read_bytes())[0] | {"current_node": None}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"conversations": [conversation]}))

    assert list_turns(read_source("chatgpt", path)[0]) == list_turns(read_source("chatgpt", FILES / "chatgpt")[0])


def test_an_export_of_claude_has_conversations_memories_and_documents() -> None:
    items, left_out = read_source("claude", FILES / "claude")

    assert list_turns(items) == {
        "claude-c-1": [
            ("human", "My garden faces north."),
            ("tool", "shade plants"),
            ("assistant", "Ferns like shade."),
        ]
    }
    assert [(note.type, note.title, note.text, note.created_at) for note in list_notes(items)] == [
        ("user_profile", "What Claude remembers", "The user grows ferns.", None),
        ("user_profile", "What Claude remembers of project pr-1", "The atlas project ships in May.", None),
        ("strategy", "Instructions of Atlas", "Answer in short sentences.", "2025-07-01T00:00:00Z"),
        ("definition", "glossary.md", "A tile is a square of the map.", "2025-07-02T00:00:00Z"),
    ]
    assert left_out == {"file users.json": 1, "messages of other branches": 1, "attachments": 1}


def test_notes_keep_the_title_tags_and_time_of_their_header() -> None:
    items, left_out = read_source("markdown", FILES / "vault")

    deploying, broken, ana = list_notes(items)
    assert (deploying.key, deploying.title, deploying.created_at) == (
        "ops/how-we-deploy",
        "How we deploy",
        "2024-02-03T10:00:00Z",
    )
    assert deploying.tags == {"path": "Deploying.md", "tag": ["ops", "release"]}
    assert deploying.text.startswith("# Deploying\n\n- [decision] We deploy")
    assert (ana.key, ana.title) == ("people/Ana.md", "Ana")
    assert ana.created_at is not None
    assert broken.text.startswith("---\ntitle: [unclosed")
    assert left_out == {"files *.canvas": 1, "headers that are no YAML, kept as text": 1}


def test_notes_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "picture.md").write_bytes(b"\xff\xfe\x00bad")
    (tmp_path / "archive.md").write_bytes(b"../../evil.md\0\0\0ustar")
    (tmp_path / "note.md").write_text("部署前先跑测试。", encoding="utf-8")

    items, left_out = read_source("markdown", tmp_path)

    assert [note.text for note in list_notes(items)] == ["部署前先跑测试。"]
    assert left_out == {"files that are no UTF-8 text": 2}


def test_an_entity_of_the_memory_server_has_its_observations_and_relations() -> None:
    items, left_out = read_source("memory-server", FILES / "memory.jsonl")

    assert [(note.title, note.text, note.tags) for note in list_notes(items)] == [
        ("Ana", "Speaks Portuguese\nLeads the map team\nworks_on Atlas", {"entity_type": "person"}),
        ("Atlas", "Ships in May", {"entity_type": "project"}),
    ]
    assert left_out == {"entries vector of an unknown shape": 1}


@pytest.mark.parametrize("form", ["memory-server", "mem0"])
def test_a_file_of_lines_that_is_cut_is_refused(form: str, tmp_path: Path) -> None:
    row = b'{"type":"entity","name":"Ana","observations":["tea"],"memory":"tea"}'
    path = tmp_path / "m.jsonl"
    path.write_bytes(row + b"\nno JSON\n\n" + row)
    items, left_out = read_source(form, path)
    assert (len(items) > 0, left_out) == (True, {"lines that are no JSON objects": 1})

    for cut in range(1, len(row)):
        path.write_bytes(row + b"\n" + row[:cut])
        with pytest.raises(InvalidInput, match=r"m\.jsonl is cut off: .*; nothing was imported"):
            read_source(form, path)


@pytest.mark.parametrize("form", ["memory-server", "mem0"])
def test_a_cut_last_line_with_an_end_is_left_out_by_name(form: str, tmp_path: Path) -> None:
    row = b'{"type":"entity","name":"Ana","observations":["tea"],"memory":"tea"}'
    (tmp_path / "m.jsonl").write_bytes(row + b'\n{"cut\n' + row + b'\n{"type":"entity","na\n\n')

    items, left_out = read_source(form, tmp_path / "m.jsonl")

    assert len(items) > 0
    assert left_out == {"lines that are no JSON objects": 1, "last line of m.jsonl, which is cut off": 1}


@pytest.mark.parametrize("as_lines", [False, True])
def test_memories_of_mem0_keep_their_time_and_name_their_user(tmp_path: Path, as_lines: bool) -> None:
    rows = json.loads((FILES / "mem0/memories.json").read_bytes())["results"]
    path = tmp_path / ("m.jsonl" if as_lines else "m.json")
    path.write_text("\n".join(map(json.dumps, rows)) if as_lines else json.dumps(rows))

    items, left_out = read_source("mem0", path)

    assert [(note.key, note.type, note.text, note.created_at) for note in list_notes(items)] == [
        ("2f1d-1", "user_profile", "Prefers trains to planes", "2025-03-01T19:00:00.123Z"),
        ("2f1d-2", "strategy", "Retries failed uploads three times", "2025-03-02T12:00:00Z"),
    ]
    assert list_notes(items)[0].tags == {"mem0.user_id": "li", "mem0.source": "chat", "mem0.categories": ["travel"]}
    assert left_out == {"memories of an unknown shape": 1}


@pytest.mark.parametrize(("form", "path"), [("claude-code", "projects"), ("chatgpt", "chatgpt"), ("markdown", "vault")])
def test_progress_rises_to_the_total_size(form: str, path: str) -> None:
    progress: list[tuple[int, int]] = []

    list(READERS[ImportFormat(form)](ImportSource(FILES / path, lambda read, total: progress.append((read, total)))))

    done = [read for read, _ in progress]
    assert len(done) > 2 or form == "chatgpt"
    assert done == sorted(done)
    assert 0 < done[-1] <= progress[-1][1]


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("chatgpt", "chatgpt/*.json"),
        ("claude", "claude/*.json"),
        ("mem0", "mem0/*.json"),
        ("memory-server", "memory.jsonl"),
        ("codex", "codex/*.jsonl"),
        ("claude-code", f"projects/*/{STORY}.jsonl"),
    ],
)
@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[]], {"uuid": 5, "id": [], "type": {}}])
def test_any_value_in_any_field_is_read_or_skipped(form: str, pattern: str, value: object, tmp_path: Path) -> None:
    for path in sorted(FILES.glob(pattern)):
        rows = (
            [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            if path.suffix == ".jsonl"
            else None
        )
        whole: Any = rows if rows is not None else json.loads(path.read_bytes())
        for number, way in enumerate(list_places(whole)):
            changed = json.loads(json.dumps(whole))
            set_value(changed, way, value)
            target = tmp_path / f"{number}{path.suffix}"
            target.write_text("\n".join(map(json.dumps, changed)) if rows is not None else json.dumps(changed))
            read_source(form, target)


def list_places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 -- any JSON
    """Yield the way to each value inside another: names and indexes."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*way, key)
        yield from list_places(part, (*way, key))


def set_value(whole: Any, way: tuple[Any, ...], new: object) -> None:  # noqa: ANN401 -- any JSON
    for key in way[:-1]:
        whole = whole[key]
    whole[way[-1]] = new
