"""The language model that the settings name."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from knowhub.core.chat import ChatModel
from knowhub.core.clock import Clock, SystemClock
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, RandomIds
from knowhub.providers import http
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.http import Timing
from knowhub.settings import DEFAULT_MODEL, Settings


@asynccontextmanager
async def chat_model(
    settings: Settings,
    *,
    model: str | None = None,
    has_breaker: bool = True,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[ChatModel | None]:
    """Build the language model that the settings name, or another `model` at the same place; None without a place.

    Without its breaker it asks every question, however many failed before.
    Raises InvalidInput when the place, the proxy or the certificates cannot be used.
    """
    if settings.llm_base_url is None:
        yield None
        return
    options = ChatOptions(
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=model or settings.llm_model,
        attempt_timeout_s=settings.llm_timeout_s,
        max_attempts=settings.llm_attempts,
        max_answer_bytes=settings.llm_max_answer_bytes,
        tokens_per_hour=settings.llm_tokens_per_hour,
        breaker_failures=settings.llm_breaker_failures if has_breaker else 0,
        breaker_cool_down_s=settings.llm_breaker_cool_down_s,
    )
    try:
        client = http.client(settings.llm_proxy, settings.llm_ca_file)
        chat = ChatClient(options, client, Timing(clock or SystemClock(), ids or RandomIds()))
    except (ValueError, OSError) as problem:
        raise InvalidInput.of("KNOWHUB_LLM_*", str(problem)) from problem
    async with client:
        yield chat


def model_named(
    settings: Settings, chat: ChatModel | None, clock: Clock, ids: Ids
) -> Callable[[str | None], AbstractAsyncContextManager[ChatModel | None]]:
    """Return what opens the model of a name at the place that the settings name; without a place, `chat` answers.

    The default of seed 003's own body (C-66) means the model of the settings, as no name does: tools send it unasked.
    """

    @asynccontextmanager
    async def opened(name: str | None) -> AsyncIterator[ChatModel | None]:
        if settings.llm_base_url is None or name in (None, DEFAULT_MODEL, settings.llm_model):
            yield chat
            return
        async with chat_model(settings, model=name, clock=clock, ids=ids) as other:
            yield other

    return opened
