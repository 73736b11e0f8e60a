"""An account's vectors on disk: one file of rows that only grows, and a note that says what it stands on."""

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
from knowhub.search.vectors import Rows, row_type

# Raised when a row changes its form, or what of a record is embedded.
LAYOUT: Final = 1
ROWS_FILE: Final = "rows.bin"
REFUSED_FILE: Final = "refused.json"


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a file of vectors stands on: a log, the line that it has absorbed last, the newest erasing, the model.

    `documents` are the rows of the file, those of older texts too, and `crc` is their CRC-32.
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
    """One account's files. Any process may read them; the keeper of the directory writes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def noted(self) -> Embedded | None:
        """Return the note of what stands on the disk; None where there is none that can be read."""
        try:
            note = Embedded(**orjson.loads((self._folder / "built.json").read_bytes()))
        except (OSError, orjson.JSONDecodeError, TypeError):
            return None
        return note if note.layout == LAYOUT else None

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that what stands on the disk knows of; None where nothing stands there."""
        note = self.noted()
        if note is not None:
            return note.erases
        # Without a note nobody can tell what the rows may hold.
        return -1 if next(self._folder.glob("build-*"), None) is not None else None

    def refused(self, log_id: str, model: str) -> frozenset[int]:
        """Return the numbers of the texts that the keeper's embedder does not take; none where nothing says so."""
        try:
            said = orjson.loads((self._folder / REFUSED_FILE).read_bytes())
            return frozenset(said["numbers"]) if [said["log_id"], said["model"]] == [log_id, model] else frozenset()
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return frozenset()

    def write_refused(self, log_id: str, model: str, numbers: frozenset[int]) -> None:
        """Say which texts the embedder does not take, to the other processes. Raises Unavailable."""
        said = {"log_id": log_id, "model": model, "numbers": sorted(numbers)}
        with self._named_failure():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._publish(REFUSED_FILE, orjson.dumps(said))

    def read(self, note: Embedded, known: Embedded | None = None) -> Rows:
        """Return the rows of `note` behind those of `known`. Raises ValueError where they are damaged, and OSError."""
        kind = row_type(note.dimensions)
        start, crc = (known.documents, known.crc) if known is not None else (0, 0)
        length = (note.documents - start) * kind.itemsize
        with self._rows_file(note.build).open("rb") as file:
            file.seek(start * kind.itemsize)
            data = file.read(length)
        if len(data) < length or zlib.crc32(data, crc) != note.crc:
            raise ValueError(f"the vectors in {self._folder} are damaged")
        return np.frombuffer(data, kind)

    def append(self, rows: Rows, before: Embedded, note: Embedded) -> Embedded:
        """Write rows behind those of `before`, durable before the note says so; return it. Raises Unavailable."""
        data = rows.tobytes()
        with self._named_failure(), self._rows_file(before.build).open("r+b") as file:
            # What a process wrote that died before its note is written over.
            file.seek(before.documents * rows.itemsize)
            file.truncate()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return self._note(note, before.documents + len(rows), zlib.crc32(data, before.crc))

    def write(self, rows: Rows, note: Embedded) -> Embedded:
        """Write a new file of rows beside what stands, which then goes; return its note. Raises Unavailable."""
        data = rows.tobytes()
        with self._named_failure():
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
        """Return a number that no file of rows here bears."""
        standing = [folder.name.removeprefix("build-") for folder in self._folder.glob("build-*")]
        return max([0, *(int(number) for number in standing if number.isdecimal())]) + 1

    def remove(self) -> None:
        """Remove everything. Raises Unavailable."""
        with self._named_failure():
            if self._folder.exists():
                shutil.rmtree(self._folder)

    def _note(self, note: Embedded, documents: int, crc: int) -> Embedded:
        written = Embedded(**asdict(note) | {"documents": documents, "crc": crc})
        self._publish("built.json", orjson.dumps(asdict(written)))
        return written

    def _publish(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.rename(self._folder / name)

    def _rows_file(self, build: int) -> Path:
        return self._folder / f"build-{build}" / ROWS_FILE

    @contextmanager
    def _named_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise Unavailable(f"the vectors in {self._folder} could not be written: {problem}") from problem
