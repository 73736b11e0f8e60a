"""What contradicts a record takes its place, and its confidence falls; how much is stored costs a message little."""

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.conversations.messages import Message
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.extract.model import ExtractionRequest, ExtractionResult, Trigger
from knowhub.knowledge.model import COLLECTION
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, FakeClock, caller

pytestmark = pytest.mark.anyio

LI, ANN = caller(user_id="li"), caller(user_id="ann")
RNG = random.Random(3)
WORDS = ["".join(RNG.choice("bdfgklmnprstvz") + RNG.choice("aeiou") for _ in range(4)) for _ in range(6_000)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(
        Settings(data_dir=tmp_path, owner=OWNER), Overrides(clock=FakeClock()), maintain=False
    ) as opened:
        yield opened


async def heard(hub: Hub, *texts: str, ctx: RequestContext = LI, dry_run: bool = False) -> ExtractionResult:
    messages = [Message("user", text) for text in texts]
    return await hub.knowledge.extraction.extract(
        ctx, ExtractionRequest(messages, Trigger.USER_EXPRESSION, dry_run=dry_run)
    )


def wish() -> str:
    return f"I prefer {' '.join(RNG.sample(WORDS, 12))}."


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("我对花生过敏。", "我对花生不过敏。"),
        ("我對花生過敏。", "我对花生不过敏。"),
        ("我吃素。", "我不吃素。"),
        ("I am vegetarian.", "I'm no longer vegetarian."),
        ("I prefer more comments in code.", "I prefer fewer comments in code."),
        ("I always review before merging.", "I always review after merging."),
        ("I prefer answers with code first, then text.", "I prefer answers with text first, then code."),
        ("I usually work mornings.", "I usually work evenings."),
        ("I work as a nurse in Porto.", "I work as a teacher in Porto."),
        ("My name is Ana Costa.", "My name is Eva Costa."),
    ],
)
async def test_what_says_the_contrary_stands_and_the_earlier_loses_confidence(hub: Hub, stored: str, said: str) -> None:
    first = (await heard(hub, stored)).saved[0]

    second = await heard(hub, said)

    earlier = hub.store.view("default").get(COLLECTION, first["id"])
    assert earlier is not None
    assert [one["status"] for one in second.results] == ["changed"]
    assert second.saved[0]["supersedes"] == first["id"]
    assert (earlier["eval"]["helpful"], earlier["eval"]["harmful"]) == (1, 1)
    assert earlier["eval"]["confidence"] < first["eval"]["confidence"]
    assert earlier["content"] == first["content"]


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("I always use Postgres for the frontend work.", "I always use MongoDB for the frontend work."),
        ("I always deploy on Mondays.", "I always deploy on Fridays."),
    ],
)
async def test_another_value_of_what_may_have_many_is_a_record_of_its_own(hub: Hub, stored: str, said: str) -> None:
    await heard(hub, stored)

    second = await heard(hub, said)

    assert [one["status"] for one in second.results] == ["new"]
    assert second.saved[0]["supersedes"] is None


async def test_what_is_stored_costs_a_message_little(hub: Hub) -> None:
    for _ in range(2):
        await heard(hub, *(" ".join(wish() for _ in range(10)) for _ in range(15)))
    texts = [" ".join(wish() for _ in range(10)) for _ in range(4)]

    async def seconds(ctx: RequestContext) -> float:
        started = time.process_time()
        found = await heard(hub, *texts, ctx=ctx, dry_run=True)
        assert len(found.results) == 40
        return time.process_time() - started

    alone = min([await seconds(ANN) for _ in range(3)])
    among_many = min([await seconds(LI) for _ in range(3)])

    assert among_many < 4 * alone
