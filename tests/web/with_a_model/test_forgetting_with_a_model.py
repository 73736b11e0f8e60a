"""What is undone or forgotten is not learnt by a model, nor learnt again."""

import httpx
import pytest

from knowhub.core.language_models import ChatRequest
from tests.fakes.queued_chat import Answer, QueuedChat
from tests.web.trees import undo
from tests.web.with_a_model.test_memories_with_a_model import (
    LI,
    MOVED,
    answer_with_change,
    commit_session,
    count_dropped,
    list_memories,
    prompt_of,
)

pytestmark = pytest.mark.anyio


async def test_undoing_a_commit_takes_back_what_a_model_learnt_from_its_messages_alone(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    harp = answer_with_change(statement="Plays the harp.", category="preferences", said="harp")
    script += [answer_with_change(statement="Has a cat called Pixel.", category="entities", said="Pixel"), harp, harp]
    await commit_session(api, "s1", MOVED)
    said = {"role": "user", "content": "I practise the harp.", "message_id": "n1"}
    committed = await commit_session(api, "s1", said)
    learnt = "Plays the harp." in await list_memories(api)

    undone = await undo(api, committed["operation_id"], **LI)
    contents = list(await list_memories(api))
    again = await undo(api, committed["operation_id"], **LI)
    await commit_session(api, "s1", said)

    assert (learnt, undone.status_code, len(undone.json()["undone"])) == (True, 200, 2)
    assert (contents, again.status_code) == (["Has a cat called Pixel."], 409)
    assert "Plays the harp." in await list_memories(api)
    assert len(model.questions) == 3


@pytest.mark.parametrize("erase", [False, True])
async def test_a_message_that_is_forgotten_while_it_is_read_teaches_nothing(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat, *, erase: bool
) -> None:
    harp = answer_with_change(statement="Plays the harp.", category="preferences", said="harp")
    uri = "ctx://default/users/li/sessions/s1/m0"

    async def answer_late(question: ChatRequest) -> object:
        deleted = await api.delete("/api/context/nodes", params={"uri": uri, "erase": erase, **LI})
        assert deleted.status_code == 200, deleted.text
        return harp(question)

    script += [
        answer_late,
        answer_with_change(statement="Has a cat called Pixel.", category="entities", said="Pixel"),
    ]

    await commit_session(api, "s1", "I practise the harp.", MOVED)

    assert list(await list_memories(api)) == ["Has a cat called Pixel."]
    assert "harp" not in prompt_of(model.questions[1])
    operations = (await api.get("/api/operations", params={"op": "extract_memories", **LI})).json()["results"]
    assert len(operations) == 1


async def test_a_forgotten_memory_does_not_come_back_from_messages_that_were_read_before(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    script += [answer_with_change(statement="Plays the harp.", category="preferences", said="practise the harp")] * 2
    script.append(answer_with_change(statement="Plays the harp.", category="preferences", said="new harp"))
    await commit_session(api, "s1", "I practise the harp.")
    (node,) = (await list_memories(api)).values()
    await api.delete("/api/context/nodes", params={"uri": node["uri"], **LI})

    await commit_session(api, "s1", {"role": "user", "content": "Thanks, bye.", "message_id": "n1"})
    forgotten = await list_memories(api)
    await commit_session(api, "s1", {"role": "user", "content": "My new harp is here!", "message_id": "n2"})

    assert "practise the harp" in prompt_of(model.questions[1])
    assert (forgotten, await count_dropped(api)) == ({}, {"said_before": 1})
    assert list(await list_memories(api)) == ["Plays the harp."]


@pytest.mark.parametrize("request_text", ["Please forget where I live, take it off.", "忘了我住哪里。"])
async def test_a_request_to_forget_needs_no_word_of_the_memory(
    api: httpx.AsyncClient, script: list[Answer], request_text: str
) -> None:
    script += [
        answer_with_change(statement="The user lives in Rome.", said="Rome"),
        answer_with_change(action="forget", statement="It ended.", evidence=["m1"], known="Rome"),
    ]
    await commit_session(api, "s1", "The move is done, Rome is home.")

    await commit_session(api, "s2", request_text)

    assert (await list_memories(api), await count_dropped(api, "s2")) == ({}, {})


@pytest.mark.parametrize(
    ("sessions", "current"),
    [
        (
            [
                ("03-01", "So, Ghent it is, I signed the lease.", "The user lives in Ghent."),
                ("03-05", "The move is done, Rome is home.", "The user lives in Rome."),
                ("02-01", "I just arrived in Oslo, my new city.", "The user lives in Oslo."),
            ],
            "The user lives in Rome.",
        ),
        (
            [
                ("03-01", "终于在青岛租到房子了。", "用户住在青岛。"),
                ("03-05", "现在烟台就是我家了。", "用户住在烟台。"),
            ],
            "用户住在烟台。",
        ),
    ],
)
async def test_a_single_valued_fact_that_a_model_adds_ends_the_one_before_unless_it_is_older(
    api: httpx.AsyncClient, script: list[Answer], sessions: list[tuple[str, str, str]], current: str
) -> None:
    for number, (day, text, statement) in enumerate(sessions):
        script.append(answer_with_change(statement=statement, evidence=["m1"]))
        said = {"role": "user", "content": text, "timestamp": f"2026-{day}T10:00:00Z"}
        await commit_session(api, f"s{number}", said)

    assert list(await list_memories(api)) == [current]
