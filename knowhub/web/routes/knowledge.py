"""The routes of knowledge records: save, find, change, give evidence, extract and merge."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response

from knowhub.core.owned_rows import SavedRow
from knowhub.core.permissions import check_can_maintain
from knowhub.knowledge.model import KNOWLEDGE, ListQuery
from knowhub.web.responses import (
    JsonText,
    answer_history,
    answer_json,
    answer_report,
    answer_rows,
    answer_saved,
    answer_text_list,
    answer_write,
    make_etag,
)
from knowhub.web.route import DELETED, STARTED, Call, EditCall, Routes, WriteCall, answer_job
from knowhub.web.schemas import extraction
from knowhub.web.schemas import knowledge as schemas
from knowhub.web.schemas import knowledge_answers as answers
from knowhub.web.schemas.maintenance import WaitParams
from knowhub.web.schemas.operations import HistoryParams
from knowhub.web.schemas.parts import DeleteBody, DeleteParams
from knowhub.web.secret_warnings import find_warnings
from knowhub.web.views import make_saved_view, make_slimming_view, make_view

routes = Routes("/api/knowledge", "knowledge", "Experience records: what agents learnt, with the evidence for it.")

# In examples of bodies, which the OpenAPI document shows and a test executes.
_SUCCESS = {"task": "登录某网站", "outcome": "成功"}
_HELPED = {"add_helpful_case": _SUCCESS}
_SELENIUM = {
    "task": "用 Selenium 登录网站并绕过反爬检测",
    "content": "undetected_chromedriver 可以绕过大部分检测：设置合适的 user-agent，随机延迟，避免频繁请求。",
    "types": ["tool", "strategy"],
    "tags": {"category": "anti_bot", "domain": "crawling"},
    "scopes": ["org:cybertogether", "user:owner"],
    "owner": "agent:research_agent",
    "source": {"name": "undetected_chromedriver", "category": "exp", "agent_id": "research_agent"},
    "score": 4,
}


@routes.add(
    "POST",
    "",
    {201: answers.SavedRecord, 200: (answers.SavedRecord, "An equal record exists already.")},
    summary="Save a record",
    examples={"a tool pitfall": _SELENIUM, "the least that works": {"content": "pnpm, not npm, in this project"}},
)
async def save_knowledge(call: WriteCall, body: schemas.SaveBody) -> Response:
    """Save what was learnt.

    A record with the same owner, scopes, types and text is a duplicate. Then the status is 200,
    `duplicate_of` names the stored record, and nothing is written. If evidence speaks against that record, what the
    caller said no longer counts, and `restored` says so; what others said counts, and `warning` says so.
    """
    saved = await call.hub.knowledge.records.save(call.ctx, body.to_new(), call.key)
    location = f"/api/knowledge/{quote(saved.record['id'], safe='')}"
    warnings = await find_warnings({"task": body.task, "content": body.content})
    return answer_saved(_add_missing_resources(call, saved), 200 if saved.duplicate_of else 201, location, warnings)


@routes.add(
    "POST",
    "/batch",
    {201: answers.SavedRecords, 200: (answers.SavedRecords, "Equal records exist already.")},
    summary="Save many records in one operation",
    examples={
        "two records": {
            "items": [
                _SELENIUM,
                {
                    "task": "List all issues of a GitHub repository",
                    "content": "Follow the `next` link of the Link header; never count pages. per_page is at most 100.",
                    "type": "tool",
                    "tags": {"domain": "github"},
                    "scopes": ["public"],
                },
            ]
        }
    },
    is_large=True,
)
async def save_knowledge_batch(call: WriteCall, body: schemas.BatchBody) -> Response:
    """Save up to 1,000 records, all or none. For a duplicate the answer has the stored record in its place."""
    items = [item.to_new() for item in body.items]
    saved = await call.hub.knowledge.records.save_batch(call.ctx, items, call.key)
    results = [
        {
            "duplicate_of": None,
            **make_saved_view(_add_missing_resources(call, result)),
            "operation_id": result.operation_id,
        }
        for result in saved.records
    ]
    texts = {
        f"items.{place}.{name}": getattr(item, name)
        for place, item in enumerate(body.items)
        for name in ("task", "content")
    }
    rest = {"operation_id": saved.operation_id, **await find_warnings(texts)}
    return await answer_rows(results, rest, 201 if saved.operation_id else 200)


@routes.add("GET", "/search", {200: answers.SearchAnswer}, summary="Find records")
async def knowledge_search(call: Call, params: schemas.KnowledgeSearchParams) -> Response:
    """Find records that are about a question: fewer than `top_k`, or none, if no more are.

    Steps: recall, routing if a model is configured, ranking by relevance, which evidence moves within bounds.
    """
    found = await call.hub.knowledge.search.search(call.ctx, params.to_query())
    optional = {
        "routed": found.routed,
        "explanation": found.explanation,
        "tokens": found.tokens,
        "dropped": found.dropped or None,
    }
    answer = make_view(answers.SearchAnswer, found, results=found.records, count=len(found.records), **optional)
    return answer_json({name: value for name, value in answer.items() if name not in optional or value is not None})


@routes.add("GET", "", {200: answers.KnowledgeList}, summary="List records, newest first")
async def list_knowledge(call: Call, params: schemas.ListParams) -> Response:
    """List records by type, scope, owner, time of creation and any `tag.<name>=value`."""
    before = call.read_cursor(KNOWLEDGE, params.cursor)
    page = await call.hub.knowledge.records.page(
        call.ctx, ListQuery(params.to_filters(), params.limit, before, created=params.to_time_range())
    )
    return call.answer_page(KNOWLEDGE, page)


@routes.add(
    "POST",
    "/batch_update",
    {200: answers.BatchFeedbackAnswer},
    summary="Give evidence on many records",
    examples={
        "one known, one not": {
            "feedback_list": [
                {"knowledge_id": "knowledge-20260305-a1b2", "is_helpful": True, "case": {"outcome": "成功"}},
                {"knowledge_id": "knowledge-20260305-ffff", "is_helpful": False},
            ]
        }
    },
    is_large=True,
)
async def batch_update_knowledge(call: WriteCall, body: schemas.BatchFeedbackBody) -> Response:
    """Add a helpful or harmful case to each record, in one operation. Unknown ids are reported in `status`."""
    service = call.hub.knowledge.records
    statuses, operation_id = await service.give_feedback_batch(call.ctx, body.to_votes(), call.key)
    pairs = zip(body.feedback_list, statuses, strict=True)
    results = [{"knowledge_id": pair.knowledge_id, "status": status} for pair, status in pairs]
    return answer_write({"results": results, "count": len(results)}, operation_id)


@routes.add(
    "POST",
    "/outcome",
    {200: answers.OutcomeAnswer},
    summary="Report how a goal ended, and what helped",
    examples={
        "the goal was reached": {
            "session_id": "trace-2026-03-05",
            "goal_id": "goal-123",
            "outcome": "success",
            "used": ["a"],
            "case": _SUCCESS,
        },
        "a record was wrong": {
            "session_id": "trace-2026-03-05",
            "goal_id": "goal-124",
            "outcome": "failure",
            "wrong": ["b"],
            "reason": "The button has moved.",
        },
    },
)
async def report_outcome(call: WriteCall, body: schemas.OutcomeBody) -> Response:
    """Report how it went. Records in `used` get the case as evidence, those in `not_helpful` and `wrong` against them.

    A failure alone is no evidence against any record. If nothing is said of records, what was shown gets weak evidence.
    Each finding counts once per goal and record.
    """
    results, operation_id = await call.hub.knowledge.outcomes.report(call.ctx, body.to_outcome(), call.key)
    return answer_write({"results": results, "count": len(results)}, operation_id)


@routes.add("GET", "/profile", {200: answers.KnowledgeList}, summary="What is known about the caller")
async def own_profile(call: Call, params: schemas.ProfileParams) -> Response:
    """List the caller's `user_profile` records, highest confidence first. An agent reads them at its start."""
    records = await call.hub.knowledge.search.list_profile(call.ctx, params.limit)
    return answer_text_list(records)


