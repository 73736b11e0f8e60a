"""Who calls, where keys are asked for: a gate before every route, and the context that a request then has."""

import structlog
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.bootstrap import Hub
from knowhub.core.errors import Forbidden, KnowHubError
from knowhub.core.request_context import RequestContext
from knowhub.identity.decisions import context_for
from knowhub.identity.model import AuthenticatedCaller
from knowhub.web.middleware import answer_problem
from knowhub.web.schemas.parts import CallerIds

CALLER = "knowhub.caller"
API_KEY_HEADER = "X-API-Key"

_OPEN = frozenset({"/", "/health", "/ready", "/version", "/docs", "/openapi.json"})
_ASSETS = "/docs/assets/"
_BEARER = b"bearer "
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)
_LATER = ((b"retry-after", b"1"),)
_MISSING = f"send a key, as `{API_KEY_HEADER}: KEY` or `Authorization: Bearer KEY`"
# The same words for each of them: which keys there are, or were, is nobody's business.
_INVALID = "this key opens nothing: it is unknown, has expired or was revoked"
_SEVERAL = "the request brings different keys; send one of them"
_HOW = (
    "nobody can call yet: set KNOWHUB_ROOT_KEY, or make a key on this machine with "
    "`knowhub keys create --role admin --user-id NAME`, for the same data directory"
)

_log = structlog.get_logger("knowhub.web")


class AuthMiddleware:
    """Lets requests through that come with a key, before their body is looked at, and notes whose it is.

    What is open is named: a route that somebody adds is closed until it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http" or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        sent = _read_keys(scope)
        if len(sent) != 1:
            await answer_problem(send, scope, (401, "unauthorized", _SEVERAL if sent else _MISSING), _CHALLENGE)
            return
        hub: Hub = scope["app"].state.hub
        try:
            caller = await hub.identity.caller(sent.pop().decode("latin-1"))
        except (KnowHubError, OSError) as problem:
            # Without the log nobody knows which keys still hold.
            _log.error("keys_unreadable", error=repr(problem))
            await answer_problem(send, scope, (503, "unavailable", "the keys cannot be read at present"), _LATER)
            return
        if caller is None:
            await answer_problem(send, scope, (401, "unauthorized", _INVALID), _CHALLENGE)
            return
        scope[CALLER] = caller
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    """Return whether a path answers without a key."""
    return path in _OPEN or path.startswith(_ASSETS)


def context_of(request: Request, ids: CallerIds) -> RequestContext:
    """Return who is calling: the holder of the key, where keys are asked for, else whom the context ids name.

    Raises Forbidden for ids that are not the key's.
    """
    caller: AuthenticatedCaller | None = request.scope.get(CALLER)
    if caller is None:
        hub: Hub = request.app.state.hub
        if hub.settings.auth != "none":
            raise Forbidden("this route knows of no caller; it answers nothing that is anybody's")
        return ids.context(hub.default_owner)
    return context_for(caller, ids.get_ids(), ids.account if "account" in ids.model_fields_set else None)


def is_keeper_up(request: Request) -> bool:
    """Return whether an open route may say more: to the local principal and the root key."""
    hub: Hub = request.app.state.hub
    if hub.settings.auth == "none":
        return True
    sent = _read_keys(request.scope)
    return len(sent) == 1 and hub.identity.is_root(sent.pop().decode("latin-1"))


async def say_how_to_begin(hub: Hub) -> None:
    """Say in the log how to make a key, where there is none with which anybody could call."""
    if hub.settings.auth == "api-key" and not await hub.identity.can_anybody_call():
        _log.warning("no_key_yet", detail=_HOW)


def _read_keys(scope: Scope) -> set[bytes]:
    """Return the different keys that a request brings."""
    sent: set[bytes] = set()
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            sent.add(value.strip())
        elif name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            sent.add(value[len(_BEARER) :].strip())
    return sent
