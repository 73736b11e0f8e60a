"""The vectors of one account: on disk, in memory, and the texts that are still to be embedded.

Pending texts need no file: they are the rows of the log that the vector file lacks.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np

from knowhub.core.clock import CooperativePause
from knowhub.core.language_models import Vector
from knowhub.core.projection import LogMark
from knowhub.core.recall import MissingVector
from knowhub.engine.account import SearchableRows, seq_of_change
from knowhub.search.index_files import AccountIndexBase
from knowhub.search.texts import SearchableT, Texts
from knowhub.search.vector_files import Rejection, VectorFiles, VectorMetadata, make_rejection
from knowhub.search.vectors import Matrix, Rows, Similarities, Vectors, make_row_type

# A file is rewritten if this share of its rows is old, and at least so many rows.
_WORTH_WRITING_ANEW: Final = 0.33
_SPARED_ROWS: Final = 1_000
_TAKEN_PER_TURN: Final = 1_000


@dataclass(frozen=True, slots=True)
class PendingText:
    """A text to embed, and the number of the change that wrote it."""

    row_id: str
    number: int
    text: str

    @property
    def digest(self) -> int:
        return int.from_bytes(blake2b(self.text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class AccountVectors(AccountIndexBase[SearchableT, VectorFiles]):
    """Follows the log like the lexical index. Vectors of another `model` are ignored."""

    def __init__(
        self, folder: Path, records: SearchableRows[SearchableT], texts: Texts, log: LogMark, model: str
    ) -> None:
        super().__init__(VectorFiles(folder), records, texts, log)
        self._model = model
        self._metadata: VectorMetadata | None = None
        self.vectors: Vectors | None = None
        self._waiting: dict[str, int] = {}
        self._rejected: dict[str, Rejection] = {}
        self.asked: frozenset[str] = frozenset()
        self._dimensions: int | None = None
        self._changes = _SPARED_ROWS
        self._writing = asyncio.Lock()
        self._load(self._files.read_metadata())
        self._load_pending()
        self._set_rejected(self._read_rejected())

    @property
    def lag(self) -> int:
        """The number of pending records."""
        return len(self._waiting)

    def list_missing(self) -> Iterator[MissingVector]:
        """Yield the rows without a vector. Vectors may be written meanwhile."""
        for row_id, number in list(self._waiting.items()):
            yield MissingVector(row_id, seq_of_change(number), is_asked=row_id in self.asked)
        yield from self.list_rejected()

    def list_rejected(self) -> Iterator[MissingVector]:
        """Yield the rows whose text the embedder rejects; they are found by words only."""
        for row_id, rejection in list(self._rejected.items()):
            seq, is_asked = seq_of_change(rejection.number), row_id in self.asked
            yield MissingVector(row_id, seq, rejection.attempts, rejection.retry_at, is_asked)

    def is_due(self, now: float) -> bool:
        """Return whether there is a text to embed: a pending one, or a rejected one whose pause is over."""
        return bool(self._waiting) or next(self._iter_due(now), None) is not None

    def can_compare(self, query: Matrix) -> bool:
        """Return whether a query has the dimensions of the stored vectors."""
        return self.vectors is None or self.vectors.dimensions == len(query)

    def set_dimensions(self, dimensions: int) -> None:
        """Embed everything again if the stored vectors have other dimensions."""
        if self.vectors is None or self.vectors.dimensions == dimensions:
            return
        self._dimensions = dimensions
        self._metadata = self.vectors = None
        self._load_pending()

    def _note_change(self, summary: SearchableT) -> None:
        self._changes += 1
        self._drop(summary.id)
        if summary.live:
            self._waiting[summary.id] = summary.text_change

    async def compare(self, query: Matrix, groups: Sequence[frozenset[str]]) -> Similarities:
        """Compare a query with the records that have one facet of each group."""
        vectors = Vectors(len(query)) if self.vectors is None else self.vectors
        # In a thread: comparing with a hundred thousand takes ten milliseconds.
        return await asyncio.to_thread(vectors.start_comparison(query, groups))

    async def find_best(
        self, similarities: Similarities, accept: Callable[[SearchableT], bool], limit: int
    ) -> list[tuple[float, SearchableT]]:
        """Return the `limit` accepted records that are most similar to a query."""
        found: list[tuple[float, SearchableT]] = []
        pace = CooperativePause()
        for value, number in similarities.iter_best(2 * limit):
            summary = self._records.find_by_text_change(number)
            # A vector of zeros says nothing.
            if value and summary is not None and accept(summary):
                found.append((value, summary))
                if len(found) == limit:
                    break
            await pace.pause()
        return found

    async def take_due(self, max_texts: int, now: float) -> list[PendingText]:
        """Return the first due texts that cannot reuse the vector of an equal text. Raises Unavailable."""
        chosen: list[PendingText] = []
        pace = CooperativePause()
        for row_id, number in list(islice(chain(self._waiting.items(), self._iter_due(now)), max_texts)):
            if self._is_current(number):
                chosen.append(PendingText(row_id, number, self._texts.embedding_text(self._records.row(row_id))))
            elif self._get_missing_number(row_id) == number:
                self._drop(row_id)
            await pace.pause()
        return await self._copy_vectors(chosen)

    def _iter_due(self, now: float) -> Iterator[tuple[str, int]]:
        for row_id, rejection in self._rejected.items():
            if rejection.retry_at is not None and rejection.retry_at <= now:
                yield row_id, rejection.number

    async def _copy_vectors(self, waiting: Sequence[PendingText]) -> list[PendingText]:
        """Reuse the vectors of equal texts, and return the other texts, each once."""
        alike: list[tuple[PendingText, Matrix]] = []
        # An equal text of the same batch takes over the vector in the next one.
        unknown: dict[int, PendingText] = {}
        for item in waiting:
            vector = None if self.vectors is None else self.vectors.find_by_text(item.digest)
            if vector is None:
                unknown.setdefault(item.digest, item)
            else:
                alike.append((item, vector))
        if alike:
            await self.write_vectors([item for item, _ in alike], [vector for _, vector in alike])
        return list(unknown.values())

    def reject(self, text: PendingText, now: float) -> None:
        """Note that the embedder rejects a text: until it changes, it is tried again after pauses."""
        if self._get_missing_number(text.row_id) == text.number:
            before = self._rejected.get(text.row_id)
            self._drop(text.row_id)
            attempts = 1 if before is None else before.attempts + 1
            self._rejected[text.row_id] = make_rejection(text.number, attempts, self._texts.max_attempts, now)

    async def request_retry(self, row_id: str) -> None:
        """Make a rejected row pending again, in the leader process too. Raises Unavailable."""
        rejection = self._rejected.get(row_id)
        if rejection is not None:
            await asyncio.to_thread(self._files.request_retry, rejection.number)
            self._retry([rejection.number])

    def _retry(self, numbers: Sequence[int]) -> None:
        for row_id, rejection in list(self._rejected.items()):
            if rejection.number in numbers:
                del self._rejected[row_id]
                self._waiting[row_id] = rejection.number

    def _drop(self, row_id: str) -> None:
        """Remove a row from the pending and the rejected rows."""
        self._waiting.pop(row_id, None)
        self._rejected.pop(row_id, None)

    def _get_missing_number(self, row_id: str) -> int | None:
        rejection = self._rejected.get(row_id)
        return self._waiting.get(row_id) if rejection is None else rejection.number

    def defer(self, waiting: Sequence[PendingText]) -> None:
        """Move texts to the end of the queue."""
        for item in waiting:
            if self._waiting.get(item.row_id) == item.number:
                self._waiting[item.row_id] = self._waiting.pop(item.row_id)

    async def clean(self) -> None:
        """Note rejected texts, and rewrite a file that may contain erased or many old rows. Raises Unavailable."""
        async with self._writing:
            await self._reload()
            retries = self._files.list_retries()
            self._retry(retries)
            rejected = sorted(self._rejected.values(), key=lambda rejection: rejection.number)
            if rejected != self._read_rejected():
                await asyncio.to_thread(self._files.write_rejected, self._log.log_id, self._model, rejected)
            self._files.forget_retries(retries)
            erased_through_seq = self._files.erased_through_seq
            if self._metadata is not None:
                # Somebody may have deleted it, too.
                if erased_through_seq != self._log.last_erase_seq or self._is_stale():
                    await self._rewrite()
            elif erased_through_seq not in (None, self._log.last_erase_seq):
                # It was made by another model, or for another log: there is nothing in it to be saved.
                await asyncio.to_thread(self._files.remove)

    async def reload(self) -> None:
        """Load what the leader has written."""
        async with self._writing:
            await self._reload()
            self._set_rejected(self._read_rejected())
            self._retry(self._files.list_retries())

    async def write_all(self, embedded: Sequence[PendingText], vectors: Sequence[Vector]) -> None:
        """Replace all vectors. Raises Unavailable."""
        async with self._writing:
            current = [self._is_current(waiting.number) for waiting in embedded]
            await self._write_anew(_make_rows(embedded, vectors)[current], self._log.last_erase_seq)
            self._load_pending()

    async def write_vectors(
        self, embedded: Sequence[PendingText], vectors: Sequence[Vector] | Sequence[Matrix]
    ) -> None:
        """Write the vectors of the texts that are still current, durably. Raises Unavailable."""
        async with self._writing:
            last_erase_seq = self._log.last_erase_seq
            current = [
                self._get_missing_number(waiting.row_id) == waiting.number and self._is_current(waiting.number)
                for waiting in embedded
            ]
            rows = _make_rows(embedded, vectors)[current]
            if len(rows):
                await self._write(rows, last_erase_seq)

    async def _write(self, rows: Rows, last_erase_seq: int) -> None:
        metadata = self._metadata
        if metadata is None or self.vectors is None or self.vectors.dimensions != rows["vector"].shape[1]:
            # The first vectors of a model, or vectors of other dimensions: then the rows of the old ones wait again.
            has_others = self.vectors is not None
            await self._write_anew(rows, last_erase_seq)
            if has_others:
                self._load_pending()
            return
        seq = self._get_complete_seq(rows["number"].tolist())
        after = replace(metadata, seq=seq, checksum=self._log.checksum(seq))
        self._metadata = await asyncio.to_thread(self._files.append, rows, metadata, after)
        self._add(self.vectors, rows)

    async def _write_anew(self, rows: Rows, last_erase_seq: int) -> None:
        """Write a file of these rows alone. `last_erase_seq` is the newest erase before the rows were read."""
        self._dimensions = rows["vector"].shape[1]
        fresh = self._make_metadata(rows["number"].tolist(), self._dimensions, last_erase_seq)
        self._metadata = await asyncio.to_thread(self._files.write, rows, fresh)
        await self._replace(rows)

    async def _rewrite(self) -> None:
        # Read now: later erases may not be in the written file.
        last_erase_seq, kept = self._log.last_erase_seq, self.vectors
        if kept is not None:
            numbers = [summary.text_change for summary in self._records.summaries() if summary.text_change in kept]
            await self._write_anew(await asyncio.to_thread(kept.rows, numbers), last_erase_seq)

    def _make_metadata(self, numbers: Sequence[int], dimensions: int, last_erase_seq: int) -> VectorMetadata:
        seq = self._get_complete_seq(numbers)
        return VectorMetadata(
            log_id=self._log.log_id,
            seq=seq,
            checksum=self._log.checksum(seq),
            documents=0,
            build=self._files.new_build(),
            last_erase_seq=last_erase_seq,
            model=self._model,
            dimensions=dimensions,
        )

    def _get_complete_seq(self, written: Sequence[int]) -> int:
        """Return the last operation up to which everything is embedded once `written` is."""
        left = set(self._waiting.values()).difference(written)
        return seq_of_change(min(left)) - 1 if left else self._log.last_seq

    def _load(self, metadata: VectorMetadata | None) -> None:
        if metadata is None or not self._is_valid_metadata(metadata):
            return
        try:
            rows = self._files.read(metadata)
        except (ValueError, OSError):
            return
        self._metadata = metadata
        self.vectors = Vectors(metadata.dimensions)
        self._add(self.vectors, rows)

    async def _reload(self) -> None:
        metadata = self._files.read_metadata()
        if metadata is None or metadata == self._metadata or not self._is_valid_metadata(metadata):
            return
        known = self._metadata if self._metadata is not None and self._metadata.build == metadata.build else None
        try:
            rows = await asyncio.to_thread(self._files.read, metadata, known)
        except (ValueError, OSError):
            # It is being written anew, or is damaged: what is in memory goes on serving.
            return
        self._metadata = metadata
        if known is None or self.vectors is None:
            await self._replace(rows)
            self._load_pending()
        else:
            self._add(self.vectors, rows)

    def _is_valid_metadata(self, metadata: VectorMetadata) -> bool:
        return (
            metadata.model == self._model
            and self._dimensions in (None, metadata.dimensions)
            and metadata.fits(self._log)
        )

    def _read_rejected(self) -> list[Rejection]:
        return self._files.read_rejected(self._log.log_id, self._model)

    def _set_rejected(self, rejected: Sequence[Rejection]) -> None:
        by_number = {rejection.number: rejection for rejection in rejected}
        known = self._waiting | {row_id: rejection.number for row_id, rejection in self._rejected.items()}
        self._rejected = {row_id: by_number[number] for row_id, number in known.items() if number in by_number}
        self._waiting = {row_id: number for row_id, number in known.items() if number not in by_number}

    def _is_current(self, number: int) -> bool:
        summary = self._records.find_by_text_change(number)
        return summary is not None and summary.live

    def _is_stale(self) -> bool:
        if self._metadata is None or self._changes < _SPARED_ROWS:
            return False
        # Counting every record each second would be felt.
        self._changes = 0
        live = sum(1 for _ in self._records.summaries()) - len(self._waiting)
        return self._metadata.documents - live > max(_SPARED_ROWS, _WORTH_WRITING_ANEW * self._metadata.documents)

    async def _replace(self, rows: Rows) -> None:
        kept = Vectors(rows["vector"].shape[1])
        for start in range(0, len(rows), _TAKEN_PER_TURN):
            self._add(kept, rows[start : start + _TAKEN_PER_TURN])
            await asyncio.sleep(0)
        self.vectors = kept

    def _add(self, kept: Vectors, rows: Rows) -> None:
        summaries = [self._records.find_by_text_change(number) for number in rows["number"].tolist()]
        is_current = np.array([summary is not None for summary in summaries], bool)
        kept.add(rows[is_current], [summary.facets for summary in summaries if summary is not None])
        for summary in summaries:
            if summary is None:
                continue
            if self._get_missing_number(summary.id) == summary.text_change:
                self._drop(summary.id)

    def _load_pending(self) -> None:
        """Note every record that has no vector."""
        kept = self.vectors
        lacking = [summary for summary in self._records.summaries() if kept is None or summary.text_change not in kept]
        self._waiting = {
            summary.id: summary.text_change
            for summary in sorted(lacking, key=lambda summary: summary.text_change)
            if summary.id not in self._rejected or self._rejected[summary.id].number != summary.text_change
        }


def _make_rows(embedded: Sequence[PendingText], vectors: Sequence[Vector] | Sequence[Matrix]) -> Rows:
    rows = np.empty(len(embedded), make_row_type(len(vectors[0])))
    rows["number"] = [waiting.number for waiting in embedded]
    rows["digest"] = [waiting.digest for waiting in embedded]
    rows["vector"] = np.array(vectors, dtype=np.float32)
    return rows
