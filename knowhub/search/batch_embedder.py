"""Embedding of many texts. A text that the embedder rejects does not stop the others."""

import asyncio
from array import array
from collections.abc import Sequence
from typing import Final

from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason, TextRefused, Vector
from knowhub.search.scripts import HARMLESS, ScriptSkills, is_zero

# For the background: a slow machine may take this long for a batch of long texts.
_BATCH_TIMEOUT_S: Final = 120.0
_ATTEMPTS: Final = 3


class BatchEmbedder:
    """Embeds batches, and tells a server that is down from a text that it rejects."""

    def __init__(self, embedder: Embedder, literacy: ScriptSkills) -> None:
        self._embedder = embedder
        self._literacy = literacy
        self.dimensions: int | None = None

    @property
    def model(self) -> str:
        """The name under which its vectors are kept."""
        return self._embedder.model

    async def embed(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text, None for rejected texts. Raises EmbeddingFailed if the embedder is down.

        A text in a script that the embedder cannot read gets a vector of zeros.
        """
        is_read = []
        for text in texts:
            is_read.append(await self._literacy.can_read(text))
            await asyncio.sleep(0)
        # At least one text is embedded, to learn the dimensions.
        spare = [] if any(is_read) else [HARMLESS]
        asked = await self._embed_batch([*(text for text, read in zip(texts, is_read, strict=True) if read), *spare])
        length = next((len(vector) for vector in asked if vector is not None), None)
        blank = None if length is None else array("f", bytes(4 * length))
        answers = iter(asked)
        return [next(answers) if read else blank for read in is_read]

    async def update_dimensions(self) -> None:
        """Ask the embedder for its dimensions. Raises EmbeddingFailed."""
        if not await self._is_available():
            raise EmbeddingFailed(FailureReason.FAILURE, "it is not well")

    async def _embed_batch(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Embed a batch. If it fails, split it in halves."""
        for _ in range(1 if len(texts) > 1 else _ATTEMPTS):
            try:
                return await self._call_embedder(texts)
            except TextRefused:
                break
            except EmbeddingFailed:
                if not await self._is_available():
                    raise
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return await self._embed_batch(texts[:half]) + await self._embed_batch(texts[half:])

    async def _call_embedder(self, texts: Sequence[str]) -> "list[Vector | None]":
        vectors = list(await self._embedder.embed(texts, _BATCH_TIMEOUT_S))
        if any(map(is_zero, vectors)):
            # The model may not have been loaded yet: ask a second time.
            if not await self._is_available():
                raise EmbeddingFailed(FailureReason.FAILURE, "it answers zeros")
            vectors = list(await self._embedder.embed(texts, _BATCH_TIMEOUT_S))
        self.dimensions = len(vectors[0]) if vectors else self.dimensions
        return [None if is_zero(vector) else vector for vector in vectors]

    async def _is_available(self) -> bool:
        try:
            (vector,) = await self._embedder.embed([HARMLESS], _BATCH_TIMEOUT_S)
        except EmbeddingFailed:
            return False
        self.dimensions = len(vector)
        return not is_zero(vector)
