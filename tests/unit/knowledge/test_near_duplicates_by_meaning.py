"""Which texts are offered to a model as equal in meaning, and which texts state the same."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.conversations.changes.prompt import MAX_KNOWN
from knowhub.conversations.messages import Message
from knowhub.core.language_models import ChatRequest
from knowhub.knowledge.evolve.slim_plan import MergeCandidates
from knowhub.knowledge.extract.model import ExtractionRequest, ExtractionResult
from knowhub.knowledge.facts import have_same_words
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import local, new_knowledge
from tests.fakes.scripted_chat import ScriptedChat
from tests.memory_changes import make_change, read_shown

pytestmark = pytest.mark.anyio

PARAPHRASES = [
    (
        "Back up the database before every schema migration",
        "Always save a copy of the tables prior to altering their structure",
    ),
    ("The laptop overheats when the fan is blocked", "A computer gets too hot if its cooling vent is obstructed"),
    ("Customers are unhappy about late parcels", "Buyers complain when their packages arrive behind schedule"),
]
OTHERS = [
    "Pancakes need flour, milk and eggs",
    "The museum is closed on public holidays",
    "Use a strong password for the mail account",
    "Penguins live in the southern hemisphere",
    "The train to the coast leaves from platform nine",
    "Guitar strings wear out after some months of playing",
]
DIFFERENT = [
    ("the API allows 100 requests a minute", "the API allows 200 requests a minute"),
    ("Alice reviews each release of the gateway", "Bob reviews each release of the gateway"),
    ("alice reviews each release of the gateway", "bob reviews each release of the gateway"),
    ("deploy on Fridays after the tests", "do not deploy on Fridays after the tests"),
    ("the cache can be cleared at any time", "the cache can never be cleared at any time"),
    ("the server runs in Frankfurt", "the server runs in Dublin"),
    ("the retry limit is three", "the retry limit is five"),
    ("发布流程由张伟负责，每周二下午三点开会", "发布流程由李娜负责，每周二下午三点开会"),
    ("Martin reviews each release of the gateway", "Martina reviews each release of the gateway"),
    ("每周二下午三点开会讨论发布", "每周二下午五点开会讨论发布"),
    ("周五可以发布新版本", "周五不可以发布新版本"),
    ("the timeout is 30s for uploads", "the timeout is 30m for uploads"),
    ("everyone may merge without a review", "everyone may merge with a review"),
]
SAME = [
    ("Deploy the gateway on Fridays after the tests", "deploy gateway on fridays after tests"),
    ("please restart the workers after each deployment", "restart the workers after each deployment"),
    ("每周二下午三点开会", "每周二的下午三点开会"),
    ("the test fails on the runner", "the tests fail on the runners"),
]
SAVED_TOGETHER = 100


class Extracted(NamedTuple):
    """The ids of the stored records, and the result of the extraction."""

    ids: list[str]
    result: ExtractionResult


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    settings = Settings(data_dir=tmp_path, owner="user:local", embedding="auto")
    async with open_hub(settings, maintain=False) as opened:
        yield opened


async def save(hub: Hub, *contents: str) -> list[str]:
    new = [new_knowledge(content, task="", dedup=False) for content in contents]
    saved = (await hub.knowledge.records.save_batch(local(), new)).records
    return [str(item.record["id"]) for item in saved]


async def find_groups(hub: Hub, *, by_meaning: bool) -> list[set[str]]:
    records = hub.indexes.records
    candidates = MergeCandidates(hub.store.view("default"), local())
    await candidates.read(lambda _done, _total: None)
    find_similar = records.find_similar if by_meaning else None
    return [{ref.id for ref in group} async for group in candidates.find_groups(records.lexical, find_similar) if group]


async def test_only_paraphrases_are_grouped_for_the_model(hub: Hub) -> None:
    ids = await save(hub, *(text for pair in PARAPHRASES for text in pair), *OTHERS)
    assert hub.indexes.records.vectors is not None
    await hub.indexes.records.vectors.embed_pending()

    assert await find_groups(hub, by_meaning=False) == []
    assert await find_groups(hub, by_meaning=True) == [set(ids[place : place + 2]) for place in (0, 2, 4)]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_texts_that_differ_in_a_figure_a_name_or_a_negation_do_not_state_the_same(first: str, second: str) -> None:
    assert not have_same_words(first, second)
    assert not have_same_words(second, first)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_fillers_and_endings_are_ignored(first: str, second: str) -> None:
    assert have_same_words(first, second)


async def extract(
    folder: Path, chat: ScriptedChat | None, said: str, *stored: str, embedding: Literal["auto", "off"] = "auto"
) -> Extracted:
    """Save earlier statements of the user, oldest first, and extract from one more message."""
    settings = Settings(data_dir=folder, owner="user:local", embedding=embedding)
    async with open_hub(settings, Overrides(llm=chat), maintain=False) as hub:
        new = [
            new_knowledge(text, task="", types=["user_profile"], tags={"category": "preference"}, dedup=False)
            for text in stored
        ]
        ids: list[str] = []
        for start in range(0, len(new), SAVED_TOGETHER):
            saved = (await hub.knowledge.records.save_batch(local(), new[start : start + SAVED_TOGETHER])).records
            ids += [str(item.record["id"]) for item in saved]
        if hub.indexes.records.vectors is not None:
            await hub.indexes.records.vectors.embed_pending()
        request = ExtractionRequest((Message("user", said, message_id="m-1"),))
        return Extracted(ids, await hub.knowledge.extraction.extract(local(), request))


@pytest.mark.parametrize(("embedding", "is_shown"), [("auto", True), ("off", False)])
async def test_extraction_shows_the_model_an_old_record_of_the_same_meaning(
    tmp_path: Path, embedding: Literal["auto", "off"], *, is_shown: bool
) -> None:
    chat = ScriptedChat([point_at(PARAPHRASES[2][0], PARAPHRASES[2][1])])
    newer = [f"The user likes {color} shelf number {number}" for number in range(20) for color in ("red", "blue")]

    extracted = await extract(tmp_path, chat, PARAPHRASES[2][1], PARAPHRASES[2][0], *newer, embedding=embedding)

    assert len(read_shown(chat.questions[0], "k")) == MAX_KNOWN
    assert (PARAPHRASES[2][0] in read_shown(chat.questions[0], "k")) is is_shown
    result = extracted.result.results[0]
    assert (result["status"], result["knowledge_id"] == extracted.ids[0]) == (
        ("merged", True) if is_shown else ("new", False)
    )


async def test_extraction_without_a_model_merges_with_old_records(
    tmp_path: Path,
) -> None:
    newer = [f"The user said: I prefer {name} for task {number}" for number in range(155) for name in ("pens", "ink")]

    said = "I prefer long meetings on Monday mornings"
    extracted = await extract(tmp_path, None, said, f"The user said: {said}", *newer, embedding="off")

    result = extracted.result.results[0]
    assert (result["status"], result["knowledge_id"]) == ("merged", extracted.ids[0])


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("I prefer Rust for services", "I prefer Go for services"),
        ("I prefer meetings before noon", "I prefer meetings after noon"),
        ("I prefer releases on day 12", "I prefer releases on day 13"),
        ("I prefer working from home", "I prefer not working from home"),
        ("I prefer tests in small files", "I would rather have tests in many little files"),
    ],
)
async def test_extraction_without_a_model_merges_nothing_by_meaning(tmp_path: Path, stored: str, said: str) -> None:
    extracted = await extract(tmp_path, None, said, f"The user said: {stored}")

    assert [item["status"] for item in extracted.result.results] in (["new"], [])


def point_at(known: str, content: str) -> Callable[[ChatRequest], Mapping[str, Any]]:
    """Return a model that says a known record anew if it is shown it."""

    def answer(question: ChatRequest) -> Mapping[str, Any]:
        shown = read_shown(question, "k")
        pointed = {"action": "update", "memory": f"k{shown.index(known) + 1}"} if known in shown else {}
        return {"changes": [make_change(content, **pointed)]}

    return answer
