"""The queue of missed queries: what a model did not find, with the place that it suggested for it."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from knowhub.core import permissions
from knowhub.core.errors import NotFound
from knowhub.core.operation import (
    Draft,
    Row,
    Store,
    Unchanged,
    View,
    Write,
    add_version,
    get_operation,
    is_live,
    make_tombstone,
)
from knowhub.core.owned_rows import (
    OwnedSummary,
    RowTextPage,
    check_can_edit,
    list_visible,
    scan_newest,
    summarize_owned,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.table_schema import TableSchema
from knowhub.keywords import rendering
from knowhub.keywords.model import MISSED, ROOT_ID, NewKeyword
from knowhub.keywords.ports import KeywordText

OP: Final = "note_missed_keyword"
MAX_QUERY_CHARS: Final = 200


MISSED_TABLE: Final = TableSchema(MISSED, summarize_owned)


@dataclass(frozen=True, slots=True)
class MissedQuery:
    """A query that a model did not find, and what it suggested."""

    text: str
    parent_id: str | None
    name: str | None
    reason: str


def record_missed_query(ctx: RequestContext, missed: MissedQuery, normal_form: str, view: View) -> Draft | Unchanged:
    """Return the write that records a missed query, or counts it again. A dismissed query stays dismissed."""
    owner = permissions.owner_for(ctx, None, "a missed query")
    named = blake2b(repr((owner, normal_form)).encode("utf-8", "replace"), digest_size=12)
    row_id = f"missed-{named.hexdigest()}"
    before = view.get(MISSED, row_id)
    if before is not None and not is_live(before):
        return Unchanged()
    fields = {
        "id": row_id,
        "query": missed.text[:MAX_QUERY_CHARS],
        "count": 1 if before is None else before["count"] + 1,
        "suggested_parent_id": missed.parent_id or ROOT_ID,
        "suggested_name": missed.name or missed.text[:MAX_QUERY_CHARS],
        "reason": missed.reason,
        "owner": owner,
        "scopes": list(ctx.default_keyword_scopes),
    }
    return Draft(OP, [Write(MISSED, row_id, add_version(fields, before, view.now))])


class MissedQueries:
    """The missed queries that a caller sees. One whose name is that of a keyword since is no longer listed."""

    def __init__(self, store: Store, text: KeywordText) -> None:
        self._store = store
        self._text = text

    async def list_newest(self, ctx: RequestContext, limit: int, before: int | None = None) -> RowTextPage:
        """Return a page of the queue, newest first."""
        await self._store.refresh(ctx.account)

        def accept(view: View, summary: OwnedSummary) -> bool:
            row = view.get(MISSED, summary.id)
            return row is not None and not any(
                rendering.find_by_name_keys(view, ctx, self._text.name_keys(row["query"]))
            )

        found = await list_visible(self._store, ctx, scan_newest(MISSED_TABLE, before), limit + 1, accept)
        view = self._store.view(ctx.account)
        rows = [view.raw(MISSED, item.id) or b"" for item in found[:limit]]
        return RowTextPage(rows, found[limit - 1].ordinal if len(found) > limit else None)

    async def get_keyword(
        self, ctx: RequestContext, missed_id: str, name: str | None = None, parent_id: str | None = None
    ) -> NewKeyword:
        """Return the keyword that accepts a missed query, at the suggested place; the query leads to it.

        Raises NotFound, and Forbidden for a reader.
        """
        permissions.check_can_write(ctx)
        await self._store.refresh(ctx.account)
        row = self._get_row(self._store.view(ctx.account), ctx, missed_id)
        chosen = name or str(row["suggested_name"])
        is_same = self._text.name_keys(chosen) == self._text.name_keys(row["query"])
        return NewKeyword(
            chosen, parent_id or str(row["suggested_parent_id"]), aliases=() if is_same else (str(row["query"]),)
        )

    async def dismiss(self, ctx: RequestContext, missed_id: str) -> str:
        """Take a missed query off the queue for good; return the operation. Raises NotFound and Forbidden."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            row = self._get_row(view, ctx, missed_id)
            check_can_edit(ctx, row, "missed query", None)
            return Draft("dismiss_missed_keyword", [Write(MISSED, missed_id, make_tombstone(row, view.now))])

        return get_operation(await self._store.commit(ctx.account, ctx.actor, decide)).operation_id

    def _get_row(self, view: View, ctx: RequestContext, missed_id: str) -> Row:
        summary = view.summary(MISSED_TABLE, missed_id)
        row = view.get(MISSED, missed_id)
        if summary is None or row is None or not summary.live or not ctx.sees(summary.audience):
            raise NotFound.of("missed query", missed_id)
        return row
