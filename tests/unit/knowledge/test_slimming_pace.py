"""How long slimming many records blocks the event loop."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.operation import IdempotencyKey
from knowhub.knowledge.evolve.slim_plan import MAX_CHARACTERS, split_into_parts
from knowhub.knowledge.evolve.slimming import SlimResult
from knowhub.settings import Settings
from tests.builders import local, new_knowledge

pytestmark = pytest.mark.anyio

PAIRS = 400
KEY = IdempotencyKey("user:local", "POST", "/api/knowledge/slim", "once", "body")


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """Turn off garbage collection, which would pause the loop during the measurement."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def measure_turns(work: Awaitable[SlimResult]) -> tuple[SlimResult, list[float]]:
    """Do it, and return the processor time of each turn that others had to wait for meanwhile, in seconds."""
    working = asyncio.ensure_future(work)
    steps: list[float] = []
    while not working.done():
        before = time.thread_time()
        await asyncio.sleep(0)
        steps.append(time.thread_time() - before)
    return await working, steps


@pytest.mark.usefixtures("_no_collection")
async def test_no_step_of_slimming_blocks_the_loop_for_long(tmp_path: Path) -> None:
    # Pairs that share no pair of words with others, of a sentence or two more.
    texts = [" ".join(f"w{number}x{word}" for word in range(100)) for number in range(PAIRS)]
    drafts = [new_knowledge(f"{text}{more}", dedup=False) for text in texts for more in ("", ". One thing more")]
    async with open_hub(Settings(data_dir=tmp_path), maintain=False) as hub:
        for start in range(0, len(drafts), 100):
            await hub.knowledge.records.save_batch(local(), drafts[start : start + 100])

        done, steps = await measure_turns(hub.knowledge.slimming.slim(local(), key=KEY))
        again, steps_again = await measure_turns(hub.knowledge.slimming.slim(local(), key=KEY))

    assert (done.report["merged_count"], again) == (PAIRS, done)
    assert max(steps) * 10 < sum(steps)
    # A retry mostly reads back the written rows: without pauses that would be one step.
    assert max(steps_again) * 3 < sum(steps_again) * 2


def test_parts_have_at_most_100_rows_or_100000_characters() -> None:
    def split(count: int, characters: int) -> list[int]:
        return [len(part) for part in split_into_parts(range(count), 100, lambda _pair: (2, characters))]

    assert split(120, 10) == [50, 50, 20]
    assert split(5, MAX_CHARACTERS // 2) == [2, 2, 1]
    assert split(3, MAX_CHARACTERS * 2) == [1, 1, 1]
