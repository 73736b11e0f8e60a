"""API keys: they are checked before every route, and give a request its context."""

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.bootstrap import Hub
from knowhub.core.errors import Forbidden, KnowHubError
from knowhub.core.request_context import RequestContext, share_nothing_by_default
from knowhub.identity.decisions import narrow_context
from knowhub.identity.model import AuthenticatedCaller
from knowhub.web.error_responses import ProblemKind, Refusal, answer_refusal
from knowhub.web.schemas.parts import CallerIds

CALLER = "knowhub.caller"
API_KEY_HEADER = "X-API-Key"

_OPEN = frozenset({"/", "/health", "/ready", "/version", "/docs", "/openapi.json"})
_ASSETS = "/docs/assets/"
_BEARER = b"bearer "
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_MISSING = f"send a key, as `{API_KEY_HEADER}: KEY` or `Authorization: Bearer KEY`"
# The same text for each case: a caller must not learn which keys exist or existed.
_INVALID = "this key opens nothing: it is unknown, has expired or was revoked"
_SEVERAL = "the request brings different keys; send one of them"
_KEYS_UNREADABLE = Refusal(ProblemKind.UNAVAILABLE, "the keys cannot be read at present")
_FIRST_STEPS = (
    "nobody can call yet: set KNOWHUB_ROOT_KEY, or make a key on this machine with "
    "`knowhub keys create --role admin --user-id NAME`, for the same data directory"
)

_log = structlog.get_logger("knowhub.web")


class AuthMiddleware:
    """Refuses requests without a valid key before their body is read, and notes the caller of the others.

    Open paths are listed, so a new route needs a key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 401."""
        if scope["type"] != "http" or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        sent = _read_keys(scope)
        if len(sent) != 1:
            await answer_refusal(send, scope, _refuse(_SEVERAL if sent else _MISSING))
            return
        hub: Hub = scope["app"].state.hub
        try:
            caller = await hub.identity.authenticate(sent.pop().decode("latin-1"))
        except (KnowHubError, OSError) as problem:
            # Without the log, revoked keys are unknown.
            _log.error("keys_unreadable", error=repr(problem))
            await answer_refusal(send, scope, _KEYS_UNREADABLE)
            return
        if caller is None:
            await answer_refusal(send, scope, _refuse(_INVALID))
            return
        scope[CALLER] = caller
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    """Return whether a path answers without a key."""
    return path in _OPEN or path.startswith(_ASSETS)


def make_request_context(request: Request, ids: CallerIds) -> RequestContext:
    """Return the caller: the holder of the key, or without keys whom the context ids name.

    Raises Forbidden for ids that are not the key's.
    """
    caller: AuthenticatedCaller | None = request.scope.get(CALLER)
    if caller is None:
        hub: Hub = request.app.state.hub
        if hub.settings.auth != "none":
            raise Forbidden("this route knows of no caller; it answers nothing that is anybody's")
        return ids.to_context(hub.default_owner)
    return narrow_context(caller, ids.get_ids(), ids.account if "account" in ids.model_fields_set else None)


def name_caller(scope: Scope) -> str | None:
    """Return the principal whose limit a request counts against; None if it has no limit."""
    caller: AuthenticatedCaller | None = scope.get(CALLER)
    if caller is None:
        client = scope.get("client")
        return client[0] if client else ""
    if caller.context.is_root:
        return None
    # Names of accounts and of who calls hold no control characters, so no two callers have one name.
    return f"{caller.context.account}\n{caller.context.quota_key}"


def make_local_context(hub: Hub, ids: CallerIds) -> RequestContext:
    """Return the caller on the machine itself. Where keys are required, it shares nothing by default."""
    ctx = ids.to_context(hub.default_owner)
    return ctx if hub.settings.auth == "none" else share_nothing_by_default(ctx)


def is_maintainer(request: Request) -> bool:
    """Return whether an open route may show details: to the local principal and the root key."""
    hub: Hub = request.app.state.hub
    if hub.settings.auth == "none":
        return True
    sent = _read_keys(request.scope)
    return len(sent) == 1 and hub.identity.is_root(sent.pop().decode("latin-1"))


async def log_first_steps(hub: Hub) -> None:
    """Log how to create a key if there is none yet."""
    if hub.settings.auth == "api-key" and not await hub.identity.can_anybody_call():
        _log.warning("no_key_yet", detail=_FIRST_STEPS)


def _refuse(detail: str) -> Refusal:
    return Refusal(ProblemKind.UNAUTHORIZED, detail, _CHALLENGE)


def _read_keys(scope: Scope) -> set[bytes]:
    """Return the different keys in a request."""
    sent: set[bytes] = set()
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            sent.add(value.strip())
        elif name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            sent.add(value[len(_BEARER) :].strip())
    return sent
