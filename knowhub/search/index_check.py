"""Checks of the indexes on disk: whether the files are intact, and whether they belong to this log."""

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from knowhub.core.projection import CheckResult
from knowhub.search.full_text import FullText, verify_files
from knowhub.search.ports import LogMark
from knowhub.search.vector_files import ROWS_FILE, VectorFiles
from knowhub.search.vectors import make_row_type

BUILT: Final = "built.json"

_PATTERNS: Final = ("lexical/*", "vectors/*", "context/lexical/*", "context/vectors/*")


def find_indexes(folder: Path) -> Iterator[Path]:
    """Yield the folders of all indexes, one per account."""
    for pattern in _PATTERNS:
        yield from sorted(path for path in folder.glob(pattern) if path.is_dir())


class IndexCheck:
    """Checks the index of an account by the checksums of its files."""

    def __init__(self, root: Path, folder: Path, log: LogMark) -> None:
        self._root = root
        self._folder = folder
        self._log = log

    def check(self) -> CheckResult:
        """Check the checksums of the files, and compare the note with the log. Raises OSError."""
        name = f"{self._root.name}/{self._folder.relative_to(self._root)}"
        is_lexical = self._folder.parent.name == "lexical"
        noted = FullText(self._folder).read_note() if is_lexical else VectorFiles(self._folder).read_note()
        if noted is None:
            is_there = any(self._folder.glob("build-*"))
            return CheckResult(None, differences=[name] if is_there else (), is_empty=not is_there)
        if not self._verify(noted.build, is_lexical=is_lexical):
            return CheckResult(noted.seq, differences=[name])
        fits = (
            noted.log_id == self._log.log_id
            and noted.seq <= self._log.last_seq
            and noted.erases == self._log.erases
            and noted.checksum == self._log.checksum(noted.seq)
        )
        return CheckResult(noted.seq, fits=fits, summary=f"{noted.documents} records")

    def discard(self) -> None:
        """Remove the index. Raises OSError."""
        shutil.rmtree(self._folder)

    def _verify(self, build: int, *, is_lexical: bool) -> bool:
        folder = self._folder / f"build-{build}"
        if is_lexical:
            return (folder / "meta.json").exists() and verify_files(folder)
        note = VectorFiles(self._folder).read_note()
        if note is None or not (folder / ROWS_FILE).exists():
            return False
        data = (folder / ROWS_FILE).read_bytes()[: note.documents * make_row_type(note.dimensions).itemsize]
        return zlib.crc32(data) == note.crc and len(data) == note.documents * make_row_type(note.dimensions).itemsize
