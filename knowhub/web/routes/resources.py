"""The resource routes: parse, call the service, answer. An id holds slashes: no route goes on behind it."""

from urllib.parse import quote

from starlette.responses import Response

from knowhub.resources.decisions import check_resource_id
from knowhub.resources.model import RESOURCES
from knowhub.web.responses import answer_json, answer_list, answer_saved, answer_write, make_etag
from knowhub.web.route import DELETED, Call, EditCall, Routes, WriteCall
from knowhub.web.schemas import resources as schemas
from knowhub.web.schemas.parts import DeleteBody, DeleteParams
from knowhub.web.secret_warnings import find_warnings

routes = Routes("/api/resource", "resources", "Code, credentials, cookies and other texts, with an encrypted part.")


@routes.add(
    "POST",
    "",
    {
        201: schemas.SavedResourceRecord,
        200: (schemas.SavedResourceRecord, "With `upsert`: a new version of an existing resource."),
    },
    summary="Save a resource",
    examples={
        "code": {
            "id": "code/selenium/undetected_login",
            "title": "Selenium 绕过检测登录代码",
            "body": "import undetected_chromedriver as uc\n\ndriver = uc.Chrome()",
            "content_type": "code",
            "metadata": {"language": "python"},
        },
        "a credential": {
            "id": "credentials/website_a",
            "title": "某网站测试账号",
            "body": "使用方法：直接登录即可，每天限额 100 次",
            "secure_body": "账号：user@example.com\n密码：SecurePass123",
            "content_type": "credential",
            "metadata": {"acquired_at": "2026-03-06T10:00:00Z"},
            "scopes": ["project:crawler"],
        },
    },
)
async def save_resource(call: WriteCall, body: schemas.ResourceBody, params: schemas.ResourceSaveParams) -> Response:
    """Save code, a credential, a cookie or any other text; `secure_body` is sealed.

    409 if the id exists. With `upsert` the owner saves a new version, which replaces all fields.
    """
    service = call.hub.resources
    saved = await service.save(call.ctx, body.to_new(), call.key, upsert=params.upsert)
    warnings = await find_warnings({"title": body.title, "body": body.body})
    return answer_saved(saved, 201 if saved.is_new else 200, f"/api/resource/{quote(body.id)}", warnings)


@routes.add("GET", "", {200: schemas.ResourceList}, summary="List resources by id")
async def list_resources(call: Call, params: schemas.ResourceListParams) -> Response:
    """List the resources that the caller sees, by prefix, content type and expiry, without their sealed texts."""
    page = await call.hub.resources.list_page(call.ctx, params.to_query())
    return answer_list(page.records, page.next_after)


@routes.add(
    "GET",
    "/{resource_id:path}",
    {200: schemas.ReadResource},
    summary="Read a resource",
    errors=(409, 507),
    headers={200: ("ETag", "X-Operation-Id")},
)
async def get_resource(call: Call, resource_id: str, params: schemas.ResourceParams) -> Response:
    """Read a resource. `ETag` is its version. With `reveal` the answer has its sealed text too.

    The owner, an admin, and writers who see it by a scope other than `public` may reveal it. The operation
    `reveal_resource` is written to the log before the answer.
    """
    service = call.hub.resources
    if not params.reveal:
        record = await service.read(call.ctx, resource_id)
        return answer_json(record, headers=make_etag(record["version"]))
    revealed = await service.reveal(call.ctx, resource_id)
    return answer_write(
        {**revealed.record, "secure_body": revealed.secure_body},
        revealed.operation_id,
        200,
        make_etag(revealed.record["version"]),
    )


@routes.add(
    "PATCH",
    "/{resource_id:path}",
    {200: schemas.SavedResourceRecord},
    summary="Change fields of a resource",
    examples={
        "a new cookie": {"secure_body": "session_id=def456", "expires_at": "2026-03-08T10:00:00Z"},
        "nothing sealed any more": {"secure_body": None},
    },
)
async def update_resource(call: EditCall, resource_id: str, body: schemas.ResourcePatchBody) -> Response:
    """Change a resource's body, sealed body, metadata or scopes."""
    service = call.hub.resources
    patch = body.to_patch()
    saved = await service.patch(call.ctx, check_resource_id(resource_id), patch, call.version, call.key)
    # What is sealed is where it belongs.
    return answer_saved(saved, more=await find_warnings({"title": patch.get("title"), "body": patch.get("body")}))


@routes.add("DELETE", "/{resource_id:path}", DELETED, summary="Delete a resource")
async def delete_resource(call: EditCall, resource_id: str, body: DeleteBody | DeleteParams) -> Response:
    """Delete a resource. Undo brings it back.

    With `erase` it is removed for good: its key is deleted from the log, so the sealed text cannot be opened any more,
    in snapshots and copies neither.
    """
    check_resource_id(resource_id)
    if body.erase:
        return await call.erase(RESOURCES, resource_id)
    service = call.hub.resources
    return answer_write({}, await service.delete(call.ctx, resource_id, call.version, call.key))
