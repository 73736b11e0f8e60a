"""Recall over words: the index on disk, and beside it the tail that it has not absorbed."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Generic

from knowhub.core.operation import Row
from knowhub.core.recall import Hit, Recalled
from knowhub.search.analysis import index_terms, query_terms, weighted_query
from knowhub.search.bm25 import Statistics, WeighedTerm
from knowhub.search.following import HeadT, LogMark, Records, Texts, touches
from knowhub.search.full_text import Built, FullText
from knowhub.search.tail import Document, Tail

_ANALYSED_PER_TURN: Final = 64
_SPARE_HITS: Final = 8


class AccountIndex(Generic[HeadT]):
    """The lexical index of one account, whose statistics are its own: nothing of it tells of another."""

    def __init__(self, folder: Path, records: Records[HeadT], texts: Texts, log: LogMark) -> None:
        self._records = records
        self._texts = texts
        self._log = log
        self._disk = FullText(folder)
        self._tail = Tail()
        self._unread: deque[tuple[str, int, Row | None]] = deque()
        self._gone: dict[str, int] = {}
        self._writing = asyncio.Lock()
        self._take_stock()

    @property
    def lag(self) -> int:
        """How many rows the index on disk has not absorbed."""
        return len(self._tail) + len(self._unread)

    @property
    def is_empty(self) -> bool:
        """Whether the account has no row to be found, in the index or behind it."""
        return not self.lag and self._disk.noted_erases is None

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the index on disk knows of; None where there is no index."""
        return self._disk.noted_erases

    def follow(self, row_id: str, seq: int, row: Row) -> None:
        """Note that an operation may have changed what is searched of a row."""
        head = self._records.head(row_id)
        if head is None or self._records.seq_of(head.text_num) != seq:
            return
        if head.live:
            self._gone.pop(row_id, None)
            self._unread.append((row_id, head.text_num, row))
        else:
            self._gone[row_id] = seq

    async def search(
        self, text: str, groups: Sequence[frozenset[str]], accept: Callable[[HeadT], bool], limit: int
    ) -> Recalled[HeadT]:
        """Return the `limit` best hits of index and tail together; see `KnowledgeIndex.search`."""
        query = weighted_query(text)
        lag = self.lag
        if not query:
            return Recalled((), lag)
        await self._read_unread()
        passed: dict[int, HeadT] = {}

        def passes(number: int) -> bool:
            head = self._records.by_text_num(number)
            if head is None:
                return False
            for group in groups:  # a generator would cost more than what it asks
                if group.isdisjoint(head.facets):
                    return False
            if not accept(head):
                return False
            passed[number] = head
            return True

        found = self._tail.search(self._weighed(query), self._statistics(), groups, passes, limit) if self._tail else []
        on_disk = 0
        for score, number in self._disk.search(query, groups, limit + _SPARE_HITS):
            # The index may hold more than its note says: what the tail still has too is found there.
            if number not in self._tail and passes(number):
                found.append((score, number))
                on_disk += 1
                if on_disk == limit:
                    break
        found.sort(key=lambda hit: (-hit[0], -hit[1]))
        return Recalled([Hit(passed[number], score) for score, number in found[:limit]], lag)

    async def absorb(self, most: int) -> int:
        """Move up to `most` documents from the tail into the index on disk; return how many moved.

        An index that somebody has deleted is built anew instead, and one that may hold what was erased since: what is
        deleted from it stays in its files. Raises Unavailable.
        """
        async with self._writing:
            if self._log.is_erasing:
                return 0
            self.reload()
            if self._disk.is_gone or self._disk.noted_erases not in (None, self._log.erases):
                return await self._rebuild(lambda _done, _total: None)
            await self._read_unread()
            return await self._absorb(most)

    async def _absorb(self, most: int) -> int:
        taken = self._tail.documents()[:most]
        gone = dict(self._gone)
        if not taken and not gone:
            return 0
        documents = [one for one in taken if self._records.by_text_num(one.number) is not None]
        # Whatever the tail still holds begins behind the last document that goes: so far the index will be built.
        whole = len(taken) == len(self._tail)
        seq = self._log.last_seq if whole else self._records.seq_of(taken[-1].number) - 1
        built = self._note(seq, self._disk.statistics, documents)
        await self._disk.absorb(documents, gone, built)
        self.reload()
        if self._disk.built != built:
            # Another process has built anew meanwhile: what its index lacks stays in the tail.
            return 0
        self._tail.remove([document.number for document in taken])
        for row_id, gone_seq in gone.items():
            if self._gone.get(row_id) == gone_seq:
                del self._gone[row_id]
        return len(taken)

    async def rebuild(self, progress: Callable[[int, int], None]) -> int:
        """Build the index anew from the rows, beside the one in use; return how many it holds."""
        async with self._writing:
            return await self._rebuild(progress)

    async def _rebuild(self, progress: Callable[[int, int], None]) -> int:
        # Of this moment, as are the heads: what is erased from here on may stand in what is built.
        seq, erases = self._log.last_seq, self._log.erases
        heads = list(self._records.heads())
        documents: list[Document] = []
        for count, head in enumerate(heads, start=1):
            documents.append(self._document(head))
            if count % _ANALYSED_PER_TURN == 0:
                progress(count, len(heads))
                await asyncio.sleep(0)
        built = replace(self._note(seq, Statistics(0, 0), documents, new_build=True), erases=erases)
        await self._disk.rebuild(documents, built)
        self.reload()
        progress(len(heads), len(heads))
        return len(heads)

    def reload(self) -> None:
        """Take in what the keeper has committed since."""
        if self._disk.load(self._fits):
            self._forget_absorbed()

    def _take_stock(self) -> None:
        """Use the index on disk where it fits the log, and note all that it lacks."""
        self._disk.load(self._fits)
        seq = self._disk.built.seq if self._disk.built else 0
        lacking = [head for head in self._records.heads() if self._records.seq_of(head.text_num) > seq]
        self._unread.extend((head.id, head.text_num, None) for head in sorted(lacking, key=lambda head: head.text_num))

    def _fits(self, built: Built) -> bool:
        return (
            built.log_id == self._log.log_id
            and built.seq <= self._log.last_seq
            and built.checksum == self._log.checksum(built.seq)
        )

    def _forget_absorbed(self) -> None:
        seq = self._disk.built.seq if self._disk.built else 0
        absorbed = [one.number for one in self._tail.documents() if self._records.seq_of(one.number) <= seq]
        self._tail.remove(absorbed)
        self._unread = deque(one for one in self._unread if self._records.seq_of(one[1]) > seq)
        self._gone = {row_id: gone for row_id, gone in self._gone.items() if gone > seq}

    async def _read_unread(self) -> None:
        """Analyse what was written since, a little at a time: a burst of writes must not stall the loop."""
        count = 0
        while self._unread:
            row_id, number, row = self._unread.popleft()
            head = self._records.head(row_id)
            if head is not None and head.live and head.text_num == number and number not in self._tail:
                self._tail.add(self._document(head, row))
            count += 1
            if count % _ANALYSED_PER_TURN == 0:
                await asyncio.sleep(0)

    def _document(self, head: HeadT, row: Row | None = None) -> Document:
        terms = self._texts.terms(self._records.row(head.id) if row is None else row)
        return Document(head.text_num, head.id, terms, head.facets, replaces=head.version > 1)

    def _weighed(self, query: Sequence[tuple[str, float]]) -> list[WeighedTerm]:
        frequency = self._disk.document_frequency if self._disk.built else self._tail.document_frequency
        return [WeighedTerm(term, weight, frequency(term)) for term, weight in query]

    def _statistics(self) -> Statistics:
        # The tail is scored with the index's own figures, so that the two lists can be merged.
        return self._disk.statistics if self._disk.built else Statistics(len(self._tail), self._tail.terms)

    def _note(self, seq: int, before: Statistics, documents: Sequence[Document], *, new_build: bool = False) -> Built:
        build = self._disk.new_build() if new_build or not self._disk.built else self._disk.built.build
        return Built(
            log_id=self._log.log_id,
            seq=seq,
            checksum=self._log.checksum(seq),
            documents=before.documents + len(documents),
            terms=before.terms + sum(len(document.terms) for document in documents),
            build=build,
            erases=self._disk.built.erases if self._disk.built else self._log.erases,
        )