@routes.add("GET", "/{knowledge_id}", {200: answers.ReadRecord}, summary="Read a record")
async def get_knowledge(call: Call, knowledge_id: str) -> Response:
    """Read all fields of a record, with the records that say nearly the same. `ETag` is its version."""
    hub = call.hub
    stored = await hub.knowledge.records.get(call.ctx, knowledge_id)
    similar = [
        {"id": item, "similarity": similarity}
        for item, similarity in await hub.knowledge.similarity.find(call.ctx, knowledge_id)
    ]
    # The record is JSON text already; reading it to write it again would cost more than everything else.
    text = b'%s,"similar":%s}' % (stored.json[:-1], orjson.dumps(similar))
    return JsonText(text, 200, make_etag(stored.version))


@routes.add(
    "PATCH",
    "/{knowledge_id}",
    {200: answers.SavedRecord},
    summary="Change fields of a record",
    examples={"narrow who sees it": {"scopes": ["project:atlas"], "tags": {"domain": "github"}}},
)
async def patch_knowledge(call: EditCall, knowledge_id: str, body: schemas.PatchBody) -> Response:
    """Change a record's content, tags or scopes. Evidence is changed by PUT."""
    saved = await call.hub.knowledge.records.patch(call.ctx, knowledge_id, body.to_patch(), call.version, call.key)
    return answer_saved(_add_missing_resources(call, saved), more=await find_warnings(body.to_patch()))


