"""The chat provider over a real socket, against a server process that does all that a bad model server does."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowhub.core.allowances import HourlyTokens
from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.language_models import ChatFailed, ChatRequest, FailureReason
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.http import RequestTiming
from tests.e2e.scripted_llm import ScriptedLLM, Step
from tests.e2e.server_process import WAIT_S

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}},
    "required": ["reason"],
    "additionalProperties": False,
}
QUESTION = ChatRequest("pick_branch", [{"role": "user", "content": "query: 蟒蛇"}], SCHEMA)
A_GIGABYTE = 1024 * 1024 * 1024
ENOUGH_S = 20.0

Chat = Callable[..., ChatClient]


@pytest.fixture
def chat(llm: ScriptedLLM, http: httpx.AsyncClient) -> Chat:
    def build(**options: Any) -> ChatClient:  # noqa: ANN401 -- any option
        given = {"max_attempts": 1, "api_key": "sk-canary", **options}
        timing = RequestTiming(SystemClock(), RandomIds())
        return ChatClient(ChatOptions(llm.url, **given), http, timing, HourlyTokens(0, timing.monotonic))

    return build


async def get_failure(model: ChatClient, timeout_s: float = ENOUGH_S) -> ChatFailed:
    with pytest.raises(ChatFailed) as caught:
        await model.chat(QUESTION, timeout_s)
    return caught.value


async def list_requests_since(llm: ScriptedLLM, before: int) -> list[dict[str, Any]]:
    return (await llm.requests())[before:]


async def test_a_gigabyte_is_cut_off_and_the_connection_with_it(llm: ScriptedLLM, chat: Chat) -> None:
    before = len(await llm.requests())
    await llm.script({"huge": A_GIGABYTE})

    failed = await get_failure(chat())

    assert failed.reason is FailureReason.FAILURE
    assert "over 1048576 bytes" in failed.detail
    assert await wait_until_broken_off(llm, before)


@pytest.mark.parametrize("step", [{"late": 30}, {"slow_drip": 0.1}])
async def test_a_late_answer_is_a_timeout_and_its_connection_is_closed(
    llm: ScriptedLLM, chat: Chat, step: Step
) -> None:
    before = len(await llm.requests())
    await llm.script(step)

    failed = await get_failure(chat(), 0.3)

    assert failed.reason is FailureReason.TIMEOUT
    assert await wait_until_broken_off(llm, before)


async def test_cancelling_the_call_closes_the_connection(llm: ScriptedLLM, chat: Chat) -> None:
    before = len(await llm.requests())
    await llm.script({"late": 30})
    asking = asyncio.create_task(chat().chat(QUESTION, ENOUGH_S))
    async with asyncio.timeout(WAIT_S):
        while not await list_requests_since(llm, before):  # noqa: ASYNC110 -- another process's state
            await asyncio.sleep(0.02)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await wait_until_broken_off(llm, before)


async def wait_until_broken_off(llm: ScriptedLLM, before: int) -> bool:
    """Wait until the server has noticed that the one request since `before` was given up."""
    async with asyncio.timeout(WAIT_S):
        while not (await list_requests_since(llm, before))[0]["broken_off"]:  # noqa: ASYNC110 -- another process's state
            await asyncio.sleep(0.02)
    return True
