"""The info routes: parse, call the service, answer."""

from dataclasses import replace

import orjson
from starlette.responses import Response

from knowhub.keywords.model import INFOS, LinkRequest, NewInfo
from knowhub.web.responses import (
    answer_created,
    answer_created_batch,
    answer_saved,
    answer_text_list,
    answer_text_row,
    answer_write,
)
from knowhub.web.route import DELETED, Call, EditCall, KeywordId, Routes, WriteCall
from knowhub.web.schemas import keyword_answers as answers
from knowhub.web.schemas import keywords as schemas
from knowhub.web.schemas.keyword_answers import KEYWORD_ID
from knowhub.web.schemas.parts import DeleteBody, DeleteParams, OperationAnswer

routes = Routes("/api/infos", "infos", "Texts on the keyword tree, each linked to any number of keywords.")

# In examples of bodies, which the OpenAPI document shows and a test executes.
_ASYNCIO = {"content": "asyncio.gather 并发等待多个协程；异常默认向上抛出。", "source": "https://docs.python.org"}


@routes.add(
    "POST",
    "",
    {201: answers.CreatedInfo, 200: (answers.CreatedInfo, "An equal info exists already.")},
    summary="Save an info",
    examples={
        "for a keyword": {**_ASYNCIO, "keyword_ids": [KEYWORD_ID]},
        "for what it names": {"content": "Python 3.13 可以关闭 GIL。", "auto_link": True},
    },
)
async def create_info(call: WriteCall, body: schemas.InfoBody) -> Response:
    """Save an info and link it to `keyword_ids`, and with `auto_link` to the keywords that its text names.

    An info with the same owner, scopes and text is a duplicate. Then the status is 200, `duplicate_of` names the stored
    info, and it gets the links that it lacks.
    """
    created = await call.hub.keywords.infos.create(call.ctx, await _find_keywords(call, body.to_new()), call.key)
    return answer_created(created, "/api/infos", 200 if created.duplicate_of else 201)


@routes.add(
    "POST",
    "/batch",
    {201: answers.CreatedInfos},
    summary="Save many infos in one operation",
    examples={"two infos": {"items": [{**_ASYNCIO, "keyword_ids": [KEYWORD_ID]}, {"content": "PEP 703"}]}},
    is_large=True,
)
async def create_infos(call: WriteCall, body: schemas.InfoBatchBody) -> Response:
    """Save up to 1,000 infos, all or none."""
    items = [await _find_keywords(call, item.to_new()) for item in body.items]
    return await answer_created_batch(await call.hub.keywords.infos.create_batch(call.ctx, items, call.key))


@routes.add("GET", "", {200: answers.InfoList}, summary="List infos, newest first", errors=(404, 409))
async def list_infos(call: Call, params: schemas.InfoListParams) -> Response:
    """List the infos that the caller sees, of one keyword or of all."""
    before = call.read_cursor(INFOS, params.cursor)
    keyword_id = params.keyword_id and await call.find_keyword(params.keyword_id)
    page = await call.hub.keywords.infos.list_newest(call.ctx, keyword_id, params.limit, before)
    return call.answer_page(INFOS, page)


@routes.add("GET", "/{info_id}", {200: answers.InfoRecord}, summary="Read an info")
async def get_info(call: Call, info_id: str) -> Response:
    """Read one info, whole; `ETag` is its version."""
    return answer_text_row(await call.hub.keywords.infos.get(call.ctx, info_id))


@routes.add(
    "PATCH",
    "/{info_id}",
    {200: answers.SavedInfo},
    summary="Change fields of an info",
    examples={"mend it": {"content": "asyncio.TaskGroup 自 3.11 起更稳妥。"}},
)
async def update_info(call: EditCall, info_id: str, body: schemas.InfoPatchBody) -> Response:
    """Change an info's content or scopes. Its links are changed by PUT and DELETE."""
    return answer_saved(await call.hub.keywords.infos.patch(call.ctx, info_id, body.to_patch(), call.version, call.key))


@routes.add("DELETE", "/{info_id}", DELETED, summary="Delete an info")
async def delete_info(call: EditCall, info_id: str, body: DeleteBody | DeleteParams) -> Response:
    """Delete an info and its links. Undo brings them back, except after `erase`."""
    if body.erase:
        return await call.erase(INFOS, info_id)
    return answer_write({}, await call.hub.keywords.infos.delete(call.ctx, info_id, call.version, call.key))


@routes.add("GET", "/{info_id}/keywords", {200: answers.LinkedKeywordList}, summary="The keywords of an info")
async def get_keywords_of_info(call: Call, info_id: str) -> Response:
    """List the keywords that an info is linked to, each with its `relation` and the maker of the link."""
    linked = await call.hub.keywords.infos.list_keywords(call.ctx, info_id)
    return answer_text_list([_append_link(keyword, relation, maker) for keyword, relation, maker in linked])


@routes.add(
    "PUT",
    "/{info_id}/keywords/{keyword_id}",
    {200: answers.SavedLink},
    summary="Link an info to a keyword",
    examples={"an example of it": {"relation": "EXAMPLE", "created_by": "agent"}},
    is_body_optional=True,
)
async def link_info(call: EditCall, info_id: str, keyword_id: KeywordId, body: schemas.LinkBody) -> Response:
    """Link them, or change their link: two rows have at most one link. `ETag` is the version of the link."""
    how = LinkRequest(body.relation, body.created_by, call.version)
    return answer_saved(await call.hub.keywords.infos.link(call.ctx, info_id, keyword_id, how, call.key))


@routes.add(
    "DELETE", "/{info_id}/keywords/{keyword_id}", {200: OperationAnswer}, summary="Unlink an info from a keyword"
)
async def unlink_info(call: EditCall, info_id: str, keyword_id: KeywordId) -> Response:
    """Remove the link between them; both stay."""
    return answer_write(
        {},
        await call.hub.keywords.infos.unlink(call.ctx, info_id, keyword_id, call.version, call.key),
    )


def _append_link(row: bytes, relation: str, created_by: str) -> bytes:
    """Put a link's fields at the end of a row that is JSON text."""
    return row[:-1] + b"," + orjson.dumps({"relation": relation, "created_by": created_by})[1:]


async def _find_keywords(call: Call, new: NewInfo) -> NewInfo:
    """Return an info with ids where it names its keywords by paths or names. Raises Conflict."""
    keyword_ids = [await call.find_keyword(given) for given in new.keyword_ids]
    links = [(await call.find_keyword(given), relation) for given, relation in new.links]
    return replace(new, keyword_ids=keyword_ids, links=links)
