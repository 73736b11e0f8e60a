"""The full-text index on disk: a derived thing that says up to which line of the log it is built."""

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson
import tantivy

from knowhub.core.errors import StorageFull, Unavailable
from knowhub.search.bm25 import Statistics
from knowhub.search.index_files import are_whole
from knowhub.search.tail import Document

# Raised when the analyzer or the schema changes: what was built before is then built again.
LAYOUT: Final = 1

_HEAP_BYTES: Final = 15_000_000
_ADDED_PER_TURN: Final = 128
_TERMS, _FACETS, _ID, _NUMBER = "terms", "facets", "id", "number"
# A filter that most documents pass costs more than it saves: those few are dropped one by one.
_WORTH_FILTERING: Final = 0.5


@dataclass(frozen=True, slots=True)
class Built:
    """What an index stands on: the log, the line that it has absorbed last, and the newest erasing that it knows of."""

    log_id: str
    seq: int
    checksum: str
    documents: int
    terms: int
    build: int
    layout: int = LAYOUT
    erases: int = 0


class FullText:
    """One account's index. Any process may search it; the keeper of the directory writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: tantivy.Index | None = None
        self._searcher: tantivy.Searcher | None = None
        self.built: Built | None = None
        # What a process wrote that died before its note is unknown: until our own first note, anything may stand there.
        self._has_written = False

    def load(self, fits: Callable[[Built], bool]) -> bool:
        """Open what is on disk, or what the keeper has written since; False when there is nothing that `fits`."""
        built = self._noted()
        if built is None or not fits(built):
            return False
        if built == self.built:
            return True
        # The note is read before the index: the index may hold more than it says, never less.
        try:
            index = self._index if self.built and self.built.build == built.build else None
            index = index or _open(self._build_folder(built.build))
            index.reload()
            searcher = index.searcher()
        except (ValueError, OSError):
            return False
        self._index, self._searcher, self.built = index, searcher, built
        return True

    def new_build(self) -> int:
        """Return a number that no index in this folder bears, fitting or not."""
        noted = self._noted()
        standing = [_build_of(folder) for folder in self._folder.glob("build-*")]
        # The one in use too, which may be gone from the disk: a new one of its number would be taken for it.
        return max([0, *standing, *(built.build for built in (noted, self.built) if built)]) + 1

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that what stands on the disk knows of; None where nothing stands there."""
        noted = self._noted()
        if noted is not None:
            return noted.erases
        # Without a note nobody can tell what an index may hold.
        return -1 if next(self._folder.glob("build-*"), None) is not None else None

    @property
    def is_gone(self) -> bool:
        """Whether the index that is open here is no longer on the disk: it can be searched, and not be written."""
        if self.built is None:
            return False
        noted = self._noted()
        return noted is None or not (self._build_folder(noted.build) / "meta.json").exists()

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.built.documents, self.built.terms) if self.built else Statistics(0, 0)

    def document_frequency(self, term: str) -> int:
        return self._searcher.doc_freq(_TERMS, term) if self._searcher else 0

    def search(
        self, terms: Sequence[tuple[str, float]], groups: Sequence[frozenset[str]], limit: int
    ) -> Iterator[tuple[float, int]]:
        """Yield (score, number) best first, on and on until nothing is left; stale documents too."""
        if self._searcher is None or self._index is None:
            return
        query = self._query(self._index.schema, self._searcher, terms, groups)
        seen: set[int] = set()
        while True:
            hits = self._searcher.search(query, limit, count=False).hits
            numbers = self._searcher.fast_field_values(_NUMBER, [address for _, address in hits])
            for (score, _), number in zip(hits, numbers, strict=True):
                if number not in seen:
                    seen.add(int(number or 0))
                    yield score, int(number or 0)
            if len(hits) < limit:
                return
            limit *= 4

    async def absorb(self, documents: Iterable[Document], gone: Iterable[str], built: Built) -> None:
        """Write documents and removals, durable before the note says so.

        Doing it twice does no harm: a document replaces what its record had. Raises StorageFull, Unavailable.
        """
        if self._index is None:
            await self.rebuild(documents, built)
            return
        with self._named_failure():
            writer = self._index.writer(_HEAP_BYTES, 1)
            for row_id in gone:
                writer.delete_documents_by_term(_ID, row_id)
            await self._add(writer, documents)
            await asyncio.to_thread(_commit, writer)
            self._note(built)
        self._has_written = True

    async def rebuild(self, documents: Iterable[Document], built: Built) -> None:
        """Build a new index beside the one in use; the note makes it the one. Raises StorageFull, Unavailable."""
        folder = self._build_folder(built.build)
        with self._named_failure():
            writer = _create(folder).writer(_HEAP_BYTES, 1)
            await self._add(writer, documents)
            await asyncio.to_thread(_commit, writer)
            self._note(built)
        for other in self._folder.glob("build-*"):
            if _build_of(other) < built.build:
                await asyncio.to_thread(shutil.rmtree, other, ignore_errors=True)

    @contextmanager
    def _named_failure(self) -> Iterator[None]:
        """Raise StorageFull or Unavailable for what the library or the disk refuses."""
        try:
            yield
        except (ValueError, OSError) as problem:
            # The library gives a ValueError for a file that it cannot write, as for anything else.
            if f"os error {errno.ENOSPC}" in str(problem) or getattr(problem, "errno", None) == errno.ENOSPC:
                raise StorageFull(f"the disk is full: the index in {self._folder} was not written") from problem
            raise Unavailable(f"the index in {self._folder} could not be written: {problem}") from problem

    async def _add(self, writer: tantivy.IndexWriter, documents: Iterable[Document]) -> None:
        # Here and not in a thread: each of these calls lets go of the interpreter for a moment, and taking it back
        # from a busy event loop costs several times the call.
        waiting = list(documents)
        for start in range(0, len(waiting), _ADDED_PER_TURN):
            turn = waiting[start : start + _ADDED_PER_TURN]
            # Made first and handed over together: the library's thread is then woken once a turn, not once each.
            entries = [_entry(document) for document in turn]
            for document in turn:
                if document.replaces or not self._has_written:
                    writer.delete_documents_by_term(_ID, document.row_id)
            for entry in entries:
                writer.add_document(entry)
            await asyncio.sleep(0)

    def _noted(self) -> Built | None:
        try:
            built = Built(**orjson.loads((self._folder / "built.json").read_bytes()))
        except (OSError, orjson.JSONDecodeError, TypeError):
            return None
        return built if built.layout == LAYOUT else None

    def _note(self, built: Built) -> None:
        standing = self._noted()
        if standing is not None and standing.build > built.build:
            # Another process has built anew meanwhile: its index counts, and this one is thrown away.
            return
        temporary = self._folder / f"built.json.{os.getpid()}.tmp"
        temporary.write_bytes(orjson.dumps(asdict(built)))
        temporary.rename(self._folder / "built.json")

    def _build_folder(self, build: int) -> Path:
        return self._folder / f"build-{build}"

    def _query(
        self,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        terms: Sequence[tuple[str, float]],
        groups: Sequence[frozenset[str]],
    ) -> tantivy.Query:
        words = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, _term_query(schema, term, weight)) for term, weight in terms]
        )
        filters = [group for group in groups if self._narrows(searcher, group)]
        if not filters:
            return words
        narrowing = [
            tantivy.Query.const_score_query(tantivy.Query.term_set_query(schema, _FACETS, sorted(group)), 0.0)
            for group in filters
        ]
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in (words, *narrowing)])

    def _narrows(self, searcher: tantivy.Searcher, group: frozenset[str]) -> bool:
        passing = sum(searcher.doc_freq(_FACETS, facet) for facet in group)
        return passing < _WORTH_FILTERING * searcher.num_docs


