"""The verbs on layered memories (seed 002 §10.1): commit a session, search, read, look through, correct, forget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.context import edits, listing
from knowhub.context.commit import layers, profile_values
from knowhub.context.commit.commit_coordinator import CommitCoordinator
from knowhub.context.commit.forgetting import Forgetting
from knowhub.context.commit_model import CommitResult, SessionCommit
from knowhub.context.listing import MAX_DEPTH, Listing
from knowhub.context.model import NODES, Category, ContextNode, Level
from knowhub.context.ports import ContextDirectories, ContextStore, ContextView
from knowhub.context.retrieval.memory_read_service import MemoryReadService
from knowhub.context.retrieval.search import MemorySearch
from knowhub.context.search_model import MemoryFound, RetrievedBlock
from knowhub.core import permissions
from knowhub.core.errors import NotFound
from knowhub.core.operation import Committed, Draft, IdempotencyKey, Outcome, Row, Unchanged, Write
from knowhub.core.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class EditedNode:
    """A node as it stands after a correction; `operation_id` is None where that changed nothing."""

    node: ContextNode
    operation_id: str | None


@dataclass(frozen=True, slots=True)
class Means:
    """What the verbs are made of: what commits, finds, reads and forgets, and the directories that follow."""

    commits: CommitCoordinator
    search: MemorySearch
    reading: MemoryReadService
    forgetting: Forgetting
    directories: ContextDirectories


class ContextService:
    """Layered memories over a store that makes every decision durable before it is acknowledged (CE-112…116)."""

    def __init__(self, store: ContextStore, means: Means) -> None:
        self._store = store
        self._means = means

    async def commit_session(
        self, ctx: RequestContext, commit: SessionCommit, key: IdempotencyKey | None = None
    ) -> CommitResult:
        """Keep a session word for word, and what it says that is worth remembering, in one operation (CE-112).

        What was committed before is not committed again. Raises InvalidInput, Forbidden for a reader, Conflict for a
        message that was said otherwise before, and as the store's commit.
        """
        return await self._means.commits.commit(ctx, commit, key)

    async def search_memory(
        self,
        ctx: RequestContext,
        query: str,
        target_uri: str | None = None,
        categories: Sequence[str] | None = None,
        top_k: int = 10,
    ) -> MemoryFound:
        """Find memories by their L0 text; no overview and no content is opened (CE-113). Raises InvalidInput, NotFound.

        `target_uri` is where to look, `categories` what for; both are all where they are not given.
        """
        if target_uri is not None:
            edits.checked(ctx, target_uri, "target_uri")
        await self._store.refresh()
        return await self._means.search.search(ctx, query, target_uri, categories, top_k)

    async def read_memory(
        self,
        ctx: RequestContext,
        address: str,
        level: str | int = Level.L1,
        *,
        expand_relations: bool = False,
        max_relations: int = 0,
    ) -> RetrievedBlock:
        """Read one layer of what stands at a URI (CE-114). Raises InvalidInput and NotFound.

        With `expand_relations` its edges come along, at most `max_relations`, where 0 is no bound (G-21).
        """
        await self._store.refresh()
        return await self._means.reading.read(
            address, level, expand_relations=expand_relations, max_relations=max_relations, ctx=ctx
        )

    async def get_node(self, ctx: RequestContext, address: str) -> ContextNode:
        """Return a node, or a message, with all of its layers (CE-115). Raises InvalidInput and NotFound."""
        await self._store.refresh()
        return self._node(ctx, address)

    async def list_children(
        self, ctx: RequestContext, address: str | None = None, *, recursive: bool = False, depth: int = 1
    ) -> Listing:
        """List what stands below a URI, `depth` levels down, or all with `recursive` (CE-116).

        Raises InvalidInput and NotFound.
        """
        await self._store.refresh()
        return listing.children_of(self._store.view(ctx.account), ctx, address, MAX_DEPTH if recursive else depth)

    async def edit_node(
        self,
        ctx: RequestContext,
        address: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> EditedNode:
        """Correct layers of a memory; with its content go the layers above it, where the patch has none for them.

        Raises NotFound, Forbidden, VersionConflict, and InvalidInput for a message.
        """
        permissions.check_may_write(ctx)

        def decide(view: ContextView) -> Draft | Unchanged:
            head = edits.editable_head(view, ctx, address, expected)
            row = edits.row_at(view, head)
            after: Row | None = edits.patched(head, row, layers.completed(head.category, row, patch), view.now)
            if after is None:
                return Unchanged()
            if head.category is Category.PROFILE:
                after = profile_values.corrected(row, after, view.now)
            return Draft("edit_memory", [Write(NODES, address, after)])

        operation_id = await self._written(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key))
        return EditedNode(self._node(ctx, address), operation_id)

    async def delete_node(
        self, ctx: RequestContext, address: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Forget a memory, a message, or a session with its messages; return the operation, which can be undone.

        A session that is committed again does not bring back what was forgotten of it, and what it is said to be about
        is said anew without that. Raises as `edit_node`.
        """
        permissions.check_may_write(ctx)
        await self._store.refresh()
        before = self._store.view(ctx.account)
        done = await self._store.replayed(ctx.account, key)
        told = None
        if done is None:
            told = await self._means.forgetting.summed_up(before, edits.editable_head(before, ctx, address, expected))

        def decide(view: ContextView) -> Draft:
            head = edits.editable_head(view, ctx, address, expected)
            session = [] if told is None else self._means.forgetting.session(view, head, told)
            return Draft("delete_memory", [*session, *edits.forgotten(view, head, view.now)])

        operation_id = await self._written(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key))
        if operation_id is None:
            raise NotFound.of("memory", address)
        return operation_id

    def _node(self, ctx: RequestContext, address: str) -> ContextNode:
        view = self._store.view(ctx.account)
        head = edits.readable_head(view, ctx, address)
        return self._means.reading.whole(view, ctx, head)

    async def _written(self, ctx: RequestContext, outcome: Outcome) -> str | None:
        if not isinstance(outcome, Committed):
            return None
        # Where a directory has to wait, its keeper brings it up: the log has it already.
        await self._means.directories.project(ctx.account, outcome.operation)
        return outcome.operation.operation_id
