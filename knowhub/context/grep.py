"""Lines of memories and messages that contain a text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from knowhub.context import edits
from knowhub.context.model import ContextSummary, MemoryCategory
from knowhub.context.queries import list_memories, make_facet
from knowhub.core.clock import CooperativePause
from knowhub.core.operation import Row, Store, is_live
from knowhub.core.request_context import RequestContext

MAX_LINES: Final = 1_000
_LINE_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line, counted from 1 within its memory or message; `text` has at most 500 characters of it."""

    uri: str
    category: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class FoundLines:
    """Lines in the order in which the memories were created; `truncated` if there are more."""

    lines: list[FoundLine]
    truncated: bool


async def grep_memories(
    store: Store, ctx: RequestContext, text: str, below: str | None = None, limit: int = 100
) -> FoundLines:
    """Find the lines that contain `text`, in any case, among what the caller sees at and below a URI.

    Unlike a search it reads the texts themselves, word for word. Raises InvalidInput and NotFound.
    """
    wanted = text.casefold().strip()
    wanted_facet = None if below is None else make_facet("under", edits.parse_own_uri(ctx, below).text)
    await store.refresh(ctx.account)
    view = store.view(ctx.account)
    found: list[FoundLine] = []
    pace = CooperativePause()
    for summary in list(list_memories(view)):
        if not ctx.sees(summary.audience) or (wanted_facet is not None and wanted_facet not in summary.facets):
            continue
        await pace.pause()
        row = store.view(ctx.account).get(summary.collection, summary.uri)
        if row is not None and is_live(row):
            found += _list_lines(summary, row, wanted)
        if len(found) > limit:
            break
    return FoundLines(found[:limit], len(found) > limit)


def _list_lines(summary: ContextSummary, row: Row, wanted: str) -> Iterator[FoundLine]:
    # The content of a session is its messages, which are rows of their own.
    is_session = summary.category is MemoryCategory.SESSIONS and not summary.is_part
    text = str(row["overview"] if is_session else row["content"])
    if wanted not in text.casefold():
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if wanted in line.casefold():
            yield FoundLine(summary.uri, summary.category.value, number, line.strip()[:_LINE_CHARS])
