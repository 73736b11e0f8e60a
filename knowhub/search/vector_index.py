"""The vectors of all accounts. They follow the log; missing vectors are embedded in the background."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from knowhub.core.clock import Clock
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason, TextRefused, Vector
from knowhub.core.projection import LogMark
from knowhub.core.recall import MissingVector
from knowhub.engine.account import Account, SearchableRows
from knowhub.search.account_vectors import AccountVectors, PendingText
from knowhub.search.index_files import AccountIndexRegistry
from knowhub.search.scripts import HARMLESS, ScriptSkills, is_zero
from knowhub.search.texts import SearchableT, Texts
from knowhub.search.vector_files import VectorFiles
from knowhub.search.vectors import Matrix

_Answer = TypeVar("_Answer")

_BATCH: Final = 64
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_NAMED: Final = 3
# For the background: a slow machine may take this long for a batch of long texts.
_BATCH_TIMEOUT_S: Final = 120.0
_ATTEMPTS: Final = 3


class BatchEmbedder:
    """Embeds batches, and tells a server that is down from a text that it rejects."""

    def __init__(self, embedder: Embedder, skills: ScriptSkills) -> None:
        self._embedder = embedder
        self._skills = skills
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
            is_read.append(await self._skills.can_read(text))
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


class VectorIndex(AccountIndexRegistry[AccountVectors[SearchableT]], Generic[SearchableT]):
    """Follows the store like the lexical index. Only the leader embeds and writes."""

    def __init__(
        self,
        folder: Path,
        log: LogMark,
        get_account: Callable[[str], Account],
        texts: Texts,
        embedding: BatchEmbedder,
        clock: Clock,
    ) -> None:
        super().__init__(folder, log, get_account, texts)
        self._embedding = embedding
        self._work: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[Any]] = set()
        self._problem: str | None = None
        self._pause_s = 0.0
        self._not_before = 0.0
        self._clock = clock
        self._is_closed = False

    def list_missing(self, account: str) -> Iterator[MissingVector]:
        """Yield the rows of an account without a vector."""
        return self.account(account).list_missing()

    def list_rejected(self, account: str | None = None) -> Iterator[MissingVector]:
        """Yield the rows of an account, or of all, whose text the embedder rejects."""
        return (item for vectors in self._list(account) for item in vectors.list_rejected())

    async def request_retry(self, account: str, row_id: str) -> None:
        """Have a rejected text tried again. Raises Unavailable."""
        await self.account(account).request_retry(row_id)

    def can_compare(self, account: str, query: Matrix) -> bool:
        """Return whether a query has the dimensions of the account's vectors; if not, ask the embedder again."""
        fits = self.account(account).can_compare(query)
        if not fits:
            self._embedding.dimensions = None
        return fits

    async def catch_up(self) -> None:
        """Maintain the files, and start to embed in the background.

        Raises Unavailable while the embedder is down or rejects a text.
        """
        for account in self._list():
            await account.clean()
        self._start(self.embed_pending)
        self._raise_problem()

    async def reload(self) -> None:
        """Load what the leader has written. Raises Unavailable like `catch_up`."""
        for account in self._list():
            await account.reload()
        self._start(self._update_dimensions)
        self._raise_problem()

    async def embed_pending(self) -> None:
        """Embed until nothing is pending. Raises Unavailable if the embedder or the disk fails."""
        await self._update_dimensions()
        for account in self._list():
            while account.is_due(self._clock.now()) and not self._is_closed:
                batch = await account.take_due(_BATCH, self._clock.now())
                if batch:
                    await self._embed_batch(account, batch)

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Embed all records of one account or of all again, then replace the old vectors.

        Returns how many have a vector. Raises Unavailable, and then nothing has changed.
        """
        names = list(self._accounts) if account is None else [account]
        return sum([await self._rebuild(name, progress) for name in names])

    async def close(self) -> None:
        """Stop the work; it starts again after the next start."""
        self._is_closed = True
        for asking in self._asking:
            # Only calls of the embedder are cancelled; writes are finished.
            asking.cancel()
        if self._work is not None:
            await asyncio.wait([self._work])

    def _open(self, account: str, folder: Path) -> AccountVectors[SearchableT]:
        return AccountVectors(folder, self._rows(account), self._texts, self._log, self._embedding.model)

    def _rows(self, account: str) -> SearchableRows[SearchableT]:
        return SearchableRows(self._get_account(account), self._texts.indexes, self._texts.max_embedded)

    async def _rebuild(self, name: str, progress: Callable[[int, int], None]) -> int:
        account, records = self.account(name), self._rows(name)
        summaries = list(records.summaries())
        embedded: list[PendingText] = []
        vectors: list[Vector] = []
        for start in range(0, len(summaries), _BATCH):
            progress(start, len(summaries))
            some = summaries[start : start + _BATCH]
            # Rows that are deleted meanwhile are left out at the end.
            batch = [
                PendingText(summary.id, summary.text_change, self._texts.embedding_text(records.row(summary.id)))
                for summary in some
            ]
            for waiting, vector in zip(batch, await self._embed_pending(batch), strict=True):
                if vector is not None:
                    embedded.append(waiting)
                    vectors.append(vector)
        if vectors:
            await account.write_all(embedded, vectors)
        progress(len(summaries), len(summaries))
        return len(vectors)

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        now = asyncio.get_running_loop().time()
        is_wanted = self._is_dimension_unknown or any(
            account.is_due(self._clock.now()) for account in self._accounts.values()
        )
        is_busy = self._work is not None and not self._work.done()
        if is_wanted and not is_busy and not self._is_closed and now >= self._not_before:
            self._work = asyncio.create_task(self._run_with_retry(work), name="embedding")

    @property
    def _is_dimension_unknown(self) -> bool:
        # The dimensions of the embedder are unknown before its first vector.
        kept = [account.vectors for account in self._accounts.values() if account.vectors is not None]
        return any(vectors.dimensions != self._embedding.dimensions for vectors in kept)

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise Unavailable(self._problem)
        refused = [item.row_id for item in self.list_rejected()]
        if refused:
            names = ", ".join(refused[:_NAMED])
            raise Unavailable(f"the embedder refuses {len(refused)} texts, found by their words alone: {names}")

    async def _update_dimensions(self) -> None:
        """Ask the embedder for its dimensions if they are unknown."""
        if not self._is_dimension_unknown:
            return
        if self._embedding.dimensions is None:
            await self._call_embedder(self._embedding.update_dimensions())
        for account in self._list():
            if self._embedding.dimensions is not None:
                account.set_dimensions(self._embedding.dimensions)

    async def _run_with_retry(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable as problem:
            self._pause_s = min(self._pause_s * 2 or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            self._not_before = asyncio.get_running_loop().time() + self._pause_s
            self._problem = str(problem)
            return
        self._pause_s, self._problem = 0.0, None

    async def _embed_batch(self, account: AccountVectors[SearchableT], batch: Sequence[PendingText]) -> None:
        account.asked = frozenset(waiting.row_id for waiting in batch)
        try:
            vectors = await self._embed_pending(batch)
        except Unavailable:
            account.defer(batch)
            raise
        finally:
            account.asked = frozenset()
        for waiting, vector in zip(batch, vectors, strict=True):
            if vector is None:
                account.reject(waiting, self._clock.now())
        taken = [(waiting, vector) for waiting, vector in zip(batch, vectors, strict=True) if vector is not None]
        if taken:
            await account.write_vectors([item for item, _ in taken], [vector for _, vector in taken])

    async def _embed_pending(self, batch: Sequence[PendingText]) -> "list[Vector | None]":
        return await self._call_embedder(self._embedding.embed([waiting.text for waiting in batch]))

    async def _call_embedder(self, question: Coroutine[Any, Any, _Answer]) -> _Answer:
        asking = asyncio.create_task(question, name="embedding texts")
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asking
        except EmbeddingFailed as problem:
            raise Unavailable(f"the embedder gives no vectors: {problem.detail}") from problem


class UnusedVectors:
    """Vectors of a directory without an embedder. They are removed after an erase."""

    def __init__(self, folder: Path, log: LogMark) -> None:
        self._folder = folder
        self._log = log

    @property
    def erased_through_seq(self) -> int | None:
        seqs = [files.erased_through_seq for files in self._files()]
        return min((seq for seq in seqs if seq is not None), default=None)

    async def catch_up(self) -> None:
        """Remove files that are older than the newest erase. Raises Unavailable."""
        for files in self._files():
            if files.erased_through_seq not in (None, self._log.last_erase_seq):
                await asyncio.to_thread(files.remove)

    async def reload(self) -> None:
        """Do nothing: they are not searched."""

    async def close(self) -> None:
        """Do nothing."""

    def _files(self) -> list[VectorFiles]:
        return [VectorFiles(folder) for folder in sorted(self._folder.glob("*")) if folder.is_dir()]
