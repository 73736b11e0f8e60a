"""The keyword routes: parse, call the service, answer."""

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.permissions import check_can_maintain
from knowhub.keywords.model import KEYWORDS, NewKeyword
from knowhub.keywords.service import DeleteOptions
from knowhub.web.responses import (
    JsonText,
    answer_created,
    answer_created_batch,
    answer_json,
    answer_saved,
    answer_text_list,
    answer_text_row,
    answer_write,
)
from knowhub.web.route import DELETED, STARTED, Call, EditCall, KeywordId, Routes, WriteCall, answer_job
from knowhub.web.schemas import keyword_answers as answers
from knowhub.web.schemas import keywords as schemas
from knowhub.web.schemas.keyword_answers import KEYWORD_ID, OTHER_KEYWORD_ID
from knowhub.web.schemas.maintenance import WaitParams
from knowhub.web.schemas.parts import OperationAnswer, PageParams
from knowhub.web.views import render_keyword_search

routes = Routes(
    "/api/keywords", "keywords", "The keyword tree: exact lookup by name, and a model's walk where no name fits."
)

_ALREADY_THERE = ("alias_of", "merge")
# Name the lists in their cursors.
_CHILDREN = "children"
_MISSED = "missed"


# First of all routes here: it is asked the most, and a request is matched against one after the other.
@routes.add(
    "GET", "/search", {200: answers.KeywordSearchAnswer}, summary="Find a keyword by its name, or let the model find it"
)
async def search_keywords(call: Call, params: schemas.KeywordSearchParams) -> Response:
    """Look up `q` among all names and aliases. If there is no such name, the model searches the tree.

    The status is also 200 if several keywords have this name, or none.
    """
    found = await call.hub.keywords.search.search(
        call.ctx,
        params.q,
        expand=params.llm_expand_query,
        disambiguate=params.llm_disambiguate,
        with_infos=params.expand,
    )
    return JsonText(render_keyword_search(found))


@routes.add("GET", "", {200: answers.KeywordList}, summary="List keywords, newest first")
async def list_keywords(call: Call, params: schemas.KeywordListParams) -> Response:
    """List the keywords that the caller sees, or those whose name or alias begins with `prefix`."""
    before = call.read_cursor(KEYWORDS, params.cursor)
    page = await call.hub.keywords.tree.list_newest(call.ctx, params.prefix, params.limit, before)
    return call.answer_page(KEYWORDS, page)


@routes.add(
    "POST",
    "",
    {201: answers.CreatedKeyword, 200: (answers.CreatedKeyword, "The model found that it exists already.")},
    summary="Create a keyword",
    examples={
        "under a parent": {"name": "异步编程", "parent_id": KEYWORD_ID, "aliases": ["async", "asyncio"]},
        "the least that works": {"name": "Python"},
        "exactly there": {"name": "C++", "parent_id": "root", "llm_auto_place": False},
    },
)
async def create_keyword(call: WriteCall, body: schemas.KeywordBody) -> Response:
    """Create a keyword below `parent_id`. Without it the model may choose the parent."""
    created = await call.hub.keywords.tree.create(
        call.ctx,
        await _find_parent(call, body.to_new()),
        call.key,
        auto_place=body.llm_auto_place,
        dedup_check=body.llm_dedup_check,
    )
    is_there = created.decided.get("dedup") in _ALREADY_THERE
    return answer_created(created, "/api/keywords", 200 if is_there else 201)


@routes.add(
    "POST",
    "/batch",
    {201: answers.CreatedKeywords},
    summary="Create many keywords in one operation",
    examples={
        "a branch": {
            "items": [
                {"name": "编程语言", "ref": "languages", "description": "What programs are written in."},
                {"name": "Rust", "parent_ref": "languages", "aliases": ["rustlang"]},
                {"name": "C#", "parent_ref": "languages", "aliases": ["C Sharp"]},
            ]
        }
    },
    is_large=True,
)
async def create_keywords(call: WriteCall, body: schemas.KeywordBatchBody) -> Response:
    """Create up to 1,000 keywords, all or none. `parent_ref` names the `ref` of an earlier keyword as the parent."""
    items = [await _find_parent(call, item.to_new()) for item in body.items]
    return await answer_created_batch(await call.hub.keywords.tree.create_batch(call.ctx, items, call.key))


@routes.add("GET", "/metrics", {200: answers.TreeMetrics}, summary="How healthy the tree is")
async def tree_metrics(call: Call) -> Response:
    """Count orphans, missing descriptions, depths, children and duplicate names."""
    return answer_json(await call.hub.keywords.curator.metrics(call.ctx))


