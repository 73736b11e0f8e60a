"""The vector file of an account, which is append-only, its metadata, and the texts that the embedder rejected."""

import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from knowhub.core.errors import Unavailable
from knowhub.search.index_files import BuildMetadata, IndexFiles
from knowhub.search.vectors import Rows, make_row_type

# Increased if the row format or the embedded text changes.
LAYOUT: Final = 1
ROWS_FILE: Final = "rows.bin"
REJECTED_FILE: Final = "refused.json"
_RETRY: Final = "retry-"
_MAX_DOUBLINGS: Final = 10
# Between two attempts to embed a rejected text.
_FIRST_PAUSE_S: Final = 2.0
LONGEST_PAUSE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class VectorMetadata(BuildMetadata):
    """What a vector file contains, and by which model. `documents` counts old rows too; `crc` is the CRC-32 of all."""

    model: str
    dimensions: int
    crc: int = 0
    layout: int = LAYOUT


@dataclass(frozen=True, slots=True)
class Rejection:
    """A text that the embedder rejected so many times; `number` is that of the change that wrote it.

    It is tried again at `retry_at`, in seconds since the epoch; if that is None, only when somebody asks for it.
    """

    number: int
    attempts: int
    retry_at: float | None


def make_rejection(number: int, attempts: int, max_attempts: int | None, now: float) -> Rejection:
    """Return the rejection of a text that was rejected so many times, at most `max_attempts`; None is no limit.

    It is tried again after a pause that doubles each time.
    """
    if max_attempts is not None and attempts >= max_attempts:
        return Rejection(number, attempts, None)
    pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(attempts - 1, _MAX_DOUBLINGS), LONGEST_PAUSE_S)
    return Rejection(number, attempts, now + pause_s)


class VectorFiles(IndexFiles[VectorMetadata]):
    """The files of one account. Any process may read them and ask for a retry; only the leader writes the others."""

    metadata_type, layout = VectorMetadata, LAYOUT

    def read_rejected(self, log_id: str, model: str) -> list[Rejection]:
        """Return the texts that the leader's embedder rejects; none if the file is missing, damaged or of another."""
        try:
            said = orjson.loads((self._folder / REJECTED_FILE).read_bytes())
            is_ours = [said["log_id"], said["model"]] == [log_id, model]
            return [Rejection(**rejection) for rejection in said["rejected"]] if is_ours else []
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return []

    def write_rejected(self, log_id: str, model: str, rejected: Sequence[Rejection]) -> None:
        """Write which texts the embedder rejects, for the other processes and the next start. Raises Unavailable."""
        said = {"log_id": log_id, "model": model, "rejected": rejected}
        with self._map_errors():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._publish(REJECTED_FILE, orjson.dumps(said))

    def request_retry(self, number: int) -> None:
        """Ask the leader to try a rejected text again. Raises Unavailable."""
        with self._map_errors():
            (self._folder / f"{_RETRY}{number}").touch()

    def list_retries(self) -> list[int]:
        """Return the numbers of the texts to try again."""
        names = [path.name.removeprefix(_RETRY) for path in self._folder.glob(f"{_RETRY}*")]
        return [int(name) for name in names if name.isdecimal()]

    def forget_retries(self, numbers: Sequence[int]) -> None:
        """Remove requests for a retry. A request that cannot be removed causes one more retry, and no other harm."""
        for number in numbers:
            with suppress(OSError):
                (self._folder / f"{_RETRY}{number}").unlink()

    def read(self, metadata: VectorMetadata, known: VectorMetadata | None = None) -> Rows:
        """Return the rows of `metadata` after those of `known`. Raises ValueError if they are damaged, and OSError."""
        kind = make_row_type(metadata.dimensions)
        start, crc = (known.documents, known.crc) if known is not None else (0, 0)
        length = (metadata.documents - start) * kind.itemsize
        with self._rows_file(metadata.build).open("rb") as file:
            file.seek(start * kind.itemsize)
            data = file.read(length)
        if len(data) < length or zlib.crc32(data, crc) != metadata.crc:
            raise ValueError(f"the vectors in {self._folder} are damaged")
        return np.frombuffer(data, kind)

    def append(self, rows: Rows, before: VectorMetadata, metadata: VectorMetadata) -> VectorMetadata:
        """Append rows durably, then write the metadata and return it. Raises Unavailable."""
        data = rows.tobytes()
        with self._map_errors(), self._rows_file(before.build).open("r+b") as file:
            # Overwrite the rows of a process that crashed before it wrote the metadata.
            file.seek(before.documents * rows.itemsize)
            file.truncate()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            crc = zlib.crc32(data, before.crc)
            return self._write_metadata(replace(metadata, documents=before.documents + len(rows), crc=crc))

    def write(self, rows: Rows, metadata: VectorMetadata) -> VectorMetadata:
        """Write a new file, return its metadata, and remove the old file. Raises Unavailable."""
        data = rows.tobytes()
        with self._map_errors():
            path = self._rows_file(metadata.build)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            written = self._write_metadata(replace(metadata, documents=len(rows), crc=zlib.crc32(data)))
        self._remove_builds_before(metadata.build)
        return written

    def is_intact(self, metadata: VectorMetadata) -> bool:
        """Return whether the rows are what was written, by their checksum. Raises OSError."""
        try:
            self.read(metadata)
        except (ValueError, FileNotFoundError):
            return False
        return True

    def remove(self) -> None:
        """Remove everything. Raises Unavailable."""
        with self._map_errors():
            if self._folder.exists():
                shutil.rmtree(self._folder)

    def _rows_file(self, build: int) -> Path:
        return self._build_folder(build) / ROWS_FILE

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise Unavailable(f"the vectors in {self._folder} could not be written: {problem}") from problem
