"""The vector file of an account, which is append-only, and its note."""

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from knowhub.core.errors import Unavailable
from knowhub.search.vectors import Rows, make_row_type

# Increased if the row format or the embedded text changes.
LAYOUT: Final = 1
ROWS_FILE: Final = "rows.bin"
REFUSED_FILE: Final = "refused.json"


@dataclass(frozen=True, slots=True)
class VectorNote:
    """What a vector file contains: its log and position, the newest erase, the model.

    `documents` is the number of rows, with old ones, and `crc` their CRC-32.
    """

    log_id: str
    seq: int
    checksum: str
    documents: int
    build: int
    erases: int
    model: str
    dimensions: int
    crc: int = 0
    layout: int = LAYOUT


class VectorFiles:
    """The files of one account. Any process may read them; only the leader writes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_note(self) -> VectorNote | None:
        """Return the note on disk; None if there is no valid one."""
        try:
            note = VectorNote(**orjson.loads((self._folder / "built.json").read_bytes()))
        except (OSError, orjson.JSONDecodeError, TypeError):
            return None
        return note if note.layout == LAYOUT else None

    @property
    def erase_seq(self) -> int | None:
        """The number of the newest erase that the file on disk contains; None if there is no file."""
        note = self.read_note()
        if note is not None:
            return note.erases
        # Without a note the content is unknown.
        return -1 if next(self._folder.glob("build-*"), None) is not None else None

    def read_rejected(self, log_id: str, model: str) -> frozenset[int]:
        """Return the numbers of the texts that the leader's embedder rejects."""
        try:
            said = orjson.loads((self._folder / REFUSED_FILE).read_bytes())
            return frozenset(said["numbers"]) if [said["log_id"], said["model"]] == [log_id, model] else frozenset()
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return frozenset()

    def write_rejected(self, log_id: str, model: str, numbers: frozenset[int]) -> None:
        """Write which texts the embedder rejects, for the other processes. Raises Unavailable."""
        said = {"log_id": log_id, "model": model, "numbers": sorted(numbers)}
        with self._translate_errors():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._publish(REFUSED_FILE, orjson.dumps(said))

    def read(self, note: VectorNote, known: VectorNote | None = None) -> Rows:
        """Return the rows of `note` after those of `known`. Raises ValueError if they are damaged, and OSError."""
        kind = make_row_type(note.dimensions)
        start, crc = (known.documents, known.crc) if known is not None else (0, 0)
        length = (note.documents - start) * kind.itemsize
        with self._rows_file(note.build).open("rb") as file:
            file.seek(start * kind.itemsize)
            data = file.read(length)
        if len(data) < length or zlib.crc32(data, crc) != note.crc:
            raise ValueError(f"the vectors in {self._folder} are damaged")
        return np.frombuffer(data, kind)

    def append(self, rows: Rows, before: VectorNote, note: VectorNote) -> VectorNote:
        """Append rows durably, then write the note and return it. Raises Unavailable."""
        data = rows.tobytes()
        with self._translate_errors(), self._rows_file(before.build).open("r+b") as file:
            # Overwrite the rows of a process that crashed before its note.
            file.seek(before.documents * rows.itemsize)
            file.truncate()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return self._note(note, before.documents + len(rows), zlib.crc32(data, before.crc))

    def write(self, rows: Rows, note: VectorNote) -> VectorNote:
        """Write a new file, return its note, and remove the old file. Raises Unavailable."""
        data = rows.tobytes()
        with self._translate_errors():
            path = self._rows_file(note.build)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            written = self._note(note, len(rows), zlib.crc32(data))
        for other in self._folder.glob("build-*"):
            if other != path.parent:
                shutil.rmtree(other, ignore_errors=True)
        return written

    def new_build(self) -> int:
        """Return an unused build number."""
        existing = [folder.name.removeprefix("build-") for folder in self._folder.glob("build-*")]
        return max([0, *(int(number) for number in existing if number.isdecimal())]) + 1

    def remove(self) -> None:
        """Remove everything. Raises Unavailable."""
        with self._translate_errors():
            if self._folder.exists():
                shutil.rmtree(self._folder)

    def _note(self, note: VectorNote, documents: int, crc: int) -> VectorNote:
        written = VectorNote(**asdict(note) | {"documents": documents, "crc": crc})
        self._publish("built.json", orjson.dumps(asdict(written)))
        return written

    def _publish(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.rename(self._folder / name)

    def _rows_file(self, build: int) -> Path:
        return self._folder / f"build-{build}" / ROWS_FILE

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise Unavailable(f"the vectors in {self._folder} could not be written: {problem}") from problem
