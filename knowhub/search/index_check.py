"""Checks of the indexes on disk: whether the files are intact, and whether they belong to this log."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from knowhub.core.projection import CheckResult, LogMark
from knowhub.search.full_text import FullText
from knowhub.search.index_files import IndexFiles
from knowhub.search.vector_files import VectorFiles

_KINDS: Final[Mapping[str, Callable[[Path], IndexFiles[Any]]]] = {"lexical": FullText, "vectors": VectorFiles}


def find_indexes(folder: Path) -> Iterator[Path]:
    """Yield the folders of all indexes, one per account."""
    for family in (folder, folder / "context", folder / "tree"):
        for kind in _KINDS:
            yield from sorted(path for path in (family / kind).glob("*") if path.is_dir())


class IndexCheck:
    """Checks the index of an account by the checksums of its files."""

    def __init__(self, root: Path, folder: Path, log: LogMark) -> None:
        self._root = root
        self._folder = folder
        self._log = log

    def check(self) -> CheckResult:
        """Check the checksums of the files, and compare the note with the log. Raises OSError."""
        name = f"{self._root.name}/{self._folder.relative_to(self._root)}"
        files = _KINDS[self._folder.parent.name](self._folder)
        note = files.read_note()
        if note is None:
            return CheckResult(
                None, differences=() if files.erase_seq is None else [name], is_empty=files.erase_seq is None
            )
        if not files.is_whole(note):
            return CheckResult(note.seq, differences=[name])
        fits = note.fits(self._log) and note.erases == self._log.erases
        return CheckResult(note.seq, fits=fits, summary=f"{note.documents} records")

    def discard(self) -> None:
        """Remove the index. Raises OSError."""
        shutil.rmtree(self._folder)