@routes.add(
    "POST",
    "/reorganize",
    {200: answers.PlanAnswer} | STARTED,
    summary="Propose how to tidy the tree",
    examples={"all of it": {}, "one branch": {"scope_id": KEYWORD_ID}},
    is_body_optional=True,
    is_read_only=True,
    errors=(409,),
)
async def reorganize_keywords(call: Call, body: schemas.ReorganizeBody, params: WaitParams) -> Response:
    """Make a plan of moves, merges, descriptions and splits, and change nothing."""
    scope_id = None if body.scope_id is None else await call.find_keyword(body.scope_id)
    if params.wait:
        return answer_json(await call.hub.keywords.curator.reorganize(call.ctx, scope_id))
    check_can_maintain(call.ctx)
    if scope_id is not None:
        try:
            # Answered now, not by a job that fails.
            await call.hub.keywords.tree.get(call.ctx, scope_id)
        except NotFound as unknown:
            raise InvalidInput.of("scope_id", unknown.detail) from unknown

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        del progress
        return await call.hub.keywords.curator.reorganize(call.ctx, scope_id)

    return await answer_job(call, "reorganize", work, wait=False)


@routes.add(
    "POST",
    "/reorganize/apply",
    {200: answers.AppliedPlan},
    summary="Apply a plan",
    examples={
        "one step of it": {
            "plan": {
                "steps": [
                    {
                        "kind": "describe",
                        "node": {"id": KEYWORD_ID, "version": 1},
                        "description": "编写程序所用的语言。",
                    }
                ]
            }
        }
    },
    is_large=True,
)
async def apply_plan(call: WriteCall, body: schemas.ApplyBody) -> Response:
    """Apply a plan as one operation. 409 if a keyword of the plan was changed after the plan was made."""
    done = await call.hub.keywords.curator.apply(call.ctx, body.plan, call.key)
    return answer_write(done.record, done.operation_id)


@routes.add("GET", "/missed", {200: answers.MissedList}, summary="List missed queries, newest first")
async def list_missed(call: Call, params: PageParams) -> Response:
    """List the queries for which a model found no keyword, each with the place that it suggested."""
    before = call.read_cursor(_MISSED, params.cursor)
    page = await call.hub.keywords.missed.list_newest(call.ctx, params.limit, before)
    return call.answer_page(_MISSED, page)


@routes.add(
    "POST",
    "/missed",
    {201: answers.CreatedKeyword},
    summary="Make a missed query a keyword",
    examples={"as suggested": {"id": answers.MISSED_ID}},
    errors=(404,),
)
async def accept_missed(call: WriteCall, body: schemas.MissedAcceptBody) -> Response:
    """Create the keyword at the suggested place, or where the body says. The query leads to it from then on."""
    keywords = call.hub.keywords
    new = await keywords.missed.get_keyword(call.ctx, body.id, body.name, body.parent_id)
    created = await keywords.tree.create(call.ctx, await _find_parent(call, new), call.key, auto_place=False)
    return answer_created(created, "/api/keywords")


@routes.add("DELETE", "/missed", {200: OperationAnswer}, summary="Dismiss a missed query", errors=(404,))
async def dismiss_missed(call: Call, params: schemas.MissedDismissParams) -> Response:
    """Take it off the queue for good: the same query is not listed again."""
    return answer_write({}, await call.hub.keywords.missed.dismiss(call.ctx, params.id))


@routes.add("GET", "/{keyword_id}", {200: answers.KeywordRecord}, summary="Read a keyword")
async def get_keyword(call: Call, keyword_id: KeywordId) -> Response:
    """Read one keyword, whole; `ETag` is its version."""
    return answer_text_row(await call.hub.keywords.tree.get(call.ctx, keyword_id))


@routes.add(
    "PATCH",
    "/{keyword_id}",
    {200: answers.SavedKeyword},
    summary="Change fields of a keyword",
    examples={"say what it is": {"description": "事件循环、协程、任务。", "metadata": {"icon": "loop"}}},
)
async def update_keyword(call: EditCall, keyword_id: KeywordId, body: schemas.KeywordPatchBody) -> Response:
    """Change its name, aliases, description, metadata or scopes. Other routes move and merge it."""
    return answer_saved(
        await call.hub.keywords.tree.update(
            call.ctx,
            keyword_id,
            body.to_patch(),
            call.version,
            call.key,
            allow_duplicate=body.allow_duplicate,
        )
    )


