"""The reranker that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from knowhub.core.clock import Clock, SystemClock
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, RandomIds
from knowhub.core.reranking import Reranker
from knowhub.providers import http
from knowhub.providers.http import Timing
from knowhub.providers.rerank import RerankClient, RerankOptions, RerankStyle
from knowhub.settings import Settings


@asynccontextmanager
async def reranker_of(
    settings: Settings, *, clock: Clock | None = None, ids: Ids | None = None
) -> AsyncIterator[Reranker | None]:
    """Build the reranker that the settings name; None where they name none.

    Raises InvalidInput when the place, the proxy or the certificates cannot be used.
    """
    if settings.rerank_base_url is None:
        yield None
        return
    options = RerankOptions(
        base_url=settings.rerank_base_url,
        api_key=settings.rerank_api_key,
        model=settings.rerank_model,
        style=RerankStyle(settings.rerank_style),
        attempt_timeout_s=settings.rerank_budget_s,
    )
    try:
        client = http.client(settings.rerank_proxy, settings.rerank_ca_file)
        reranker = RerankClient(options, client, Timing(clock or SystemClock(), ids or RandomIds()))
    except (ValueError, OSError) as problem:
        raise InvalidInput.of("KNOWHUB_RERANK_*", str(problem)) from problem
    async with client:
        yield reranker
