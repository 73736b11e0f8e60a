"""The vectors of one account: those on disk, in memory, and what of its records waits to be embedded.

What waits needs no file of its own: it is what the log holds and the file of vectors lacks.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final, Generic

import numpy as np

from knowhub.core.embedding import Vector
from knowhub.search.following import HeadT, LogMark, Records, Texts
from knowhub.search.vector_files import Embedded, VectorFiles
from knowhub.search.vectors import Matrix, Rows, Vectors, row_type

# A file is written anew when so much of it is of older texts, and at least so many rows.
_WORTH_WRITING_ANEW: Final = 0.33
_SPARED_ROWS: Final = 1_000
_READ_PER_TURN: Final = 64
_TAKEN_PER_TURN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A text that is to be embedded, and the change that wrote it."""

    row_id: str
    number: int
    text: str

    @property
    def digest(self) -> int:
        return int.from_bytes(blake2b(self.text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class AccountVectors(Generic[HeadT]):
    """Follows the log as the lexical index does. `model` names the embedder; vectors of another do not count."""

    def __init__(self, folder: Path, records: Records[HeadT], texts: Texts, log: LogMark, model: str) -> None:
        self._records = records
        self._texts = texts
        self._log = log
        self._model = model
        self._files = VectorFiles(folder)
        self._note: Embedded | None = None
        self.kept: Vectors | None = None
        self._waiting: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._dimensions: int | None = None
        self._changes = _SPARED_ROWS
        self._writing = asyncio.Lock()
        self._load(self._files.noted())
        self._take_stock()

    @property
    def lag(self) -> int:
        """How many records are to be embedded yet."""
        return len(self._waiting)

    @property
    def refused(self) -> Sequence[str]:
        """The records whose text the embedder does not take; they are found by their words."""
        return list(self._refused)

    @property
    def waiting(self) -> Mapping[str, int]:
        """The rows that are to be embedded yet, each with the number of its text, those first that have waited most."""
        return self._waiting

    def lacked(self, row_id: str) -> int | None:
        """Return the number of a row's text where it has no vector; None where it has one, or there is no such row."""
        return self._waiting.get(row_id, self._refused.get(row_id))

    @property
    def wants_links(self) -> bool:
        """Whether there are rows that the graph of neighbours should hold and does not."""
        return self.kept is not None and self.kept.wants_neighbours

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the file knows of; None where there is no file."""
        return self._files.noted_erases

    @property
    def is_empty(self) -> bool:
        """Whether the account has no record to be found by its meaning, now or later."""
        return not self._waiting and self.noted_erases is None

    def fits(self, query: Matrix) -> bool:
        """Tell whether a query can be compared with what is here."""
        return self.kept is None or self.kept.dimensions == len(query)

    def expect(self, dimensions: int) -> None:
        """Let everything be embedded again where what is here is of other dimensions: it is like no query any more."""
        if self.kept is None or self.kept.dimensions == dimensions:
            return
        self._dimensions = dimensions
        self._note = self.kept = None
        self._take_stock()

    def follow(self, row_id: str, seq: int) -> None:
        """Note that an operation may have changed what is searched of a record."""
        head = self._records.head(row_id)
        if head is None or self._records.seq_of(head.text_num) != seq:
            return
        self._changes += 1
        self.drop(row_id)
        if head.live:
            self._waiting[row_id] = head.text_num

    async def search(
        self, query: Matrix, groups: Sequence[frozenset[str]], accept: Callable[[HeadT], bool], limit: int
    ) -> list[tuple[float, HeadT]]:
        """Return the `limit` records that are most like a query of those that pass, always so many when they exist."""
        if self.kept is None or self.kept.dimensions != len(query):
            return []
        comparison = self.kept.comparison(query, groups)
        # In a thread: comparing with a hundred thousand takes ten milliseconds.
        likeness = await asyncio.to_thread(self.kept.likeness, comparison, 2 * limit)
        found: list[tuple[float, HeadT]] = []
        for count, (value, number) in enumerate(likeness.best_first(2 * limit), start=1):
            head = self._records.by_text_num(number)
            if head is not None and accept(head):
                found.append((value, head))
                if len(found) == limit:
                    break
            if count % 1000 == 0:
                await asyncio.sleep(0)
        return found

    def compared(self, query: Matrix, heads: Sequence[HeadT]) -> dict[int, float]:
        """Return how like a query some records are, by the number of their text; what has no vector is left out."""
        if self.kept is None or self.kept.dimensions != len(query):
            return {}
        return self.kept.compared(query, [head.text_num for head in heads])

    async def next_waiting(self, most: int) -> list[Waiting]:
        """Return the first that wait, and take at once what has the text of something that is embedded already."""
        chosen: list[Waiting] = []
        for count, (row_id, number) in enumerate(list(islice(self._waiting.items(), most)), start=1):
            if not self._is_current(number):
                self._waiting.pop(row_id, None)
                continue
            chosen.append(Waiting(row_id, number, self._texts.embedded(self._records.row(row_id))))
            if count % _READ_PER_TURN == 0:
                await asyncio.sleep(0)
        return await self.take_alike(chosen)

    async def take_alike(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Take what has the text of something that is embedded already; return the others. Raises Unavailable."""
        known = [None if self.kept is None else self.kept.of_text(one.digest) for one in waiting]
        alike = [(one, vector) for one, vector in zip(waiting, known, strict=True) if vector is not None]
        if alike:
            await self._take([one for one, _ in alike], np.array([vector for _, vector in alike]))
        return [one for one, vector in zip(waiting, known, strict=True) if vector is None]

    async def take(self, embedded: Sequence[Waiting], vectors: Sequence[Vector]) -> bool:
        """Write vectors, durable before they count; False while that must wait. Raises Unavailable."""
        return await self._take(embedded, np.array(vectors, dtype=np.float32))

    def refuse(self, waiting: Waiting) -> None:
        """Let a record be found by its words alone, until its text changes or the server starts again."""
        if self._waiting.get(waiting.row_id) == waiting.number:
            del self._waiting[waiting.row_id]
            self._refused[waiting.row_id] = waiting.number

    def drop(self, row_id: str) -> None:
        """Let nothing wait for a row."""
        self._waiting.pop(row_id, None)
        self._refused.pop(row_id, None)

    def retry_refused(self, row_id: str | None = None) -> None:
        """Let what was refused be asked about once more: one row, or all."""
        for name in list(self._refused) if row_id is None else [row_id]:
            if name in self._refused:
                self._waiting[name] = self._refused.pop(name)

    def defer(self, waiting: Sequence[Waiting]) -> None:
        """Let others go first the next time."""
        for one in waiting:
            if self._waiting.get(one.row_id) == one.number:
                self._waiting[one.row_id] = self._waiting.pop(one.row_id)

    async def tidy(self) -> None:
        """Write the file anew where it may hold what was erased, or much that is outdated. Raises Unavailable."""
        async with self._writing:
            if self._log.is_erasing:
                return
            await self._reload()
            refused = frozenset(self._refused.values())
            if refused != self._noted_refused():
                await asyncio.to_thread(self._files.write_refused, self._log.log_id, self._model, refused)
            noted = self._files.noted_erases
            if self._note is not None:
                # Somebody may have deleted it, too.
                if noted != self._log.erases or self._is_mostly_old():
                    await self._write_anew()
            elif noted not in (None, self._log.erases):
                # It was made by another model, or for another log: there is nothing in it to be saved.
                await asyncio.to_thread(self._files.remove)

    async def reload(self) -> None:
        """Take in what the keeper has written since."""
        async with self._writing:
            await self._reload()
            self._take_refused(self._noted_refused())

    async def write_all(self, embedded: Sequence[Waiting], vectors: Sequence[Vector]) -> None:
        """Put these vectors in the place of all that stand. Raises Unavailable."""
        async with self._writing:
            erases, numbers = self._log.erases, [one.number for one in embedded]
            rows = _rows(embedded, np.array(vectors, dtype=np.float32))
            rows = rows[[self._is_current(number) for number in numbers]]
            self._dimensions = rows["vector"].shape[1]
            fresh = self._fresh_note(numbers, self._dimensions, erases)
            self._note = await asyncio.to_thread(self._files.write, rows, fresh)
            await self._replace(rows)
            self._take_stock()

    async def _take(self, embedded: Sequence[Waiting], vectors: Matrix) -> bool:
        async with self._writing:
            if self._log.is_erasing:
                return False
            erases = self._log.erases
            current = [self._waiting.get(one.row_id) == one.number and self._is_current(one.number) for one in embedded]
            rows = _rows(embedded, vectors)[current]
            if len(rows):
                await self._write(rows, erases)
            return True

    async def _write(self, rows: Rows, erases: int) -> None:
        dimensions = rows["vector"].shape[1]
        note, numbers = self._note, rows["number"].tolist()
        if note is None or self.kept is None or self.kept.dimensions != dimensions:
            # The first of a model, or one that has changed its mind about its dimensions.
            fresh = self._fresh_note(numbers, dimensions, erases)
            self._note = await asyncio.to_thread(self._files.write, rows, fresh)
            self._dimensions = dimensions
            has_others = self.kept is not None
            self.kept = Vectors(dimensions)
            self._add(self.kept, rows)
            if has_others:
                self._take_stock()
            return
        seq = self._reaches(numbers)
        after = replace(note, seq=seq, checksum=self._log.checksum(seq))
        self._note = await asyncio.to_thread(self._files.append, rows, note, after)
        self._add(self.kept, rows)

    async def _write_anew(self) -> None:
        # Of this moment, as are the heads: what is erased from here on may stand in what is written.
        erases, kept = self._log.erases, self.kept
        if kept is None:
            return
        numbers = [head.text_num for head in self._records.heads() if head.text_num in kept]
        fresh = self._fresh_note(numbers, kept.dimensions, erases)
        rows = await asyncio.to_thread(kept.rows, numbers)
        self._note = await asyncio.to_thread(self._files.write, rows, fresh)
        await self._replace(rows)

    def _fresh_note(self, numbers: Sequence[int], dimensions: int, erases: int) -> Embedded:
        seq = self._reaches(numbers)
        return Embedded(
            log_id=self._log.log_id,
            seq=seq,
            checksum=self._log.checksum(seq),
            documents=0,
            build=self._files.new_build(),
            erases=erases,
            model=self._model,
            dimensions=dimensions,
        )

    def _reaches(self, written: Sequence[int]) -> int:
        """Return up to which operation everything is embedded once `written` is."""
        left = set(self._waiting.values()).difference(written)
        return self._records.seq_of(min(left)) - 1 if left else self._log.last_seq

    def _load(self, note: Embedded | None) -> None:
        if note is None or not self._fits(note):
            return
        try:
            rows = self._files.read(note)
        except (ValueError, OSError):
            return
        self._note = note
        self.kept = Vectors(note.dimensions)
        self._add(self.kept, rows)

    async def _reload(self) -> None:
        note = self._files.noted()
        if note is None or note == self._note or not self._fits(note):
            return
        known = self._note if self._note is not None and self._note.build == note.build else None
        try:
            rows = await asyncio.to_thread(self._files.read, note, known)
        except (ValueError, OSError):
            # It is being written anew, or is damaged: what is in memory goes on serving.
            return
        self._note = note
        if known is None or self.kept is None:
            await self._replace(rows)
            self._take_stock()
        else:
            self._add(self.kept, rows)

    def _fits(self, note: Embedded) -> bool:
        return (
            note.model == self._model
            and self._dimensions in (None, note.dimensions)
            and note.log_id == self._log.log_id
            and note.seq <= self._log.last_seq
            and note.checksum == self._log.checksum(note.seq)
        )

    def _noted_refused(self) -> frozenset[int]:
        return self._files.refused(self._log.log_id, self._model)

    def _take_refused(self, numbers: frozenset[int]) -> None:
        known = self._waiting | self._refused
        self._refused = {row_id: number for row_id, number in known.items() if number in numbers}
        self._waiting = {row_id: number for row_id, number in known.items() if number not in numbers}

    def _is_current(self, number: int) -> bool:
        head = self._records.by_text_num(number)
        return head is not None and head.live

    def _is_mostly_old(self) -> bool:
        if self._note is None or self._changes < _SPARED_ROWS:
            return False
        # Counting every record each second would be felt.
        self._changes = 0
        live = sum(1 for _ in self._records.heads()) - len(self._waiting)
        return self._note.documents - live > max(_SPARED_ROWS, _WORTH_WRITING_ANEW * self._note.documents)

    async def _replace(self, rows: Rows) -> None:
        kept = Vectors(rows["vector"].shape[1])
        for start in range(0, len(rows), _TAKEN_PER_TURN):
            self._add(kept, rows[start : start + _TAKEN_PER_TURN])
            await asyncio.sleep(0)
        self.kept = kept

    def _add(self, kept: Vectors, rows: Rows) -> None:
        heads = [self._records.by_text_num(number) for number in rows["number"].tolist()]
        is_current = np.array([head is not None for head in heads], bool)
        kept.add(rows[is_current], [head.facets for head in heads if head is not None])
        for head in heads:
            if head is None:
                continue
            for lacking in (self._waiting, self._refused):
                if lacking.get(head.id) == head.text_num:
                    del lacking[head.id]

    def _take_stock(self) -> None:
        """Note every record that has no vector."""
        kept = self.kept
        lacking = [head for head in self._records.heads() if kept is None or head.text_num not in kept]
        self._waiting = {
            head.id: head.text_num
            for head in sorted(lacking, key=lambda head: head.text_num)
            if self._refused.get(head.id) != head.text_num
        }


def _rows(embedded: Sequence[Waiting], vectors: Matrix) -> Rows:
    rows = np.empty(len(embedded), row_type(vectors.shape[1]))
    rows["number"] = [one.number for one in embedded]
    rows["digest"] = [one.digest for one in embedded]
    rows["vector"] = vectors
    return rows