@routes.add("DELETE", "/{keyword_id}", DELETED, summary="Delete a keyword")
async def delete_keyword(
    call: EditCall, keyword_id: str, body: schemas.KeywordDeleteBody | schemas.KeywordDeleteParams
) -> Response:
    """Delete a keyword, and with `cascade` everything below it. Undo brings it back.

    `erase` removes the content of a deleted keyword for good, also from the history.
    """
    if body.erase:
        return await call.erase(KEYWORDS, keyword_id)
    how = DeleteOptions(cascade=body.cascade, policy=body.info_policy, expected=call.version)
    return answer_write(
        {}, await call.hub.keywords.tree.delete(call.ctx, await call.find_keyword(keyword_id), how, call.key)
    )


@routes.add("GET", "/{keyword_id}/children", {200: answers.KeywordList}, summary="The children of a keyword")
async def get_children(call: Call, keyword_id: KeywordId, params: schemas.ChildrenParams) -> Response:
    """List the children that the caller sees, oldest first."""
    tree, after = call.hub.keywords.tree, call.read_cursor(_CHILDREN, params.cursor)
    page = await tree.list_children(call.ctx, keyword_id, params.limit, after)
    return call.answer_page(_CHILDREN, page)


@routes.add("GET", "/{keyword_id}/path", {200: answers.KeywordPath}, summary="The path from the root to a keyword")
async def get_path(call: Call, keyword_id: KeywordId) -> Response:
    """List the keywords from the root to this one, both included."""
    return answer_text_list(await call.hub.keywords.tree.get_path(call.ctx, keyword_id))


@routes.add(
    "GET",
    "/{keyword_id}/subtree",
    {200: answers.Subtree},
    summary="A keyword with everything below it",
    headers={200: ()},
)
async def get_subtree(call: Call, keyword_id: KeywordId, params: schemas.SubtreeParams) -> Response:
    """Read a keyword with nested `children_nodes`, `depth` levels deep. 422 if there are more than 10,000 keywords."""
    return answer_json(await call.hub.keywords.tree.get_subtree(call.ctx, keyword_id, params.depth))


@routes.add(
    "GET", "/{keyword_id}/infos", {200: answers.LinkedInfoList}, summary="The infos of a keyword", errors=(413,)
)
async def get_infos_of_keyword(call: Call, keyword_id: KeywordId, params: schemas.KeywordInfosParams) -> Response:
    """List a page of the infos of a keyword, each with its `relation` and the maker of the link."""
    return answer_text_list(await call.hub.keywords.infos.list_for_keyword(call.ctx, keyword_id, params.to_query()))


@routes.add(
    "POST",
    "/{keyword_id}/move",
    {200: answers.SavedKeyword},
    summary="Move a keyword",
    examples={"to the top": {"new_parent_id": "root"}},
)
async def move_keyword(call: EditCall, keyword_id: KeywordId, body: schemas.MoveBody) -> Response:
    """Move a keyword, with everything below it, to another parent.

    409 if the new parent is below it, or has another keyword of its name, unless `allow_duplicate`.
    """
    return answer_saved(
        await call.hub.keywords.tree.move(
            call.ctx,
            keyword_id,
            await call.find_keyword(body.new_parent_id),
            call.version,
            call.key,
            allow_duplicate=body.allow_duplicate,
        )
    )


@routes.add(
    "POST",
    "/{keyword_id}/merge",
    {200: answers.SavedKeyword},
    summary="Merge a keyword into another",
    examples={"into another": {"into": OTHER_KEYWORD_ID}},
)
async def merge_keywords(call: EditCall, keyword_id: KeywordId, body: schemas.MergeBody) -> Response:
    """Move this keyword's names, infos and children to `into` and delete it. Answers `into`."""
    return answer_saved(
        await call.hub.keywords.tree.merge(
            call.ctx, keyword_id, await call.find_keyword(body.into), call.version, call.key
        )
    )


@routes.add(
    "POST",
    "/{keyword_id}/aliases",
    {200: answers.SavedKeyword},
    summary="Give a keyword another name",
    examples={"in another script": {"alias": "异步"}},
)
async def add_alias(call: EditCall, keyword_id: KeywordId, body: schemas.AliasBody) -> Response:
    """Add an alias. 409 if another keyword has this name."""
    return answer_saved(
        await call.hub.keywords.tree.add_alias(call.ctx, keyword_id, body.alias, call.version, call.key)
    )


@routes.add(
    "DELETE", "/{keyword_id}/aliases/{alias}", {200: answers.SavedKeyword}, summary="Remove a name of a keyword"
)
async def remove_alias(call: EditCall, keyword_id: KeywordId, alias: str) -> Response:
    """Remove an alias; in the path it is percent-encoded."""
    return answer_saved(await call.hub.keywords.tree.remove_alias(call.ctx, keyword_id, alias, call.version, call.key))


async def _find_parent(call: Call, new: NewKeyword) -> NewKeyword:
    return new if new.parent_id is None else replace(new, parent_id=await call.find_keyword(new.parent_id))
