"""A changed file of an index is detected before the library reads it."""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest
import tantivy

from knowhub.search.full_text import FullText, IndexMetadata, verify_files
from knowhub.search.tail import Document


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Return the folder of a small index."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text")
    writer = tantivy.Index(builder.build(), path=str(tmp_path)).writer(15_000_000, 1)
    writer.add_document(tantivy.Document(text=["zebra"]))
    writer.commit()
    writer.wait_merging_threads()
    return tmp_path


def test_an_unchanged_index_passes_the_check(index: Path) -> None:
    assert verify_files(index)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("*.term", lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:]),
        ("*.term", lambda data: data[:-1]),
        ("*.term", lambda _data: b""),
        ("*.term", lambda _data: b"7 bytes"),
        # A footer that is longer than the file.
        ("*.term", lambda data: data[-8:]),
        ("*.term", lambda data: data.replace(b'"crc"', b'"cRc"')),
        ("meta.json", lambda _data: b'{"segments":7}'),
        ("meta.json", lambda data: data[:100]),
    ],
)
def test_a_damaged_file_is_detected(index: Path, name: str, spoil: Callable[[bytes], bytes]) -> None:
    path = next(index.glob(name))
    path.write_bytes(spoil(path.read_bytes()))

    assert not verify_files(index)


def test_unfinished_files_of_a_writer_are_ignored(index: Path) -> None:
    (index / "0123456789abcdef0123456789abcdef.term").write_bytes(b"half of it")

    assert verify_files(index)


def make_document(number: int, words: int) -> Document:
    """Return a document of long words that no other document has."""
    terms = [blake2b(b"%d %d" % (number, place), digest_size=32).hexdigest() for place in range(words)]
    return Document(number, f"row-{number}", (" ".join(terms),), words, frozenset({"all"}))


def test_a_batch_of_long_documents_is_written_once_and_not_merged_again(tmp_path: Path) -> None:
    documents = [make_document(number, 500) for number in range(1, 81)]

    asyncio.run(FullText(tmp_path).rebuild(documents, IndexMetadata("log", 80, "crc", 0, len(documents), 1, 40_000)))

    # Eight segments would be merged, which writes every term again.
    assert len(list(tmp_path.glob("build-1/*.term"))) == 1
