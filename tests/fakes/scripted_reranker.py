"""A reranker that gives the scores of a queue, and afterwards scores a text by its similarity to the query."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TypeAlias

from knowhub.core.language_models import RerankFailed, Usage
from tests.fakes.hashing_embedder import hash_vector, to_failure


class Silence(Enum):
    """In a queue: this call is not answered at all."""

    NEVER = "never"


Scores: TypeAlias = Sequence[float] | Exception | Callable[[str, Sequence[str]], Sequence[float]] | Silence


class ScriptedReranker:
    """Implements `Reranker` and `CountedModel`. `asked` is what it was given, by query and texts.

    An exception is raised as a RerankFailed: as it is, TIMEOUT for a TimeoutError and FAILURE for any other. The scores
    behind the queue are those of the scripted server of `tests/e2e/scripted_llm.py`.
    """

    model = "scripted"

    def __init__(self, answers: Iterable[Scores] = ()) -> None:
        self.is_open = False
        self.asked: list[tuple[str, list[str]]] = []
        self._answers = iter(answers)
        self._failures = 0

    @property
    def usage(self) -> Usage:
        return Usage(len(self.asked), self._failures)

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        if not texts:
            return []
        self.asked.append((query, list(texts)))
        await asyncio.sleep(0)
        answer = next(self._answers, by_similarity) if timeout_s > 0 else TimeoutError("no time is left to ask")
        if isinstance(answer, Silence):
            await asyncio.Event().wait()
            return ()
        if isinstance(answer, Exception):
            self._failures += 1
            raise to_failure(answer, RerankFailed)
        return answer(query, texts) if callable(answer) else answer


def by_similarity(query: str, texts: Sequence[str]) -> Sequence[float]:
    """Score a text by how alike it and the query are to the hashing embedder."""
    wanted = hash_vector(query)
    return [sum(item * other for item, other in zip(wanted, hash_vector(text), strict=True)) for text in texts]


def longest_first(_query: str, texts: Sequence[str]) -> Sequence[float]:
    """Score a text by its length."""
    return [float(len(text)) for text in texts]
