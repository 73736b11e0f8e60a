"""What goes into a commit and what comes out of it: sessions, candidates, plans, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from knowhub.context.events import EventType, OutboxEvent
from knowhub.context.model import COUNTED, MemoryCategory, RelationEdge
from knowhub.conversations.messages import Message
from knowhub.core.operation import Group, Row, Write


class WriteAction(StrEnum):
    """What a write plan does to its node."""

    CREATE = "create"
    MERGE = "merge"
    # Earlier versions wrote it; answers to sessions of theirs are read from the log.
    APPEND = "append"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class UsedTool:
    """A call of a tool or a skill during the session: it feeds their statistics."""

    name: str
    kind: str = "tool"
    ok: bool = True
    seconds: float | None = None
    note: str = ""
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """`dry_run` shows the plan and writes nothing; without `extract` the transcript alone is kept."""

    dry_run: bool = False
    extract: bool = True


@dataclass(frozen=True, slots=True)
class SessionCommit:
    """A session to commit. `used_contexts` are URIs or texts that were recalled into it.

    With `wait` the answer comes when a model has read it, where there is one. `group` is the import that it belongs to.
    """

    session_id: str
    messages: Sequence[Message]
    used_contexts: Sequence[str] = ()
    used_tools: Sequence[UsedTool] = ()
    options: CommitOptions = CommitOptions()
    wait: bool = False
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class SessionArchive:
    """A session as it is committed: its summary, its last messages, and counts."""

    session_id: str
    archive_uri: str
    summary: str
    recent_messages: Sequence[Message] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool or a skill that is counted by its id. `at` is when it was made, if that is known."""

    use_id: str
    ok: bool = True
    seconds: float | None = None
    note: str = ""
    at: str | None = None


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """What is known of a statement besides its words.

    `values` are its single-valued facts, `ended` those that it says are over, and `day` is the day of an event. Of a
    node that `is_single` the newest statement alone holds. A plan may take the place of an earlier one (`is_change`),
    or only end it (`is_over`).
    """

    values: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    day: str = ""
    is_single: bool = False
    is_change: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class ChangedMemory:
    """The stored statement whose place a candidate takes: the URI of its node, and its text, None for all of the node.

    It is ended where it `is_forgotten`; where it `is_update`, the new statement keeps its sources.
    """

    uri: str
    text: str | None = None
    is_update: bool = False
    is_forgotten: bool = False


_CONFIDENCE: Final = {"rules": 0.9, "llm": 0.8}


@dataclass(frozen=True, slots=True)
class CandidateMemory:
    """A candidate for a memory; a policy decides its place.

    `routing_key` is what candidates of one category have in common that belong into one node. `source_refs` are URIs
    of the session's parts that say it, and `message_ids` the ids of those that were sent with one. `said_at` and
    `recorded_at` are ISO 8601 or empty. A statement has `facts`, and may name what it `changes`; a tool has `uses`.
    """

    category: MemoryCategory
    routing_key: str
    content: str
    source_refs: Sequence[str] = ()
    by: str = "rules"
    said_at: str = ""
    recorded_at: str = ""
    message_ids: Sequence[str] = ()
    facts: StatementFacts = StatementFacts()
    changes: ChangedMemory | None = None
    uses: Sequence[ToolUse] = ()

    @property
    def owner_scope(self) -> str:
        """The side that it belongs to, `user` or `agent`."""
        return "agent" if self.category in COUNTED else "user"

    @property
    def confidence(self) -> float:
        """How sure it is, from 0 to 1: the weight of its edge to the session. Calls of tools are counted, so sure."""
        return 1.0 if self.category in COUNTED else _CONFIDENCE[self.by]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a policy decides. `node_patch` holds the fields of the node's row that are written.

    Read off an operation, which keeps no texts, it says which fields those were, how long, and from which messages.
    """

    action: WriteAction
    target_uri: str
    node_patch: Row = field(default_factory=dict)
    relation_ops: Sequence[RelationEdge] = ()
    outbox_events: Sequence[EventType] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a plan."""

    uri: str
    action: WriteAction
    node_version: int
    created: bool
    updated: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """A plan, what became of it, and the URIs of the messages that it takes in."""

    plan: WritePlan
    result: WriteResult
    sources: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What a commit would write: the new messages, the plans and what becomes of them, all rows, and counts.

    `row` is the session's node after it. Where nothing is new there are no `writes`.
    """

    row: Row | None
    stats: Mapping[str, Any]
    applied: Sequence[AppliedPlan] = ()
    fresh: Sequence[Message] = ()
    writes: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The answer of a commit. `status` is `committed`, `unchanged` or `dry_run`.

    `operation_id` is what an undo takes; None where nothing was written. `degraded` names what was not there.
    """

    archive: SessionArchive
    write_results: Sequence[WriteResult]
    outbox_events: Sequence[OutboxEvent]
    stats: Mapping[str, Any]
    status: str
    operation_id: str | None = None
    plans: Sequence[WritePlan] = ()
    degraded: Sequence[str] = ()
    replayed: bool = False
