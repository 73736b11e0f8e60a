"""Lexical search: the index on disk, and a tail in memory of records that are not indexed yet."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic

from knowhub.core.clock import CooperativePause, TimeLimit
from knowhub.core.projection import LogMark
from knowhub.core.recall import LEXICAL, SearchHit, SearchHits, StageScore
from knowhub.engine.account import Account, SearchableRows, seq_of_change
from knowhub.search.analysis import count_words, index_terms, query_terms, weight_terms
from knowhub.search.full_text import FullText, IndexMetadata
from knowhub.search.index_files import AccountIndexBase, AccountIndexRegistry
from knowhub.search.tail import Document, QueryTerm, Statistics, Tail, get_score_limits, join_terms
from knowhub.search.texts import SearchableT, Texts

INDEX: Final = "index"
"""Names what is missing, where a search left out rows that are not in the index on disk yet."""
_INDEX_TURN_S: Final = 0.05
_REPORTED_EVERY: Final = 64
# Characters; a few milliseconds of work.
_ANALYSED_HERE: Final = 16_384
_SPARE_HITS: Final = 8
_INDEXED_AT_ONCE: Final = 4_000


class AccountLexicalIndex(AccountIndexBase[SearchableT, FullText]):
    """The lexical index of one account, with statistics of its own: nothing is revealed about other accounts."""

    def __init__(
        self,
        folder: Path,
        records: SearchableRows[SearchableT],
        texts: Texts,
        log: LogMark,
    ) -> None:
        super().__init__(FullText(folder), records, texts, log)
        self._tail = Tail()
        self._files.load(self._is_valid)
        # The numbers of the texts that are neither in the index on disk nor in the tail, oldest first.
        self._unread = deque(records.numbers_after(self._files.built.seq if self._files.built else 0))
        self._gone: dict[str, int] = {}
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()

    @property
    def lag(self) -> int:
        """The number of rows that are not in the index on disk."""
        return len(self._tail) + len(self._unread)

    def _note_change(self, summary: SearchableT) -> None:
        if summary.live:
            self._gone.pop(summary.id, None)
            self._unread.append(summary.text_change)
        else:
            self._gone[summary.id] = seq_of_change(summary.text_change)

    async def search(
        self, text: str, groups: Sequence[frozenset[str]], accept: Callable[[SearchableT], bool], limit: int
    ) -> SearchHits[SearchableT]:
        """Return the `limit` best hits of index and tail together; see `SearchIndex.search`.

        Rows that are not looked through when `Texts.search_wait_s` are over are left out, and `degraded` says so.
        """
        query = weight_terms(text)
        lag = self.lag
        if not query:
            return SearchHits((), lag)
        time_limit = TimeLimit(self._texts.search_wait_s)
        async with self._reading:
            await self._fill_tail(time_limit)
            counts, is_complete = await self._tail.count([term for term, _ in query], CooperativePause(), time_limit)
        degraded = () if is_complete and not self._unread else (INDEX,)
        passed: dict[int, SearchableT] = {}

        def passes(number: int) -> bool:
            summary = self._records.find_by_text_change(number)
            if summary is None:
                return False
            for group in groups:  # a generator would cost more than what it asks
                if group.isdisjoint(summary.facets):
                    return False
            if not accept(summary):
                return False
            passed[number] = summary
            return True

        terms = self._make_terms(query, counts)
        # The tail is scored with the index's own figures, so that the two lists can be merged.
        statistics = self._files.statistics if self._files.built else Statistics(len(self._tail), self._tail.terms)
        found = self._tail.search(terms, counts, statistics, groups, passes, limit) if self._tail else []
        on_disk = 0
        for score, number in self._files.search(query, groups, limit + _SPARE_HITS):
            # The index may hold more than its metadata says: what the tail still has too is found there.
            if number not in self._tail and passes(number):
                found.append((score, number))
                on_disk += 1
                if on_disk == limit:
                    break
        found.sort(key=lambda hit: (-hit[0], -hit[1]))
        hits = [
            SearchHit(passed[number], score, (StageScore(LEXICAL, rank, score),))
            for rank, (score, number) in enumerate(found[:limit], start=1)
        ]
        return SearchHits(hits, lag, degraded, *get_score_limits(terms, statistics.documents))

    async def index_pending(self, max_documents: int) -> int:
        """Move up to `max_documents` documents from the tail into the index on disk; return how many moved.

        If the index was deleted, or may hold erased texts, it is rebuilt instead: a deletion leaves texts in its files.
        Raises Unavailable.
        """
        async with self._writing:
            self.reload()
            if self._files.is_deleted or self._files.erased_through_seq not in (None, self._log.last_erase_seq):
                return await self._rebuild(lambda _done, _total: None)
            while self._unread and len(self._tail) < max_documents:
                # A search that waits for its turn has it between two rows.
                async with self._reading:
                    await self._fill_tail(TimeLimit(_INDEX_TURN_S))
            indexed = await self._index_pending(max_documents)
            async with self._reading:
                await self._tail.drop_removed(CooperativePause())
            return indexed

    async def _index_pending(self, max_documents: int) -> int:
        taken = self._tail.documents()[:max_documents]
        gone = dict(self._gone)
        if not taken and not gone:
            return 0
        documents = [item for item in taken if self._records.find_by_text_change(item.number) is not None]
        # Whatever the tail still holds begins behind the last document that goes: so far the index will be built.
        whole = len(taken) == len(self._tail) and not self._unread
        seq = self._log.last_seq if whole else seq_of_change(taken[-1].number) - 1
        built = self._make_metadata(seq, self._files.statistics, documents)
        await self._files.index_pending(documents, gone, built)
        self.reload()
        if self._files.built != built:
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
        # Read now: later erases may not be in the new index.
        seq, last_erase_seq = self._log.last_seq, self._log.last_erase_seq
        summaries = list(self._records.summaries())
        documents: list[Document] = []
        pace = CooperativePause()
        for count, summary in enumerate(summaries, start=1):
            documents.append(await self._analyze(summary))
            if count % _REPORTED_EVERY == 0:
                progress(count, len(summaries))
            await pace.pause()
        built = replace(
            self._make_metadata(seq, Statistics(0, 0), documents, new_build=True), last_erase_seq=last_erase_seq
        )
        await self._files.rebuild(documents, built)
        self.reload()
        progress(len(summaries), len(summaries))
        return len(summaries)

    def reload(self) -> None:
        """Take in what the leader has committed since."""
        if not self._files.load(self._is_valid) or self._files.built is None:
            return
        seq = self._files.built.seq
        absorbed = [document.number for document in self._tail.documents() if seq_of_change(document.number) <= seq]
        self._tail.remove(absorbed)
        while self._unread and seq_of_change(self._unread[0]) <= seq:
            self._unread.popleft()
        self._gone = {row_id: gone for row_id, gone in self._gone.items() if gone > seq}

    def _is_valid(self, built: IndexMetadata) -> bool:
        return built.fits(self._log)

    async def _fill_tail(self, limit: TimeLimit) -> None:
        """Analyse the rows that wait into the tail, until the time limit.

        It pauses often: a burst of writes must not stall the loop.
        """
        pace = CooperativePause()
        while self._unread and not limit.is_over:
            number = self._unread[0]
            summary = self._records.find_by_text_change(number)
            if summary is not None and summary.live and number not in self._tail:
                document = await self._analyze(summary)
                if self._records.find_by_text_change(number) is not None:
                    self._tail.add(document)
            # What was reloaded meanwhile may have taken it away already.
            if self._unread and self._unread[0] == number:
                self._unread.popleft()
            await pace.pause()

    async def _analyze(self, summary: SearchableT) -> Document:
        """Return the document of a row; a long text is analysed in a thread."""
        row = self._records.row(summary.id)
        if sum(len(value) for value in row.values() if isinstance(value, str)) > _ANALYSED_HERE:
            terms, count = await asyncio.to_thread(lambda: join_terms(self._texts.terms(row)))
        else:
            terms, count = join_terms(self._texts.terms(row))
        return Document(summary.text_change, summary.id, terms, count, summary.facets, replaces=summary.is_rewritten)

    def _make_terms(
        self, query: Sequence[tuple[str, float]], counts: Mapping[str, Mapping[int, int]]
    ) -> list[QueryTerm]:
        terms = []
        for term, weight in query:
            pending = len(counts[term])
            indexed = self._files.document_frequency(term) if self._files.built else pending
            terms.append(QueryTerm(term, weight, indexed, count_words(term), pending))
        return terms

    def _make_metadata(
        self, seq: int, before: Statistics, documents: Sequence[Document], *, new_build: bool = False
    ) -> IndexMetadata:
        build = self._files.new_build() if new_build or not self._files.built else self._files.built.build
        return IndexMetadata(
            log_id=self._log.log_id,
            seq=seq,
            checksum=self._log.checksum(seq),
            documents=before.documents + len(documents),
            terms=before.terms + sum(document.term_count for document in documents),
            build=build,
            last_erase_seq=self._files.built.last_erase_seq if self._files.built else self._log.last_erase_seq,
        )


class LexicalIndex(AccountIndexRegistry[AccountLexicalIndex[SearchableT]], Generic[SearchableT]):
    """The lexical indexes of all accounts over one family of rows, following the log."""

    def __init__(self, folder: Path, log: LogMark, get_account: Callable[[str], Account], texts: Texts) -> None:
        super().__init__(folder, log, get_account, texts)
        self._wake_lag = _INDEXED_AT_ONCE
        self._wake: Callable[[], None] | None = None

    def wake_at(self, lag: int, wake: Callable[[], None]) -> None:
        """Have `wake` called whenever so many records wait to be indexed. So many are indexed at once."""
        self._wake_lag, self._wake = lag, wake

    async def catch_up(self) -> None:
        """Index all that waits now, some at a time. Raises Unavailable.

        What is written meanwhile waits for the next call, unless it is as much again: a commit of few rows costs nearly
        as much as one of many.
        """
        while await self.index_pending(self._wake_lag) >= self._wake_lag:
            continue

    def follow(self, account: str, seq: int, changes: Sequence[Any]) -> None:
        """Note the rows that an operation touched. Called by the store, in order."""
        super().follow(account, seq, changes)
        if self._wake is not None and account in self._accounts and self._accounts[account].lag >= self._wake_lag:
            self._wake()

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[SearchableT], bool],
        limit: int,
    ) -> SearchHits[SearchableT]:
        return await self.account(account).search(text, groups, accept, limit)

    def list_matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that occur in `fields`."""
        known_terms = {term for field in fields for term in index_terms(field)}
        return [term for term in query_terms(text) if term in known_terms]

    async def index_pending(self, max_documents: int) -> int:
        return sum([await index.index_pending(max_documents) for index in self._list()])

    async def rebuild(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the index of one account anew, or of all; return how many rows they hold."""
        return sum([await index.rebuild(progress) for index in self._list(account)])

    def reload(self) -> None:
        for index in self._accounts.values():
            index.reload()

    def _open(self, account: str, folder: Path) -> AccountLexicalIndex[SearchableT]:
        rows = SearchableRows[SearchableT](self._get_account(account), self._texts.indexes)
        return AccountLexicalIndex(folder, rows, self._texts, self._log)
