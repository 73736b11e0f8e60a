"""What the outbox and its worker need from outside."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from knowhub.context.index_model import IndexRecord, OutboxEvent
from knowhub.context.model import ContextHead
from knowhub.core.embedding import Vector


@dataclass(frozen=True, slots=True)
class Letter:
    """An event that failed, as it is kept over a restart.

    `seq` is the operation that asked for it: a text that was written later is not the one that failed. `not_before`
    is when it may be tried again, in seconds since the epoch.
    """

    event: OutboxEvent
    seq: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Asked:
    """An event, and the operation that asked for it."""

    event: OutboxEvent
    seq: int


class Backlog(Protocol):
    """What the log asks of the vectors and they have not: the truth of what is pending (CE-082, C-72)."""

    def begin(self) -> None:
        """Note from now on what the log asks for; what it asked for before shows in what the vectors lack."""

    @property
    def has_asked(self) -> bool:
        """Whether the log has asked for something since that was not fetched yet."""

    async def next_asked(self, limit: int, known: Callable[[str, str], bool]) -> list[Asked]:
        """Return up to about `limit` events that are not `known` yet, in the order of the log where that is known."""

    def waiting(self, account: str) -> Iterator[ContextHead]:
        """Yield what has no vector yet and may get one."""

    def lacked_since(self, account: str, address: str) -> int | None:
        """Return the operation that wrote the text for which there is no vector; None where nothing is lacking."""

    def give_up(self, account: str, address: str) -> None:
        """Count a node among what waits no more, until its text changes."""

    def take_up(self, account: str | None = None, address: str | None = None) -> None:
        """Count a node that was given up among what waits again; with no name all."""


class LetterBox(Protocol):
    """Keeps letters in one small file that only the keeper writes, and takes wishes of every process to it."""

    def load(self) -> Sequence[Letter]:
        """Return what was kept; nothing where the file is missing, damaged, or tells of another log."""

    async def save(self, letters: Sequence[Letter]) -> None:
        """Keep these in the place of those that stand, where anything has changed. Raises Unavailable."""

    def ask(self, event_id: str) -> None:
        """Wish that a dead letter be tried again. Raises Unavailable."""

    def asked(self) -> Sequence[str]:
        """Return the ids that are wished for. Raises Unavailable."""

    def answered(self, event_ids: Sequence[str]) -> None:
        """Forget wishes; one that stays is only answered again."""


class VectorStore(Protocol):
    """The vectors of L0 texts (CE-154…157); a record names the number of its text in its metadata, as `text_num`."""

    def lacked(self, account: str, address: str) -> int | None:
        """Return the number of a node's text where it has no vector; None where it has one, or is gone."""

    async def embedded(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text, None for those that the embedder does not take. Raises Unavailable."""

    async def take_alike(self, account: str, records: Sequence[IndexRecord]) -> Sequence[IndexRecord]:
        """Give what has the text of something embedded that vector; return the others. Raises Unavailable."""

    async def upsert(self, account: str, records: Sequence[IndexRecord], vectors: "Sequence[Vector]") -> bool:
        """Write vectors, durable before they count; False while that must wait. Raises Unavailable."""

    async def delete_by_uri(self, account: str, address: str) -> None:
        """Let no search find a node any more."""

    async def move_uri(self, account: str, from_uri: str, to_uri: str) -> None:
        """Give what stands at and below `to_uri` the vectors that it had below `from_uri`. Raises Unavailable."""
