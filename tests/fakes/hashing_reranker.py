"""A reranker that scores a text by how alike it and the query are to the hashing embedder."""

import asyncio
from collections.abc import Iterable, Sequence

from knowhub.core.chat import FailureReason, Usage
from knowhub.core.reranking import RerankFailed
from tests.fakes.hashing_embedder import hashed_vector


class HashingReranker:
    """Implements `CountedReranker`. Each call takes one fault: a TimeoutError is a late server, None goes well."""

    model = "hashing"

    def __init__(self, faults: Iterable[Exception | None] = ()) -> None:
        self.is_open = False
        self.asked: list[tuple[str, list[str]]] = []
        self._faults = iter(faults)
        self._failures = 0

    @property
    def usage(self) -> Usage:
        return Usage(len(self.asked), self._failures)

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        if not texts:
            return []
        self.asked.append((query, list(texts)))
        await asyncio.sleep(0)
        fault = next(self._faults, None) if timeout_s > 0 else TimeoutError("no time is left to ask the reranker")
        if fault is not None:
            self._failures += 1
            late = isinstance(fault, TimeoutError)
            raise RerankFailed(FailureReason.TIMEOUT if late else FailureReason.FAILURE, str(fault))
        wanted = hashed_vector(query)
        return [sum(one * other for one, other in zip(wanted, hashed_vector(text), strict=True)) for text in texts]
