"""The outbox: the memories that still need a vector, as far as a caller sees them.

It stores nothing. A memory is pending while the log has its text and the vectors do not.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from knowhub.context.events import EventStatus, EventType, OutboxEvent, hash_event
from knowhub.context.model import ContextSummary
from knowhub.context.queries import find_memory
from knowhub.core import permissions
from knowhub.core.clock import Clock
from knowhub.core.errors import NotFound
from knowhub.core.operation import Store
from knowhub.core.recall import MissingVector
from knowhub.core.request_context import RequestContext

REJECTED: Final = "the embedder does not take this text"
_COUNTED_PER_TURN: Final = 1_000
_MAX_DEAD_LETTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """The events that a caller may see, counted. `lag_s` is the age of the oldest event, without dead letters.

    `dead_letters` has the oldest dead letters, at most a thousand.
    """

    pending: int = 0
    claimed: int = 0
    failed: int = 0
    dead: int = 0
    lag_s: float = 0.0
    dead_letters: Sequence[OutboxEvent] = ()


class MissingVectors(Protocol):
    """The memories without a vector."""

    def list_missing(self, account: str) -> Iterator[MissingVector]:
        """Yield those of an account."""

    def list_rejected(self, account: str | None = None) -> Iterator[MissingVector]:
        """Yield those of an account, or of all, whose text the embedder rejects."""

    async def request_retry(self, account: str, row_id: str) -> None:
        """Have a rejected text tried again. Raises Unavailable."""


class Outbox:
    """Shows callers which of their memories need a vector. Without an embedder, `vectors` is None and none does."""

    def __init__(self, store: Store, vectors: MissingVectors | None, clock: Clock) -> None:
        self._store = store
        self._vectors = vectors
        self._clock = clock

    @property
    def counts(self) -> Mapping[EventStatus, int]:
        """The number of failed events by status, over all accounts, for monitoring."""
        return Counter(map(_get_status, self._vectors.list_rejected() if self._vectors is not None else ()))

    async def status(self, ctx: RequestContext) -> OutboxStatus:
        """Count the events that the caller may see, and list the dead letters among them."""
        counts: Counter[EventStatus] = Counter()
        oldest = now = self._clock.now()
        dead: list[OutboxEvent] = []
        missing = self._vectors.list_missing(ctx.account) if self._vectors is not None else ()
        for number, (item, summary) in enumerate(self._find_visible(ctx, missing), start=1):
            status = _get_status(item)
            counts[status] += 1
            if status is EventStatus.DEAD:
                dead.append(_make_dead_letter(ctx.account, item, summary))
            else:
                oldest = min(oldest, summary.updated_at)
            if number % _COUNTED_PER_TURN == 0:
                await asyncio.sleep(0)
        return OutboxStatus(
            pending=counts[EventStatus.PENDING],
            claimed=counts[EventStatus.CLAIMED],
            failed=counts[EventStatus.FAILED],
            dead=len(dead),
            lag_s=now - oldest,
            dead_letters=sorted(dead, key=lambda event: (event.created_at, event.event_id))[:_MAX_DEAD_LETTERS],
        )

    async def retry(self, ctx: RequestContext, event_id: str) -> OutboxEvent:
        """Retry a dead letter, as if it had never failed.

        Raises Forbidden for a reader, NotFound if the caller sees no such dead letter, and Unavailable.
        """
        permissions.check_can_write(ctx)
        if self._vectors is not None:
            for item, summary in self._find_visible(ctx, self._vectors.list_rejected(ctx.account)):
                event = _make_dead_letter(ctx.account, item, summary)
                if event.event_id == event_id and _get_status(item) is EventStatus.DEAD:
                    await self._vectors.request_retry(ctx.account, item.row_id)
                    return replace(event, status=EventStatus.PENDING, retry_count=0, error="")
        raise NotFound.of("dead letter", event_id)

    def _find_visible(
        self, ctx: RequestContext, missing: Iterable[MissingVector]
    ) -> Iterator[tuple[MissingVector, ContextSummary]]:
        view = self._store.view(ctx.account)
        for item in missing:
            summary = find_memory(view, item.row_id)
            if summary is not None and ctx.sees(summary.audience):
                yield item, summary


def _get_status(item: MissingVector) -> EventStatus:
    if item.is_asked:
        return EventStatus.CLAIMED
    if not item.attempts:
        return EventStatus.PENDING
    return EventStatus.DEAD if item.retry_at is None else EventStatus.FAILED


def _make_dead_letter(account: str, item: MissingVector, summary: ContextSummary) -> OutboxEvent:
    return OutboxEvent(
        hash_event(account, item.seq, summary.uri, EventType.UPSERT_CONTEXT),
        EventType.UPSERT_CONTEXT,
        summary.uri,
        {"account": account, "owner": summary.owner, "collection": summary.collection},
        EventStatus.DEAD,
        item.attempts,
        summary.updated_at,
        REJECTED,
    )
