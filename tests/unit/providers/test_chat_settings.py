"""The settings of a language model, as they arrive at the client that is built from them."""

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

import pytest
import respx

from knowhub.core.language_models import ChatModel, CountedModel, ModelUnavailable
from knowhub.settings import Settings
from knowhub.wiring.models import open_chat_model
from tests.fakes.model_server import BASE_URL, MATCH, URL, completion, failure_of, refusal
from tests.opened_models import opened_model

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[respx.Route]:
    async with respx.mock(assert_all_called=False) as router:
        yield router.post(URL).mock(return_value=refusal(500, "ill"))


def settings(**given: Any) -> Settings:  # noqa: ANN401 -- any setting
    return Settings(llm_base_url=BASE_URL, llm_attempts=1, **given)


@runtime_checkable
class CountedChatModel(ChatModel, CountedModel, Protocol):
    """A chat model that counts its calls."""


def counted(chat: object) -> CountedChatModel:
    assert isinstance(chat, CountedChatModel)
    return chat


async def test_the_breaker_opens_after_as_many_failures_as_are_set_for_as_long(server: respx.Route) -> None:
    given = settings(llm_breaker_failures=2, llm_breaker_cool_down_s=7.0)

    async with opened_model(open_chat_model, given) as built:
        chat = counted(built)
        details = [(await failure_of(chat)).detail for _ in range(3)]

    assert details[:2] == ["the server answered 500: ill"] * 2
    assert details[2] == "the breaker is open: the model failed; ask in 7 s"
    assert server.call_count == 2


async def test_a_model_may_be_asked_without_a_breaker(server: respx.Route) -> None:
    async with opened_model(open_chat_model, settings(llm_breaker_failures=0)) as built:
        chat = counted(built)
        failed = [await failure_of(chat) for _ in range(10)]

    assert server.call_count == 10
    assert not any(isinstance(one, ModelUnavailable) for one in failed)


async def test_an_answer_is_read_as_far_as_is_set(server: respx.Route) -> None:
    server.mock(return_value=completion({**MATCH, "more": "x" * 3000}))

    async with opened_model(open_chat_model, settings(llm_max_answer_bytes=2048)) as built:
        failed = await failure_of(counted(built))

    assert failed.detail == "the answer is over 2048 bytes"
