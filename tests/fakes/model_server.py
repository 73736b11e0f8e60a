"""Answers of model servers for respx, and a client whose waiting takes no time."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from knowhub.core.allowances import HourlyTokens
from knowhub.core.language_models import ChatFailed, ChatModel, ChatRequest
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.http import RequestTiming
from tests.builders import CountedIds, FakeClock

BASE_URL = "http://model.test/v1"
URL = f"{BASE_URL}/chat/completions"
KEY = "sk-canary-0123456789"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"action": {"enum": ["match", "missing"]}, "node_id": {"type": ["integer", "null"]}},
    "required": ["action", "node_id"],
    "additionalProperties": False,
}
QUESTION = ChatRequest(
    "pick_branch",
    [{"role": "system", "content": "Pick a branch."}, {"role": "user", "content": "query: 蟒蛇"}],
    SCHEMA,
)
MATCH = {"action": "match", "node_id": 2}


class FakeTime(FakeClock):
    """One time for everything: sleeping moves it, `pauses` are the sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(seconds)

    def timing(self) -> RequestTiming:
        return RequestTiming(self, CountedIds(), self.now, self.sleep)


def chat_client(
    http: httpx.AsyncClient,
    time: FakeTime | None = None,
    tokens_per_hour: int = 0,
    **options: Any,  # noqa: ANN401 -- any option
) -> ChatClient:
    timing = (time or FakeTime()).timing()
    budget = HourlyTokens(tokens_per_hour, timing.monotonic)
    return ChatClient(replace(ChatOptions(BASE_URL, KEY), **options), http, timing, budget)


def completion(content: object = None, **message: object) -> httpx.Response:
    """Answer with this content; an object other than a string is written as JSON where it is a dict."""
    text = json.dumps(content) if isinstance(content, dict) else content
    reply = {"role": "assistant", "content": text, **message}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return httpx.Response(200, json={"choices": [{"message": reply}], "usage": usage})


def refusal(status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}}, headers=headers)


async def answer_late(request: httpx.Request) -> httpx.Response:
    """Give a valid answer after every timeout."""
    await asyncio.sleep(10)
    return completion(MATCH)


async def failure_of(model: ChatModel, timeout_s: float = 60) -> ChatFailed:
    """Ask in vain, and return why."""
    with pytest.raises(ChatFailed) as caught:
        await model.chat(QUESTION, timeout_s)
    return caught.value


def read_sent(call: Any) -> Any:  # noqa: ANN401 -- respx's call, JSON
    """Return the body of a request that respx has seen."""
    return json.loads(call.request.content)
