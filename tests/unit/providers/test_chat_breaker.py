"""The chat provider's breaker: what opens it, what it lets through, and whose word counts."""

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatFailed, FailureReason, ModelUnavailable
from knowhub.core.model_calls import ModelConversation
from tests.fakes.model_server import (
    MATCH,
    QUESTION,
    FakeTime,
    chat_client,
    completion,
    failure_of,
    refusal,
    too_late,
)

pytestmark = pytest.mark.anyio


async def test_the_breaker_opens_refuses_at_once_and_lets_one_probe_through(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime
) -> None:
    model = chat_client(http, time, breaker_failures=2, breaker_cool_down_s=30.0)
    server.mock(return_value=refusal(401, "who are you"))
    await failure_of(model)
    await failure_of(model)

    refused = await failure_of(model)
    opened = model.is_open
    time.advance(30)
    server.mock(return_value=completion(MATCH))
    reply = await model.chat(QUESTION, 60)

    assert isinstance(refused, ModelUnavailable)
    assert refused.reason is FailureReason.FAILURE
    assert refused.detail == "the breaker is open: the model failed; ask in 30 s"
    assert opened
    assert server.call_count == 3
    assert reply.data == MATCH
    assert not model.is_open
    assert (model.usage.calls, model.usage.failures) == (4, 3)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_question_that_is_refused_does_not_open_the_breaker_for_others(
    http: httpx.AsyncClient, server: respx.Route, status: int
) -> None:
    model = chat_client(http, breaker_failures=1)
    server.mock(return_value=refusal(status, "too long"))

    await failure_of(model)

    assert not model.is_open


async def test_unfit_answers_and_late_ones_open_the_breaker_too(http: httpx.AsyncClient, server: respx.Route) -> None:
    unfit, late = chat_client(http, breaker_failures=1), chat_client(http, breaker_failures=1)
    server.mock(return_value=completion("no"))
    await failure_of(unfit)

    server.mock(side_effect=too_late)
    await failure_of(late, 0.05)

    assert (unfit.is_open, late.is_open) == (True, True)


async def test_a_model_that_hangs_until_its_caller_has_no_time_left_opens_the_breaker(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    model = chat_client(http, breaker_failures=2)
    server.mock(side_effect=too_late)

    for _ in range(2):
        with pytest.raises(ChatFailed) as late:
            await ModelConversation(model, 0.05).ask(QUESTION, {}, dict)
        assert late.value.reason is FailureReason.TIMEOUT

    assert model.is_open
    assert (model.usage.calls, model.usage.failures) == (2, 2)


async def test_without_a_breaker_every_question_is_asked(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, breaker_failures=0, max_attempts=1)
    server.mock(return_value=refusal(500, "ill"))

    for _ in range(20):
        await failure_of(model)

    assert server.call_count == 20
    assert not model.is_open
