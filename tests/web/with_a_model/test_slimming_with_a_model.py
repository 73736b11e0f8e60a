"""A model's part in slimming: it says which records are one and what that says, and can do nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.language_models import ChatReply, ChatRequest, FailureReason, ModelUnavailable
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.queued_chat import Answer, QueuedChat, RefilledQueueChat, read_fenced
from tests.web.conftest import client_of
from tests.web.test_slimming import LONG, LONGER, SLIM, list_ids, read_record, slim

pytestmark = pytest.mark.anyio

ONE = "Selenium 打开页面之后，先等待元素出现再点击，最多等 20 秒"
OTHER = "点击之前先等待元素出现：Selenium 打开页面后最多等 20 秒"
MERGED = {"same": [1, 2], "task": "用 Selenium 点击", "content": "打开页面之后等元素出现再点击，最多等 20 秒。"}


async def save_records(api: httpx.AsyncClient, *contents: str, **fields: object) -> list[str]:
    bodies = ({"content": content, "dedup": False} | fields for content in contents)
    return [str((await api.post("/api/knowledge", json=body)).json()["id"]) for body in bodies]


def list_contents(question: ChatRequest) -> Sequence[str]:
    return [record["content"] for record in read_fenced(question)["records"]]


async def test_paraphrases_become_the_text_of_the_model(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    first, second = await save_records(api, ONE, OTHER)
    script.append(MERGED)

    done = await slim(api)

    kept, source = await read_record(api, first), await read_record(api, second)
    assert list_contents(model.questions[0]) == [ONE, OTHER]
    assert (kept["task"], kept["content"]) == (MERGED["task"], MERGED["content"])
    assert (source["content"], source["merged_into"]) == (OTHER, first)
    assert [(item["how"], item["content"]) for item in done["merged"]] == [("model", MERGED["content"])]
    assert (done["sources_by"]["model"], done["families_asked"], done["degraded"]) == (1, 1, [])
    operation = (await api.get(f"/api/operations/{done['operation_id']}")).json()
    assert [call["function"] for call in operation["agent_io"]] == ["merge_knowledge"]
    await api.post(f"/api/operations/{done['slim_id']}/undo", json={})
    assert [(await read_record(api, row_id))["content"] for row_id in (first, second)] == [ONE, OTHER]


async def test_the_model_is_not_asked_about_copies(api: httpx.AsyncClient, model: QueuedChat) -> None:
    await save_records(api, "one", "One", LONG, LONGER, "something else entirely")

    done = await slim(api)

    assert (done["records_after"], done["families_asked"], model.questions) == (3, 0, [])


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("down"),
        {"same": [1, 2], "task": "t", "content": " "},
        {"same": [1, 2], "task": "t"},
        {"same": [1, 2], "task": "t", "content": "20 " + "x" * 20_000},
        {"same": [1, 2], "task": "t", "content": "20 \ud800"},
        {"same": "all"},
        [],
    ],
    ids=["down", "blank", "none", "long", "surrogate", "text", "list"],
)
async def test_if_the_model_fails_only_copies_are_merged(
    api: httpx.AsyncClient, script: list[Answer], answer: Answer
) -> None:
    apart = await save_records(api, ONE, OTHER)
    copies = await save_records(api, "one", "One")
    script.append(answer)

    done = await slim(api)

    assert done["degraded"] == ["llm"]
    assert [item["ids"] for item in done["skipped"]] == [apart]
    assert sorted(await list_ids(api)) == sorted([*apart, copies[0]])
    assert [(await read_record(api, row_id))["content"] for row_id in apart] == [ONE, OTHER]


@pytest.mark.parametrize(
    ("same", "degraded"),
    [([], []), ([1], []), ([1, 99], ["llm"]), (["knowledge-20990101-0000"], ["llm"]), ([None, True, {}], ["llm"])],
)
async def test_an_invalid_pick_of_the_model_merges_nothing(
    api: httpx.AsyncClient, script: list[Answer], same: list[object], degraded: list[str]
) -> None:
    apart = await save_records(api, ONE, OTHER)
    script += [{"same": same, "task": "t", "content": "20"}] * 2

    done = await slim(api)

    assert (done["merged"], done["degraded"], len(await list_ids(api))) == ([], degraded, len(apart))
    assert [item["ids"] for item in done["skipped"]] == ([apart] if degraded else [])


GATEWAY = "the gateway of the staging cluster answers on another port than the one in production"


@pytest.mark.parametrize(
    ("contents", "text", "dropped"),
    [
        (
            ["Wait before the login form is sent by the crawler", "The crawler sends the login form: wait before it"],
            "as above",
            "most of {}, most of {}",
        ),
        (
            [f"{GATEWAY}: 8081, see https://ops.example/gw", f"{GATEWAY}: run `gw --probe` and look at v2.3"],
            "It answers on 8081. See v2.3.",
            "https://ops.example/gw, gw --probe",
        ),
        (
            [
                "Selenium login must wait 2 seconds before submitting the form, never use headless mode",
                "Before submitting the login form wait 2 seconds with Selenium; only Alice may approve",
            ],
            "wait 2 seconds with Selenium",
            "Alice, “never use headless mode”, “only alice may approve”",
        ),
    ],
)
async def test_a_text_that_drops_what_a_record_says_is_refused(
    api: httpx.AsyncClient, script: list[Answer], contents: list[str], text: str, dropped: str
) -> None:
    apart = await save_records(api, *contents)
    script.append({"same": [1, 2], "task": "t", "content": text})

    done = await slim(api)

    reason = f"the model's text leaves out {dropped.format(*apart)}"
    assert (done["merged"], done["skipped"], done["degraded"]) == ([], [{"ids": apart, "reason": reason}], [])
    assert len(await list_ids(api)) == 2


async def test_a_decision_not_to_merge_is_stored_too(api: httpx.AsyncClient, script: list[Answer]) -> None:
    await save_records(api, ONE, OTHER)
    apart = await save_records(api, ONE, OTHER, types=["tool"])
    script += [MERGED, {"same": []}]

    done = await slim(api)

    async def list_decisions() -> list[dict[str, Any]]:
        operations = (await api.get("/api/operations")).json()["results"]
        return [operation for operation in operations if operation["op"] == "agent_decision"]

    async with asyncio.timeout(5):
        while not (noted := await list_decisions()):  # noqa: ASYNC110 -- it is noted behind the answer
            await asyncio.sleep(0)
    (call,) = (await api.get(f"/api/operations/{noted[0]['operation_id']}")).json()["agent_io"]
    assert len(done["merged"]) == 1
    assert (call["function"], sorted(call["choices"].values())) == ("merge_knowledge", sorted(apart))


async def test_a_paused_model_is_not_tried_for_each_pair(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    await save_records(api, ONE, OTHER)
    await save_records(api, ONE, OTHER, type="tool")
    script.append(ModelUnavailable(FailureReason.FAILURE, "it has failed again and again"))

    done = await slim(api)

    assert (len(model.questions), done["degraded"], done["has_more"]) == (1, ["llm"], True)


async def test_records_of_different_readers_are_never_shown_together(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    await save_records(api, ONE, scopes=["team:web"])
    await save_records(api, OTHER, scopes=["public"])
    await save_records(api, OTHER, owner="user:li", scopes=["team:web"])
    script.append(MERGED)

    done = await slim(api)

    assert (done["merged"], model.questions) == ([], [])


class EditingChat(RefilledQueueChat):
    """Edits a record before it answers."""

    edit: Callable[[], Awaitable[object]]

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        await self.edit()
        return await super().chat(question, timeout_s)


async def test_a_record_changed_meanwhile_is_left_out_and_named(settings: Settings) -> None:
    model = EditingChat([MERGED])
    async with open_hub(settings, Overrides(llm=model)) as hub, client_of(create_app(settings, hub)) as api:
        first, second = await save_records(api, ONE, OTHER)
        copies = await save_records(api, "one", "One")
        model.edit = lambda: api.patch(f"/api/knowledge/{second}", json={"content": "moved on"})

        done = await slim(api)

        assert [item["ids"] for item in done["skipped"]] == [[first, second]]
        assert "changed meanwhile" in done["skipped"][0]["reason"]
        assert (done["records_after"], [item["into"] for item in done["merged"]]) == (3, [copies[0]])
        assert [(await read_record(api, row_id))["content"] for row_id in (first, second)] == [ONE, "moved on"]


async def test_nothing_is_written_if_all_records_were_changed_meanwhile(settings: Settings) -> None:
    model = EditingChat([MERGED])
    async with open_hub(settings, Overrides(llm=model)) as hub, client_of(create_app(settings, hub)) as api:
        _, second = await save_records(api, ONE, OTHER)
        model.edit = lambda: api.delete(f"/api/knowledge/{second}")

        done = await slim(api)

        assert (done["merged"], done["skipped_count"], done["operation_id"]) == ([], 1, None)


async def test_a_retry_of_a_running_slimming_gets_its_job_and_answer(settings: Settings) -> None:
    model = EditingChat([MERGED])
    async with open_hub(settings, Overrides(llm=model)) as hub, client_of(create_app(settings, hub)) as client:
        await save_records(client, ONE, OTHER)
        retries: list[asyncio.Task[httpx.Response]] = []
        refused: list[int] = []

        async def retry() -> None:
            retries.append(asyncio.create_task(client.post(SLIM, json={}, headers={"Idempotency-Key": "k-1"})))
            for body, key in (({"dry_run": True}, "k-1"), ({}, "k-2")):
                other = await client.post(SLIM, json=body, headers={"Idempotency-Key": key})
                refused.append(other.status_code)

        model.edit = retry
        first = await client.post(SLIM, json={}, headers={"Idempotency-Key": "k-1"})
        again = await retries[0]

    assert (first.status_code, first.json()["merged_count"]) == (200, 1)
    assert (again.status_code, again.json()) == (200, first.json())
    assert refused == [409, 409]
