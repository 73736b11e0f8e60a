"""kill -9 during embedding, many times: exactly the texts without a vector are pending."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import FakeClock
from tests.crash.killed_embedder import MESSAGES, POISON, SlowEmbedder
from tests.hubs import open_search_hub, read_vectors
from tests.memory_index import list_live_summaries, rebuild_vectors, status_of, vectors_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.anyio


def kill_one(folder: Path, turn: int, after_s: float) -> None:
    """Start a server, and kill it so long after it has committed."""
    command = [sys.executable, "-m", "tests.crash.killed_embedder", str(folder), str(turn)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "committed\n"
        time.sleep(after_s)
        server.kill()


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=[pytest.mark.nightly, pytest.mark.timeout(1200)])])
async def test_an_index_of_killed_servers_equals_a_rebuild(tmp_path: Path, kills: int) -> None:
    rng = random.Random(5)
    seen = []
    for turn in range(kills):
        # The last one is killed at once: on a busy machine it would be done before the kill arrives.
        kill_one(tmp_path, turn, rng.uniform(0.0, 0.2) if turn < kills - 1 else 0.0)
        seen.append(len(read_vectors(tmp_path, "context")))

    clock = FakeClock(time.time())
    async with open_search_hub(tmp_path, SlowEmbedder(), clock) as hub:
        waiting = (await status_of(hub)).pending
        for _ in range(6):
            await vectors_of(hub).embed_pending()
            clock.advance(600)
        status, embedded = await status_of(hub), read_vectors(tmp_path, "context")
        poisoned = {number for number, summary in list_live_summaries(hub).items() if POISON in summary.abstract}

        assert waiting > 0
        assert seen == sorted(seen)
        assert (status.pending, status.failed, status.dead) == (0, 0, kills)
        assert {letter.uri for letter in status.dead_letters} == {
            list_live_summaries(hub)[item].uri for item in poisoned
        }
        assert len(embedded) == kills * MESSAGES
        assert set(list_live_summaries(hub)) - set(embedded) == poisoned
        assert embedded == await rebuild_vectors(hub, tmp_path)