@routes.add(
    "PUT",
    "/{knowledge_id}",
    {200: answers.EvolvedRecord},
    summary="Give evidence on a record",
    examples={
        "it helped": {**_HELPED, "update_score": 5},
        "it taught something": {"evolve_feedback": "新版需要先调用 driver.get，再等待元素"},
        "it did harm": {"add_harmful_case": {"outcome": "banned", "reason": "too many requests"}},
    },
)
async def update_knowledge(call: EditCall, knowledge_id: str, body: schemas.FeedbackBody) -> Response:
    """Add a helpful or harmful case, set the score, or let a model rewrite the content.

    If the record was merged into another, the evidence goes to that record, which is the answer.
    """
    hub = call.hub
    if body.evolve_feedback is None:
        return answer_saved(
            await hub.knowledge.records.give_feedback(
                call.ctx, knowledge_id, body.to_feedback(), call.version, call.key
            )
        )
    done = await hub.knowledge.evolution.evolve(call.ctx, knowledge_id, body.to_feedback(), call.version, call.key)
    return answer_saved(SavedRow({**done.saved.record, **done.as_answer}, done.saved.operation_id))


@routes.add(
    "POST",
    "/{knowledge_id}/feedback",
    {200: answers.EvolvedRecord},
    summary="Give evidence on a record, as PUT does",
    examples={"it helped": _HELPED},
)
async def post_feedback(call: EditCall, knowledge_id: str, body: schemas.FeedbackBody) -> Response:
    """Add a helpful or harmful case, set the score, or let a model rewrite the content."""
    return await update_knowledge(call, knowledge_id, body)


@routes.add("DELETE", "/{knowledge_id}", DELETED, summary="Delete a record")
async def delete_knowledge(call: EditCall, knowledge_id: str, body: DeleteBody | DeleteParams) -> Response:
    """Delete a record. Undo brings it back. With `erase` its content is removed for good, also from the history."""
    if body.erase:
        return await call.erase(KNOWLEDGE, knowledge_id)
    return answer_write({}, await call.hub.knowledge.records.delete(call.ctx, knowledge_id, call.version, call.key))


