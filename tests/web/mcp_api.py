"""JSON-RPC requests to `/mcp`, as clients of the older protocol send them."""

from collections.abc import Mapping
from typing import Any

import httpx

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


class McpApi:
    """Sends JSON-RPC to an app."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def request(self, method: str, params: Mapping[str, Any] | None = None, query: str = "") -> dict[str, Any]:
        """Return the JSON-RPC answer."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        response = await self.http.post(f"/mcp{query}", json=body, headers=HEADERS)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def call(self, tool: str, address: str = "", /, **arguments: Any) -> tuple[str, dict[str, Any]]:  # noqa: ANN401 -- JSON
        """Call a tool that must succeed; return its text and its data."""
        result = (await self.request("tools/call", {"name": tool, "arguments": arguments}, address))["result"]
        assert not result.get("isError"), result
        return result["content"][0]["text"], result["structuredContent"]

    async def call_in_error(self, tool: str, address: str = "", /, **arguments: Any) -> str:  # noqa: ANN401 -- JSON
        """Call a tool that must fail; return its text."""
        result = (await self.request("tools/call", {"name": tool, "arguments": arguments}, address))["result"]
        assert result["isError"], result
        text: str = result["content"][0]["text"]
        return text
