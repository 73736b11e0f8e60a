"""What an import writes: notes verbatim without KnowHub output, ids that a URI cannot hold, long sessions."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_tools.fences import FENCE_NOTE, HEADING
from knowhub.bootstrap import Hub
from knowhub.cli.importers.model import Conversation, Note
from knowhub.cli.importers.writing import ImportWriter
from knowhub.context.commit.commit_checks import MAX_MESSAGES
from knowhub.context.queries import list_memories
from knowhub.conversations.messages import Message
from knowhub.core.request_context import caller_context
from knowhub.knowledge.model import OnConflict
from knowhub.knowledge.table import list_live_records
from tests.builders import local
from tests.hubs import open_search_hub
from tests.unit.cli.importers.test_readers import FILES, list_notes, read_source

pytestmark = pytest.mark.anyio

TABLE = "Our knowledge-base:\n\n| tool | use |\n|---|---|\n| make | builds |\n\n📚 more"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_search_hub(tmp_path) as opened:
        yield opened


def make_writer(hub: Hub) -> ImportWriter:
    return ImportWriter(hub, local(), Counter(), lambda _: None)


async def write_notes(hub: Hub, *notes: Note) -> tuple[dict[str, str], Counter[str]]:
    """Return the contents of the records by their tasks, and the counts of left out notes."""
    writer = make_writer(hub)
    await writer.write_notes("markdown", notes, OnConflict.SKIP)
    view = hub.store.view("default")
    rows = [view.get("knowledge", summary.id) or {} for summary in list_live_records(view)]
    return {row["task"]: row["content"] for row in rows}, writer.left_out


async def test_notes_are_stored_verbatim_without_recalled_text(hub: Hub) -> None:
    recalled = f"{HEADING} {FENCE_NOTE}\n\n| text: The user lives in Turin."

    stored, left_out = await write_notes(
        hub, Note("a", "Tools", TABLE), Note("b", "Mine", f"My own line.\n{recalled}"), Note("c", "Theirs", recalled)
    )

    assert stored["Tools"] == TABLE
    assert "My own line." in stored["Mine"]
    assert "Turin" not in str(stored)
    assert "Theirs" not in stored
    assert left_out == {"notes without text, or with recalled text only": 1, "lines that came from KnowHub": 4}


async def test_notes_that_cannot_be_stored_are_named_and_the_others_imported(hub: Hub) -> None:
    stored, left_out = await write_notes(
        hub,
        Note("a", "Half \ud83d", "NUL \0 and \ud800"),
        Note("a", "The same key", "Another text"),
        Note("b", "Too long", "x" * (3 * 1024 * 1024)),
        Note("c", "Bad tags", "text", "definition", {"x" * 300: "y"}),
        Note("d", "", " "),
    )

    assert stored == {"Half ?": "NUL  and ?", "The same key": "Another text"}
    assert left_out == {
        "notes with a wrong content": 1,
        "notes with a wrong tags": 1,
        "notes without text, or with recalled text only": 1,
    }


async def test_ids_of_any_form_and_sessions_of_any_length_are_stored(hub: Hub) -> None:
    messages = [Message("user", f"Line {number}.", "", f"{number}") for number in range(MAX_MESSAGES + 5)]
    odd = [
        Message("user", "One.", "n" * 300, "../\0" * 80),
        Message("user", "Two.", "", "7"),
        Message("user", "x", "", "7"),
    ]
    writer = make_writer(hub)

    await writer.write_conversations([Conversation("long", messages), Conversation("/" * 500, odd)])

    assert writer.messages["added"] == MAX_MESSAGES + 7
    assert writer.left_out == {"messages that come twice": 1}
    operations = await hub.store.group("default", writer.import_id)
    assert [operation.group and operation.group.index for operation in operations] == [0, 1, 2]


@pytest.mark.parametrize(
    ("form", "path", "records", "messages"),
    [
        ("claude-code", "projects", 0, 7),
        ("codex", "codex", 0, 5),
        ("chatgpt", "chatgpt", 0, 4),
        ("claude", "claude", 4, 3),
        ("markdown", "vault", 3, 0),
        ("memory-server", "memory.jsonl", 2, 0),
        ("mem0", "mem0/memories.json", 2, 0),
    ],
)
async def test_a_second_import_adds_nothing(form: str, path: str, records: int, messages: int, hub: Hub) -> None:
    items, _ = read_source(form, FILES / path)
    done = []
    for _ in range(2):
        writer = make_writer(hub)
        await writer.write_notes(form, list_notes(items), OnConflict.SKIP)
        await writer.write_conversations(items)
        done.append((writer.records["imported"], writer.messages["added"]))

    assert done == [(records, messages), (0, 0)]
    assert writer.operations == 0
    assert (writer.records["skipped"], writer.messages["known"]) == (records, messages)


async def test_two_users_import_the_same_notes(hub: Hub) -> None:
    for user in ("ana", "bo"):
        writer = ImportWriter(hub, caller_context({"user_id": user}, "user:local"), Counter(), lambda _: None)
        await writer.write_notes("markdown", [Note("a", "Tools", TABLE)], OnConflict.SKIP)
        assert writer.records["imported"] == 1

    owners = [summary.owner for summary in list_live_records(hub.store.view("default"))]
    assert owners == ["user:ana", "user:bo"]


async def test_a_changed_message_is_not_overwritten_and_others_are_imported(hub: Hub) -> None:
    first = [Message("user", "My garden faces north.", "", "k1"), Message("assistant", "Ferns like shade.", "", "k2")]
    changed = [Message("user", "My garden faces south.", "", "k1"), first[1], Message("user", "And hostas?", "", "k3")]
    await make_writer(hub).write_conversations([Conversation("c", first)])
    writer = make_writer(hub)

    await writer.write_conversations([Conversation("c", changed)])

    assert writer.messages == {"added": 1, "known": 1, "forgotten": 0}
    assert writer.left_out == {"messages that are stored with another text": 1}


async def test_a_forgotten_message_is_not_imported_again(hub: Hub) -> None:
    messages = [Message("user", "One.", "", "m1"), Message("user", "Two.", "", "m2")]
    await make_writer(hub).write_conversations([Conversation("c", messages)])
    address = next(head.uri for head in list_memories(hub.store.view("default")) if head.uri.endswith("/c/m1"))
    await hub.memories.authoring.delete(local(), address)
    writer = make_writer(hub)

    await writer.write_conversations([Conversation("c", messages)])

    assert writer.messages == {"added": 0, "known": 1, "forgotten": 1}
