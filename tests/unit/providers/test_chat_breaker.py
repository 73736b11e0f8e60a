"""The chat provider's breaker: what opens it, what it lets through, and whose word counts."""

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.model_calls import ModelConversation
from tests.fakes.model_server import (
    QUESTION,
    chat_client,
    completion,
    failure_of,
    refusal,
    too_late,
)

pytestmark = pytest.mark.anyio


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
