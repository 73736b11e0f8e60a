"""The requests of a tool to a mocked route, and its result when the route fails."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest
import respx

from agent_tools.client import request
from agent_tools.results import ToolFailure

PATH = "/api/knowledge"


def read_body(route: respx.Route) -> dict[str, Any]:
    """Return the body of the last request."""
    body: dict[str, Any] = json.loads(route.calls.last.request.content)
    return body


def query_of(route: respx.Route) -> dict[str, str]:
    """Return the query of the last request."""
    return dict(route.calls.last.request.url.params.multi_items())


async def get_failure(call: Awaitable[object] | None = None) -> ToolFailure:
    """Make a call that fails, `PATH` by default, and return the error that an agent sees."""
    with pytest.raises(ToolFailure) as caught:
        await (call or request("GET", PATH))
    return caught.value
