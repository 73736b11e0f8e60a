"""What a hook shows an agent: fenced text within a number of tokens, nothing twice in a session."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from knowhub.bootstrap import Hub
from knowhub.context import uri
from knowhub.context.search_model import MemorySearchResult
from knowhub.core.errors import InvalidInput
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import ListQuery, SearchQuery
from knowhub.knowledge.search.retrieval import estimate_tokens
from knowhub.knowledge.table import make_filters
from knowhub.web.mcp.fenced_text import FENCE_NOTE, format_rows
from knowhub.web.profile_rows import list_profile

_HEADING: Final = f"KnowHub recalls this for you. {FENCE_NOTE}"
_FOUND: Final = 8
_PROJECT_ROWS: Final = 10
_TEXT_CHARS: Final = 600

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Injection:
    """A text to show, and how many tokens it has by estimate. Empty where nothing fits."""

    text: str = ""
    tokens: int = 0


class Injector:
    """Chooses what to show. No language model is asked: a hook must answer at once, and must not cost anything."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def show_start(self, ctx: RequestContext, session_id: str, folder: str, shown: set[str]) -> Injection:
        """Return the profile, the newest records of the projects of the caller, and what fits the name of a folder."""
        # Half of the room is left for the project.
        profile = await list_profile(self._hub, ctx, self._hub.settings.hook_tokens // 2)
        rows = [*({**row, "text": _cut(row["text"])} for row in profile), *await self._list_project(ctx)]
        rows += await self._find(ctx, session_id, folder)
        return self._fit(rows, shown)

    async def show_fitting(self, ctx: RequestContext, session_id: str, prompt: str, shown: set[str]) -> Injection:
        """Return the records and memories that are relevant to a prompt, best first."""
        return self._fit(await self._find(ctx, session_id, prompt), shown)

    def _fit(self, rows: Iterable[Row], shown: set[str]) -> Injection:
        """Format the first rows that fit into the tokens, and add their ids to `shown`."""
        most, tokens = self._hub.settings.hook_tokens, estimate_tokens(_HEADING)
        chosen: dict[str, Row] = {}
        for row in rows:
            cost = estimate_tokens(format_rows([row]))
            if row["id"] not in shown and row["id"] not in chosen and tokens + cost <= most:
                chosen[row["id"]] = row
                tokens += cost
        if not chosen:
            return Injection()
        shown.update(chosen)
        return Injection(f"{_HEADING}\n\n{format_rows(list(chosen.values()))}", tokens)

    async def _list_project(self, ctx: RequestContext) -> list[Row]:
        projects = {scope for scope in ctx.visible or () if scope.startswith("project:")}
        if not projects:
            return []
        page = await self._hub.knowledge.records.page(ctx, ListQuery(make_filters({"scopes": projects}), _PROJECT_ROWS))
        return [_describe_record(orjson.loads(text)) for text in page.records]

    async def _find(self, ctx: RequestContext, session_id: str, text: str) -> list[Row]:
        """Return what is relevant to a text, best first. What was said in this session is left out."""
        query = text.strip()[:MAX_QUERY_CHARS]
        if not query:
            return []
        floor = self._hub.settings.hook_relevance_floor
        asked = SearchQuery(query, top_k=_FOUND, asks_models=False, floor=floor)
        records = await self._hub.knowledge.search.search(ctx, asked)
        found = [(row["relevance"], _describe_record(row)) for row in records.records]
        memories = await self._hub.memories.nodes.search_memory(ctx, query, top_k=_FOUND)
        found += _list_relevant(memories, floor, _find_session(ctx, session_id))
        return [row for _, row in sorted(found, key=lambda item: -item[0])]


def _list_relevant(found: MemorySearchResult, floor: float, session: str) -> Iterator[tuple[float, Row]]:
    """Yield the memories above the floor, each with its relevance. A neighbour of a match is no match."""
    scores = {seed.uri: seed.score for seed in found.seed_hits}
    for block in found.blocks:
        score = scores.get(block.uri, 0.0)
        if score >= floor * found.enough and not f"{block.uri}/".startswith(f"{session}/"):
            row = {"id": block.uri, "kind": block.category, "said_at": block.said_at, "text": _cut(block.abstract)}
            yield min(1.0, score / found.reach), row


def _find_session(ctx: RequestContext, session_id: str) -> str:
    try:
        return uri.session_uri(uri.memory_context(ctx, session_id))
    except InvalidInput:
        # Who names neither a user nor an agent has no session, and sees those of others.
        return ""


def _describe_record(record: Row) -> Row:
    text = {"title": _cut(record["task"]), "text": _cut(record["content"])}
    return {"id": record["id"], "kind": ", ".join(record["types"]), **text, "warning": record.get("warning")}


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}…"
