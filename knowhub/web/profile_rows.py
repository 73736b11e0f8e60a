"""What is known about a caller, from records and from memories, for agents that ask or begin a session."""

from typing import Any, Final

import orjson

from knowhub.bootstrap import Hub
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import widest

_MAX_RECORDS: Final = 20


async def list_profile(hub: Hub, ctx: RequestContext, max_tokens: int) -> list[dict[str, Any]]:
    """Return the caller's profile records, then the memories that hold now: profile, instructions, preferences, others.

    `max_tokens` bounds the memories. Each row has an `id`, a `kind`, a `scope` and a `text`.
    """
    records = [orjson.loads(text) for text in await hub.knowledge.search.list_profile(ctx, _MAX_RECORDS)]
    rows = [
        {
            "id": row["id"],
            "kind": ", ".join(row["types"]),
            "scope": widest(row["scopes"], row["owner"], ctx.visible),
            "title": row["task"],
            "text": row["content"],
        }
        for row in records
    ]
    try:
        current = await hub.memories.nodes.read_profile(ctx, max_tokens)
    except InvalidInput:
        # The caller is nobody who could remember.
        return rows
    memories: dict[str, dict[str, Any]] = {}
    for line in current.lines:
        new = {"id": line.uri, "kind": line.category, "scope": ctx.default_owner, "said_at": line.said_at}
        memory = memories.setdefault(line.uri, new)
        memory["text"] = f"{memory['text']}\n{line.text}" if "text" in memory else line.text
    return [*rows, *memories.values()]
