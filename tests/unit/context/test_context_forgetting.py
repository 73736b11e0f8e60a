"""The summary of a session stops quoting a message that was forgotten, and only who may forget it does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub
from knowhub.context import edits
from knowhub.context.commit.parts import SUMMARISED_MESSAGES
from knowhub.context.commit.session_node import remove_message
from knowhub.context.commit_model import CommitOptions, SessionCommit
from knowhub.context.model import NODES, PARTS
from knowhub.context.queries import list_parts
from knowhub.conversations.messages import Message
from knowhub.core.errors import Forbidden
from knowhub.core.request_context import Role
from tests.builders import caller, open_files
from tests.context_rows import draft, node_row, part_rows
from tests.hubs import open_search_hub

pytestmark = pytest.mark.anyio

LI = caller(user_id="li")
SESSION = "ctx://default/users/li/sessions/s1"
SAID = (
    "The heron stands in the third pond every morning.",
    "We plan the release of Apollo for the second week of May.",
    "Apollo needs a new login page before that release.",
)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_search_hub(tmp_path) as hub:
        await commit(hub, *SAID)
        yield hub


async def commit(hub: Hub, *texts: str) -> str | None:
    messages = [Message("user", text, message_id=f"m{number}") for number, text in enumerate(texts)]
    done = await hub.memories.commits.commit(LI, SessionCommit("s1", messages, options=CommitOptions(extract=False)))
    return done.operation_id


def session(hub: Hub) -> dict[str, Any]:
    return dict(hub.store.view("default").get(NODES, SESSION) or {})


async def test_forgetting_a_message_removes_it_from_the_summary(hub: Hub) -> None:
    before = session(hub)

    await hub.memories.authoring.delete(LI, f"{SESSION}/m0")

    after = session(hub)
    assert "heron" in before["abstract"] + before["overview"]
    assert "heron" not in after["abstract"] + after["overview"]
    assert "Apollo" in after["abstract"]
    assert (after["metadata"]["message_count"], after["version"]) == (2, 2)
    assert "heron" not in (await hub.memories.nodes.get_node(LI, SESSION)).content


async def test_a_long_session_is_summarised_again_from_its_newest_messages(tmp_path: Path) -> None:
    store = open_files(tmp_path / "long")
    texts = [f"message {number} is about bread" for number in range(SUMMARISED_MESSAGES + 3)]
    rows = [node_row(SESSION), *part_rows(SESSION, texts)]
    await store.commit("default", "user:li", lambda _view: draft(*rows))
    view = store.view("default")
    first = list_parts(view, SESSION)[0]

    (write,) = remove_message(view, first, str)
    await store.close()

    assert write.after["metadata"]["message_count"] == SUMMARISED_MESSAGES + 2
    assert write.after["overview"].startswith(f"{SUMMARISED_MESSAGES} messages")


async def test_a_reader_may_not_change_what_they_own(hub: Hub) -> None:
    with pytest.raises(Forbidden):
        edits.get_editable_summary(hub.store.view("default"), replace(LI, role=Role.READER), SESSION, None)


async def test_a_commit_during_forgetting_does_not_restore_the_text(hub: Hub) -> None:
    forgetting, committing = await asyncio.gather(
        hub.memories.authoring.delete(LI, f"{SESSION}/m0"),
        commit(hub, *SAID, "The pond is frozen."),
        return_exceptions=True,
    )

    row = hub.store.view("default").get(PARTS, f"{SESSION}/m0") or {}
    assert isinstance(forgetting, str)
    assert isinstance(committing, str)
    assert row["forgotten"] is True
    assert "heron" not in session(hub)["abstract"] + session(hub)["overview"]
    assert session(hub)["metadata"]["message_count"] == len(list_parts(hub.store.view("default"), SESSION))
