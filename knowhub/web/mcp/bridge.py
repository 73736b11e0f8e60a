"""Answers messages of MCP by asking a server: a running one, or the endpoint in the process of `knowhub mcp`.

A server that is down is an error of each call, which says what to do. As soon as it is up, calls work.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx
import orjson

from knowhub.core.errors import InvalidInput, KnowHubError, Unavailable
from knowhub.web.json_rpc import INTERNAL_ERROR, META_VERSION, PATH, make_error

_ANSWER_S: Final = 120.0
_CONNECT_S: Final = 5.0
# We close idle connections before a server does.
_IDLE_S: Final = 4.0
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024


class Bridge:
    """Asks a server. `find_url` returns its address and raises KnowHubError; `query` names the caller.

    `version` is that of the protocol, where `initialize` was answered. `mcp_tools` is the setting whose tools are
    listed while the server is down: clients list them once only. `transport` reaches a server in this process.
    """

    def __init__(
        self,
        find_url: Callable[[], str],
        query: Mapping[str, str],
        key: str | None,
        version: str | None,
        mcp_tools: str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._find_url = find_url
        self._query = query
        self._headers = {"accept": "application/json", "content-type": "application/json"}
        self._headers |= {"authorization": f"Bearer {key}"} if key else {}
        self._headers |= {"mcp-protocol-version": version} if version else {}
        self._mcp_tools = mcp_tools
        # HTTP_PROXY is meant for calls of models, and a redirect would get the key.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            limits=httpx.Limits(keepalive_expiry=_IDLE_S),
            trust_env=False,
            follow_redirects=False,
            transport=transport,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the answer to a message; None for a notification."""
        message = orjson.loads(line)
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._send(line, message)
        except TimeoutError:
            problem = f"the server did not answer within {_ANSWER_S:g} seconds; try again later"
        except KnowHubError as error:
            problem = error.detail
        else:
            return answer
        if "id" not in message or "method" not in message:
            return None
        if message["method"] == "tools/list":
            # The setting may be wrong too.
            with suppress(InvalidInput):
                tools = await asyncio.to_thread(_list_tools, self._mcp_tools)
                return {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}}
        if message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": problem}], "isError": True}
            return {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return make_error(INTERNAL_ERROR, problem, message["id"])

    async def _send(self, line: bytes, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        url = (await asyncio.to_thread(self._find_url)).rstrip("/") + PATH
        text = bytearray()
        try:
            async with self._http.stream(
                "POST", url, params=self._query, content=line, headers=self._headers | _make_headers(message)
            ) as response:
                async for piece in response.aiter_bytes():
                    text += piece
                    if len(text) > _MAX_ANSWER_BYTES:
                        raise Unavailable(f"the answer of {url} is larger than {_MAX_ANSWER_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # The text of a LocalProtocolError may hold a header, and so the key.
            is_shown = str(error) and not isinstance(error, httpx.LocalProtocolError)
            why = str(error) if is_shown else type(error).__name__
            raise Unavailable(
                f"no KnowHub answers at {url} ({why}). Start it with `knowhub serve`, and call again"
            ) from error
        if "id" not in message or "method" not in message:
            return None
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0":
            raise Unavailable(f"{url} answers with status {response.status_code}, and not with MCP: check the address")
        # What is refused before it is read has no id.
        return {**answer, "id": message["id"]}


def _make_headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Return what the protocol since 2026-07-28 repeats in headers."""
    params = message.get("params") or {}
    meta = params.get("_meta")
    version = meta.get(META_VERSION) if isinstance(meta, dict) else None
    if not isinstance(version, str):
        return {}
    # Only then: the library takes most of a second.
    from mcp.shared.inbound import NAME_BEARING_METHODS, encode_header_value  # noqa: PLC0415 -- see above

    name = params.get(NAME_BEARING_METHODS.get(message.get("method", ""), ""))
    sent = {"mcp-protocol-version": version, "mcp-method": message.get("method"), "mcp-name": name}
    return {header: encode_header_value(value) for header, value in sent.items() if isinstance(value, str)}


def _list_tools(setting: str) -> list[dict[str, Any]]:
    from knowhub.web.mcp.server import describe_tool  # noqa: PLC0415 -- as above
    from knowhub.web.mcp.tools import choose_tools  # noqa: PLC0415 -- as above

    tools = choose_tools(setting)
    return [describe_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
