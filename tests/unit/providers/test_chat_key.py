"""The API key, which servers and models may repeat: it is in no answer, error or log."""

import json
import logging
import traceback
from typing import Any

import httpx
import pytest
import respx

from knowhub.core.language_models import ChatRequest
from knowhub.providers.chat import ChatOptions
from knowhub.providers.redaction import Redaction
from tests.fakes.model_server import KEY, QUESTION, chat_client, completion, failure_of, refusal

ANY: dict[str, Any] = {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}
ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in KEY)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(401, json={"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        httpx.Response(403, text=f"{KEY} " * 100),
        httpx.Response(400, text="x" * 190 + KEY),
        httpx.Response(200, json={"error": f"Bearer {KEY}"}),
        httpx.RemoteProtocolError(f"illegal header line: bytearray(b'Authorization Bearer {KEY}')"),
    ],
)
async def test_errors_and_logs_do_not_contain_the_key(
    http: httpx.AsyncClient,
    server: respx.Route,
    caplog: pytest.LogCaptureFixture,
    answer: httpx.Response | httpx.RemoteProtocolError,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.mock(side_effect=[answer] * 9)
    model = chat_client(http)

    failed = await failure_of(model)

    told = "".join(traceback.format_exception(failed)) + caplog.text + failed.detail + repr(ChatOptions("", KEY))
    assert KEY not in told
    assert KEY[:8] not in told
    assert len(failed.detail) < 260


def make_question(schema: dict[str, Any]) -> ChatRequest:
    return ChatRequest("f", QUESTION.messages, schema)


@pytest.mark.parametrize(
    "message",
    [
        {"content": json.dumps({"reason": f"Authorization: Bearer {KEY}", KEY: [{"deep": KEY}]})},
        {"content": f'{{"reason": "{ESCAPED}"}}'},
        {"content": {"reason": KEY}},
        {"content": [{"text": '{"reason": "' + KEY[:9]}, {"text": KEY[9:] + '"}'}]},
        {"content": None, "tool_calls": [{"function": {"arguments": {"reason": KEY}}}]},
        {"content": None, "function_call": {"arguments": json.dumps({"reason": KEY})}},
    ],
)
async def test_answers_do_not_contain_the_key(
    http: httpx.AsyncClient, server: respx.Route, message: dict[str, Any]
) -> None:
    server.mock(return_value=httpx.Response(200, json={"choices": [{"message": message}]}))

    reply = await chat_client(http).chat(make_question(ANY), 10)

    assert KEY not in json.dumps(reply.data)
    assert "[key]" in reply.data["reason"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"reason": ["Bearer " + KEY]}),
        json.dumps({"reason": ["x" * 40 + KEY]}),
        f'{{"reason": ["{ESCAPED}"]}}',
    ],
)
async def test_messages_on_invalid_answers_do_not_contain_the_key(
    http: httpx.AsyncClient, server: respx.Route, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server.mock(return_value=completion(text))
    model = chat_client(http)

    with pytest.raises(Exception, match="does not fit, twice") as caught:
        await model.chat(make_question(ANY), 10)

    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "[key]" in str(caught.value)
    assert KEY[:4] not in told


async def test_a_key_made_of_field_names_is_redacted(http: httpx.AsyncClient, server: respx.Route) -> None:
    key = "sk.canary.0123456789"
    schema: dict[str, Any] = {"type": "string"}
    for name in reversed(key.split(".")):
        schema = {"properties": {name: schema}}
    server.mock(return_value=completion({"sk": {"canary": {"0123456789": 1}}}))

    with pytest.raises(Exception, match=r"\[key\]") as caught:
        await chat_client(http, api_key=key).chat(make_question(schema), 10)

    assert key not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("said", [ESCAPED, ESCAPED.upper().replace("\\U", "\\u"), KEY.replace("-", "\\u002D")])
async def test_an_escaped_key_in_an_error_is_redacted(http: httpx.AsyncClient, server: respx.Route, said: str) -> None:
    server.mock(return_value=httpx.Response(401, content=f'["{said}"]'.encode()))

    failed = await failure_of(chat_client(http))

    assert failed.detail == 'the server answered 401: ["[key]"]'


async def test_a_short_key_is_redacted_only_after_bearer_in_answers(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    answer = {"reason": "ollama runs ollamas; it was asked with Bearer ollama, bearer ollamas and Bearer ollama."}
    server.mock(return_value=completion(answer))

    reply = await chat_client(http, api_key="ollama").chat(make_question(ANY), 10)

    assert reply.data == {
        "reason": "ollama runs ollamas; it was asked with Bearer [key], bearer ollamas and Bearer [key]."
    }


async def test_a_short_key_is_redacted_as_a_word_in_errors(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(return_value=refusal(401, "wrong key: abc; abcdef is another, x-abc too"))

    failed = await failure_of(chat_client(http, api_key="abc"))

    assert failed.detail == "the server answered 401: wrong key: [key]; abcdef is another, x-abc too"


@pytest.mark.parametrize(("key", "text"), [("1234567", "[1234567]"), ("12345678", "[[key]]")])
def test_a_key_of_eight_characters_is_a_secret(key: str, text: str) -> None:
    assert Redaction(key).redact_answer(f"[{key}]") == text
