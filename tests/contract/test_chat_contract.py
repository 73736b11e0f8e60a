"""What every language model promises (`core.chat.ChatModel`), run on the real client and on the fake."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatModel, FailureReason
from knowhub.providers.http import make_client
from tests.fakes.model_server import MATCH, QUESTION, URL, chat_client, completion, failure_of
from tests.fakes.scripted_chat import Answer, ScriptedChat, missing

pytestmark = pytest.mark.anyio

Script: TypeAlias = list[Answer]
Models: TypeAlias = Callable[[Script], ChatModel]
MISSING = {"action": "missing", "node_id": None}


@pytest.fixture(params=["client", "scripted"])
async def build_model(request: pytest.FixtureRequest) -> AsyncIterator[Models]:
    """Make a model that behaves as a script says, be it a server behind the client or the fake."""
    async with respx.mock(assert_all_called=False) as router, make_client() as http:

        def build(script: Script) -> ChatModel:
            if request.param == "scripted":
                return ScriptedChat(script, "google/gemini-2.0-flash-001")
            router.post(URL).mock(side_effect=serve(script))
            return chat_client(http, max_attempts=1)

        yield build


def serve(script: Script) -> Callable[[httpx.Request], httpx.Response]:
    """Play a server whose model answers from the script; the unfit answers it gives twice, as a stubborn one."""
    left = list(script)
    unfit: list[Answer] = []

    def answer(request: httpx.Request) -> httpx.Response:
        said: Answer = unfit.pop() if unfit else left.pop(0)
        if isinstance(said, TimeoutError):
            raise httpx.ReadTimeout(str(said))
        if isinstance(said, Exception):
            raise httpx.ConnectError(str(said))
        data = dict(said(QUESTION) if callable(said) else said)
        is_repair = b"cannot be used" in request.content
        if data not in (MATCH, MISSING) and not is_repair:
            unfit.append(said)
        return completion(data)

    return answer


async def test_a_valid_answer_is_returned_with_model_and_cost(build_model: Models) -> None:
    model = build_model([MATCH])

    reply = await model.chat(QUESTION, 10)

    assert reply.data == MATCH
    assert reply.model == model.model == "google/gemini-2.0-flash-001"
    assert reply.seconds >= 0
    assert (reply.prompt_tokens, reply.completion_tokens) == (100, 10)


async def test_answers_come_in_their_order(build_model: Models) -> None:
    model = build_model([MATCH, missing(), MATCH])

    replies = [await model.chat(QUESTION, 10) for _ in range(3)]

    assert [reply.data for reply in replies] == [MATCH, MISSING, MATCH]


@pytest.mark.parametrize("unfit", [{}, {"action": "dance", "node_id": 1}, {**MATCH, "more": 1}, {"action": "match"}])
async def test_an_answer_that_does_not_fit_is_a_failure(build_model: Models, unfit: dict[str, Any]) -> None:
    failed = await failure_of(build_model([unfit]))

    assert failed.reason is FailureReason.FAILURE
    assert "does not fit" in failed.detail
    assert str(failed) == failed.detail


async def test_a_model_that_breaks_is_a_failure_and_a_late_one_a_timeout(build_model: Models) -> None:
    model = build_model([ConnectionError("down"), TimeoutError("late"), MATCH])

    broken, late = await failure_of(model), await failure_of(model)
    reply = await model.chat(QUESTION, 10)

    assert (broken.reason, late.reason) == (FailureReason.FAILURE, FailureReason.TIMEOUT)
    assert reply.data == MATCH


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
async def test_a_timeout_of_zero_is_a_timeout(build_model: Models, timeout_s: float) -> None:
    failed = await failure_of(build_model([MATCH]), timeout_s)

    assert failed.reason is FailureReason.TIMEOUT


async def test_questions_may_be_asked_side_by_side(build_model: Models) -> None:
    model = build_model([MATCH] * 20)

    replies = await asyncio.gather(*(model.chat(QUESTION, 10) for _ in range(20)))

    assert [reply.data for reply in replies] == [MATCH] * 20
