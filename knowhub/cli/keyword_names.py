"""Keywords as people type and read them: by id or by name going in, by their path coming out."""

from collections.abc import Mapping
from typing import Any

import orjson

from knowhub.bootstrap import Hub
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.request_context import RequestContext
from knowhub.keywords.finding import PINYIN
from knowhub.keywords.model import ROOT_ID, SearchStatus

_NEAR = 5


async def keyword_id(hub: Hub, ctx: RequestContext, typed: str) -> str:
    """Return the id of the keyword that was typed, by its id or by a name or alias that no other has.

    Raises Conflict naming the keywords of that name with their paths, and NotFound naming those that are near it.
    A spelling in pinyin names nothing here: what is moved or deleted should be called by its name.
    """
    try:
        await hub.keywords.get(ctx, typed)
    except NotFound as problem:
        return await _named(hub, ctx, typed, problem)
    return typed


async def path_text(hub: Hub, ctx: RequestContext, row: Mapping[str, Any]) -> str:
    """Return where a keyword stands, from below the root to itself."""
    return joined_path([orjson.loads(above) for above in await hub.keywords.path(ctx, row["id"])])


def joined_path(rows: list[dict[str, Any]]) -> str:
    """Join the names of a path; the root is left out where something stands below it."""
    return " / ".join(row["name"] for row in rows if row["id"] != ROOT_ID or len(rows) == 1)


async def _named(hub: Hub, ctx: RequestContext, typed: str, unknown: NotFound) -> str:
    found = await hub.keyword_search.search(ctx, typed, expand=False)
    if found.status is SearchStatus.MATCHED and found.reason != PINYIN:
        return str(orjson.loads(found.node or b"{}")["id"])
    rows = [orjson.loads(row) for row in ([found.node] if found.node else found.candidates)]
    near = [{"id": row["id"], "path": await path_text(hub, ctx, row)} for row in rows]
    if found.status is SearchStatus.AMBIGUOUS and found.reason != PINYIN:
        raise Conflict(
            f"{len(near)} keywords are called {typed!r}; say by its id which one you mean", {"keyword": near}
        )
    extra = {"near": near[:_NEAR]} if near else {}
    raise NotFound(f"no keyword has the id or the name {typed!r}", extra) from unknown
