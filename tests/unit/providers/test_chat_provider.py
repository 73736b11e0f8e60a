"""Requests of the chat provider, and how it reads answers; respx plays the server."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatFailed, ChatRequest, FailureReason, Usage
from knowhub.providers.chat import DEFAULT_MODEL
from tests.fakes.model_server import KEY, MATCH, QUESTION, SCHEMA, chat_client, completion, read_sent, refusal

pytestmark = pytest.mark.anyio

UNFIT = {"action": "dance", "node_id": 1}
MISSING = {"action": "missing", "node_id": None}


async def test_a_question_is_sent_with_its_schema_and_the_key(http: httpx.AsyncClient, server: respx.Route) -> None:
    reply = await chat_client(http).chat(QUESTION, 10)

    body = read_sent(server.calls[0])
    assert (reply.data, reply.model, reply.prompt_tokens, reply.completion_tokens) == (MATCH, DEFAULT_MODEL, 100, 10)
    assert body["model"] == DEFAULT_MODEL
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "pick_branch", "schema": SCHEMA, "strict": True},
    }
    assert server.calls[0].request.headers["authorization"] == f"Bearer {KEY}"
    assert server.calls[0].request.headers["accept-encoding"] == "identity"


async def test_without_a_key_no_authorization_is_sent(http: httpx.AsyncClient, server: respx.Route) -> None:
    reply = await chat_client(http, api_key=None).chat(QUESTION, 10)

    assert "authorization" not in server.calls[0].request.headers
    assert reply.data == MATCH


async def test_the_schema_ends_the_system_prompt_in_every_output_mode(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    server.side_effect = [refusal(400, "response_format is unsupported")] * 2 + [
        refusal(400, "tools are unsupported"),
        completion(MATCH),
    ]

    await chat_client(http).chat(QUESTION, 10)

    prompts = [read_sent(call)["messages"] for call in server.calls]
    assert len(prompts) == 4
    assert all(prompt == prompts[0] for prompt in prompts)
    system, user = prompts[0]
    assert system["content"].startswith("Pick a branch.\n\nReturn one JSON object")
    assert json.loads(system["content"].rpartition("\n")[2]) == SCHEMA
    assert user == QUESTION.messages[1]


async def test_a_question_without_a_system_prompt_gets_one(http: httpx.AsyncClient, server: respx.Route) -> None:
    await chat_client(http).chat(ChatRequest("f", [{"role": "user", "content": "hello"}], SCHEMA), 10)

    assert [message["role"] for message in read_sent(server.calls[0])["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "'response_format.type' must be 'text'"),
        (400, "Invalid schema for response_format 'pick_branch'"),
        (400, "Unrecognized request argument supplied: response_format"),
        (404, "No endpoints found that support the requested parameters: not supported feature"),
        (422, "Extra inputs are not permitted: field response_format"),
        (501, "structured output is not implemented"),
        (400, "unsupported parameter"),
    ],
)
async def test_a_refused_output_mode_falls_back_to_the_next(
    http: httpx.AsyncClient, server: respx.Route, status: int, said: str
) -> None:
    server.side_effect = [refusal(status, said), completion(MATCH)]

    reply = await chat_client(http).chat(QUESTION, 10)

    assert reply.data == MATCH
    assert [read_sent(call)["response_format"]["type"] for call in server.calls] == ["json_schema", "json_object"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "the prompt is longer than the context of 8192 tokens"),
        (404, "the model does not exist"),
        (401, "response_format is for paying users"),
        (302, "response_format"),
    ],
)
async def test_other_errors_do_not_change_the_output_mode(
    http: httpx.AsyncClient, server: respx.Route, status: int, said: str
) -> None:
    server.mock(return_value=refusal(status, said))

    with pytest.raises(ChatFailed, match=f"the server answered {status}: {said}"):
        await chat_client(http).chat(QUESTION, 10)

    assert server.call_count == 1


async def test_the_next_call_starts_with_the_working_output_mode(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http)
    refused = refusal(400, "response_format is unsupported")
    called = [{"function": {"name": "pick_branch", "arguments": json.dumps(MATCH)}}]
    server.side_effect = [refused, refused, completion(None, tool_calls=called), completion(None, tool_calls=called)]

    first = await model.chat(QUESTION, 10)
    second = await model.chat(QUESTION, 10)

    bodies = [read_sent(call) for call in server.calls]
    assert first.data == second.data == MATCH
    assert len(bodies) == 4
    assert [body["tool_choice"]["function"]["name"] for body in bodies[2:]] == ["pick_branch"] * 2
    assert all("response_format" not in body for body in bodies[2:])


async def test_an_output_mode_that_never_worked_is_not_remembered(http: httpx.AsyncClient, server: respx.Route) -> None:
    model = chat_client(http)
    server.mock(return_value=refusal(400, "unsupported parameter"))
    with pytest.raises(ChatFailed):
        await model.chat(QUESTION, 10)

    server.mock(return_value=completion(MATCH))
    await model.chat(QUESTION, 10)

    kinds = [read_sent(call).get("response_format", {}).get("type") for call in server.calls]
    assert kinds == ["json_schema", "json_object", None, None, "json_schema"]


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "text", "text": '{"action": "match",'}, {"type": "text", "text": '"node_id": 2}'}]},
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": MATCH}}]},
        {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": json.dumps(MATCH)}}]},
        {"content": [{"type": "image"}, None, 7, "```json\n", {"text": json.dumps(MATCH)}, "\n```"]},
        {"content": MATCH},
        {"content": None, "function_call": {"name": "f", "arguments": json.dumps(MATCH)}},
        {"content": " \n", "tool_calls": [{"function": {"name": "f", "arguments": json.dumps(MATCH)}}]},
        {"content": "I call f.", "tool_calls": [{"function": {"name": "f", "arguments": json.dumps(MATCH)}}]},
        {"content": json.dumps(MATCH), "tool_calls": [{"function": {"name": "f", "arguments": json.dumps(MISSING)}}]},
        {"content": json.dumps(MATCH), "tool_calls": [{"function": {"name": "f", "arguments": "none"}}]},
    ],
)
async def test_an_answer_may_come_in_parts_or_as_the_arguments_of_a_tool(
    http: httpx.AsyncClient, server: respx.Route, message: dict[str, Any]
) -> None:
    server.mock(return_value=httpx.Response(200, json={"choices": [{"message": message}]}))

    reply = await chat_client(http).chat(QUESTION, 10)

    assert reply.data == MATCH
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


@pytest.mark.parametrize("words", ["Sure, let me call.", json.dumps(MISSING), {"action": "missing", "node_id": None}])
async def test_tool_arguments_win_over_text_beside_the_call(
    http: httpx.AsyncClient, server: respx.Route, words: object
) -> None:
    called = [{"function": {"name": "pick_branch", "arguments": json.dumps(MATCH)}}]
    refused = refusal(400, "response_format is unsupported")
    server.side_effect = [refused, refused, completion(words, tool_calls=called)]

    reply = await chat_client(http).chat(QUESTION, 10)

    assert reply.data == MATCH
    assert server.call_count == 3


async def test_text_is_an_answer_in_tool_mode_too(http: httpx.AsyncClient, server: respx.Route) -> None:
    refused = refusal(400, "response_format is unsupported")
    called = [{"function": {"name": "pick_branch", "arguments": "{}"}}]
    server.side_effect = [refused, refused, completion(MATCH), completion(MATCH, tool_calls=called)]
    model = chat_client(http)

    replies = [await model.chat(QUESTION, 10), await model.chat(QUESTION, 10)]

    assert [reply.data for reply in replies] == [MATCH, MATCH]
    assert server.call_count == 4


async def test_a_body_may_begin_with_a_byte_order_mark(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(return_value=httpx.Response(200, content=b"\xef\xbb\xbf" + completion(MATCH).content))

    reply = await chat_client(http).chat(QUESTION, 10)

    assert reply.data == MATCH


async def test_an_invalid_answer_is_retried_once_with_its_problem(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = [completion(UNFIT), completion(MATCH)]

    reply = await chat_client(http).chat(QUESTION, 10)

    first, second = (read_sent(call)["messages"] for call in server.calls)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": json.dumps(UNFIT)}
    assert "$.action: 'dance' is not one of ['match', 'missing']" in second[3]["content"]
    assert (reply.prompt_tokens, reply.completion_tokens) == (200, 20)


async def test_a_wrong_item_of_a_list_is_left_to_who_asked_once_the_model_was_told(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    names = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"names": names}, "required": ["names"]}
    question = replace(QUESTION, schema=schema)
    server.side_effect = [
        completion({"names": ["a", 1]}),
        completion({"names": ["a", 1]}),
        completion({}),
        completion({}),
    ]

    reply = await chat_client(http).chat(question, 10)
    with pytest.raises(ChatFailed, match="twice"):
        await chat_client(http).chat(question, 10)

    assert reply.data == {"names": ["a", 1]}
    assert "$.names[1]: 1 is not of type string" in read_sent(server.calls[1])["messages"][3]["content"]


async def test_a_long_invalid_answer_is_cut_in_the_retry(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = [completion("no " * 100_000), completion(MATCH)]

    await chat_client(http).chat(QUESTION, 10)

    assert len(read_sent(server.calls[1])["messages"][2]["content"]) < 5000


BODIES: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"<html>a portal</html>",
    b"\x00\xff\xfe",
    b'{"choices": []}',
    b'{"choices": null}',
    b'{"choices": {"0": 1}}',
    b'{"choices": [null]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": null}}]}',
    b'{"choices": [{"message": {"content": " \\n"}}]}',
    b'{"choices": [{"message": {"content": 7, "tool_calls": [{"function": []}]}}]}',
    b'{"choices":' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"choices":' + b"[" * 100_000,
]


@pytest.mark.parametrize("body", BODIES)
async def test_a_body_without_an_answer_is_a_failure(http: httpx.AsyncClient, server: respx.Route, body: bytes) -> None:
    server.mock(return_value=httpx.Response(200, content=body))

    with pytest.raises(ChatFailed) as caught:
        await chat_client(http).chat(QUESTION, 10)

    assert caught.value.reason is FailureReason.FAILURE
    assert server.call_count == 1


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {"prompt_tokens": "7"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 1e9}],
)
async def test_missing_usage_is_estimated_for_metrics_only(
    http: httpx.AsyncClient, server: respx.Route, usage: object
) -> None:
    message = {"message": {"content": json.dumps(MATCH)}}
    server.mock(return_value=httpx.Response(200, json={"choices": [message], "usage": usage}))
    model = chat_client(http)

    reply = await model.chat(QUESTION, 10)

    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)
    assert model.usage.prompt_tokens == len(server.calls[0].request.content) // 3 + 1
    assert 0 < model.usage.completion_tokens < 50


async def test_usage_counts_calls_failures_and_the_tokens_of_every_turn(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    model = chat_client(http, max_attempts=1)
    server.side_effect = [completion(MATCH), completion(UNFIT), completion(MATCH), refusal(500, "ill")]

    await model.chat(QUESTION, 10)
    await model.chat(QUESTION, 10)
    with pytest.raises(ChatFailed):
        await model.chat(QUESTION, 10)

    assert model.usage == Usage(calls=3, failures=1, prompt_tokens=300, completion_tokens=30)


async def test_text_that_json_cannot_hold_is_replaced(http: httpx.AsyncClient, server: respx.Route) -> None:
    messages = [{"role": "system", "content": "a\x00b"}, {"role": "user", "content": "half \ud800 a pair"}]

    await chat_client(http).chat(ChatRequest("odd name \ud800 編", messages, SCHEMA), 10)

    body = read_sent(server.calls[0])
    assert body["messages"][1]["content"] == "half ? a pair"
    assert body["messages"][0]["content"].startswith("a\x00b")
    assert body["response_format"]["json_schema"]["name"] == "odd_name____"
