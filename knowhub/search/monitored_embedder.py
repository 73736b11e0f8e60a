"""An embedder that remembers why it is of no use at present."""

from collections.abc import Sequence

from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason, TextRefused, Vector


class MonitoredEmbedder:
    """Passes calls on.

    `last_failure` says why the last call failed, was given up, or gave an answer of no use; None if it went well.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.last_failure: str | None = None
        self._other: str | None = None

    @property
    def model(self) -> str:
        """The name under which its vectors are kept."""
        return self._embedder.model

    @property
    def problem(self) -> str | None:
        """Why its vectors are not used, or why it gives none; None if all is well."""
        if self._other is not None:
            return (
                f"the vectors of this directory are made by another process, with {self._other}, and those of "
                f"{self.model} cannot be compared with them. Start both with the same embedder"
            )
        return None if self.last_failure is None else f"the last call of the embedder failed: {self.last_failure}"

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """See `Embedder.embed`."""
        try:
            vectors = await self._embedder.embed(texts, timeout_s, query=query)
        except TextRefused:
            raise
        except EmbeddingFailed as failure:
            self.last_failure = failure.detail
            raise
        self.last_failure = None
        return vectors

    def note_model_in_use(self, model: str | None) -> None:
        """Note the model of the process that makes the vectors; None if that has no embedder."""
        self._other = None if model == self.model else model or "no embedder"

    def check_in_use(self) -> None:
        """Raise EmbeddingFailed if another embedder makes the vectors."""
        if self._other is not None:
            raise EmbeddingFailed(FailureReason.FAILURE, f"the vectors are made with {self._other}")
