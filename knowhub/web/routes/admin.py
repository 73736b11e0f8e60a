"""API keys: for the root key, and in their account for its admins."""

from starlette.responses import Response

from knowhub.web.responses import answer_list, answer_write
from knowhub.web.route import Call, Routes, WriteCall
from knowhub.web.schemas import keys as schemas
from knowhub.web.schemas.parts import CallerIds, OperationAnswer
from knowhub.web.views import make_issued_key_view, make_key_view

routes = Routes("/api/admin/keys", "keys", "API keys, their holders and roles.")

# No route reads a key or changes a version of it.
_HEADERS = ("X-Operation-Id",)


@routes.add(
    "POST",
    "",
    {201: schemas.IssuedKeyAnswer},
    summary="Create a key",
    examples={
        "an agent of a user": {"user_id": "li", "agent_id": "crawler", "role": "writer", "team_ids": ["web"]},
        "who only reads, for a while": {
            "account": "acme",
            "user_id": "guest",
            "role": "reader",
            "expires_at": "2099-12-31",
        },
    },
    headers={201: _HEADERS},
)
async def create_key(call: WriteCall, body: schemas.KeyBody) -> Response:
    """Create a key for a user, an agent or both. Its text is answered once and stored nowhere."""
    # The other ids are the holder's, not the caller's.
    if body.account is not None:
        call = call.with_ids(CallerIds(account=body.account))
    identity = call.hub.identity
    issued = await identity.issue(call.ctx, body.to_new(), call.key)
    return answer_write(make_issued_key_view(identity, issued), issued.operation_id, 201)


@routes.add("GET", "", {200: schemas.KeyList}, summary="List the keys")
async def list_keys(call: Call) -> Response:
    """List the keys of the account, oldest first, with expired and revoked keys.

    The root key lists the keys of all accounts, unless it names one.
    """
    identity = call.hub.identity
    is_any = call.ctx.is_root and "account" not in call.ids.model_fields_set
    results = [
        make_key_view(identity, key) for key in await identity.list_keys(call.ctx, None if is_any else call.ctx.account)
    ]
    return answer_list(results)


@routes.add(
    "POST", "/{key_id}/rotate", {200: schemas.IssuedKeyAnswer}, summary="Replace a key", headers={200: _HEADERS}
)
async def rotate_key(call: WriteCall, key_id: str) -> Response:
    """Create a key with the same rights. The old key is invalid at once."""
    call, identity = await _in_account_of(call, key_id), call.hub.identity
    issued = await identity.rotate(call.ctx, key_id, call.key)
    return answer_write(make_issued_key_view(identity, issued), issued.operation_id)


@routes.add("DELETE", "/{key_id}", {200: OperationAnswer}, summary="Revoke a key")
async def revoke_key(call: WriteCall, key_id: str) -> Response:
    """Revoke a key at once, in every process. It stays in the list. This cannot be undone."""
    call = await _in_account_of(call, key_id)
    return answer_write({}, await call.hub.identity.revoke(call.ctx, key_id, call.key))


async def _in_account_of(call: WriteCall, key_id: str) -> WriteCall:
    """Return the request in the account of a key, where the root key calls and names no account."""
    if not call.ctx.is_root or "account" in call.ids.model_fields_set:
        return call
    account = await call.hub.identity.find_account(key_id)
    return call if account is None else call.with_ids(call.ids.model_copy(update={"account": account}))
