"""A server that commits a session, reports it, and embeds in the background until it is killed."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from knowhub.bootstrap import open_hub
from knowhub.core.language_models import Vector
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.context_rows import ACCOUNT, OWNER, draft, part_rows, session_at
from tests.fakes.hashing_embedder import HashingEmbedder

MESSAGES = 200
POISON = "poison"


class SlowEmbedder(HashingEmbedder):
    """Takes a moment for each batch, and never gives a poisoned text its vector: all zeros are no answer."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        await asyncio.sleep(0.05)
        vectors = await super().embed(texts, timeout_s, query=query)
        return [
            type(vector)("f", bytes(4 * len(vector))) if POISON in text else vector
            for text, vector in zip(texts, vectors, strict=True)
        ]


async def main(folder: Path, turn: int) -> None:
    settings = Settings(data_dir=folder, owner=OWNER, index_interval_s=0.02)
    async with open_hub(settings, Overrides(embedder=SlowEmbedder())) as hub:
        texts = [f"message {number} of turn-{turn}" for number in range(MESSAGES)]
        rows = part_rows(session_at(f"s{turn}"), [*texts, f"{POISON} of turn-{turn}"])
        await hub.store.commit(ACCOUNT, OWNER, lambda _view: draft(*rows))
        sys.stdout.write("committed\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
