"""The full-text index of an account on disk, and the log position that it has reached."""

import asyncio
import errno
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import tantivy

from knowhub.core.clock import CooperativePause
from knowhub.core.errors import StorageFull, Unavailable
from knowhub.search.index_files import BuildMetadata, IndexFiles
from knowhub.search.tail import Document, Statistics

# Raised when the analyzer or the schema changes: what was built before is then built again.
LAYOUT: Final = 2

# The library uses 12 MB of it for itself, and writes a segment whenever the rest is full. It merges all segments of
# less than 10,000 documents as soon as there are eight, however large they are: small segments of long documents would
# be merged again and again.
_HEAP_BYTES: Final = 50_000_000
_ADDED_PER_TURN: Final = 128
_TERMS_PER_TURN: Final = 20_000
_TERMS, _FACETS, _ID, _NUMBER = "terms", "facets", "id", "number"
# A filter that most documents pass costs more than it saves.
_WORTH_FILTERING: Final = 0.5
# Each file of the library ends with a footer `{…,"crc":<CRC-32 of the bytes before>}`, its length, and a magic number.
_MAGIC = 1337
_TAIL = struct.Struct("<II")
_LONGEST_FOOTER = 4096
_PIECE_BYTES = 1024 * 1024
# What the library reads and writes as a whole, without a footer.
_UNSEALED = frozenset({"meta.json", ".managed.json"})


@dataclass(frozen=True, slots=True)
class IndexMetadata(BuildMetadata):
    """What an index contains; `terms` are those of all its documents."""

    terms: int
    layout: int = LAYOUT


class FullText(IndexFiles[IndexMetadata]):
    """The index of one account. Any process may search it; only the leader writes it."""

    metadata_type, layout = IndexMetadata, LAYOUT

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._index: tantivy.Index | None = None
        self._searcher: tantivy.Searcher | None = None
        self._created: tuple[int, tantivy.Index] | None = None
        self.built: IndexMetadata | None = None
        # A crashed process may have written documents without the metadata.
        self._has_written = False

    def load(self, fits: Callable[[IndexMetadata], bool]) -> bool:
        """Open the index on disk, or reload it; False if there is none that `fits`."""
        built = self.read_metadata()
        if built is None or not fits(built):
            return False
        if built == self.built:
            return True
        # The metadata is read before the index: the index may hold more than it says, never less.
        try:
            index = self._index if self.built and self.built.build == built.build else None
            if index is None and self._created is not None and self._created[0] == built.build:
                # This process wrote its files: they need no check.
                index = self._created[1]
            index = index or _open(self._build_folder(built.build))
            index.reload()
            searcher = index.searcher()
        except (ValueError, OSError):
            return False
        self._index, self._searcher, self.built = index, searcher, built
        return True

    def new_build(self) -> int:
        """Return an unused build number."""
        # The open build may have been deleted from the disk.
        return max(super().new_build(), self.built.build + 1 if self.built is not None else 0)

    def is_intact(self, metadata: IndexMetadata) -> bool:
        """Return whether the files are what was written, by their checksums. Raises OSError."""
        folder = self._build_folder(metadata.build)
        return (folder / "meta.json").exists() and verify_files(folder)

    @property
    def is_deleted(self) -> bool:
        """Whether the open index was deleted from the disk: it can be searched, but not written."""
        if self.built is None:
            return False
        metadata = self.read_metadata()
        return metadata is None or not (self._build_folder(metadata.build) / "meta.json").exists()

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.built.documents, self.built.terms) if self.built else Statistics(0, 0)

    def document_frequency(self, term: str) -> int:
        return self._searcher.doc_freq(_TERMS, term) if self._searcher else 0

    def search(
        self, terms: Sequence[tuple[str, float]], groups: Sequence[frozenset[str]], limit: int
    ) -> Iterator[tuple[float, int]]:
        """Yield (score, number), best first, until there are no more; outdated documents too."""
        if self._searcher is None or self._index is None:
            return
        query = self._make_query(self._index.schema, self._searcher, terms, groups)
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

    async def index_pending(self, documents: Iterable[Document], gone: Iterable[str], built: IndexMetadata) -> None:
        """Write documents and removals, then the metadata. May be repeated. Raises StorageFull, Unavailable."""
        if self._index is None:
            await self.rebuild(documents, built)
            return
        with self._map_errors():
            await self._write(self._index, documents, gone)
            self._publish_metadata(built)
        self._has_written = True

    async def rebuild(self, documents: Iterable[Document], built: IndexMetadata) -> None:
        """Build a new index; the metadata then switches to it. Raises StorageFull, Unavailable."""
        with self._map_errors():
            index = _create(self._build_folder(built.build))
            await self._write(index, documents, ())
            self._created = built.build, index
            self._publish_metadata(built)
        await asyncio.to_thread(self._remove_builds_before, built.build)

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        """Raise StorageFull or Unavailable for errors of the library or the disk."""
        try:
            yield
        except (ValueError, OSError) as problem:
            # The library gives a ValueError for a file that it cannot write, as for anything else.
            if f"os error {errno.ENOSPC}" in str(problem) or getattr(problem, "errno", None) == errno.ENOSPC:
                raise StorageFull(f"the disk is full: the index in {self._folder} was not written") from problem
            raise Unavailable(f"the index in {self._folder} could not be written: {problem}") from problem

    async def _write(self, index: tantivy.Index, documents: Iterable[Document], gone: Iterable[str]) -> None:
        writer = index.writer(_HEAP_BYTES, 1)
        pace = CooperativePause()
        for row_id in gone:
            writer.delete_documents_by_term(_ID, row_id)
            await pace.pause()
        # Few documents are not added in a thread: each call releases the GIL, and acquiring it
        # from a busy event loop costs several times the call.
        turn: list[Document] = []
        terms = 0
        for document in documents:
            turn.append(document)
            terms += document.term_count
            if terms > _TERMS_PER_TURN or len(turn) == _ADDED_PER_TURN:
                # The library may wait until it has room for them.
                await asyncio.to_thread(self._add_turn, writer, turn)
                turn, terms = [], 0
        self._add_turn(writer, turn)
        await asyncio.to_thread(_commit, writer)

    def _add_turn(self, writer: tantivy.IndexWriter, turn: Sequence[Document]) -> None:
        # Added together, to wake the thread of the library only once.
        entries = [_entry(document) for document in turn]
        for document in turn:
            if document.replaces or not self._has_written:
                writer.delete_documents_by_term(_ID, document.row_id)
        for entry in entries:
            writer.add_document(entry)

    def _publish_metadata(self, built: IndexMetadata) -> None:
        existing = self.read_metadata()
        if existing is not None and existing.build > built.build:
            # Another process has built anew meanwhile: its index counts, and this one is thrown away.
            return
        self._write_metadata(built)

    def _make_query(
        self,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        terms: Sequence[tuple[str, float]],
        groups: Sequence[frozenset[str]],
    ) -> tantivy.Query:
        words = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, _term_query(schema, term, weight)) for term, weight in terms]
        )
        too_many = _WORTH_FILTERING * searcher.num_docs
        narrowing = [
            tantivy.Query.const_score_query(tantivy.Query.term_set_query(schema, _FACETS, sorted(group)), 0.0)
            for group in groups
            if sum(searcher.doc_freq(_FACETS, facet) for facet in group) < too_many
        ]
        if not narrowing:
            return words
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in (words, *narrowing)])


