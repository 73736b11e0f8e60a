"""Imported sessions: what a model learnt from them goes with the import, however many there are."""

from collections import Counter

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.cli.importers.model import Conversation
from knowhub.cli.importers.writing import ImportWriter
from knowhub.conversations.messages import Message
from knowhub.core.request_context import caller_context
from tests.fakes.queued_chat import Answer
from tests.web.trees import undo
from tests.web.with_a_model.test_memories_with_a_model import (
    LI,
    MOVED,
    answer_with_change,
    commit_session,
    get_session,
    list_memories,
    wait_until,
)

pytestmark = pytest.mark.anyio


async def import_sessions(hub: Hub, *said: str) -> str:
    """Import a session for each text, and return the id of the import."""
    writer = ImportWriter(hub, caller_context(LI, "user:local"), Counter(), lambda _: None)
    await writer.write_conversations(
        Conversation(f"s{number}", [Message("user", text, "", "m0", "2026-03-05T10:00:00Z")])
        for number, text in enumerate(said, 1)
    )
    return writer.import_id


async def is_read(api: httpx.AsyncClient) -> bool:
    return bool((await get_session(api))["by_model"])


async def test_undoing_an_import_undoes_what_a_model_extracted_from_it(
    api: httpx.AsyncClient, hub: Hub, script: list[Answer]
) -> None:
    script.append(answer_with_change(statement="Has a cat called Pixel.", category="entities", said="Pixel"))
    import_id = await import_sessions(hub, MOVED)
    await wait_until(lambda: is_read(api))
    assert "Has a cat called Pixel." in await list_memories(api)
    undone = await undo(api, import_id, **LI)

    assert (undone.status_code, len(undone.json()["undone"])) == (200, 2)
    assert await list_memories(api) == {}


async def test_extractions_from_later_turns_do_not_belong_to_the_import(
    api: httpx.AsyncClient, hub: Hub, script: list[Answer]
) -> None:
    script += [
        {"changes": []},
        answer_with_change(statement="Has a dog called Byte.", category="entities", said="Byte"),
    ]
    import_id = await import_sessions(hub, MOVED)
    await wait_until(lambda: is_read(api))

    await commit_session(api, "s1", {"role": "user", "content": "My dog is called Byte.", "message_id": "m1"})

    refused = await undo(api, import_id, **LI)
    assert refused.status_code == 409
    assert "Has a dog called Byte." in await list_memories(api)


async def test_a_large_import_is_undone_with_later_commits(
    api: httpx.AsyncClient, hub: Hub, script: list[Answer]
) -> None:
    script += [{"changes": []}] * 200
    import_id = await import_sessions(
        hub, *(f"I prefer tea number {number}." for number in range(101)), "I live in Rome."
    )
    await commit_session(api, "later", "I live in Oslo.")
    alone = (await hub.store.group("default", import_id))[0].operation_id

    assert (await undo(api, alone, **LI)).status_code == 200
    assert (await undo(api, import_id, **LI)).status_code == 409
    whole = await undo(api, import_id, with_later=True, **LI)

    assert whole.status_code == 200
    assert len(whole.json()["undone"]) > 101
    assert alone not in whole.json()["undone"]
    assert await list_memories(api) == {}
