"""API keys: for the root key, and in their account for its admins."""

from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.core.request_context import RequestContext
from knowhub.identity.model import ApiKey, Minted
from knowhub.identity.service import IdentityService
from knowhub.web.dependencies import body, context_of, hub_of, json_response, query, raw_body, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.schemas import keys as shapes
from knowhub.web.schemas.keys import KeyBody
from knowhub.web.schemas.parts import Body, CallerIds, OperationAnswer

router = APIRouter(prefix="/api/admin/keys", tags=["keys"], route_class=EdgeRoute)


@router.post(
    "",
    summary="Make a key",
    status_code=201,
    responses=answers(201, shapes.MintedKey) | WRITES,
    openapi_extra=RETRY | examples("key", KeyBody),
)
async def create_key(request: Request) -> Response:
    """Make a key for a user, an agent or both. Its text is answered this once, and stands nowhere."""
    sent = body(request, KeyBody)
    # The other ids are the holder's, not the caller's.
    ids = CallerIds() if sent.account is None else CallerIds(account=sent.account)
    ctx, identity = context_of(request, ids), hub_of(request).identity
    minted = await identity.mint(ctx, sent.to_new(), retry_key(request, ctx))
    return written(told(identity, minted), minted.operation_id, 201)


@router.get(
    "",
    summary="List the keys",
    responses=answers(200, shapes.KeyList) | problems(422),
    openapi_extra=parameters(CallerIds),
)
async def list_keys(request: Request) -> Response:
    """List the keys of the account, the oldest first, ended ones too; for root those of all that it does not name."""
    ids = query(request, CallerIds)
    ctx, identity = context_of(request, ids), hub_of(request).identity
    is_any = ctx.is_root and "account" not in ids.model_fields_set
    results = [shown(identity, key) for key in await identity.keys(ctx, None if is_any else ctx.account)]
    return json_response({"results": results, "count": len(results), "next_cursor": None})


@router.post(
    "/{key_id}/rotate",
    summary="Put a new key in the place of one",
    responses=answers(200, shapes.MintedKey) | WRITES | problems(404),
    openapi_extra=parameters(CallerIds, headers=RETRY),
)
async def rotate_key(request: Request, key_id: str) -> Response:
    """Make a key that opens what this one does; this one ends at once."""
    ctx, identity = await _context_at(request, key_id), hub_of(request).identity
    minted = await identity.rotate(ctx, key_id, retry_key(request, ctx))
    return written(told(identity, minted), minted.operation_id)


@router.delete(
    "/{key_id}",
    summary="Revoke a key",
    responses=answers(200, OperationAnswer) | WRITES | problems(404),
    openapi_extra=parameters(CallerIds, headers=RETRY),
)
async def revoke_key(request: Request, key_id: str) -> Response:
    """End a key at once, in every process. It stays in the list, and nothing brings it back."""
    ctx = await _context_at(request, key_id)
    return written({}, await hub_of(request).identity.revoke(ctx, key_id, retry_key(request, ctx)))


def shown(identity: IdentityService, key: ApiKey) -> dict[str, Any]:
    """Return what is told of a key, which is not its hash."""
    row = {name: value for name, value in key.row.items() if name not in {"id", "hash"}}
    return {
        "key_id": key.key_id,
        "account": key.account,
        **row,
        "expired": identity.has_expired(key),
        "last_used_at": identity.uses.last(key.key_id),
    }


def told(identity: IdentityService, minted: Minted) -> dict[str, Any]:
    """Return what is told of a key that was just made: its text too, unless this answers a retry."""
    return {**shown(identity, minted.key), "key": minted.text, "replaces": minted.replaces}


async def _context_at(request: Request, key_id: str) -> RequestContext:
    """Return the caller in the account that they name; who may do everything need not name that of the key."""
    ids = body(request, Body) if raw_body(request) else query(request, CallerIds)
    ctx = context_of(request, ids)
    if not ctx.is_root or "account" in ids.model_fields_set:
        return ctx
    account = await hub_of(request).identity.account_of(key_id)
    return ctx if account is None else context_of(request, ids.model_copy(update={"account": account}))
