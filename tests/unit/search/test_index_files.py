"""A changed file of an index is detected before the library reads it."""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest
import tantivy

from knowhub.search.full_text import FullText, IndexNote, verify_files
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


def a_file_of(index: Path) -> Path:
    return next(index.glob("*.term"))


def with_a_flipped_bit(index: Path) -> None:
    path = a_file_of(index)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def without_its_last_byte(index: Path) -> None:
    path = a_file_of(index)
    path.write_bytes(path.read_bytes()[:-1])


def empty(index: Path) -> None:
    a_file_of(index).write_bytes(b"")


def of_seven_bytes(index: Path) -> None:
    a_file_of(index).write_bytes(b"7 bytes")


def with_a_longer_footer_than_file(index: Path) -> None:
    path = a_file_of(index)
    path.write_bytes(path.read_bytes()[-8:])


def with_another_footer(index: Path) -> None:
    path = a_file_of(index)
    path.write_bytes(path.read_bytes().replace(b'"crc"', b'"cRc"'))


def with_another_list(index: Path) -> None:
    (index / "meta.json").write_bytes(b'{"segments":7}')


def with_half_a_list(index: Path) -> None:
    path = index / "meta.json"
    path.write_bytes(path.read_bytes()[:100])


def test_an_unchanged_index_passes_the_check(index: Path) -> None:
    assert verify_files(index)


@pytest.mark.parametrize(
    "spoil",
    [
        with_a_flipped_bit,
        without_its_last_byte,
        empty,
        of_seven_bytes,
        with_a_longer_footer_than_file,
        with_another_footer,
        with_another_list,
        with_half_a_list,
    ],
)
def test_a_damaged_file_is_detected(index: Path, spoil: Callable[[Path], None]) -> None:
    spoil(index)

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

    asyncio.run(FullText(tmp_path).rebuild(documents, IndexNote("log", 80, "crc", 0, len(documents), 1, 40_000)))

    # Eight segments would be merged, which writes every term again.
    assert len(list(tmp_path.glob("build-1/*.term"))) == 1
