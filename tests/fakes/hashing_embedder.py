"""An embedder of a few lines: it hashes words and pairs of Han characters into the dimensions of a vector.

Texts with words in common lie close, others do not; the same text has the same vector in every process. The scripted
server of `tests/e2e/scripted_llm.py` answers with the same vectors.
"""

import asyncio
import math
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias
from zlib import crc32

from knowhub.core.language_models import EmbeddingFailed, FailureReason, ModelFailed, Usage, Vector

Fault: TypeAlias = Exception | Callable[[Sequence[str]], Exception | None]
DIMENSIONS = 256
_WORDS = re.compile(r"[^\W_一-鿿]+|[一-鿿]+")


def hash_vector(text: str, dimensions: int = DIMENSIONS) -> Vector:
    """Return the vector of a text, of length 1; all zeros where it has no word."""
    counts = [0.0] * dimensions
    for word in _words(text):
        found = crc32(word.encode("utf-8", "replace"))
        counts[(found >> 1) % dimensions] += 1.0 if found & 1 else -1.0
    length = math.sqrt(sum(count * count for count in counts)) or 1.0
    return array("f", (count / length for count in counts))


def _words(text: str) -> Iterable[str]:
    for word in _WORDS.findall(text.lower()):
        if "一" <= word[0] <= "鿿":
            yield from (first + second for first, second in pairwise(word))
            yield from word
        else:
            yield word


class HashingEmbedder:
    """A counted embedder. Each call takes one fault: an exception, or a function that makes one from the texts.

    A TimeoutError is a late server, another exception one that is down; None in their place is a call that goes well.
    While `is_down` every call fails. `asked` are the batches that it was given, those of queries in `queries` too.
    """

    def __init__(
        self, faults: Iterable[Fault | None] = (), model: str = "hashing-256", dimensions: int = DIMENSIONS
    ) -> None:
        self.model = model
        self.is_down = False
        self.is_open = False
        self.asked: list[list[str]] = []
        self.queries: list[str] = []
        self._faults = iter(faults)
        self._dimensions = dimensions
        self._failures = 0

    @property
    def usage(self) -> Usage:
        return Usage(len(self.asked), self._failures, sum(len(text) for texts in self.asked for text in texts), 0)

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        if not texts:
            return []
        self.asked.append(list(texts))
        if query:
            self.queries += texts
        await asyncio.sleep(0)
        fault = ConnectionError("down") if self.is_down else next(self._faults, None)
        if callable(fault) and not isinstance(fault, Exception):
            fault = fault(texts)
        if not timeout_s > 0:
            fault = TimeoutError("no time is left to ask the embedder")
        if fault is not None:
            self._failures += 1
            raise to_failure(fault, EmbeddingFailed)
        return [hash_vector(text, self._dimensions) for text in texts]


def to_failure(fault: Exception, kind: type[ModelFailed]) -> ModelFailed:
    """Return what a client raises for a fault: the fault itself if it is of that kind, TIMEOUT for a TimeoutError."""
    if isinstance(fault, kind):
        return fault
    late = isinstance(fault, TimeoutError)
    return kind(FailureReason.TIMEOUT if late else FailureReason.FAILURE, str(fault))
