"""A language model behind an OpenAI-compatible server (`core.language_models.ChatModel`).

A call tries the modes of answers until the server accepts one, repairs an unfit answer once, and is bounded
by its deadline, by the breaker and by the tokens of the hour.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from knowhub.core.allowances import TokenBudget
from knowhub.core.language_models import (
    AnswerRejected,
    ChatFailed,
    ChatReply,
    ChatRequest,
    FailureReason,
    Message,
    ModelUnavailable,
)
from knowhub.providers.breaker import GuardedClient
from knowhub.providers.http import (
    CallFailed,
    EndpointOptions,
    RequestRejected,
    RequestTiming,
    UnusableAnswer,
    estimate_request_tokens,
    get_count,
)
from knowhub.providers.json_answers import InvalidAnswer, open_items, parse_answer
from knowhub.providers.output_modes import OutputMode, add_repair, add_schema, get_texts, is_rejected, make_request_body

DEFAULT_MODEL = "google/gemini-2.0-flash-001"
_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class ChatOptions(EndpointOptions):
    """Where the model is and how it is asked."""

    model: str = DEFAULT_MODEL


@dataclass(slots=True)
class _Call:
    """One question on its way: its deadline in the loop's time, and what its answers counted so far."""

    question: ChatRequest
    deadline: float
    is_sent: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ChatClient(GuardedClient):
    """Asks one model, within a budget of tokens that several clients share.

    `http` is shared and closed by whoever made it. Raises ValueError for an unusable address or key.

    The mode that worked is kept for the life of the client: the next call starts there.
    """

    peer, error_type, unavailable_type = "model", ChatFailed, ModelUnavailable

    def __init__(
        self, options: ChatOptions, http: httpx.AsyncClient, timing: RequestTiming, budget: TokenBudget
    ) -> None:
        self._options = options
        super().__init__(options, http, timing)
        self._timing = timing
        self._budget = budget
        self._mode = OutputMode.SCHEMA

    @property
    def model(self) -> str:
        """The name under which its decisions are recorded."""
        return self._options.model

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        """Ask, and return an answer that fits the question's schema within `timeout_s`, retries included.

        Raises ChatFailed, and nothing else, whatever the model or its server does; ModelUnavailable if nothing was
        sent.
        """
        try:
            async with self._call(timeout_s) as deadline:
                return await self._send(_Call(question, deadline))
        except ChatFailed as failure:
            cause = failure.__cause__
            if isinstance(cause, CallFailed) and cause.is_request_error:
                raise AnswerRejected(failure.reason, failure.detail) from failure
            raise

    async def _send(self, call: _Call) -> ChatReply:
        started = self._timing.monotonic()
        contents = await self._redact([message["content"] for message in call.question.messages])
        said = zip(call.question.messages, contents, strict=True)
        redacted = [{**message, "content": content} for message, content in said]
        messages = add_schema(redacted, call.question.schema)
        texts = await self._try_modes(call, messages)
        try:
            data = self._parse_first_valid(texts, call.question.schema)
        except InvalidAnswer as error:
            texts = await self._try_modes(call, add_repair(messages, texts[0], str(error)))
            data = self._parse_repaired(texts, call.question.schema)
        seconds = self._timing.monotonic() - started
        return ChatReply(data, self.model, seconds, call.prompt_tokens, call.completion_tokens)

    def _parse_first_valid(self, texts: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the first text that holds one. Raises InvalidAnswer, about the first of them."""
        problems = []
        for text in texts:
            try:
                return parse_answer(text, schema, self._endpoint.redaction)
            except InvalidAnswer as error:
                problems.append(error)
        raise problems[0]

    def _parse_repaired(self, texts: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
        try:
            # The model had its chance: a wrong item of a list must not cost the right ones.
            return self._parse_first_valid(texts, open_items(schema))
        except InvalidAnswer as error:
            # The answer is redacted, and yet the names of its fields may make up the key where they are joined.
            detail = self._endpoint.redaction.redact_error(f"the model's answer does not fit, twice: {error}")
            raise UnusableAnswer(detail) from None

    async def _try_modes(self, call: _Call, messages: Sequence[Message]) -> list[str]:
        for mode in list(OutputMode)[self._mode : -1]:
            try:
                return await self._try_mode(mode, call, messages)
            except RequestRejected as refusal:
                if not is_rejected(mode, refusal):
                    raise
        return await self._try_mode(OutputMode.PROMPT, call, messages)

    async def _try_mode(self, mode: OutputMode, call: _Call, messages: Sequence[Message]) -> list[str]:
        body = make_request_body(mode, self.model, call.question, messages)
        reserved = estimate_request_tokens(body)
        answer = await self._endpoint.post(_PATH, body, call.deadline, lambda: self._reserve_tokens(call, reserved))
        await self._count(call, answer, reserved)
        texts = [self._endpoint.redaction.redact_answer(text) for text in get_texts(mode, answer)]
        self._mode = mode
        return texts

    @asynccontextmanager
    async def _reserve_tokens(self, call: _Call, tokens: int) -> AsyncIterator[None]:
        """Reserve for one attempt: a late answer, or one of no use, is billed all the same, and so is the next."""
        if not await self._budget.reserve(tokens):
            detail = f"the spend limit of {self._budget.limit} tokens an hour is reached"
            raise (ChatFailed if call.is_sent else ModelUnavailable)(FailureReason.FAILURE, detail)
        call.is_sent = True
        try:
            yield
        except CallFailed as failure:
            if failure.is_free:
                await self._budget.add(-tokens)
            raise

    async def _count(self, call: _Call, answer: Mapping[str, Any], reserved: int) -> None:
        prompt, completion = get_count(answer, "prompt_tokens"), get_count(answer, "completion_tokens")
        if prompt is not None:
            call.prompt_tokens = (call.prompt_tokens or 0) + prompt
        if completion is not None:
            call.completion_tokens = (call.completion_tokens or 0) + completion
        spent_prompt = reserved if prompt is None else prompt
        spent_completion = (
            estimate_request_tokens(orjson.dumps(answer.get("choices"))) if completion is None else completion
        )
        self._prompt_tokens += spent_prompt
        self._completion_tokens += spent_completion
        await self._budget.add(spent_prompt + spent_completion - reserved)
