"""Embedding many texts, whatever becomes of one of them: a text that the embedder does not take hinders no other."""

import asyncio
from array import array
from collections.abc import Sequence
from typing import Final

from knowhub.core.chat import FailureReason
from knowhub.core.embedding import Embedder, EmbeddingFailed, TextRefused, Vector
from knowhub.search.scripts import HARMLESS, Literacy, is_blank

# Nobody waits for it: a slow machine may take this long for a batch of long texts.
_BATCH_TIMEOUT_S: Final = 120.0
_ATTEMPTS: Final = 3


class PatientEmbedding:
    """Tells an embedder that is down from one that is well and does not take a text."""

    def __init__(self, embedder: Embedder, literacy: Literacy) -> None:
        self._embedder = embedder
        self._literacy = literacy
        self.dimensions: int | None = None

    @property
    def model(self) -> str:
        """The name under which its vectors are kept."""
        return self._embedder.model

    async def vectors(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text, None for those that the embedder does not take.

        One in a script that the embedder does not know has the vector of no meaning: all zeros. Raises EmbeddingFailed
        when the embedder is down.
        """
        is_read = []
        for text in texts:
            is_read.append(await self._literacy.reads_most_of(text))
            # Looking at the letters of a whole batch would stall the loop.
            await asyncio.sleep(0)
        # Only a vector tells how many zeros the others have.
        spare = [] if any(is_read) else [HARMLESS]
        asked = await self._asked([*(text for text, read in zip(texts, is_read, strict=True) if read), *spare])
        length = next((len(vector) for vector in asked if vector is not None), None)
        blank = None if length is None else array("f", bytes(4 * length))
        answers = iter(asked)
        return [next(answers) if read else blank for read in is_read]

    async def learn_dimensions(self) -> None:
        """Find out how long its vectors are now. Raises EmbeddingFailed."""
        if not await self._is_well():
            raise EmbeddingFailed(FailureReason.FAILURE, "it is not well")

    async def _asked(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Ask for vectors. A batch that fails is halved, so that the others get theirs."""
        for _ in range(1 if len(texts) > 1 else _ATTEMPTS):
            try:
                return await self._answered(texts)
            except TextRefused:
                break
            except EmbeddingFailed:
                if not await self._is_well():
                    raise
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return await self._asked(texts[:half]) + await self._asked(texts[half:])

    async def _answered(self, texts: Sequence[str]) -> "list[Vector | None]":
        vectors = list(await self._embedder.embed(texts, _BATCH_TIMEOUT_S))
        if any(map(is_blank, vectors)):
            # It has begun before its model was there, or it makes nothing of a text: only a second answer tells.
            if not await self._is_well():
                raise EmbeddingFailed(FailureReason.FAILURE, "it answers zeros")
            vectors = list(await self._embedder.embed(texts, _BATCH_TIMEOUT_S))
        self.dimensions = len(vectors[0]) if vectors else self.dimensions
        return [None if is_blank(vector) else vector for vector in vectors]

    async def _is_well(self) -> bool:
        try:
            (vector,) = await self._embedder.embed([HARMLESS], _BATCH_TIMEOUT_S)
        except EmbeddingFailed:
            return False
        self.dimensions = len(vector)
        return not is_blank(vector)
