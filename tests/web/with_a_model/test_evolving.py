"""Feedback in words over HTTP: a model writes the content anew, and can change nothing else."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.language_models import ChatRequest
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.fakes.queued_chat import Answer, QueuedChat, read_fenced
from tests.web.conftest import open_server

pytestmark = pytest.mark.anyio

BEFORE = "Call driver.get.\nThen click at once."
AFTER = "Call driver.get.\nThen wait for the element, and click."
REWRITE = {"content": AFTER, "summary_of_change": "waits before the click"}
FEEDBACK = "the click came too early; wait for the element"


async def save_record(api: httpx.AsyncClient, content: str = BEFORE, **fields: object) -> str:
    response = await api.post("/api/knowledge", json={"task": "用 Selenium 登录", "content": content, **fields})
    return str(response.json()["id"])


async def read_record(api: httpx.AsyncClient, row_id: str) -> dict[str, Any]:
    row: dict[str, Any] = (await api.get(f"/api/knowledge/{row_id}")).json()
    return row


async def evolve(api: httpx.AsyncClient, row_id: str, **body: object) -> dict[str, Any]:
    response = await api.put(f"/api/knowledge/{row_id}", json={"evolve_feedback": FEEDBACK} | body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_evolving_rewrites_the_content_and_answers_the_changes(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    row_id = await save_record(api)
    script.append(REWRITE)

    done = await evolve(api, row_id)

    assert (done["content"], done["evolved"], done["degraded"]) == (AFTER, True, [])
    assert done["detail"] == "waits before the click"
    assert done["diff"].splitlines()[3:] == [
        " Call driver.get.",
        "-Then click at once.",
        "+Then wait for the element, and click.",
    ]
    assert model.read_prompt() == {"task": "用 Selenium 登录", "content": BEFORE, "feedback": FEEDBACK}
    stands = await read_record(api, row_id)
    assert (stands["content"], stands["task"], stands["version"]) == (AFTER, "用 Selenium 登录", 2)


async def test_feedback_cases_and_a_score_are_one_undoable_operation(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    row_id = await save_record(api)
    before = await read_record(api, row_id)
    script.append(REWRITE)

    done = await evolve(api, row_id, add_harmful_case={"reason": "too early"}, update_score=2)

    assert (done["eval"]["harmful"], done["eval"]["score"], done["version"]) == (1, 2, 2)
    operation = (await api.get(f"/api/operations/{done['operation_id']}")).json()
    assert (operation["op"], [item["function"] for item in operation["agent_io"]]) == (
        "evolve_knowledge",
        ["evolve_knowledge"],
    )
    await api.post(f"/api/operations/{done['operation_id']}/undo", json={})
    after = await read_record(api, row_id)
    assert {**after, "version": 1, "updated_at": ""} == {**before, "updated_at": ""}


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("down"),
        {"content": "  ", "summary_of_change": ""},
        {"content": 7, "summary_of_change": ""},
        {"content": "half \ud800", "summary_of_change": ""},
        {"content": "nul \0", "summary_of_change": ""},
        {"content": "x" * 100_001, "summary_of_change": ""},
        {},
        ["content"],
        None,
    ],
    ids=["down", "blank", "number", "surrogate", "nul", "long", "empty", "list", "null"],
)
async def test_a_failed_model_keeps_the_content_and_the_votes_count(
    api: httpx.AsyncClient, script: list[Answer], answer: Answer
) -> None:
    row_id = await save_record(api)
    script.append(answer)

    done = await evolve(api, row_id, add_helpful_case={"task": "t"})

    assert (done["content"], done["evolved"], done["diff"], done["degraded"]) == (BEFORE, False, None, ["llm"])
    assert done["detail"].endswith("the content stays as it is")
    assert done["eval"]["helpful"] == 2
    assert done["operation_id"] is not None


async def test_unused_feedback_is_stored_once_and_used_the_next_time(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    row_id = await save_record(api)

    failed = [await evolve(api, row_id) for _ in range(2)]
    script.append(REWRITE)
    done = await evolve(api, row_id, evolve_feedback="say which element")

    assert [(answer["evolved"], answer["degraded"], answer["version"]) for answer in failed] == [
        (False, ["llm"], 2),
        (False, ["llm"], 2),
    ]
    assert failed[0]["eval"]["kept_words"] == [FEEDBACK]
    assert "the words are kept" in failed[0]["detail"]
    assert model.read_prompt()["feedback"] == f"{FEEDBACK}\nsay which element"
    assert (done["evolved"], done["content"], "kept_words" in done["eval"]) == (True, AFTER, False)
    # Whoever undoes the rewrite does not want it again.
    await api.post(f"/api/operations/{done['operation_id']}/undo", json={})
    undone = await read_record(api, row_id)
    assert (undone["content"], undone["eval"].get("kept_words", [])) == (BEFORE, [])


async def test_an_undo_removes_stored_feedback(api: httpx.AsyncClient) -> None:
    row_id = await save_record(api)
    before = await read_record(api, row_id)
    done = await evolve(api, row_id)
    assert done["operation_id"] is not None

    await api.post(f"/api/operations/{done['operation_id']}/undo", json={})

    assert (await read_record(api, row_id))["eval"] == before["eval"]


async def test_feedback_without_a_model_is_used_once_there_is_one(settings: Settings) -> None:
    async with open_server(settings) as api:
        row_id = await save_record(api)
        kept = await evolve(api, row_id)
        exported = (await api.get("/api/knowledge/export")).content
    model = QueuedChat([REWRITE])
    async with open_server(settings, Overrides(llm=model)) as api:
        for _ in range(400):
            used = await read_record(api, row_id)
            if used["content"] != BEFORE:
                break
            await asyncio.sleep(0.05)
        # The words of an import wait as well.
        await api.request("DELETE", f"/api/knowledge/{row_id}", params={"erase": "true"})
        line = exported.replace(row_id.encode(), b"knowledge-20260101-aaaa")
        imported = await api.post(
            "/api/knowledge/import", content=line, headers={"Content-Type": "application/x-ndjson"}
        )
        moved = await read_record(api, "knowledge-20260101-aaaa")

    assert (kept["evolved"], kept["diff"], kept["degraded"]) == (False, None, [])
    assert "no language model; the words are kept" in kept["detail"]
    assert kept["eval"]["kept_words"] == [FEEDBACK]
    assert (used["content"], used["owner"], "kept_words" in used["eval"]) == (AFTER, kept["owner"], False)
    assert model.read_prompt()["feedback"] == FEEDBACK
    assert imported.status_code == 200, imported.text
    assert moved["eval"]["kept_words"] == [FEEDBACK]


async def test_a_model_that_is_down_is_not_asked_for_every_stored_feedback(settings: Settings) -> None:
    async with open_server(settings) as api:
        for number in range(5):
            await evolve(api, await save_record(api, f"content {number}"))
    model = QueuedChat([RuntimeError("down")] * 5)
    async with open_hub(settings, Overrides(llm=model), maintain=False) as hub:
        await hub.knowledge.evolution.apply_pending_feedback(hub.store.accounts)

    assert len(model.questions) == 3


async def test_a_model_that_finds_nothing_to_change_changes_nothing(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    row_id = await save_record(api)
    script.append({"content": BEFORE, "summary_of_change": "it says so already"})

    done = await evolve(api, row_id)

    assert (done["evolved"], done["diff"], done["version"], done["degraded"]) == (False, None, 1, [])
    assert done["detail"] == "it says so already"


async def test_only_the_owner_evolves_a_record_and_the_model_is_not_asked_for_others(
    api: httpx.AsyncClient, model: QueuedChat
) -> None:
    row_id = await save_record(api, owner="user:li", scopes=["team:web"])
    body = {"evolve_feedback": FEEDBACK, "user_id": "wang", "team_id": "web"}

    refused = await api.put(f"/api/knowledge/{row_id}", json=body)
    unseen = await api.put(f"/api/knowledge/{row_id}", json=body | {"team_id": "db"})
    stale = await api.put(f"/api/knowledge/{row_id}", json={"evolve_feedback": FEEDBACK, "version": 7})

    assert (refused.status_code, unseen.status_code, stale.status_code) == (403, 404, 409)
    assert model.questions == []


def answer_during_change(api: httpx.AsyncClient, row_id: str, answer: Mapping[str, Any], **patch: object) -> Answer:
    """Answer, after another request has changed the record."""

    def answer_later(_question: ChatRequest) -> object:
        tasks.append(asyncio.get_running_loop().create_task(api.patch(f"/api/knowledge/{row_id}", json=patch)))
        return dict(answer)

    tasks: list[asyncio.Task[httpx.Response]] = []
    return answer_later


class SlowChat(QueuedChat):
    """Yields to other tasks after each answer, as any real model does."""

    async def chat(self, question: ChatRequest, timeout_s: float) -> Any:  # noqa: ANN401 -- as the port has it
        reply = await super().chat(question, timeout_s)
        await asyncio.sleep(0.1)
        return reply


async def test_a_text_changed_meanwhile_is_rewritten_once_more(settings: Settings) -> None:
    answers: list[Answer] = []
    model = SlowChat(iter(lambda: answers.pop(0), None))
    async with open_server(settings, Overrides(llm=model)) as api:
        row_id = await save_record(api)
        answers += [
            answer_during_change(api, row_id, REWRITE, content="moved"),
            {"content": "both", "summary_of_change": "s"},
        ]

        done = await evolve(api, row_id)

        assert [read_fenced(question)["content"] for question in model.questions] == [BEFORE, "moved"]
        assert (done["content"], done["version"]) == ("both", 3)


async def test_a_text_that_keeps_changing_is_a_conflict_and_not_written(settings: Settings) -> None:
    answers: list[Answer] = []
    model = SlowChat(iter(lambda: answers.pop(0), None))
    async with open_server(settings, Overrides(llm=model)) as api:
        row_id = await save_record(api)
        answers += [answer_during_change(api, row_id, REWRITE, content=f"moved {number}") for number in range(2)]

        refused = await api.put(f"/api/knowledge/{row_id}", json={"evolve_feedback": FEEDBACK})

        assert refused.status_code == 409
        assert (await read_record(api, row_id))["content"] == "moved 1"


async def test_a_vote_meanwhile_does_not_repeat_the_rewrite(settings: Settings) -> None:
    def voting(_question: ChatRequest) -> object:
        vote = {"add_helpful_case": {"task": "meanwhile"}}
        tasks.append(asyncio.get_running_loop().create_task(api.put(f"/api/knowledge/{row_id}", json=vote)))
        return dict(REWRITE)

    tasks: list[asyncio.Task[httpx.Response]] = []
    model = SlowChat([voting])
    async with open_server(settings, Overrides(llm=model)) as api:
        row_id = await save_record(api)

        done = await evolve(api, row_id)

        assert (done["content"], done["eval"]["helpful"], len(model.questions)) == (AFTER, 2, 1)


async def test_a_retry_gets_the_first_answer_without_asking_the_model(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    row_id = await save_record(api)
    script.append(REWRITE)
    url, body, key = f"/api/knowledge/{row_id}", {"evolve_feedback": FEEDBACK}, {"Idempotency-Key": "k"}

    first = await api.put(url, json=body, headers=key)
    again = await api.put(url, json=body, headers=key)

    assert first.json()["evolved"] is True
    assert again.json() == first.json()
    assert len(model.questions) == 1


@pytest.mark.parametrize(
    ("reader", "hears"),
    [
        ({"user_id": "u1"}, True),
        ({"user_id": "u2"}, False),
        ({"user_id": "u2", "agent_id": "claude"}, False),
        ({"agent_id": "claude"}, False),
        ({}, True),
    ],
)
@pytest.mark.parametrize("asker", [{"user_id": "u1"}, {"user_id": "u1", "agent_id": "claude"}])
async def test_model_prompts_are_hidden_from_other_users_of_the_agent(
    api: httpx.AsyncClient, script: list[Answer], asker: dict[str, str], reader: dict[str, str], hears: bool
) -> None:
    body = {"task": "用 Selenium 登录", "content": BEFORE, "owner": "user:u1", "scopes": ["user:u1"], "user_id": "u1"}
    record_id = (await api.post("/api/knowledge", json=body)).json()["id"]
    script.append(REWRITE)
    done = (await api.put(f"/api/knowledge/{record_id}", json={"evolve_feedback": FEEDBACK, **asker})).json()

    answer = await api.get(f"/api/operations/{done['operation_id']}", params=reader)

    # A caller with an agent does not see it, not even the asking user: the log names only the agent.
    hears = hears and (reader == {} or "agent_id" not in asker)
    assert (FEEDBACK in answer.text, bool(answer.json().get("agent_io"))) == (hears, hears)
