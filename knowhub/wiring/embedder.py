"""The embedder that the settings name: a server, or a directory of this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from knowhub.core.clock import Clock, SystemClock
from knowhub.core.embedding import Embedder
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, RandomIds
from knowhub.providers import http
from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.http import Timing
from knowhub.providers.local_embedder import LocalEmbedder
from knowhub.settings import Settings


@asynccontextmanager
async def embedder_of(
    settings: Settings, *, clock: Clock | None = None, ids: Ids | None = None
) -> AsyncIterator[Embedder | None]:
    """Build the embedder that the settings name; None where they name none.

    Raises InvalidInput when the place, the proxy or the certificates cannot be used, or the directory's model.
    """
    if settings.embedding_base_url is not None and settings.embedding_dir is not None:
        raise InvalidInput.of(
            "KNOWHUB_EMBEDDING_DIR", "a server is named by KNOWHUB_EMBEDDING_BASE_URL: set one of them"
        )
    if settings.embedding_dir is not None:
        # Reading a model takes seconds, and whoever opens a hub in a running loop has other things to do.
        yield await asyncio.to_thread(_local, settings, settings.embedding_dir)
        return
    if settings.embedding_base_url is None:
        yield None
        return
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
    try:
        client = http.client(settings.embedding_proxy, settings.embedding_ca_file)
        embedder = EmbeddingClient(options, client, Timing(clock or SystemClock(), ids or RandomIds()))
    except (ValueError, OSError) as problem:
        raise InvalidInput.of("KNOWHUB_EMBEDDING_*", str(problem)) from problem
    async with client:
        yield embedder


def _local(settings: Settings, directory: Path) -> Embedder:
    try:
        return LocalEmbedder(
            directory, query_prefix=settings.embedding_query_prefix, text_prefix=settings.embedding_text_prefix
        )
    except ImportError as problem:
        message = f"a model of this machine needs more libraries: pip install knowhub[local] ({problem})"
        raise InvalidInput.of("KNOWHUB_EMBEDDING_DIR", message) from problem
    except (ValueError, OSError) as problem:
        raise InvalidInput.of("KNOWHUB_EMBEDDING_DIR", str(problem)) from problem
