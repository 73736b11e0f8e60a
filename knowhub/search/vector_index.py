"""The vectors of all accounts, following the log; what lacks one is embedded in the background, in nobody's way."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from knowhub.core.embedding import EmbeddingFailed, Vector
from knowhub.core.errors import Unavailable
from knowhub.search.account_vectors import AccountVectors, Waiting
from knowhub.search.embedding_work import PatientEmbedding
from knowhub.search.following import HeadT, LogMark, Records, Texts, touches
from knowhub.search.vector_files import VectorFiles
from knowhub.search.vectors import Matrix

_Answer = TypeVar("_Answer")

_BATCH: Final = 64
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_REFUSED_AGAIN_S: Final = 300.0
_NAMED: Final = 3


class EmbeddingWork(Protocol):
    """Embeds what waits in place of the index's own loop: whose rows want more than to be asked about again."""

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to do that the index does not count among what waits."""

    @property
    def complaint(self) -> str | None:
        """What is to be said of the rows that have no vector for good; None where there is no such row."""

    async def drain(self) -> None:
        """Embed until nothing is left that can be now. Raises Unavailable."""


class VectorIndex(Generic[HeadT]):
    """Follows the store as the lexical index does. Only the keeper of the directory embeds and writes."""

    def __init__(
        self,
        folder: Path,
        log: LogMark,
        records: Callable[[str], Records[HeadT]],
        texts: Texts,
        embedding: PatientEmbedding,
        refused_again_s: float = _REFUSED_AGAIN_S,
    ) -> None:
        self._folder = folder
        self._log = log
        self._records = records
        self._texts = texts
        self._embedding = embedding
        self._accounts: dict[str, AccountVectors[HeadT]] = {}
        self._work: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[Any]] = set()
        self._problem: str | None = None
        self._pause_s = 0.0
        self._not_before = 0.0
        self._refused_again_s = refused_again_s
        self._refused_since: float | None = None
        self._other: EmbeddingWork | None = None
        self._is_closed = False

    def hand_over(self, work: EmbeddingWork) -> None:
        """Let `work` embed what waits from now on; when, and how patiently, is still decided here."""
        self._other = work

    @property
    def lag(self) -> int:
        """How many records are to be embedded yet; those that the embedder refuses are not among them."""
        return sum(account.lag for account in self._accounts.values())

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that every file knows of; None where there is none."""
        noted = [account.noted_erases for account in self._accounts.values()]
        return min((erases for erases in noted if erases is not None), default=None)

    def follow(self, account: str, seq: int, changes: Sequence[Any]) -> None:
        """Note the records that an operation touched. Called by the store, in order."""
        collections = self._texts.collections
        if account not in self._accounts:
            # Opening an account's takes stock of all that it lacks, this operation too.
            if touches(changes, collections):
                self.account(account)
            return
        for change in changes:
            if change.collection in collections:
                self._accounts[account].follow(change.id, seq)

    async def search(
        self,
        account: str,
        query: Matrix,
        groups: Sequence[frozenset[str]],
        accept: Callable[[HeadT], bool],
        limit: int,
    ) -> list[tuple[float, HeadT]]:
        return await self.account(account).search(query, groups, accept, limit)

    def fits(self, account: str, query: Matrix) -> bool:
        """Tell whether a query can be compared with an account's vectors; where not, look what has changed."""
        fits = self.account(account).fits(query)
        if not fits:
            self._embedding.dimensions = None
        return fits

    def compared(self, account: str, query: Matrix, heads: Sequence[HeadT]) -> Mapping[int, float]:
        return self.account(account).compared(query, heads)

    async def tend(self) -> None:
        """Keep the files in order, and begin to embed what waits; nobody waits for that.

        Raises Unavailable as long as the embedder is down, and while it refuses a text.
        """
        for account in list(self._accounts.values()):
            await account.tidy()
        self._retry_refused()
        self._begin(self._embed)
        self._check_well()

    async def reload(self) -> None:
        """Take in what the keeper has written since. Raises Unavailable as `tend` does."""
        for account in list(self._accounts.values()):
            await account.reload()
        self._begin(self._look)
        self._check_well()

    async def embed_waiting(self) -> None:
        """Embed until nothing waits. Raises Unavailable when the embedder gives no vectors, or the disk no room."""
        await self._expect_dimensions()
        if self._other is not None:
            await self._other.drain()
            return
        for account in list(self._accounts.values()):
            while account.lag and not self._is_closed:
                batch = await account.next_waiting(_BATCH)
                if batch and not await self._embed_batch(account, batch):
                    # Something is being erased: what is read now may still tell of it.
                    return

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Embed every record of one account anew, or of all, and then put that in the place of what stands.

        Returns how many have a vector. Raises Unavailable, and then nothing has changed.
        """
        names = list(self._accounts) if account is None else [account]
        return sum([await self._rebuild(name, progress) for name in names])

    async def close(self) -> None:
        """Break off what is under way: it is begun again where it is taken up next."""
        self._is_closed = True
        for asking in self._asking:
            # Only what waits for the embedder: a thread that writes would be left behind.
            asking.cancel()
        if self._work is not None:
            await asyncio.wait([self._work])

    @property
    def accounts(self) -> Mapping[str, AccountVectors[HeadT]]:
        """The accounts that have something to be found by its meaning, now or later."""
        return self._accounts

    def account(self, account: str) -> AccountVectors[HeadT]:
        """Return an account's vectors, opened on first use. One with nothing in it is not remembered."""
        vectors = self._accounts.get(account)
        if vectors is None:
            # A name may hold any character: its hash names the folder.
            name = blake2b(account.encode(), digest_size=12).hexdigest()
            vectors = AccountVectors(
                self._folder / name, self._records(account), self._texts, self._log, self._embedding.model
            )
            if not vectors.is_empty:
                self._accounts[account] = vectors
        return vectors

    async def _rebuild(self, name: str, progress: Callable[[int, int], None]) -> int:
        account, records = self.account(name), self._records(name)
        heads = list(records.heads())
        embedded: list[Waiting] = []
        vectors: list[Vector] = []
        for start in range(0, len(heads), _BATCH):
            progress(start, len(heads))
            some = heads[start : start + _BATCH]
            # One that is deleted meanwhile is still read, and left out when all is written.
            batch = [Waiting(head.id, head.text_num, self._texts.embedded(records.row(head.id))) for head in some]
            for waiting, vector in zip(batch, await self._vectors(batch), strict=True):
                if vector is not None:
                    embedded.append(waiting)
                    vectors.append(vector)
        if vectors:
            await account.write_all(embedded, vectors)
        progress(len(heads), len(heads))
        return len(vectors)

    def _begin(self, work: Callable[[], Any]) -> None:
        now = asyncio.get_running_loop().time()
        is_wanted = self._is_in_doubt or any(account.lag or account.wants_links for account in self._accounts.values())
        is_wanted = is_wanted or (self._other is not None and self._other.is_wanted)
        is_busy = self._work is not None and not self._work.done()
        if is_wanted and not is_busy and not self._is_closed and now >= self._not_before:
            self._work = asyncio.create_task(work(), name="embedding")

    @property
    def _is_in_doubt(self) -> bool:
        # Before the first vector nobody knows whether those on the disk are of the dimensions that it gives now.
        kept = [account.kept for account in self._accounts.values() if account.kept is not None]
        return any(vectors.dimensions != self._embedding.dimensions for vectors in kept)

    def _retry_refused(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._other is not None:
            # It knows when a text is to be asked about again.
            return
        if not any(account.refused for account in self._accounts.values()):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= self._refused_again_s:
            self._refused_since = now
            for account in self._accounts.values():
                account.retry_refused()

    def _check_well(self) -> None:
        if self._other is not None:
            if self._problem is not None or self._other.complaint is not None:
                raise Unavailable(self._problem or self._other.complaint or "")
            return
        refused = [row_id for account in self._accounts.values() for row_id in account.refused]
        if self._problem is not None:
            raise Unavailable(self._problem)
        if refused:
            names = ", ".join(refused[:_NAMED])
            raise Unavailable(f"the embedder refuses {len(refused)} records, found by their words alone: {names}")

    async def _expect_dimensions(self) -> None:
        """Find out of which dimensions the embedder's vectors are now, where that is not known."""
        if not self._is_in_doubt:
            return
        if self._embedding.dimensions is None:
            await self._told(self._embedding.learn_dimensions())
        for account in list(self._accounts.values()):
            if self._embedding.dimensions is not None:
                account.expect(self._embedding.dimensions)

    async def _look(self) -> None:
        await self._patiently(self._expect_dimensions)

    async def _embed(self) -> None:
        await self._patiently(self.embed_waiting)

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable as problem:
            self._pause_s = min(self._pause_s * 2 or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            self._not_before = asyncio.get_running_loop().time() + self._pause_s
            self._problem = str(problem)
            return
        self._pause_s, self._problem = 0.0, None
        await self._link()

    async def _link(self) -> None:
        for account in list(self._accounts.values()):
            while account.wants_links and account.kept is not None and not self._is_closed:
                await asyncio.to_thread(account.kept.add_neighbours)

    async def _embed_batch(self, account: AccountVectors[HeadT], batch: Sequence[Waiting]) -> bool:
        try:
            vectors = await self._vectors(batch)
        except Unavailable:
            account.defer(batch)
            raise
        for waiting, vector in zip(batch, vectors, strict=True):
            if vector is None:
                account.refuse(waiting)
        taken = [(waiting, vector) for waiting, vector in zip(batch, vectors, strict=True) if vector is not None]
        return not taken or await account.take([one for one, _ in taken], [vector for _, vector in taken])

    async def embedded(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector for each text, None for those that the embedder does not take. Raises Unavailable."""
        return await self._told(self._embedding.vectors(texts))

    async def _vectors(self, batch: Sequence[Waiting]) -> "list[Vector | None]":
        return await self.embedded([waiting.text for waiting in batch])

    async def _told(self, question: Coroutine[Any, Any, _Answer]) -> _Answer:
        asking = asyncio.create_task(question, name="embedding texts")
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asking
        except EmbeddingFailed as problem:
            raise Unavailable(f"the embedder gives no vectors: {problem.detail}") from problem


class UnusedVectors:
    """Vectors of a directory for which no embedder is configured now: they must not outlive what is erased."""

    def __init__(self, folder: Path, log: LogMark) -> None:
        self._folder = folder
        self._log = log

    @property
    def noted_erases(self) -> int | None:
        noted = [files.noted_erases for files in self._files()]
        return min((erases for erases in noted if erases is not None), default=None)

    async def tend(self) -> None:
        """Remove what was written before the newest erasing. Raises Unavailable."""
        for files in self._files():
            if files.noted_erases not in (None, self._log.erases):
                await asyncio.to_thread(files.remove)

    def _files(self) -> list[VectorFiles]:
        return [VectorFiles(folder) for folder in sorted(self._folder.glob("*")) if folder.is_dir()]
