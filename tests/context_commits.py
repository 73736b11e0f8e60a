"""Builders for tests of the session commit, on a store in memory."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from knowhub.context import uri
from knowhub.context.commit.commit_coordinator import CommitCoordinator
from knowhub.context.commit_model import CommitOptions, CommitResult, SessionCommit, UsedTool
from knowhub.context.model import NODES, PARTS, MemoryCategory, MemoryContext
from knowhub.context.queries import list_memories, list_parts
from knowhub.conversations.messages import Message
from knowhub.core.operation import Draft, IdempotencyKey, Operation, Outcome, Row, Write
from knowhub.core.request_context import RequestContext
from knowhub.engine.view import AccountView
from knowhub.stores.files.store import FileStore
from tests.builders import CountedIds, FakeClock, caller
from tests.fakes.memory_store import MemoryStore

LI = caller(user_id="li", agent_id="helper")
SESSION = "ctx://default/users/li/sessions/s1"


@dataclass
class RecordingDirectories:
    """Records the operations it is given instead of writing directories; `is_well` is what `project` returns."""

    is_well: bool = True
    operations: list[Operation] = field(default_factory=list)

    async def project(self, account: str, operation: Operation) -> bool:
        assert account == operation.account
        self.operations.append(operation)
        return self.is_well


class CommitBench:
    """A commit coordinator with its store, clock and directories."""

    def __init__(self, store: MemoryStore | FileStore | None = None) -> None:
        self.clock = FakeClock()
        self.store = store or MemoryStore(self.clock, CountedIds())
        self.directories = RecordingDirectories()
        self.commits = CommitCoordinator(self.store, str, self.directories)

    async def commit(
        self,
        *messages: Message,
        ctx: RequestContext = LI,
        key: IdempotencyKey | None = None,
        **fields: Any,  # noqa: ANN401 -- any field of a commit
    ) -> CommitResult:
        session_id = fields.pop("session_id", "s1")
        options = CommitOptions(fields.pop("dry_run", False), fields.pop("extract", True))
        return await self.commits.commit(ctx, SessionCommit(session_id, messages, options=options, **fields), key)

    def node(self, address: str) -> Row | None:
        return self.store.view("default").get(NODES, address)

    def parts(self, session: str = SESSION) -> list[Row]:
        view = self.store.view("default")
        rows = [view.get(PARTS, summary.uri) for summary in list_parts(view, session)]
        return [row for row in rows if row is not None]

    def nodes(self) -> dict[str, Row]:
        """Return the live nodes by the end of their URIs, from the category on."""
        view = self.store.view("default")
        rows = [view.get(NODES, summary.uri) for summary in list_memories(view) if not summary.is_part]
        return {row["id"].split("/", 5)[5].removeprefix("memories/"): row for row in rows if row is not None}

    def of(self, category: MemoryCategory) -> list[Row]:
        return [row for row in self.nodes().values() if row["category"] == category]


def user_message(content: str, message_id: str | None = None, timestamp: str | None = None, name: str = "") -> Message:
    """Return a message of a user."""
    return Message("user", content, name, message_id, timestamp)


def agent_message(content: str, message_id: str | None = None) -> Message:
    """Return a message of an assistant."""
    return Message("assistant", content, "", message_id)


def tool_message(content: str, name: str = "shell", message_id: str | None = None) -> Message:
    """Return a message of a tool."""
    return Message("tool", content, name, message_id)


def delete_rows(bench: CommitBench, *addresses: str, is_forgotten: bool = True) -> Coroutine[Any, Any, Outcome]:
    """Delete rows as a person does, or, without `is_forgotten`, as an undo does."""

    def decide(view: AccountView) -> Draft:
        writes = []
        for address in addresses:
            collection = PARTS if view.get(PARTS, address) else NODES
            row = dict(view.get(collection, address) or {})
            gone = {**row, "deleted": True, "version": row["version"] + 1}
            writes.append(Write(collection, address, gone | ({"forgotten": True} if is_forgotten else {})))
        return Draft("delete_memory", writes)

    return bench.store.commit("default", "user:li", decide)


def memory_spaces(session_id: str = "s1") -> MemoryContext:
    """Return the spaces of Li and the helper."""
    return uri.memory_context(LI, session_id)


def tool_use(name: str, **fields: Any) -> UsedTool:  # noqa: ANN401 -- any field
    """Return a call of a tool."""
    return UsedTool(name, **fields)
