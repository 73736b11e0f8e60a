"""Builds the models that the settings name: chat model, embedder, reranker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from knowhub.core.errors import InvalidInput
from knowhub.core.language_models import ChatModel, Embedder, Reranker
from knowhub.providers import http
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.http import RequestTiming
from knowhub.providers.local_embedder import LocalEmbedder
from knowhub.providers.rerank import RerankClient, RerankOptions, RerankStyle
from knowhub.settings import DEFAULT_MODEL, Settings


async def open_chat_model(
    settings: Settings, timing: RequestTiming, stack: AsyncExitStack, model: str | None = None
) -> ChatModel | None:
    """Build the chat model of the settings, or another `model` at the same address; None without an address.

    `stack` closes it. Raises InvalidInput when the address, the proxy or the certificates cannot be used.
    """
    if settings.llm_base_url is None:
        return None
    options = ChatOptions(
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=model or settings.llm_model,
        attempt_timeout_s=settings.llm_timeout_s,
        max_attempts=settings.llm_attempts,
        max_answer_bytes=settings.llm_max_answer_bytes,
        tokens_per_hour=settings.llm_tokens_per_hour,
        breaker_failures=settings.llm_breaker_failures,
        breaker_cool_down_s=settings.llm_breaker_cool_down_s,
    )
    with _invalid_setting("KNOWHUB_LLM_*"):
        client = http.make_client(settings.llm_proxy, settings.llm_ca_file)
        chat = ChatClient(options, client, timing)
    await stack.enter_async_context(client)
    return chat


def chat_models_by_name(
    settings: Settings, default: ChatModel | None, timing: RequestTiming
) -> Callable[[str | None], AbstractAsyncContextManager[ChatModel | None]]:
    """Return a function that opens the chat model of a name at the address of the settings.

    It yields `default` where there is no address, no name, or the name is that of the default model: tools send that
    name unasked.
    """

    @asynccontextmanager
    async def open_by_name(name: str | None) -> AsyncIterator[ChatModel | None]:
        if settings.llm_base_url is None or name in (None, DEFAULT_MODEL, settings.llm_model):
            yield default
            return
        async with AsyncExitStack() as stack:
            yield await open_chat_model(settings, timing, stack, name)

    return open_by_name


async def open_embedder(settings: Settings, timing: RequestTiming, stack: AsyncExitStack) -> Embedder | None:
    """Build the embedder of the settings, a server or a directory; None where they name neither.

    `stack` closes it. Raises InvalidInput when the address, the proxy, the certificates or the directory's model
    cannot be used.
    """
    if settings.embedding_base_url is not None and settings.embedding_dir is not None:
        raise InvalidInput.of(
            "KNOWHUB_EMBEDDING_DIR", "a server is named by KNOWHUB_EMBEDDING_BASE_URL: set one of them"
        )
    if settings.embedding_dir is not None:
        # Reading a model takes seconds: the event loop goes on meanwhile.
        return await asyncio.to_thread(_load_local_embedder, settings, settings.embedding_dir)
    if settings.embedding_base_url is None:
        return None
    options = EmbeddingOptions(
        base_url=settings.embedding_base_url,
        api_key=settings.embedding_api_key,
        model=settings.embedding_model,
        dimensions=settings.embedding_dimensions,
        query_prefix=settings.embedding_query_prefix,
        text_prefix=settings.embedding_text_prefix,
        batch=settings.embedding_batch,
        text_characters=settings.embedding_text_characters,
        attempt_timeout_s=settings.embedding_timeout_s,
        max_attempts=settings.embedding_attempts,
    )
    with _invalid_setting("KNOWHUB_EMBEDDING_*"):
        client = http.make_client(settings.embedding_proxy, settings.embedding_ca_file)
        embedder = EmbeddingClient(options, client, timing)
    await stack.enter_async_context(client)
    return embedder


async def open_reranker(settings: Settings, timing: RequestTiming, stack: AsyncExitStack) -> Reranker | None:
    """Build the reranker of the settings; None where they name none.

    `stack` closes it. Raises InvalidInput when the address, the proxy or the certificates cannot be used.
    """
    if settings.rerank_base_url is None:
        return None
    options = RerankOptions(
        base_url=settings.rerank_base_url,
        api_key=settings.rerank_api_key,
        model=settings.rerank_model,
        style=RerankStyle(settings.rerank_style),
        attempt_timeout_s=settings.rerank_budget_s,
    )
    with _invalid_setting("KNOWHUB_RERANK_*"):
        client = http.make_client(settings.rerank_proxy, settings.rerank_ca_file)
        reranker = RerankClient(options, client, timing)
    await stack.enter_async_context(client)
    return reranker


def _load_local_embedder(settings: Settings, directory: Path) -> Embedder:
    with _invalid_setting("KNOWHUB_EMBEDDING_DIR"):
        try:
            return LocalEmbedder(
                directory, query_prefix=settings.embedding_query_prefix, text_prefix=settings.embedding_text_prefix
            )
        except ImportError as error:
            raise ValueError(f"a local model needs more libraries: pip install knowhub[local] ({error})") from error


@contextmanager
def _invalid_setting(name: str) -> Iterator[None]:
    """Turn what a provider refuses into InvalidInput for the settings of that name."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InvalidInput.of(name, str(error)) from error
