"""Keywords as people type and read them: an id or a name as input, a path of names as output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.core.errors import Conflict, NotFound
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import ROOT_ID, SearchStatus

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub

_MAX_NEAR = 5

KeywordArgument = Annotated[str, typer.Argument(metavar="KEYWORD", help="The id or the name.", show_default=False)]


async def resolve_keyword(hub: Hub, ctx: RequestContext, typed: str) -> str:
    """Return the id of the keyword with this id, or with a name or alias that no other keyword has.

    Raises Conflict with the paths of the keywords that share the name, and NotFound with the most similar keywords. A
    spelling in pinyin is not accepted: a keyword that is moved or deleted should be called by its name.
    """
    from knowhub.keywords.search.lookup import PINYIN

    try:
        await hub.keywords.tree.get(ctx, typed)
    except NotFound as unknown:
        found = await hub.keywords.search.search(ctx, typed, expand=False)
        is_exact = found.reason != PINYIN
        rows = load_rows([found.node] if found.node else found.candidates)
        if found.status is SearchStatus.MATCHED and is_exact:
            return str(rows[0]["id"])
        near = [{"id": row["id"], "path": await path_of(hub, ctx, row["id"])} for row in rows]
        if found.status is SearchStatus.AMBIGUOUS and is_exact:
            raise Conflict(
                f"{len(near)} keywords are called {typed!r}; name one by its id", {"keyword": near}
            ) from None
        extra = {"near": near[:_MAX_NEAR]} if near else {}
        raise NotFound(f"no keyword has the id or the name {typed!r}", extra) from unknown
    return typed


async def path_of(hub: Hub, ctx: RequestContext, keyword_id: str) -> str:
    """Return the names from below the root to a keyword. Raises NotFound."""
    return join_path(load_rows(await hub.keywords.tree.get_path(ctx, keyword_id)))


def join_path(rows: Sequence[Mapping[str, Any]]) -> str:
    """Join the names from below the root to the keyword; the root itself is named alone."""
    return " / ".join(row["name"] for row in rows if row["id"] != ROOT_ID or len(rows) == 1)


def load_rows(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """Parse the rows that a service returns as JSON text."""
    import orjson

    return [orjson.loads(text) for text in texts]
