"""The one way from a tool to the server: a shared connection pool per event loop, and failures with advice.

Of `agent_tools` only this module reads the environment: KNOWHUB_API_URL and KNOWHUB_API_KEY, at each call,
so that the pool outlives a change of either.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

import httpx

from agent_tools import failures
from agent_tools.results import ToolFailure

DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 20.0
# uvicorn drops an idle connection after 5 s; letting go first means never writing into one that just closed.
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
    """Send one request and return the JSON object that answers it.

    Parameters that are None are left out. `timeout_s` bounds the whole exchange. Whatever fails raises
    `ToolFailure` with advice; `not_found` is that for a 404.
    """
    call = f"{method} {path}"
    message = _build(method, path, params, body, timeout_s)
    try:
        # httpx counts a read timeout anew at every byte: a server that drips would hold the agent for ever.
        async with asyncio.timeout(timeout_s):
            response, content = await _exchange(message, call)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise failures.unreachable(_origin(message.url), str(error) or type(error).__name__) from error
    except (TimeoutError, httpx.TimeoutException) as error:
        raise failures.timed_out(call, timeout_s) from error
    except httpx.HTTPError as error:
        raise failures.broken_off(call, type(error).__name__) from error
    if not response.is_success:
        raise failures.refused(call, response.status_code, response.headers, content, not_found)
    return _json_object(content, call)


def result_list(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the `results` of a reply, as every list and search of the server has them."""
    results = reply.get("results")
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise failures.not_knowhub("the request")
    return results


def row(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that is a row, as every write and read of one has it: it has an id."""
    if not isinstance(reply.get("id"), str):
        raise failures.not_knowhub("the request")
    return reply


def segment(row_id: str) -> str:
    """Encode an id as one segment of a path: ids may hold spaces, any script, `/` and `?`."""
    if not row_id:
        raise ToolFailure("The id is empty. Pass an id that a search or a list has shown.")
    encoded = quote(row_id, safe="", errors="replace")
    # `.` and `..` survive quoting, and then mean another path.
    return encoded.replace(".", "%2E") if row_id in {".", ".."} else encoded


def has_api_key() -> bool:
    """Say whether calls carry a key, so that the server knows who calls."""
    return bool(_api_key())


def shared_client() -> httpx.AsyncClient:
    """Return the running loop's client, making one where there is none or it was closed."""
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None or client.is_closed:
        _forget_closed_loops()
        client = _clients[loop] = _new_client()
    return client


async def aclose_client() -> None:
    """Close the running loop's client, if there is one; a later call opens another."""
    client = _clients.pop(asyncio.get_running_loop(), None)
    if client is not None:
        await client.aclose()


def _new_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_CONNECTION_S),
        # HTTP_PROXY is set for model calls and would capture loopback too, and with it the key;
        # and a SOCKS proxy in it makes httpx refuse to start.
        trust_env=False,
        # The key is a header of ours, which httpx would carry along to wherever a redirect points.
        follow_redirects=False,
    )


def _forget_closed_loops() -> None:
    # Open connections hold their loop, so the weak key alone never frees a loop that ended without
    # `aclose_client`. `keyrefs` is a copy: another thread's loop may add itself meanwhile.
    for reference in _clients.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _clients.pop(loop, None)


def _build(
    method: str,
    path: str,
    params: Mapping[str, str | int | None] | None,
    body: Mapping[str, Any] | None,
    timeout_s: float,
) -> httpx.Request:
    given = {name: value for name, value in (params or {}).items() if value is not None}
    url = _server_url(os.environ.get("KNOWHUB_API_URL", "").strip() or DEFAULT_URL) + path
    key = _api_key()
    headers = {"X-API-Key": key} if key else {}
    timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
    try:
        return shared_client().build_request(
            method, url, params=given or None, json=body, headers=headers, timeout=timeout
        )
    except (TypeError, ValueError, RecursionError, httpx.InvalidURL) as error:
        # Such as NaN, half of a surrogate pair, or a query that no URL can hold.
        reason = failures.one_line(error)
        raise ToolFailure(f"These arguments cannot be sent ({reason}). Correct or shorten them.") from error


async def _exchange(message: httpx.Request, call: str) -> tuple[httpx.Response, bytes]:
    response = await shared_client().send(message, stream=True)
    try:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > ANSWER_LIMIT_BYTES:
                raise ToolFailure(f"The answer to {call} is over {ANSWER_LIMIT_BYTES} bytes. Ask for fewer records.")
    finally:
        await response.aclose()
    return response, bytes(content)


def _json_object(content: bytes, call: str) -> dict[str, Any]:
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise failures.not_knowhub(call) from error
    if not isinstance(reply, dict):
        raise failures.not_knowhub(call)
    return reply


@lru_cache(maxsize=8)
def _server_url(configured: str) -> str:
    try:
        url = httpx.URL(configured)
    except httpx.InvalidURL:
        url = httpx.URL("")
    # httpx takes a port of any size, and connecting to one that there is not ends in no error of its family.
    if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) > HIGHEST_PORT:
        # The value is not repeated: an address may hold a password.
        raise ToolFailure(f"KNOWHUB_API_URL is not an http address. Set it to one such as {DEFAULT_URL}.")
    return str(url.copy_with(query=None, fragment=None)).rstrip("/")


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _api_key() -> str:
    key = os.environ.get("KNOWHUB_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ToolFailure("KNOWHUB_API_KEY holds characters that a header cannot carry. Set it to a valid key.")
    return key
