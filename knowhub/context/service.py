"""The verbs that read layered memories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from knowhub.context import edits, sessions, uri
from knowhub.context.current_memories import DEFAULT_TOKENS, CurrentMemories, gather_current, list_standing
from knowhub.context.edits import parse_own_uri
from knowhub.context.model import ContextNode, ContextSummary, Level, NodeSummary
from knowhub.context.queries import find_visible, list_folders, list_memories_in
from knowhub.context.retrieval.blocks import read_layer, read_node
from knowhub.context.retrieval.search import MemorySearch, explain_block
from knowhub.context.search_model import MemoryLimits, MemorySearchResult, RetrievedBlock
from knowhub.context.sessions import SessionReading
from knowhub.context.uri import list_visible_spaces
from knowhub.core import clock
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.operation import Store, View
from knowhub.core.request_context import RequestContext

MAX_LISTED = 5_000
MAX_DEPTH = 8
_MAX_STANDING = 3
_RESULTS_PER_STANDING = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """The nodes below a URI, each folder before its children; `truncated` if there are more."""

    children: list[NodeSummary]
    truncated: bool


class ContextService:
    """Reads layered memories, on the newest state of the log."""

    def __init__(self, store: Store, search: MemorySearch) -> None:
        self._store = store
        self._search = search

    async def search_memory(
        self,
        ctx: RequestContext,
        query: str,
        target_uri: str | None = None,
        categories: Sequence[str] | None = None,
        top_k: int = 10,
        limits: MemoryLimits | None = None,
    ) -> MemorySearchResult:
        """Find memories by their L0 text; no overview and no content is opened. Raises InvalidInput, NotFound.

        `target_uri` is where to look, `categories` what for. Without either, the last results are standing instructions
        and preferences, those nearest to the question first: one for each five results, more where there are fewer
        results than `top_k`, and at most three.
        """
        if target_uri is not None:
            edits.parse_own_uri(ctx, target_uri, "target_uri")
        await self._store.refresh(ctx.account)
        found = await self._search.search(ctx, query, target_uri, categories, top_k, limits)
        if target_uri is not None or categories or (limits is not None and limits.is_limiting):
            return found
        return self._with_standing(ctx, found, top_k, explain=limits is not None and limits.explain)

    async def read_memory(
        self,
        ctx: RequestContext,
        address: str,
        level: Level = Level.L1,
        *,
        expand_relations: bool = False,
        max_relations: int = 0,
    ) -> RetrievedBlock:
        """Read one layer of the node at a URI. Raises InvalidInput and NotFound.

        With `expand_relations` its edges come along, at most `max_relations`, where 0 is no bound.
        """
        view = await self._get_view(ctx)
        return read_layer(view, ctx, address, level, expand_relations=expand_relations, max_relations=max_relations)

    async def get_node(self, ctx: RequestContext, address: str) -> ContextNode:
        """Return a node, or a message, with all of its layers. Raises InvalidInput and NotFound."""
        view = await self._get_view(ctx)
        return read_node(view, ctx, edits.get_visible_summary(view, ctx, address))

    async def list_children(
        self, ctx: RequestContext, address: str | None = None, *, recursive: bool = False, depth: int = 1
    ) -> Listing:
        """List the nodes below a URI, `depth` levels down, or all with `recursive`.

        Raises InvalidInput and NotFound.
        """
        return _list_below(await self._get_view(ctx), ctx, address, MAX_DEPTH if recursive else depth)

    async def read_profile(self, ctx: RequestContext, max_tokens: int = DEFAULT_TOKENS) -> CurrentMemories:
        """Return all that is current of the caller, in one bounded text.

        Raises InvalidInput for a caller without a user and an agent.
        """
        return gather_current(await self._get_view(ctx), ctx, max_tokens)

    async def list_sessions(
        self, ctx: RequestContext, limit: int, after: str | None = None
    ) -> tuple[list[SessionReading], str | None]:
        """Return the caller's sessions, newest first, with what was read of each, and the cursor of the next page."""
        return sessions.list_sessions(await self._get_view(ctx), ctx, limit, after)

    async def get_session(self, ctx: RequestContext, session_id: str) -> SessionReading:
        """Return what was read of one of the caller's own sessions. Raises NotFound and InvalidInput."""
        view = await self._get_view(ctx)
        return sessions.read_session(view, sessions.find_session(view, ctx, session_id))

    def _with_standing(
        self, ctx: RequestContext, found: MemorySearchResult, top_k: int, *, explain: bool
    ) -> MemorySearchResult:
        max_added = min(_MAX_STANDING, max(top_k // _RESULTS_PER_STANDING, top_k - len(found.blocks)))
        try:
            known = {block.uri for block in found.blocks}
            view = self._store.view(ctx.account)
            items = list_standing(view, ctx, max_added + len(known), found.preferences) if max_added else []
            owner = uri.memory_context(ctx).owner
        except InvalidInput:
            # A caller without a user and an agent has none.
            return found
        added = [
            RetrievedBlock(
                uri=item.uri,
                category=item.category,
                level_hit=Level.L0.name,
                abstract=item.text,
                scope=owner,
                match_reason="always shown",
                message_ids=item.message_ids,
                said_at=item.said_at,
                standing=True,
            )
            for item in items
            if item.uri not in known
        ][:max_added]
        if explain:
            added = [replace(block, why=explain_block(block)) for block in added]
        blocks = [*found.blocks[: top_k - len(added)], *added]
        return replace(found, blocks=blocks, total=len(blocks))

    async def _get_view(self, ctx: RequestContext) -> View:
        await self._store.refresh(ctx.account)
        return self._store.view(ctx.account)


def _list_below(view: View, ctx: RequestContext, address: str | None, depth: int) -> Listing:
    """List what the caller sees below a URI, by default that of the account, `depth` levels down.

    Raises InvalidInput, and NotFound where the caller sees nothing there.
    """
    root = uri.account_uri(ctx.account) if address is None else parse_own_uri(ctx, address).text
    found = list(islice(_walk(view, ctx, root, _open_spaces(view, ctx), depth), MAX_LISTED + 1))
    # An account without memories is an empty list. For any other URI an empty list would say that it exists.
    if not found and root != uri.account_uri(ctx.account) and find_visible(view, ctx, root) is None:
        raise NotFound.of("memory", root)
    return Listing(found[:MAX_LISTED], len(found) > MAX_LISTED)


def _walk(view: View, ctx: RequestContext, root: str, spaces: list[str] | None, depth: int) -> Iterator[NodeSummary]:
    for folder in list_folders(view, root):
        if spaces is None or _overlaps(folder, spaces):
            name = folder.rpartition("/")[2]
            yield NodeSummary(folder, name, is_dir=True, has_children=True, category="", updated_at=None)
            if depth > 1:
                yield from _walk(view, ctx, folder, spaces, depth - 1)
    for summary in list_memories_in(view, root):
        if ctx.sees(summary.audience):
            yield _make_node_summary(view, summary)
            if depth > 1 and not summary.is_part:
                yield from _walk(view, ctx, summary.uri, spaces, depth - 1)


def _make_node_summary(view: View, summary: ContextSummary) -> NodeSummary:
    return NodeSummary(
        uri=summary.uri,
        name=summary.uri.rpartition("/")[2] if summary.is_part else summary.name,
        is_dir=not summary.is_part,
        has_children=not summary.is_part and bool(list_memories_in(view, summary.uri)),
        category=summary.category.value,
        updated_at=clock.iso(summary.updated_at),
    )


def _open_spaces(view: View, ctx: RequestContext) -> list[str] | None:
    """Return the URIs of the non-empty spaces of the caller; None if the caller sees the whole account.

    The folders above show only these, so that nobody learns who else has memories.
    """
    seen = list_visible_spaces(ctx)
    return None if seen is None else [space for space in seen if list_folders(view, space)]


def _overlaps(folder: str, spaces: list[str]) -> bool:
    """Return whether a folder is above, at or in one of the spaces."""
    return any(f"{space}/".startswith(f"{folder}/") or folder.startswith(f"{space}/") for space in spaces)
