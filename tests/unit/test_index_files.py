"""A file of an index that is not what was written is known before the library sees it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tantivy

from knowhub.search.full_text import verify_files


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


def emptied(index: Path) -> None:
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


def test_an_index_as_it_was_written_is_whole(index: Path) -> None:
    assert verify_files(index)


@pytest.mark.parametrize(
    "spoil",
    [
        with_a_flipped_bit,
        without_its_last_byte,
        emptied,
        of_seven_bytes,
        with_a_longer_footer_than_file,
        with_another_footer,
        with_another_list,
        with_half_a_list,
    ],
)
def test_a_damaged_file_is_known(index: Path, spoil: Callable[[Path], None]) -> None:
    spoil(index)

    assert not verify_files(index)


def test_what_a_writer_is_about_to_add_does_not_count(index: Path) -> None:
    (index / "0123456789abcdef0123456789abcdef.term").write_bytes(b"half of it")

    assert verify_files(index)
