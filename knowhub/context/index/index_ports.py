"""What the outbox and its worker need from outside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowhub.context.index_model import EventStatus, EventType, OutboxEvent, TextToEmbed
from knowhub.context.model import ContextSummary
from knowhub.core.language_models import Vector


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A failed event, as it is stored for the next start.

    `seq` is the operation that wrote the text: the failure says nothing about a text that was written later.
    `not_before` is the earliest time of a retry, in seconds since the epoch.
    """

    event: OutboxEvent
    seq: int
    not_before: float


def parse_dead_letter(record: Mapping[str, Any]) -> DeadLetter:
    """Parse the `asdict()` of a dead letter. Raises KeyError, TypeError or ValueError for another object."""
    event = record["event"]
    if not isinstance(event["payload"]["account"], str):
        raise TypeError("a letter names its account")
    types = {"event_type": EventType(event["event_type"]), "status": EventStatus(event["status"])}
    return DeadLetter(OutboxEvent(**{**event, **types}), int(record["seq"]), float(record["not_before"]))


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An event, and the operation that requested it."""

    event: OutboxEvent
    seq: int


class Backlog(Protocol):
    """The texts of the log that have no vector yet. There is no other record of pending work."""

    def begin(self) -> None:
        """Collect the requests of the log from now on. Earlier requests are found by their missing vectors."""

    @property
    def has_requests(self) -> bool:
        """Whether the log has new requests that were not fetched yet."""

    async def next_requests(self, limit: int, known: Callable[[str, str], bool]) -> list[IndexRequest]:
        """Return about `limit` events that are not `known` yet, if possible in the order of the log."""

    def pending(self, account: str) -> Iterator[ContextSummary]:
        """Yield the nodes that wait for a vector."""

    def missing_since(self, account: str, address: str) -> int | None:
        """Return the operation that wrote a text without a vector; None if no vector is missing."""

    def give_up(self, account: str, address: str) -> None:
        """Stop waiting for the vector of a node, until its text changes."""

    def resume(self, account: str | None = None, address: str | None = None) -> None:
        """Wait again for the vector of a node that was given up; without an address, of all nodes."""


class DeadLetterStore(Protocol):
    """Stores failed events in one file that the leader alone writes. Every process may ask for a retry."""

    @property
    def erase_seq(self) -> int | None:
        """The number of the newest erase that the file includes; None without a file. Raises OSError."""

    def load(self) -> Sequence[DeadLetter]:
        """Return the stored events; none if the file is missing, damaged, or of another log."""

    async def save(self, letters: Sequence[DeadLetter]) -> None:
        """Replace the stored events if they have changed. Raises Unavailable."""

    def request_retry(self, event_id: str) -> None:
        """Ask the leader to try a dead letter again. Raises Unavailable."""

    def list_retries(self) -> Sequence[str]:
        """Return the ids of the dead letters with a requested retry. Raises Unavailable."""

    def forget_retries(self, event_ids: Sequence[str]) -> None:
        """Delete requests for a retry. A request that remains causes one more retry, and no other harm."""


class VectorStore(Protocol):
    """The vectors of indexed texts."""

    def missing_number(self, account: str, address: str) -> int | None:
        """Return the number of a node's text if it has no vector; None if it has a vector or the node is deleted."""

    async def embed_texts(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text; None for a text that the embedder rejects. Raises Unavailable."""

    async def reuse_vectors(self, account: str, texts: Sequence[TextToEmbed]) -> Sequence[TextToEmbed]:
        """Copy existing vectors of equal texts; return the texts without such a vector. Raises Unavailable."""

    async def upsert(self, account: str, texts: Sequence[TextToEmbed], vectors: "Sequence[Vector]") -> bool:
        """Write vectors. They are durable before searches use them. False if it must wait. Raises Unavailable."""

    async def delete_by_uri(self, account: str, address: str) -> None:
        """Remove a node from the results of searches."""

    async def move_uri(self, account: str, from_uri: str, to_uri: str) -> None:
        """Move the vectors at and below `from_uri` to `to_uri`. Raises Unavailable."""
