"""The effect of the settings of a chat model, and what opens its breaker."""

from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import respx

from knowhub.core.allowances import HourlyTokens
from knowhub.core.language_models import (
    AnswerRejected,
    ChatFailed,
    ChatModel,
    FailureReason,
    ModelUnavailable,
)
from knowhub.core.model_calls import ModelConversation
from knowhub.providers.chat import ChatClient
from knowhub.providers.http import RequestTiming
from knowhub.settings import Settings
from knowhub.wiring.models import chat_models_by_name, open_chat_model
from tests.fakes.model_server import (
    BASE_URL,
    MATCH,
    QUESTION,
    FakeTime,
    answer_late,
    chat_client,
    completion,
    failure_of,
    refusal,
)
from tests.opened_models import build_model

pytestmark = pytest.mark.anyio


def make_settings(**given: Any) -> Settings:  # noqa: ANN401 -- any setting
    return Settings(llm_base_url=BASE_URL, llm_attempts=1, **given)


async def open_chat(given: Settings, timing: RequestTiming, stack: AsyncExitStack) -> ChatModel | None:
    return await open_chat_model(given, timing, stack, HourlyTokens(given.llm_tokens_per_hour, timing.monotonic))


def as_client(chat: ChatModel | None) -> ChatClient:
    assert isinstance(chat, ChatClient)
    return chat


async def test_breaker_settings_are_used(server: respx.Route) -> None:
    server.mock(return_value=refusal(500, "ill"))
    given = make_settings(llm_breaker_failures=2, llm_breaker_cool_down_s=7.0)

    async with build_model(open_chat, given) as built:
        chat = as_client(built)
        details = [(await failure_of(chat)).detail for _ in range(3)]

    assert details[:2] == ["the server answered 500: ill"] * 2
    assert details[2] == "the breaker is open: the model failed; ask in 7 s"
    assert server.call_count == 2


async def test_the_breaker_can_be_disabled(server: respx.Route) -> None:
    server.mock(return_value=refusal(500, "ill"))
    async with build_model(open_chat, make_settings(llm_breaker_failures=0)) as built:
        chat = as_client(built)
        failed = [await failure_of(chat) for _ in range(10)]

    assert server.call_count == 10
    assert not any(isinstance(item, ModelUnavailable) for item in failed)


async def test_the_answer_size_limit_is_used(server: respx.Route) -> None:
    server.mock(return_value=completion({**MATCH, "more": "x" * 3000}))

    async with build_model(open_chat, make_settings(llm_max_answer_bytes=2048)) as built:
        failed = await failure_of(as_client(built))

    assert failed.detail == "the answer is over 2048 bytes"


async def test_models_asked_for_by_name_share_the_spend_limit(server: respx.Route) -> None:
    given, timing = make_settings(), FakeTime().timing()
    # One call counts 110 tokens. A second one does not fit.
    open_by_name = chat_models_by_name(given, None, timing, HourlyTokens(250, timing.monotonic))

    async with open_by_name("first") as first:
        await as_client(first).chat(QUESTION, 60)
    async with open_by_name("second") as second:
        refused = await failure_of(as_client(second))

    assert refused.detail == "the spend limit of 250 tokens an hour is reached"
    assert server.call_count == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(refusal(status, "too long") for status in (400, 413, 422)),
        completion("no"),
        completion({"action": "sing"}),
        completion(None, refusal="I cannot do that."),
        completion({**MATCH, "more": "x" * 2000}),
        httpx.Response(200, json={"choices": []}),
    ],
)
async def test_a_refused_question_or_an_unusable_answer_does_not_open_the_breaker(
    http: httpx.AsyncClient, server: respx.Route, answer: httpx.Response
) -> None:
    model = chat_client(http, breaker_failures=1, max_answer_bytes=2000)
    server.mock(return_value=answer)

    failed = await failure_of(model)

    assert isinstance(failed, AnswerRejected)
    assert not model.is_open


@pytest.mark.parametrize(
    "answer", [httpx.Response(200, text="<html>Sign in</html>"), httpx.Response(200, json={"status": "ok"})]
)
async def test_a_server_that_is_no_model_opens_the_breaker(
    http: httpx.AsyncClient, server: respx.Route, answer: httpx.Response
) -> None:
    model = chat_client(http, breaker_failures=1)
    server.mock(return_value=answer)

    failed = await failure_of(model)

    assert not isinstance(failed, AnswerRejected)
    assert model.is_open


async def test_a_hanging_model_opens_the_breaker(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, breaker_failures=2)
    server.mock(side_effect=answer_late)

    for _ in range(2):
        with pytest.raises(ChatFailed) as late:
            await ModelConversation(model, 0.05).ask(QUESTION, {}, dict)
        assert late.value.reason is FailureReason.TIMEOUT

    assert model.is_open
    assert (model.usage.calls, model.usage.failures) == (2, 2)
