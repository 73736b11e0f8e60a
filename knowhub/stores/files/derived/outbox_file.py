"""indexes/context/outbox.json: what failed to be indexed, how often, and what is not tried any more."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.context.index.index_ports import Letter
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.stores.files.derived.records import ErasingLog
from knowhub.stores.files.filesystem import FileSystem, failure_of, replace_file
from knowhub.stores.files.log.log_line import parsed, seal

_FILE: Final = "outbox.json"
_WISHES: Final = "retries"
_ID_DIGITS: Final = 32


class OutboxFile:
    """Implements `LetterBox`. The keeper writes the file; a wish of any process is an empty file beside it.

    What is written tells of nodes by their URIs: it is written anew behind each erasing.
    """

    def __init__(self, files: FileSystem, folder: Path, log_id: str, log: ErasingLog) -> None:
        self._files = files
        self._path = folder / _FILE
        self._wishes = folder / _WISHES
        self._log_id = log_id
        self._log = log
        self._written: tuple[bytes, int] | None = None

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the file knows of; None where there is no file. Raises OSError."""
        try:
            kept = parsed(self._files.read(self._path))
        except FileNotFoundError:
            return None
        return int(kept.get("erases", -1)) if kept else -1

    def load(self) -> Sequence[Letter]:
        """Return what was kept; nothing where the file is missing, damaged, or of another log."""
        try:
            kept = parsed(self._files.read(self._path))
            if kept is None or kept["log_id"] != self._log_id:
                return []
            return [_letter(one) for one in kept["letters"]]
        except (OSError, KeyError, TypeError, ValueError):
            # Whatever it said, all of it is only tried once more.
            return []

    async def save(self, letters: Sequence[Letter]) -> None:
        """Keep these, where they or the newest erasing have changed. Raises Unavailable."""
        erases = self._log.erases
        body = orjson.dumps([asdict(letter) for letter in letters])
        is_there = self._is_there()
        if (body, erases) == self._written and (is_there or not letters):
            return
        if not letters and not is_there:
            return
        head = orjson.dumps({"log_id": self._log_id, "erases": erases})[:-1]
        await asyncio.to_thread(self._write, seal(head + b',"letters":' + body))
        self._written = (body, erases)

    async def drop_outdated(self) -> None:
        """Remove a file that may tell of what was erased, where nobody works the outbox off. Raises Unavailable."""
        try:
            if self.noted_erases not in (None, self._log.erases):
                self._files.remove(self._path)
        except OSError as problem:
            raise failure_of(problem, f"{self._path} may tell of what was erased") from problem

    def ask(self, event_id: str) -> None:
        """Leave a wish for the keeper. Raises Unavailable."""
        try:
            self._files.make_folder(self._wishes)
            replace_file(self._files, self._wishes / event_id, b"")
        except OSError as problem:
            raise failure_of(problem, "the wish to try again is not kept") from problem

    def asked(self) -> Sequence[str]:
        """Return the ids that are wished for. Raises Unavailable."""
        try:
            names = self._files.names(self._wishes)
        except OSError as problem:
            raise failure_of(problem, "the wishes to try again could not be read") from problem
        return [name for name in names if len(name) == _ID_DIGITS and name.isalnum()]

    def answered(self, event_ids: Sequence[str]) -> None:
        """Forget wishes; one that cannot be removed is only answered again."""
        for event_id in event_ids:
            with contextlib.suppress(OSError):
                self._files.remove(self._wishes / event_id)

    def _is_there(self) -> bool:
        try:
            return self._files.inode_at(self._path) is not None
        except OSError as problem:
            raise failure_of(problem, f"{self._path} could not be written") from problem

    def _write(self, data: bytes) -> None:
        try:
            self._files.make_folder(self._path.parent)
            replace_file(self._files, self._path, data)
        except OSError as problem:
            raise failure_of(problem, f"{self._path} could not be written") from problem


def _letter(kept: dict[str, Any]) -> Letter:
    event = kept["event"]
    if not isinstance(event["payload"]["account"], str):
        raise TypeError("a letter names its account")
    stated = {"event_type": EventType(event["event_type"]), "status": EventStatus(event["status"])}
    return Letter(OutboxEvent(**{**event, **stated}), int(kept["seq"]), float(kept["not_before"]))