def _commit(writer: tantivy.IndexWriter) -> None:
    writer.commit()
    writer.wait_merging_threads()


def _term_query(schema: tantivy.Schema, term: str, weight: float) -> tantivy.Query:
    query = tantivy.Query.term_query(schema, _TERMS, term, index_option="freq")
    return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)


def _entry(document: Document) -> tantivy.Document:
    entry = tantivy.Document()
    # In parts: a call keeps the interpreter while it copies.
    for part in document.terms:
        entry.add_text(_TERMS, part)
    for facet in document.facets:
        entry.add_text(_FACETS, facet)
    entry.add_text(_ID, document.row_id)
    entry.add_unsigned(_NUMBER, document.number)
    return entry


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
    if not verify_files(folder):
        # The library would not refuse it: it panics, or answers what nobody wrote.
        raise ValueError(f"a file in {folder} is damaged")
    return tantivy.Index.open(str(folder))


def verify_files(folder: Path) -> bool:
    """Return whether every file of the last commit carries the checksum of its own bytes. Raises OSError.

    Reads all of them: a third of a second a gigabyte, and less than reading the log that they were built from.
    """
    try:
        return all(_verify_file(path) for path in _list_files(folder))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # The list of segments, or a footer, is not what the library writes.
        return False


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield the files of the segments that the index names: what a writer is about to add is not yet whole."""
    meta = orjson.loads((folder / "meta.json").read_bytes())
    named = {str(segment["segment_id"]).replace("-", "") for segment in meta["segments"]}
    for path in folder.iterdir():
        if path.name not in _UNSEALED and path.name.partition(".")[0] in named:
            yield path


def _verify_file(path: Path) -> bool:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        if len(tail) < _TAIL.size:
            return False
        length, magic = _TAIL.unpack(tail)
        body = size - _TAIL.size - length
        if magic != _MAGIC or length > _LONGEST_FOOTER or body < 0:
            return False
        file.seek(body)
        expected = orjson.loads(file.read(length))["crc"]
        file.seek(0)
        checksum, left = 0, body
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    return bool(checksum == expected)
