"""What a layered memory is: nodes, the sessions they come from, and all values on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

NODES = "context_nodes"
PARTS = "context_parts"
"""Rows of nodes, and of the messages of sessions; each has its URI as its id."""
_SLASHES_OF_SESSION = 6
STATEMENTS, HISTORY = "statements", "history"
"""The keys of a memory's metadata that hold its statements: those that hold, and those that held before."""
READING = "reading"
"""The key of a session's metadata that says how far a model has read it."""
CALLS = "calls"
"""The field of a message's row for the ids of calls of tools that were counted with it."""


class MemoryCategory(StrEnum):
    """What a node is; each has its place among the URIs."""

    PROFILE = "profile"
    PREFERENCES = "preferences"
    ENTITIES = "entities"
    EVENTS = "events"
    CASES = "cases"
    PATTERNS = "patterns"
    SKILLS = "skills"
    TOOLS = "tools"
    SESSIONS = "sessions"


COUNTED = (MemoryCategory.SKILLS, MemoryCategory.TOOLS)
"""What has statistics of calls, and belongs to the agent's side."""


class ContextType(StrEnum):
    """The kind of context that a node is."""

    MEMORY = "memory"
    SKILL = "skill"
    SESSION = "session"


class Level(IntEnum):
    """The layers of a node: abstract, overview, content."""

    L0 = 0
    L1 = 1
    L2 = 2


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """Whose memory it is: the spaces that a commit writes into.

    `user` and `agent` are the segments of the spaces, `owner` is the principal who owns what is written there.
    """

    account: str
    user: str
    agent: str
    owner: str
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class RelationEdge:
    """An edge from one node to another; `weight` from 0 to 1."""

    from_uri: str
    to_uri: str
    relation_type: str
    reason: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ContextNode:
    """A node with all of its layers; `metadata` is an open object, `relations` are edges from this node."""

    uri: str
    parent_uri: str
    context_type: str
    category: str
    owner_space: str
    abstract: str
    overview: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    relations: Sequence[RelationEdge] = ()
    tags: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """A node or a part without its content: what filters, listing and ranking need.

    `text_change` is the number of the change that last wrote what is searched of it, `signature` is a hash of that.
    `occurred_at` is when a message was said, or an event takes place, in seconds since the epoch; `utc_offset_s` is how
    far clocks were ahead of UTC there. `number` counts the parts of a session from 0, and is 0 for nodes. `name` is who
    said a part, or what a node is called; `abstract` is its L0 text, shortened to 300 characters. `sources` are the
    URIs of the messages that an extracted memory comes from, the first 32 of them. `role` is that of a part.
    `outdated` are messages that said what a memory does not state any more. `unread` is how many messages of a session
    wait for a model, `waits_since` since when, in seconds since the epoch; where it `is_read_by_model`, some were read.
    `calls` are ids of calls of tools that were counted with a message.
    """

    uri: str
    parent_uri: str
    category: MemoryCategory
    owner_space: str
    owner: str
    audience: frozenset[str]
    facets: frozenset[str]
    live: bool
    version: int
    text_change: int
    signature: int
    number: int
    name: str
    abstract: str
    occurred_at: float | None
    utc_offset_s: float
    updated_at: float
    message_id: str | None = None
    has_overview: bool = True
    has_content: bool = True
    role: str = ""
    sources: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    unread: int = 0
    waits_since: float = 0.0
    is_read_by_model: bool = False
    calls: tuple[str, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether there was an earlier version."""
        return self.version > 1

    @property
    def id(self) -> str:
        """The id of its row."""
        return self.uri

    @property
    def collection(self) -> str:
        """The collection of its row."""
        return PARTS if self.is_part else NODES

    @property
    def is_part(self) -> bool:
        """Whether it is one message of a session."""
        # By its depth: a session may be called `sessions`.
        return self.category is MemoryCategory.SESSIONS and self.parent_uri.count("/") == _SLASHES_OF_SESSION


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A line of a listing; `updated_at` is ISO 8601, None for a folder that is no node."""

    uri: str
    name: str
    is_dir: bool
    has_children: bool
    category: str
    updated_at: str | None
