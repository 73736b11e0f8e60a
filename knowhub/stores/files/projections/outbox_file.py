"""indexes/context/outbox.json: the tasks that failed, how often, and which are not tried again."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson

from knowhub.stores.files.filesystem import FileSystem, failure_of, replace_file
from knowhub.stores.files.log.log_line import parse_line, seal

_FILE: Final = "outbox.json"
_RETRIES: Final = "retries"
_ID_DIGITS: Final = 32

LetterT = TypeVar("LetterT")


class ErasingLog(Protocol):
    """A log from which rows are erased."""

    @property
    def erases(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""


class OutboxFile(Generic[LetterT]):
    """Stores letters, which are dataclasses. The leader writes the file. Others ask for a retry by a marker file.

    Letters name rows by their ids, so the file is written again after each erase. `parse` makes a letter of its JSON
    object; it raises KeyError, TypeError or ValueError.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        log_id: str,
        log: ErasingLog,
        parse: Callable[[Mapping[str, Any]], LetterT],
    ) -> None:
        self._files = files
        self._path = folder / _FILE
        self._retries = folder / _RETRIES
        self._log_id = log_id
        self._log = log
        self._parse = parse
        self._written: tuple[bytes, int] | None = None

    @property
    def erase_seq(self) -> int | None:
        """The number of the newest erase that was applied; None if there is no file. Raises OSError."""
        try:
            record = parse_line(self._files.read(self._path))
        except FileNotFoundError:
            return None
        return int(record.get("erases", -1)) if record else -1

    def load(self) -> Sequence[LetterT]:
        """Return the stored letters; nothing if the file is missing, damaged, or of another log."""
        try:
            record = parse_line(self._files.read(self._path))
            if record is None or record["log_id"] != self._log_id:
                return []
            return [self._parse(letter) for letter in record["letters"]]
        except (OSError, KeyError, TypeError, ValueError):
            # Without the letters, every failed task is tried once more.
            return []

    async def save(self, letters: Sequence[LetterT]) -> None:
        """Store these letters, if they or the newest erase have changed. Raises Unavailable."""
        erases = self._log.erases
        body = orjson.dumps([asdict(letter) for letter in letters])  # type: ignore[call-overload]  # a dataclass
        try:
            exists = self._files.inode(self._path) is not None
        except OSError as problem:
            raise self._failure(problem) from problem
        if ((body, erases) == self._written and (exists or not letters)) or not (letters or exists):
            return
        head = orjson.dumps({"log_id": self._log_id, "erases": erases})[:-1]
        await asyncio.to_thread(self._write, seal(head + b',"letters":' + body))
        self._written = (body, erases)

    def request_retry(self, event_id: str) -> None:
        """Ask the leader to try a task again. Raises Unavailable."""
        try:
            self._files.make_folder(self._retries)
            replace_file(self._files, self._retries / event_id, b"")
        except OSError as problem:
            raise failure_of(problem, "the wish to try again is not kept") from problem

    def list_retries(self) -> Sequence[str]:
        """Return the ids of the tasks to try again. Raises Unavailable."""
        try:
            names = self._files.names(self._retries)
        except OSError as problem:
            raise failure_of(problem, "the wishes to try again could not be read") from problem
        return [name for name in names if len(name) == _ID_DIGITS and name.isalnum()]

    def forget_retries(self, event_ids: Sequence[str]) -> None:
        """Remove markers. A task whose marker cannot be removed is only tried again."""
        for event_id in event_ids:
            with contextlib.suppress(OSError):
                self._files.remove(self._retries / event_id)

    def _write(self, data: bytes) -> None:
        try:
            self._files.make_folder(self._path.parent)
            replace_file(self._files, self._path, data)
        except OSError as problem:
            raise self._failure(problem) from problem

    def _failure(self, problem: OSError) -> Exception:
        return failure_of(problem, f"{self._path} could not be written")