class LexicalIndex(Generic[HeadT]):
    """The lexical indexes of all accounts over one family of rows, following the log."""

    def __init__(self, folder: Path, log: LogMark, records: Callable[[str], Records[HeadT]], texts: Texts) -> None:
        self._folder = folder
        self._log = log
        self._records = records
        self._texts = texts
        self._accounts: dict[str, AccountIndex[HeadT]] = {}
        self._wake_lag = 0
        self._wake: Callable[[], None] | None = None

    def wake_at(self, lag: int, wake: Callable[[], None]) -> None:
        """Have `wake` called whenever so many records wait to be absorbed."""
        self._wake_lag, self._wake = lag, wake

    @property
    def lag(self) -> int:
        return sum(index.lag for index in self._accounts.values())

    def follow(self, account: str, seq: int, changes: Sequence[Any]) -> None:
        """Note the rows that an operation touched. Called by the store, in order."""
        collections = self._texts.collections
        if account not in self._accounts:
            # Opening an index takes stock of all that it lacks, this operation too.
            if touches(changes, collections):
                self.account(account)
            return
        index = self._accounts[account]
        for change in changes:
            if change.collection in collections:
                index.follow(change.id, seq, change.after_row)
        if self._wake is not None and index.lag >= self._wake_lag:
            self._wake()

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[HeadT], bool],
        limit: int,
    ) -> Recalled[HeadT]:
        return await self.account(account).search(text, groups, accept, limit)

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that stand in any of `fields`."""
        standing = {term for field in fields for term in index_terms(field)}
        return [term for term in query_terms(text) if term in standing]

    async def absorb(self, most: int) -> int:
        return sum([await index.absorb(most) for index in list(self._accounts.values())])

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the index of one account anew, or of all; return how many rows they hold."""
        indexes = list(self._accounts.values()) if account is None else [self.account(account)]
        return sum([await index.rebuild(progress) for index in indexes])

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that every index on disk knows of; None where there is none."""
        noted = [index.noted_erases for index in self._accounts.values()]
        return min((erases for erases in noted if erases is not None), default=None)

    def reload(self) -> None:
        for index in self._accounts.values():
            index.reload()

    def account(self, account: str) -> AccountIndex[HeadT]:
        """Return an account's index, opened on first use. One with nothing in it is not remembered."""
        index = self._accounts.get(account)
        if index is None:
            # A name may hold any character: its hash names the folder.
            name = blake2b(account.encode(), digest_size=12).hexdigest()
            index = AccountIndex(self._folder / name, self._records(account), self._texts, self._log)
            if not index.is_empty:
                self._accounts[account] = index
        return index
