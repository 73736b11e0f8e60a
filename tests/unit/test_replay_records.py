"""What a model once extracted, rewrote and merged, asked again: told by what it decides, with what it writes beside."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub, World, open_hub
from knowhub.core.asking import MAX_RECORDED_TEXT
from knowhub.core.messages import Message
from knowhub.core.replaying import UNUSABLE
from knowhub.keywords.replay import Difference, ScriptedModel, meaning, recorded_calls, replay
from knowhub.knowledge.extraction_model import Extraction, Trigger
from knowhub.knowledge.model import Feedback
from knowhub.knowledge.replaying import REPLAYED
from knowhub.settings import Settings
from tests.builders import local, new_knowledge
from tests.fakes.queued_chat import QueuedChat

pytestmark = pytest.mark.anyio

EXTRACT, EVOLVE, MERGE = "extract_knowledge", "evolve_knowledge", "merge_knowledge"
TABS = {
    "type": "user_profile",
    "category": "preference",
    "task": "writing code",
    "content": "The user prefers tabs for indentation",
    "messages": [0],
}
LONG = {"type": "tool", "content": "pnpm install needs the flag frozen here", "messages": [1, 2]}
BEFORE = "Call the service at port 8080.\nUse `Chrome` only."
PAIR = ("The staging service listens on port 8080 of Falcon.", "On Falcon the staging service has port 8080 open.")
CHOICES = {"1": "a", "2": "b", "3": "c"}


async def replayed(hub: Hub, *lines: object) -> list[Difference]:
    operations = [one async for one in hub.store.operations("default")]
    script = ScriptedModel(json.dumps(line) for line in lines)
    calls = list(recorded_calls(operations, REPLAYED))
    assert calls
    return [one async for one in replay(calls, script, 5.0, REPLAYED)]


async def extracting(folder: Path, answer: object, *lines: object) -> Difference:
    messages = [
        Message("user", "I prefer tabs for indentation", message_id="m-1"),
        Message("assistant", "pnpm install needs the flag", message_id="m-2"),
        Message("tool", "pnpm install: frozen here", message_id="m-3"),
    ]
    async with open_hub(Settings(data_dir=folder), World(llm=QueuedChat([answer]))) as hub:
        await hub.extraction.extract(local(), Extraction(messages, Trigger.COMPACTION))
        return (await replayed(hub, *lines))[0]


async def evolving(folder: Path, answer: object, *lines: object) -> Difference:
    async with open_hub(Settings(data_dir=folder), World(llm=QueuedChat([answer]))) as hub:
        saved = await hub.knowledge.save(local(), new_knowledge(content=BEFORE))
        await hub.evolution.evolve(local(), saved.record["id"], Feedback(words="the port has changed", score=4))
        return (await replayed(hub, *lines))[0]


async def merging(folder: Path, answer: object, *lines: object) -> tuple[Difference, Sequence[str]]:
    async with open_hub(Settings(data_dir=folder), World(llm=QueuedChat([answer]))) as hub:
        ids = [(await hub.knowledge.save(local(), new_knowledge(task="", content=one))).record["id"] for one in PAIR]
        await hub.slimming.slim(local())
        return (await replayed(hub, *lines))[0], ids


async def test_an_extraction_in_other_words_and_another_order_is_the_same(tmp_path: Path) -> None:
    reworded = TABS | {"task": "indenting", "content": "Tabs for indentation, the user says", "messages": ["0", 0]}

    told = await extracting(tmp_path, {"candidates": [TABS, LONG]}, {"candidates": [LONG, reworded]})

    assert told.same
    assert told.asked == "I prefer tabs for indentation"
    assert told.was["candidates"][1] == ["user_profile", "preference", [0]]
    assert told.was_text.splitlines() == [TABS["content"], LONG["content"]]
    assert told.now_text.splitlines() == [LONG["content"], reworded["content"]]


@pytest.mark.parametrize(
    "items",
    [
        [TABS],
        [],
        [TABS, LONG | {"type": "strategy"}],
        [TABS | {"category": "habit"}, LONG],
        [TABS, LONG | {"messages": [2, 1]}],
        [TABS, LONG, LONG | {"content": "of which the messages say nothing at all"}],
    ],
    ids=["fewer", "none", "another type", "another category", "another decisive message", "an invention"],
)
async def test_an_extraction_of_other_things_differs(tmp_path: Path, items: list[Any]) -> None:
    told = await extracting(tmp_path, {"candidates": [TABS, LONG]}, {"candidates": items})

    assert not told.same


def test_an_extraction_differs_by_the_record_that_an_item_points_at() -> None:
    data = {"messages": [{"idx": 0, "role": "user", "text": TABS["content"]}]}
    found = [
        meaning(REPLAYED[EXTRACT], {"candidates": [TABS | pointing]}, CHOICES, data)
        for pointing in ({}, {"same_as": 1}, {"same_as": "a"}, {"against": 1}, {"same_as": 9})
    ]

    assert found[1] == found[2]
    assert found[0] == found[4]
    assert len({json.dumps(one) for one in found}) == 3


async def test_a_rewrite_is_compared_by_whether_it_changes_and_what_it_leaves_out(tmp_path: Path) -> None:
    after = {"content": "Call the service at port 9090.\nUse `Chrome` only.", "summary_of_change": "another port"}
    reworded = {"content": "The service listens on port 9090. Use `Chrome` only.", "summary_of_change": "x"}

    same = await evolving(tmp_path / "same", after, reworded)
    unchanged = await evolving(tmp_path / "unchanged", after, {"content": BEFORE, "summary_of_change": ""})
    poorer = await evolving(tmp_path / "poorer", after, {"content": "Port 9090.", "summary_of_change": ""})

    assert same.same
    assert same.was == {"changes": True, "leaves_out": ["8080"]}
    assert (same.asked, same.was_text, same.now_text) == ("the port has changed", after["content"], reworded["content"])
    assert (unchanged.now, unchanged.same) == ({"changes": False}, False)
    assert "chrome" in poorer.now["leaves_out"]
    assert not poorer.same


async def test_a_merge_is_compared_by_which_records_are_one_and_what_the_text_leaves_out(tmp_path: Path) -> None:
    merged = {"same": [1, 2], "task": "", "content": "Staging on Falcon: port 8080."}
    reworded = {"same": ["2", 1], "task": "staging", "content": "Falcon serves staging at port 8080."}

    (same, ids) = await merging(tmp_path / "same", merged, reworded)
    apart, _ = await merging(tmp_path / "apart", merged, {"same": []})
    poorer, _ = await merging(tmp_path / "poorer", merged, merged | {"content": "Staging is on Falcon."})

    assert same.same
    assert same.was == {"same": sorted(ids)}
    assert (same.was_text, same.now_text) == (merged["content"], reworded["content"])
    assert sorted(same.names) == sorted(ids)
    assert (apart.now, apart.same) == ({"same": []}, False)
    assert (poorer.now["leaves_out"], poorer.same) == (["8080"], False)


def test_of_an_answer_that_the_log_holds_in_part_nothing_is_said_to_be_left_out() -> None:
    long = "x " * MAX_RECORDED_TEXT
    data = {"content": f"{long}8080", "feedback": "shorter"}
    records = {"records": [{"idx": 1, "task": "", "content": "8080"}, {"idx": 2, "task": "", "content": "8081"}]}

    evolved = meaning(REPLAYED[EVOLVE], {"content": f"y {long}"[:MAX_RECORDED_TEXT]}, {}, data)
    unchanged = meaning(REPLAYED[EVOLVE], {"content": long[:MAX_RECORDED_TEXT]}, {}, data)
    merged = {"same": [1, 2], "task": "", "content": long[:MAX_RECORDED_TEXT]}

    assert evolved == {"changes": True}
    assert unchanged == {"changes": False}
    assert meaning(REPLAYED[MERGE], merged, CHOICES, records) == {"same": ["a", "b"]}


@pytest.mark.parametrize("function", [EXTRACT, EVOLVE, MERGE])
@pytest.mark.parametrize("data", [None, {"messages": 7, "records": [1]}, {"content": 7, "records": [{"idx": 1}]}])
@pytest.mark.parametrize(
    "output",
    [None, [], {}, {"candidates": [None, 7, {}]}, {"content": "\ud800"}, {"same": [1, 2], "content": "\ud800"}],
)
def test_no_answer_about_records_breaks_a_replay(function: str, data: Any, output: Any) -> None:  # noqa: ANN401 -- anything
    json.dumps(meaning(REPLAYED[function], output, CHOICES, data)).encode()


@pytest.mark.parametrize(
    ("function", "output"),
    [
        (EXTRACT, {"candidates": "none"}),
        (EVOLVE, {"content": " "}),
        (EVOLVE, {"content": "\ud800"}),
        (MERGE, {"same": [1, 2], "task": "", "content": ""}),
        (MERGE, {"same": [1, 2], "task": "\ud800", "content": "x"}),
    ],
)
def test_what_no_record_can_be_is_unusable(function: str, output: Any) -> None:  # noqa: ANN401 -- any JSON
    assert meaning(REPLAYED[function], output, CHOICES, {}) == UNUSABLE
