"""What was recalled into a session, by the URIs or the texts that its commit names."""

from collections.abc import Iterable, Sequence
from typing import Final

from knowhub.context import uri
from knowhub.context.extraction.recalled import Recalled, recalled
from knowhub.context.model import NODES, PARTS
from knowhub.context.ports import ContextView
from knowhub.core import scopes
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, is_live
from knowhub.core.request_context import RequestContext

_MAX_NAMED: Final = 400


def recalled_into(view: ContextView, ctx: RequestContext, used_contexts: Sequence[str]) -> Recalled:
    """Return what was recalled: texts as they are, and of each URI all that the caller sees of what stands there."""
    return recalled(text for named in used_contexts[:_MAX_NAMED] for text in _texts(view, ctx, named))


def _texts(view: ContextView, ctx: RequestContext, named: str) -> Iterable[str]:
    if not named.startswith(uri.SCHEME):
        return [named]
    try:
        parsed = uri.parse(named.strip())
    except InvalidInput:
        return [named]
    if parsed.account != ctx.account:
        return []
    row = view.get(PARTS if parsed.is_part else NODES, parsed.text)
    if row is None or not _is_seen(ctx, row):
        return []
    return [str(row[layer]) for layer in ("abstract", "overview", "content") if row.get(layer)]


def _is_seen(ctx: RequestContext, row: Row) -> bool:
    return is_live(row) and ctx.sees(scopes.audience(row["scopes"], row["owner"]))
