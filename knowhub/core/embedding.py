"""What turns texts into vectors, so that what is alike in meaning lies close; the embedders are adapters (KS-059)."""

from array import array
from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from knowhub.core.chat import FailureReason, Usage

# In quotes: `array` can be subscripted at run time from Python 3.12 on.
Vector: TypeAlias = "array[float]"
"""32-bit floats (typecode "f"), as many as the model has dimensions."""


class EmbeddingFailed(Exception):
    """The embedder gave no usable vectors: it is down, late, or it answered something else."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class TextRefused(EmbeddingFailed):
    """The embedder is well and does not want one of these texts: asked again it says the same, others may go well."""


class Embedder(Protocol):
    """A model that gives every text its place among the meanings."""

    @property
    def model(self) -> str:
        """The name under which its vectors are kept: those of another name are not to be compared with them."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector for each text, in their order, within `timeout_s`, retries included.

        All have one dimension and length 1, so that their product is their likeness; one of a text without meaning may
        be all zeros. A `query` may be read otherwise than what is to be found by it. Raises EmbeddingFailed, and
        nothing else, whatever the model or its server does.
        """


@runtime_checkable
class CountedEmbedder(Embedder, Protocol):
    """An embedder that tells what it was asked and whether it is left alone at present; not every one does."""

    @property
    def is_open(self) -> bool:
        """Whether calls are refused without asking, because the embedder has failed again and again."""

    @property
    def usage(self) -> Usage:
        """What was asked up to now; calls that were refused without asking count as failures."""