def _commit(writer: tantivy.IndexWriter) -> None:
    writer.commit()
    writer.wait_merging_threads()


def _term_query(schema: tantivy.Schema, term: str, weight: float) -> tantivy.Query:
    query = tantivy.Query.term_query(schema, _TERMS, term, index_option="freq")
    return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)


def _entry(document: Document) -> tantivy.Document:
    entry = tantivy.Document()
    entry.add_text(_TERMS, " ".join(document.terms))
    for facet in document.facets:
        entry.add_text(_FACETS, facet)
    entry.add_text(_ID, document.row_id)
    entry.add_unsigned(_NUMBER, document.number)
    return entry


def _build_of(folder: Path) -> int:
    number = folder.name.removeprefix("build-")
    return int(number) if number.isdecimal() else 0


def _create(folder: Path) -> tantivy.Index:
    # It must not be there: what another process is building is left alone.
    folder.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_TERMS, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field(_FACETS, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(_ID, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(_NUMBER, fast=True)
    return tantivy.Index(builder.build(), path=str(folder))


def _open(folder: Path) -> tantivy.Index:
    """Open an index whose files are what was written. Raises ValueError and OSError."""
    if not are_whole(folder):
        # The library would not refuse it: it panics, or answers what nobody wrote.
        raise ValueError(f"a file in {folder} is damaged")
    return tantivy.Index.open(str(folder))