@routes.add("GET", "/{knowledge_id}/history", {200: answers.HistoryAnswer}, summary="Every version of a record")
async def knowledge_history(call: Call, knowledge_id: str, params: HistoryParams) -> Response:
    """Return who changed what and when, newest first. A deleted record has a history too."""
    page = await call.hub.knowledge.records.history(call.ctx, knowledge_id, params.limit, params.before)
    return answer_history(page)


@routes.add("GET", "/{knowledge_id}/access", {200: answers.AccessAnswer}, summary="Who can see a record")
async def knowledge_access(call: Call, knowledge_id: str) -> Response:
    """Return who can see a record, why the caller can see it, and what the caller may do with it."""
    return answer_json(await call.hub.knowledge.records.access(call.ctx, knowledge_id))


@routes.add(
    "POST",
    "/extract",
    {200: extraction.ExtractAnswer},
    summary="Find what is worth keeping in a conversation",
    examples={
        "what a user prefers": {
            "messages": [
                {"role": "user", "content": "请以后都用中文回答我。", "message_id": "msg-1"},
                {"role": "assistant", "content": "好的。"},
            ],
            "trigger": "user_expression",
            "user_id": "123",
            "project_id": "456",
            "agent_id": "general_assistant",
            "trace_id": "trace-xxx",
        },
        "a look before messages are compacted": {
            "messages": [
                {"role": "tool", "name": "bash", "content": "Error: EACCES: permission denied"},
                {"role": "assistant", "content": "I will install with a user prefix instead."},
                {"role": "tool", "name": "bash", "content": "added 12 packages"},
            ],
            "dry_run": True,
        },
    },
    is_large=True,
)
async def extract_knowledge(call: WriteCall, body: extraction.ExtractBody) -> Response:
    """Find preferences, background, pitfalls, outcomes, definitions and plans in a conversation, and save them.

    One operation writes all of them, and one undo takes them back. The answer also lists what cannot be
    saved; the rest is saved.
    """
    extracted = await call.hub.knowledge.extraction.extract(call.ctx, body.to_extraction(), call.key)
    answer = make_view(extraction.ExtractAnswer, extracted, candidates=extracted.results, count=len(extracted.saved))
    return answer_write(answer, extracted.operation_id)


@routes.add(
    "POST",
    "/slim",
    {200: answers.SlimAnswer} | STARTED,
    summary="Merge records that say the same",
    examples={"see what would be merged": {"dry_run": True}},
    is_body_optional=True,
)
async def slim_knowledge(call: WriteCall, body: schemas.SlimBody, params: WaitParams) -> Response:
    """Merge the caller's copies, near copies and, with a model, records that say the same; `dry_run` previews.

    Merged records can still be read by their ids, and their evidence is added up. Undo `slim_id` to revert all of it.
    """
    slimming, key = call.hub.knowledge.slimming, call.key
    if not params.wait:
        check_can_maintain(call.ctx)
    if not call.ctx.is_root:
        slimmed = await slimming.slim(call.ctx, body.model, dry_run=body.dry_run, key=key)
        return answer_report(make_slimming_view(slimmed))

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return make_slimming_view(
            await slimming.slim(call.ctx, body.model, dry_run=body.dry_run, progress=progress, key=key)
        )

    return await answer_job(call, "slim", work, key, wait=params.wait, make_response=answer_report)


def _add_missing_resources(call: Call, saved: SavedRow) -> SavedRow:
    """Add the ids of resources that a record refers to and that the caller does not see.

    That is no error: a caller may save the lesson first and its code second.
    """
    referred = saved.record["resource_ids"]
    missing = call.hub.resources.list_missing(call.ctx, referred) if referred else []
    return replace(saved, record={**saved.record, "missing_resource_ids": missing}) if missing else saved
