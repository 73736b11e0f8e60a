"""What layered memories need from outside."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.heard import Episode, Statement
from knowhub.context.model import ContextHead, MemoryContext, RelationEdge
from knowhub.core.messages import Message
from knowhub.core.operation import Commits, Operation, View
from knowhub.core.recall import Recalled


class ContextView(View, Protocol):
    """The newest state of one account, as a decision sees it; what is listed is what is acknowledged."""

    def context_head(self, uri: str) -> ContextHead | None:
        """Return the head of a node or a part, a deleted one too; None where that URI was never used."""

    def context_parts(self, session_uri: str) -> Sequence[ContextHead]:
        """Return the live parts of a session, in the order in which they were said."""

    def context_neighbours(self, uri: str, reach: int) -> Sequence[ContextHead]:
        """Return the live parts of a session around one, at most `reach` before and behind it, in order, without it."""

    def context_children(self, parent_uri: str) -> Sequence[ContextHead]:
        """Return the live nodes and parts directly below a URI, by their URIs, parts in the order they were said."""

    def context_folders(self, parent_uri: str) -> Sequence[str]:
        """Return the URIs directly below a URI that are no nodes and have live nodes below them, in order."""

    def context_heads(self) -> Iterator[ContextHead]:
        """Yield every live node and part, in the order of their creation."""


class ContextStore(Commits[ContextView], Protocol):
    """Where memories live: durable decisions, and reads that see every acknowledged write."""

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""

    def view(self, account: str) -> ContextView:
        """Return the acknowledged state of one account."""


class ContextIndex(Protocol):
    """Finds nodes and parts by their L0 text. It has no content: a search opens no L2 (CE-091, CE-178)."""

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[ContextHead], bool],
        limit: int,
    ) -> Recalled[ContextHead]:
        """Return the `limit` best that have one facet of each group and are accepted, best first.

        Relevances are comparable within one answer only.
        """

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that stand in any of `fields`."""


class ContextDirectories(Protocol):
    """The directories of the nodes: derived from the log, for people and tools to read."""

    async def project(self, account: str, operation: Operation) -> bool:
        """Bring the directories of the nodes that an operation wrote up to it; False where that has to wait.

        Never raises for a disk that fails: the keeper repairs what is missing.
        """


class CandidateExtractor(Protocol):
    """One of the four extractors that run side by side (CE-145)."""

    @property
    def name(self) -> str:
        """How statistics name it."""

    async def extract(
        self, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> Sequence[CandidateMemory]:
        """Return what these messages say that is worth remembering. What it raises is its own failure alone."""


class GraphStore(Protocol):
    """An optional replica of the edges (CE-170, CE-171)."""

    async def upsert_edges(self, edges: Sequence[RelationEdge]) -> None:
        """Take in edges; one that is there already stays one."""

    async def remove_node(self, uri: str) -> None:
        """Forget every edge from or to a node."""

    async def neighbors(
        self, uri: str, relation_types: Sequence[str] | None = None, depth: int = 1
    ) -> Sequence[RelationEdge]:
        """Return the edges within `depth` steps of a node, each once, in no direction preferred."""


class FoundSecret(Protocol):
    """Where a credential stands in a text."""

    @property
    def start(self) -> int:
        """Where it begins."""

    @property
    def end(self) -> int:
        """Where it ends."""


class SecretFinder(Protocol):
    """Finds credentials in a text, so that no memory is made of them."""

    def __call__(self, text: str) -> Sequence[FoundSecret]:
        """Return what looks like a credential."""


class SpokenReader(Protocol):
    """Understands what people say and what agents did, by rules: those that knowledge is extracted with, adapted."""

    def statements(self, messages: Sequence[Message]) -> Sequence[Statement]:
        """Return what the users among these say, sentence by sentence, without code, quotations and pasted material."""

    def episodes(self, messages: Sequence[Message]) -> Sequence[Episode]:
        """Return what failed and then worked, how tasks ended, and the procedures that were told."""

    def sentences(self, text: str) -> Sequence[str]:
        """Return the sentences of a text, without code and data."""

    def is_own_answer(self, message: Message) -> bool:
        """Tell whether a message is an answer of KnowHub to a tool's call."""

    def without_recalled(self, text: str) -> str:
        """Return a text without the lines that KnowHub wrote into it."""
