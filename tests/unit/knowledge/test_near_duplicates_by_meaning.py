"""What is offered to a model as one by meaning, and what two texts must share to state the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.knowledge.evolve.slim_plan import MergeCandidates
from knowhub.knowledge.facts import state_the_same
from knowhub.settings import Settings
from tests.builders import local, new_knowledge

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
TEXT = (
    "Deploy the gateway in small steps. First drain the old nodes and watch the error rate on the dashboard. "
    "Then switch the load balancer over and keep the previous build ready for a rollback. "
)
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
    find_like = records.find_like if by_meaning else None
    return [{ref.id for ref in group} async for group in candidates.find_groups(records.lexical, find_like) if group]


async def test_paraphrases_are_offered_to_a_model_together_and_nothing_else_is(hub: Hub) -> None:
    ids = await save(hub, *(text for pair in PARAPHRASES for text in pair), *OTHERS)
    assert hub.indexes.records.vectors is not None
    await hub.indexes.records.vectors.embed_pending()

    assert await find_groups(hub, by_meaning=False) == []
    assert await find_groups(hub, by_meaning=True) == [set(ids[place : place + 2]) for place in (0, 2, 4)]


async def test_near_copies_are_joined_without_a_model(hub: Hub) -> None:
    body = TEXT * 2
    await save(hub, body, f"{body}Afterwards write a short note for the team.")

    report = (await hub.knowledge.slimming.slim(local())).report

    assert [item["how"] for item in report["merged"]] == ["near_duplicate"]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_texts_that_differ_in_a_figure_a_name_or_a_negation_do_not_state_the_same(first: str, second: str) -> None:
    assert not state_the_same(first, second)
    assert not state_the_same(second, first)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_fillers_and_endings_make_no_difference(first: str, second: str) -> None:
    assert state_the_same(first, second)
