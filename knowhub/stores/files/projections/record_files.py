"""records/*.jsonl: every version of every row, for people and tools to read. The server reads none of them."""

import asyncio
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import quote

import orjson

from knowhub.core.projection import RecordFormat
from knowhub.core.request_context import DEFAULT_ACCOUNT
from knowhub.engine.account import LoadedChange
from knowhub.stores.files.filesystem import FileSystem, append_file
from knowhub.stores.files.log.log_line import PartialOperation, decode_base_line, row_text
from knowhub.stores.files.projections.log_projection import Checkpoint, LogProjection, ProjectionLog

_MAX_NAME_BYTES: Final = 200
_READABLE_CHARS, _DIGEST_DIGITS = 16, 32
_PIECE_BYTES: Final = 1024 * 1024

_Line = tuple[str, bytes]
"""The name of a record file, and a line for it."""


class RecordFiles(LogProjection):
    """Appends the rows of each operation to the file of their collection. A compaction or an erase rebuilds them."""

    def __init__(
        self, files: FileSystem, folder: Path, log: ProjectionLog, formats: Mapping[str, RecordFormat]
    ) -> None:
        super().__init__(files, folder, log)
        self._formats = formats

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Return whether the files were made from this log and its base, know its last erase, and are long enough."""
        return (
            super().fits(checkpoint)
            and checkpoint.base == self._log.history.base_seq
            and checkpoint.last_erase_seq == self._log.last_erase_seq
            and all(
                (found := self._files.lstat(self._folder / name)) is not None and found.st_size >= length
                for name, length in checkpoint.lengths.items()
            )
        )

    async def apply(self, operations: Sequence[PartialOperation], checkpoint: Checkpoint) -> None:
        """Append the rows of operations. Bytes after the lengths in the checkpoint are overwritten."""
        lines = (line for operation in operations for line in self._lines(operation.account, operation.changes))
        await asyncio.to_thread(self._write, lines, checkpoint)

    async def rebuild(self, checkpoint: Checkpoint) -> None:
        """Begin again with the rows of the base."""
        for path in sorted(self._folder.rglob("*.jsonl")):
            self._files.remove(path)
        for account, changes in self._base_rows():
            await asyncio.to_thread(self._write, self._lines(account, changes), checkpoint)

    def _has_rows(self) -> bool:
        return True

    def _compare(self, checkpoint: Checkpoint) -> tuple[Sequence[str], str]:
        expected = defaultdict[str, int](int)
        history = self._log.history
        read = history.operations(history.base_seq, checkpoint.seq)
        operations = ((operation.account, operation.changes) for operation in read)
        for account, changes in chain(self._base_rows(), operations):
            for name, text in self._lines(account, changes):
                expected[name] = zlib.crc32(text + b"\n", expected[name])
        found = {name: self._sum(name, length) for name, length in checkpoint.lengths.items()}
        names = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        return [f"{self._folder.name}/{name}" for name in names], "as the log says"

    def _initial_checkpoint(self) -> Checkpoint:
        return self._new_checkpoint(self._log.history.base_seq)

    def _write(self, lines: Iterable[_Line], checkpoint: Checkpoint) -> None:
        texts: dict[str, list[bytes]] = {}
        for name, text in lines:
            texts.setdefault(name, []).append(text)
        for name, added in texts.items():
            path, length = self._folder / name, checkpoint.lengths.get(name, 0)
            data = b"\n".join(added) + b"\n"
            self._files.make_folder(path.parent)
            append_file(self._files, path, data, length)
            checkpoint.lengths[name] = length + len(data)

    def _base_rows(self) -> Iterator[tuple[str, Sequence[LoadedChange]]]:
        for line in map(decode_base_line, self._log.history.base_lines()):
            yield line.account or "", line.changes or ()

    def _lines(self, account: str, changes: Iterable[LoadedChange]) -> Iterator[_Line]:
        for change in changes:
            text = row_text(change)
            declared = self._formats.get(change.collection)
            if declared is not None:
                text = orjson.dumps(declared.encode(orjson.loads(text)))
            yield record_path(account, change.collection if declared is None else declared.name), text

    def _sum(self, name: str, length: int) -> int:
        checksum, offset = 0, 0
        descriptor = self._files.open(self._folder / name, os.O_RDONLY)
        try:
            while offset < length:
                piece = self._files.read_at(descriptor, min(_PIECE_BYTES, length - offset), offset)
                checksum, offset = zlib.crc32(piece, checksum), offset + (len(piece) or length)
        finally:
            self._files.close(descriptor)
        return checksum


@lru_cache(maxsize=1024)
def record_path(account: str, name: str) -> str:
    """Return the path, below records/, of an account's record file."""
    folder = "" if account == DEFAULT_ACCOUNT else f"accounts/{_folder_name(account)}/"
    return f"{folder}{name}.jsonl"


def _folder_name(account: str) -> str:
    name = quote(account, safe="").replace(".", "%2E")
    if len(name) <= _MAX_NAME_BYTES:
        return name
    # No file system takes such a name whole: it becomes what can be read of it and a hash of all of it.
    return f"{_folder_name(account[:_READABLE_CHARS])}~{sha256(account.encode()).hexdigest()[:_DIGEST_DIGITS]}"
