"""What every language model promises (`core.chat.ChatModel`), run on the real client and on the fake."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatFailed, ChatModel, ChatRequest, FailureReason
from knowhub.providers.http import make_client
from tests.fakes.model_server import MATCH, QUESTION, URL, chat_client, completion
from tests.fakes.scripted_chat import Answer, ScriptedChat, ambiguous, jump_to, match, missing

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


async def failure_of(model: ChatModel, timeout_s: float = 10) -> ChatFailed:
    with pytest.raises(ChatFailed) as caught:
        await model.chat(QUESTION, timeout_s)
    return caught.value


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


PROMPT = """query: 蟒蛇
candidates: [{"idx": 1, "name": "编程语言", "path": "root/编程语言"},
 {"idx": 2, "name": "Python", "path": ["root", "动物", "Python"]},
 {"idx": 3, "name": "Python", "path": "root/编程语言/Python"}]
{"text": "not a candidate {", "idx": 9}"""
DECISION = {
    "type": "object",
    "properties": {
        "action": {"enum": ["jump", "match", "missing", "ambiguous"]},
        "node_id": {"type": ["integer", "null"]},
        "node_ids": {"type": "array", "items": {"type": "integer"}},
        "candidate_ids": {"type": "array", "items": {"type": "integer"}},
        "suggest_name": {"type": ["string", "null"]},
        "reason": {"type": "string"},
    },
    "required": ["action", "node_id", "node_ids", "candidate_ids", "suggest_name", "reason"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"node_id": None, "node_ids": [], "candidate_ids": [], "suggest_name": None, "reason": ""}


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (jump_to("编程语言"), {"action": "jump", "node_id": 1}),
        (jump_to("编程语言", "Python"), {"action": "jump", "node_ids": [1, 2]}),
        (match("root/编程语言/Python", reason="by path"), {"action": "match", "node_id": 3, "reason": "by path"}),
        (match("root/动物/Python"), {"action": "match", "node_id": 2}),
        (ambiguous("Python"), {"action": "ambiguous", "candidate_ids": [2]}),
        (missing("蛇"), {"action": "missing", "suggest_name": "蛇"}),
    ],
)
async def test_the_fake_finds_candidates_by_the_names_in_the_prompt(answer: Answer, decision: dict[str, Any]) -> None:
    model = ScriptedChat([answer])
    question = ChatRequest("pick_branch", [{"role": "user", "content": PROMPT}], DECISION)

    reply = await model.chat(question, 10)

    assert reply.data == {**NOTHING, **decision}
    assert model.questions == [question]


async def test_the_fake_answers_missing_after_its_script() -> None:
    question = ChatRequest("pick_branch", [{"role": "user", "content": PROMPT}], DECISION)

    reply = await ScriptedChat().chat(question, 10)

    assert reply.data == {**NOTHING, "action": "missing", "reason": "script exhausted"}


async def test_the_fake_refuses_an_unknown_candidate() -> None:
    question = ChatRequest("pick_branch", [{"role": "user", "content": PROMPT}], DECISION)

    with pytest.raises(AssertionError, match="'Rust' is not among the candidates"):
        await ScriptedChat([match("Rust")]).chat(question, 10)
