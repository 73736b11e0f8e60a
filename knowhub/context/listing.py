"""What stands below a URI, as a person looks through folders (CE-037, CE-116)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from knowhub.context import uri
from knowhub.context.edits import checked
from knowhub.context.model import ContextHead, NodeSummary
from knowhub.context.ports import ContextView
from knowhub.context.spaces import seen_spaces
from knowhub.core import clock
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.request_context import RequestContext

MAX_LISTED = 5_000
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Listing:
    """What stands below a URI, each folder before what it holds; `truncated` says that there is more."""

    children: list[NodeSummary]
    truncated: bool


def children_of(view: ContextView, ctx: RequestContext, address: str | None, depth: int) -> Listing:
    """List what the caller sees below a URI, that of the account where there is none, `depth` levels down.

    Raises InvalidInput, and NotFound where the caller sees nothing there.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidInput.of("depth", f"must be from 1 to {MAX_DEPTH}")
    root = uri.account_uri(ctx.account) if address is None else checked(ctx, address).text
    found = list(islice(_below(view, ctx, (root, _open_spaces(view, ctx)), depth), MAX_LISTED + 1))
    # The account itself is there before anything is remembered in it; of anything else an empty answer would tell.
    if not found and root != uri.account_uri(ctx.account) and not _stands(view, ctx, root):
        raise NotFound.of("memory", root)
    return Listing(found[:MAX_LISTED], len(found) > MAX_LISTED)


def _below(
    view: ContextView, ctx: RequestContext, place: tuple[str, list[str] | None], depth: int
) -> Iterator[NodeSummary]:
    root, spaces = place
    for folder in view.context_folders(root):
        if spaces is None or _leads_to(folder, spaces):
            name = folder.rpartition("/")[2]
            yield NodeSummary(folder, name, is_dir=True, has_children=True, category="", updated_at=None)
            if depth > 1:
                yield from _below(view, ctx, (folder, spaces), depth - 1)
    for head in view.context_children(root):
        if ctx.sees(head.audience):
            yield _summary(view, head)
            if depth > 1 and not head.is_part:
                yield from _below(view, ctx, (head.uri, spaces), depth - 1)


def _summary(view: ContextView, head: ContextHead) -> NodeSummary:
    return NodeSummary(
        uri=head.uri,
        name=head.uri.rpartition("/")[2] if head.is_part else head.name,
        is_dir=not head.is_part,
        has_children=not head.is_part and bool(view.context_children(head.uri)),
        category=head.category.value,
        updated_at=clock.iso(head.updated_at),
    )


def _open_spaces(view: ContextView, ctx: RequestContext) -> list[str] | None:
    """Return the URIs of the caller's spaces in which something stands; None where they see all of the account.

    A folder above shows nothing else: that somebody remembers is for nobody to know.
    """
    seen = seen_spaces(ctx)
    if seen is None:
        return None
    spaces = (uri.space_uri(ctx.account, space) for space in seen)
    return [space for space in spaces if view.context_folders(space)]


def _leads_to(folder: str, spaces: list[str]) -> bool:
    """Tell whether a folder stands above, at or in one of the spaces."""
    return any(f"{space}/".startswith(f"{folder}/") or folder.startswith(f"{space}/") for space in spaces)


def _stands(view: ContextView, ctx: RequestContext, address: str) -> bool:
    head = view.context_head(address)
    return head is not None and head.live and ctx.sees(head.audience)
