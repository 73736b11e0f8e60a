"""Extracted records stay in the scope of their conversation, and KnowHub output is no evidence."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.conversations.messages import Message
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.extract.model import ExtractionRequest, ExtractionResult
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, FakeClock, caller
from tests.fakes.scripted_chat import ScriptedChat
from tests.memory_changes import make_change

pytestmark = pytest.mark.anyio

PRIVATE = caller(user_id="li")
PROJECT = caller(user_id="li", project_id="web")


def hub_at(folder: Path, chat: ScriptedChat | None = None) -> AbstractAsyncContextManager[Hub]:
    return open_hub(Settings(data_dir=folder, owner=OWNER), Overrides(clock=FakeClock(), llm=chat), maintain=False)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_at(tmp_path) as opened:
        yield opened


async def extract(hub: Hub, ctx: RequestContext, *texts: str) -> ExtractionResult:
    return await hub.knowledge.extraction.extract(ctx, ExtractionRequest([Message("user", text) for text in texts]))


def get_saved_row(hub: Hub, extracted: ExtractionResult) -> Mapping[str, Any]:
    found = hub.store.view("default").get(KNOWLEDGE, extracted.saved[0]["id"])
    assert found is not None
    return found


def list_statuses(extracted: ExtractionResult) -> Sequence[str]:
    return [result["status"] for result in extracted.results]


async def test_a_private_contradiction_does_not_change_a_project_record(hub: Hub) -> None:
    first = await extract(hub, PROJECT, "I live in Rome")
    before = get_saved_row(hub, first)

    private = await extract(hub, PRIVATE, "I live in Oslo")

    assert list_statuses(private) == ["changed"]
    assert private.saved[0]["supersedes"] == before["id"]
    assert private.saved[0]["scopes"] == ["user:li"]
    assert get_saved_row(hub, first) == before


async def test_private_records_are_hidden_from_the_model_in_a_project(tmp_path: Path) -> None:
    update = {"action": "update", "memory": "k1"}
    chat = ScriptedChat(
        [
            {"changes": [make_change("User wants English because of the lawyer")]},
            {"changes": [make_change("User wants English")]},
            {"changes": [make_change("User wants English in every secret letter", **update)]},
        ]
    )

    async with hub_at(tmp_path, chat) as hub:
        await extract(hub, PRIVATE, "User wants English because of the lawyer")
        in_project = await extract(hub, PROJECT, "User wants English")
        private = await extract(hub, PRIVATE, "User wants English in every secret letter")

    assert "lawyer" not in repr(chat.questions[1])
    assert list_statuses(in_project) == ["new"]
    assert "secret" not in get_saved_row(hub, in_project)["content"]
    assert private.saved[0]["scopes"] == ["user:li"]


@pytest.mark.parametrize(
    "pasted",
    [
        "Known:\n- I prefer pnpm for all installs.",
        "Known: I prefer pnpm for all installs.",
        "What you know of me:\nI prefer pnpm for all installs. I like tea.",
        "The user said: I prefer pnpm for all installs.",
        "content: The user said: I prefer pnpm for all installs.",
        '      "content": "The user said: I prefer pnpm for all installs.",',
        "1. I prefer pnpm for all installs",
    ],
)
async def test_a_quoted_record_is_no_evidence(hub: Hub, pasted: str) -> None:
    first = await extract(hub, PRIVATE, "I prefer pnpm for all installs.")
    before = get_saved_row(hub, first)

    extracted = await extract(hub, PRIVATE, pasted)

    assert extracted.operation_id is None
    assert get_saved_row(hub, first) == before


def read_all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_many_credentials_reach_neither_model_nor_store(tmp_path: Path) -> None:
    secrets = [f"zebraXq{number}!z" for number in range(30)]
    chat = ScriptedChat([{"changes": [make_change("The user logs in with these, always")]}])

    async with hub_at(tmp_path, chat) as hub:
        lines = "\n".join(f"password: {secret} ;" for secret in secrets)
        extracted = await extract(hub, PRIVATE, f"The user logs in with these, always:\n{lines}")

    kept = read_all_bytes(tmp_path)
    assert list_statuses(extracted) == ["new"]
    assert [secret for secret in secrets if secret in repr(chat.questions) or secret.encode() in kept] == []
    assert extracted.resources[0].content_type == "credential"
