"""The queue of missed queries: a person accepts or dismisses what a model did not find."""

from dataclasses import replace

from starlette.responses import Response

from knowhub.web.responses import answer_created_row, answer_text_list, answer_write
from knowhub.web.route import Call, Routes, WriteCall
from knowhub.web.schemas import keyword_answers as shapes
from knowhub.web.schemas import keywords as schemas
from knowhub.web.schemas.parts import OperationAnswer, PageParams

routes = Routes("/api/keywords", "keywords")

# Names the list in its cursors.
_MISSED = "missed"


@routes.add("GET", "/missed", {200: shapes.MissedList}, summary="List missed queries, newest first")
async def list_missed(call: Call, params: PageParams) -> Response:
    """List the queries for which a model found no keyword, each with the place that it suggested."""
    cursors, account = call.hub.cursors, call.ctx.account
    page = await call.hub.keywords.missed.list_newest(
        call.ctx, params.limit, cursors.decode(account, _MISSED, params.cursor)
    )
    return answer_text_list(page.records, cursors.encode(account, _MISSED, page.next_position))


@routes.add(
    "POST",
    "/missed",
    {201: shapes.CreatedKeyword},
    summary="Make a missed query a keyword",
    examples={"as suggested": {"id": shapes.MISSED_ID}},
    errors=(404,),
)
async def accept_missed(call: WriteCall, sent: schemas.MissedAcceptBody) -> Response:
    """Create the keyword at the suggested place, or where the body says. The query leads to it from then on."""
    keywords = call.hub.keywords
    new = await keywords.missed.get_keyword(call.ctx, sent.id, sent.name, sent.parent_id)
    if new.parent_id is not None:
        new = replace(new, parent_id=await call.find_keyword(new.parent_id))
    created = await keywords.tree.create(call.ctx, new, call.key, auto_place=False)
    return answer_created_row(created, "/api/keywords")


@routes.add("DELETE", "/missed", {200: OperationAnswer}, summary="Dismiss a missed query", errors=(404,))
async def dismiss_missed(call: Call, params: schemas.MissedDismissParams) -> Response:
    """Take it off the queue for good: the same query is not listed again."""
    return answer_write({}, await call.hub.keywords.missed.dismiss(call.ctx, params.id))
