"""Send requests to the server, with a connection pool for each event loop.

Only this module of `agent_tools` reads the environment: KNOWHUB_API_URL and KNOWHUB_API_KEY, at each call, so that
both can change while the pool is open.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary

import httpx

from agent_tools import arguments, failures
from agent_tools.results import ToolFailure
from agent_tools.run import get_caller_ids

ValueT = TypeVar("ValueT")

DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 20.0
# uvicorn closes an idle connection after 5 s. We close it first, so that no request meets a closing connection.
IDLE_CONNECTION_S = 4.0
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
HIGHEST_PORT = 65_535

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()


async def request(
    method: str,
    path: str,
    *,
    params: Mapping[str, str | int | None] | None = None,
    body: Mapping[str, Any] | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
    not_found: str | None = None,
) -> dict[str, Any]:
    """Send a request for the caller of the run and return the JSON object of the answer.

    Parameters that are None are left out. Context ids in `params` or `body` replace those of the run. `timeout_s`
    limits the whole exchange. Every failure raises `ToolFailure` with advice; `not_found` is the advice for a 404.
    """
    call = f"{method} {path}"
    ids = get_caller_ids()
    if body is None:
        params = ids | arguments.drop_none(**(params or {}))
    message = _build_request(method, path, params, None if body is None else ids | dict(body), timeout_s)
    try:
        # The read timeout of httpx starts again at every byte: a slow server could hold the agent for ever.
        async with asyncio.timeout(timeout_s):
            response, content = await _exchange(message, call)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        origin = f"{message.url.scheme}://{message.url.netloc.decode('ascii')}"
        reason = failures.shorten(error) or type(error).__name__
        raise ToolFailure(
            f"KnowHub is not reachable at {origin} ({reason}). Start it with `knowhub serve`, "
            "or set KNOWHUB_API_URL to the address where it runs."
        ) from error
    except (TimeoutError, httpx.TimeoutException) as error:
        raise failures.make_timeout(call, timeout_s) from error
    except httpx.HTTPError as error:
        raise ToolFailure(
            f"The connection to KnowHub broke during {call} ({type(error).__name__}). {failures.PERHAPS_DONE}"
        ) from error
    if not response.is_success:
        raise failures.make_refusal(call, response.status_code, response.headers, content, not_found)
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise failures.make_foreign_answer(call) from error
    if not isinstance(reply, dict):
        raise failures.make_foreign_answer(call)
    return reply


async def await_unless_refused(call: Awaitable[dict[str, Any]], *statuses: int) -> dict[str, Any] | None:
    """Return what a call answers, None if the server refuses it with one of these statuses. Raises ToolFailure."""
    try:
        return await call
    except ToolFailure as failure:
        if failure.metadata.get("status") in statuses:
            return None
        raise


def get_field(reply: Mapping[str, Any], name: str, kind: type[ValueT]) -> ValueT:
    """Return a field of an answer. Raises ToolFailure if it has another type: no KnowHub has answered."""
    value = reply.get(name)
    if not isinstance(value, kind):
        raise failures.make_foreign_answer()
    return value


def list_results(reply: Mapping[str, Any], name: str = "results") -> list[dict[str, Any]]:
    """Return the `results` of a list or a search, which must be objects."""
    results: list[Any] = get_field(reply, name, list)
    if not all(isinstance(result, dict) for result in results):
        raise failures.make_foreign_answer()
    return results


def check_row(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the reply, which must be a row with an id."""
    get_field(reply, "id", str)
    return reply


def encode_segment(row_id: str) -> str:
    """Encode an id as a segment of a path. An id may have spaces, any script, `/` and `?`."""
    if not row_id:
        raise ToolFailure("The id is empty. Pass an id from a search or a list.")
    encoded = quote(row_id, safe="", errors="replace")
    # `quote` keeps `.` and `..`, and they would mean another path.
    return encoded.replace(".", "%2E") if row_id in {".", ".."} else encoded


def has_api_key() -> bool:
    """Return whether calls have an API key."""
    return bool(_read_api_key())


def get_client() -> httpx.AsyncClient:
    """Return the client of the running loop. Make a new one if there is none or it is closed."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is not None and not client.is_closed:
        return client
    # Open connections hold their loop, so the weak key does not free a loop that ended without `aclose_client`.
    # `keyrefs` is a copy: the loop of another thread may be added meanwhile.
    for reference in _clients.keyrefs():
        other = reference()
        if other is not None and other.is_closed():
            _clients.pop(other, None)
    client = _clients[loop] = httpx.AsyncClient(
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_CONNECTION_S),
        # HTTP_PROXY is meant for calls of models. It would also get requests to loopback with the API key, and httpx
        # does not start with a SOCKS proxy.
        trust_env=False,
        # httpx would send our header with the key to the target of a redirect.
        follow_redirects=False,
    )
    return client


async def aclose_client() -> None:
    """Close the client of the running loop, if there is one. A later call opens another."""
    client = _clients.pop(asyncio.get_running_loop(), None)
    if client is not None:
        await client.aclose()


def _build_request(
    method: str,
    path: str,
    params: Mapping[str, str | int | None] | None,
    body: Mapping[str, Any] | None,
    timeout_s: float,
) -> httpx.Request:
    url = _parse_server_url(os.environ.get("KNOWHUB_API_URL", "").strip() or DEFAULT_URL) + path
    key = _read_api_key()
    headers = {"X-API-Key": key} if key else {}
    timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
    try:
        return get_client().build_request(
            method,
            url,
            params=arguments.drop_none(**(params or {})) or None,
            json=body,
            headers=headers,
            timeout=timeout,
        )
    except (TypeError, ValueError, RecursionError, httpx.InvalidURL) as error:
        # For example NaN, a lone surrogate, or a query that is too long for a URL.
        reason = failures.shorten(error)
        raise ToolFailure(f"These arguments cannot be sent ({reason}). Correct or shorten them.") from error


async def _exchange(message: httpx.Request, call: str) -> tuple[httpx.Response, bytes]:
    response = await get_client().send(message, stream=True)
    try:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > ANSWER_LIMIT_BYTES:
                raise ToolFailure(f"The answer to {call} is over {ANSWER_LIMIT_BYTES} bytes. Ask for fewer records.")
    finally:
        await response.aclose()
    return response, bytes(content)


@lru_cache(maxsize=8)
def _parse_server_url(configured: str) -> str:
    try:
        url = httpx.URL(configured)
    except httpx.InvalidURL:
        url = httpx.URL("")
    # httpx accepts any port number, and connecting to an impossible one raises none of its own errors.
    if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) > HIGHEST_PORT:
        # Do not repeat the value: an address may contain a password.
        raise ToolFailure(f"KNOWHUB_API_URL is not an http address. Set it to an address such as {DEFAULT_URL}.")
    return str(url.copy_with(query=None, fragment=None)).rstrip("/")


def _read_api_key() -> str:
    key = os.environ.get("KNOWHUB_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ToolFailure("KNOWHUB_API_KEY has characters that are not allowed in a header. Set it to a valid key.")
    return key
