"""Memories in the hub of a test, and their vectors."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowhub.bootstrap import Hub
from knowhub.context.events import OutboxEvent
from knowhub.context.model import ContextSummary
from knowhub.context.outbox import OutboxStatus
from knowhub.context.queries import list_memories
from knowhub.core.language_models import FailureReason, TextRefused
from knowhub.core.request_context import RequestContext
from knowhub.search.texts import MAX_MEMORY_ATTEMPTS
from knowhub.search.vector_files import LONGEST_PAUSE_S
from knowhub.search.vector_index import VectorIndex
from tests.builders import FakeClock, local
from tests.context_rows import ACCOUNT, OWNER, draft, part_rows, session_at
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import read_vectors

POISON = "the poisoned one"
TEXTS = ["the zebra is striped", POISON, "anna likes green tea"]


class PickyEmbedder(HashingEmbedder):
    """Refuses the poison until it is mended."""

    def __init__(self) -> None:
        super().__init__(iter(lambda: self._judge, None))
        self.is_mended = False

    def _judge(self, texts: Sequence[str]) -> Exception | None:
        refuses = not self.is_mended and any(POISON in text for text in texts)
        return TextRefused(FailureReason.FAILURE, "not this one") if refuses else None


async def write_rows(hub: Hub, rows: Sequence[Mapping[str, Any]], account: str = ACCOUNT) -> None:
    """Write rows as one operation."""
    await hub.store.commit(account, OWNER, lambda _view: draft(*rows))


def vectors_of(hub: Hub) -> VectorIndex[ContextSummary]:
    assert hub.indexes.memories.vectors is not None
    return hub.indexes.memories.vectors


async def status_of(hub: Hub, ctx: RequestContext | None = None) -> OutboxStatus:
    return await hub.memories.outbox.status(ctx or local())


async def search_uris(hub: Hub, text: str, groups: Iterable[frozenset[str]] = (), account: str = ACCOUNT) -> list[str]:
    """Return the URIs that a search finds, best first."""
    answer = await hub.indexes.memories.index.search(account, text, list(groups), lambda summary: summary.live, 100)
    return [hit.summary.uri for hit in answer.hits]


def list_live_summaries(hub: Hub, account: str = ACCOUNT) -> dict[int, ContextSummary]:
    return {summary.text_change: summary for summary in list_memories(hub.store.view(account))}


async def rebuild_vectors(hub: Hub, folder: Path) -> Mapping[int, bytes]:
    """Build the vectors anew, and return them by the number of their text."""
    await vectors_of(hub).rebuild(lambda _done, _total: None)
    return read_vectors(folder, "context")


async def drain_outbox(hub: Hub, clock: FakeClock) -> None:
    """Embed until only dead letters are left."""
    for _ in range(MAX_MEMORY_ATTEMPTS):
        await vectors_of(hub).embed_pending()
        clock.advance(LONGEST_PAUSE_S)
    await hub.maintenance.tick()


async def make_dead_letter(hub: Hub, clock: FakeClock) -> OutboxEvent:
    """Write messages, one of them refused by the embedder, and return its dead letter."""
    await write_rows(hub, part_rows(session_at(), TEXTS))
    await drain_outbox(hub, clock)
    (dead,) = (await status_of(hub)).dead_letters
    return dead
