"""The cost of calls of a chat model, and the hourly limit."""

import asyncio

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatFailed, FailureReason, ModelUnavailable
from knowhub.providers.chat import DEFAULT_MODEL
from knowhub.providers.http import estimate_request_tokens
from knowhub.providers.output_modes import OutputMode, add_schema, make_request_body
from tests.fakes.model_server import (
    MATCH,
    QUESTION,
    SCHEMA,
    FakeTime,
    answer_late,
    chat_client,
    completion,
    failure_of,
    refusal,
)

pytestmark = pytest.mark.anyio


# What one request for the question reserves.
PRICE = estimate_request_tokens(
    make_request_body(OutputMode.SCHEMA, DEFAULT_MODEL, QUESTION, add_schema(QUESTION.messages, SCHEMA)),
)


async def test_the_spend_limit_refuses_until_the_hour_is_over(
    http: httpx.AsyncClient, server: respx.Route, time: FakeTime
) -> None:
    # One call is counted as 110 tokens; a third is reserved at more than the 230 that are left of 450.
    model = chat_client(http, time, tokens_per_hour=450)
    await model.chat(QUESTION, 60)
    await model.chat(QUESTION, 60)

    refused = await failure_of(model)
    time.advance(3600)
    reply = await model.chat(QUESTION, 60)

    assert refused.reason is FailureReason.FAILURE
    assert refused.detail == "the spend limit of 450 tokens an hour is reached"
    assert reply.data == MATCH
    assert server.call_count == 3
    assert not model.is_open


async def test_concurrent_calls_do_not_overspend(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, tokens_per_hour=1000)

    outcomes = await asyncio.gather(*(model.chat(QUESTION, 60) for _ in range(50)), return_exceptions=True)

    assert 0 < server.call_count < 9
    assert sum(isinstance(outcome, ChatFailed) for outcome in outcomes) == 50 - server.call_count


LATE = httpx.ReadTimeout("late")


async def test_each_late_attempt_is_charged_up_to_the_limit(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, tokens_per_hour=2 * PRICE, max_attempts=3)
    server.mock(side_effect=LATE)

    failed = await failure_of(model)

    assert server.call_count == 2
    assert "the spend limit" in failed.detail
    assert not isinstance(failed, ModelUnavailable)


async def test_late_attempts_stay_charged_after_a_final_error(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, tokens_per_hour=3 * PRICE - 1, max_attempts=3)
    server.mock(side_effect=[LATE, LATE, refusal(401, "who are you"), completion(MATCH)])
    first = await failure_of(chat_client(http, tokens_per_hour=3 * PRICE, max_attempts=3))
    server.mock(side_effect=[LATE, httpx.ConnectError("refused"), refusal(401, "who are you"), LATE])

    second, third = await failure_of(model), await failure_of(model)

    assert first.detail == second.detail == "the server answered 401: who are you"
    assert server.call_count == 3 + 4
    assert "the spend limit" in third.detail


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("nobody there"),
        httpx.PoolTimeout("no place"),
        httpx.ProxyError("no way"),
        *(refusal(status, "no") for status in (302, 400, 401, 403, 404, 413, 422, 429, 501)),
    ],
    ids=repr,
)
async def test_refused_and_unsent_attempts_are_not_charged(
    http: httpx.AsyncClient, server: respx.Route, answer: httpx.Response | httpx.TransportError
) -> None:
    model = chat_client(http, tokens_per_hour=PRICE, max_attempts=1)
    server.mock(side_effect=[answer, answer, completion(MATCH)])
    await failure_of(model)
    await failure_of(model)

    reply = await model.chat(QUESTION, 60)

    assert reply.data == MATCH


@pytest.mark.parametrize(
    "answer",
    [
        LATE,
        httpx.ReadError("reset"),
        httpx.WriteError("reset"),
        httpx.RemoteProtocolError("gone"),
        *(refusal(status, "ill") for status in (408, 499, 500, 502, 503, 504)),
        httpx.Response(200, json={"error": {"code": 429, "message": "the model behind is busy"}}),
        httpx.Response(200, text="no JSON"),
        httpx.Response(200, headers={"content-encoding": "gzip"}),
    ],
    ids=repr,
)
async def test_attempts_that_may_have_run_are_charged(
    http: httpx.AsyncClient, server: respx.Route, answer: httpx.Response | httpx.TransportError
) -> None:
    model = chat_client(http, tokens_per_hour=2 * PRICE - 1, max_attempts=1)
    server.mock(side_effect=[answer, completion(MATCH)])
    await failure_of(model)

    refused = await failure_of(model)

    assert isinstance(refused, ModelUnavailable)
    assert "the spend limit" in refused.detail
    assert server.call_count == 1


async def test_a_request_cut_by_the_deadline_is_charged(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http, tokens_per_hour=2 * PRICE - 1)

    server.mock(side_effect=answer_late)
    await failure_of(model, 0.05)

    refused = await failure_of(model)

    assert "the spend limit" in refused.detail
