"""cache/*.json: what searches found, kept over a restart and dropped where the log has moved on (KT-091, KT-092)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.derived.records import ErasingLog
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import parsed, seal

Entry = Mapping[str, Any]
_OPERATIONS_READ = 10_000


class CacheFiles:
    """Writes the entries of a cache to one file a kind, and reads them back where they still hold.

    `kinds` maps a file's name to the beginning of its entries' keys. What an entry uses is compared with what the
    operations since it was written have touched: `touched(account, changes)` names that.
    """

    def __init__(self, folder: Path, history: History, log_id: str, log: ErasingLog, kinds: Mapping[str, str]) -> None:
        self._folder = folder
        self._log = log
        self._history = history
        self._log_id = log_id
        self._kinds = kinds
        self._written: dict[str, tuple[bytes, int]] = {}

    def load(self, touched: Callable[[str, Sequence[Mapping[str, Any]]], set[tuple[str, str]]]) -> list[Entry]:
        """Return the entries that still hold; a file of another log, or too far behind this one, holds none."""
        return [entry for name in self._kinds for entry in self._load_one(name, touched)]

    async def save(self, entries: Sequence[Entry]) -> None:
        """Write the files anew where their entries have changed, and behind an erasing."""
        # Before the entries are looked at by a thread: what it writes may tell of what is erased meanwhile.
        erases = self._log.erases
        # Now, with the entries: what is touched while a thread writes them must be looked at again after a restart.
        seq = self._history.last_seq
        for name, prefix in self._kinds.items():
            chosen = [entry for entry in entries if str(entry["key"]).startswith(prefix)]
            body = orjson.dumps(chosen)
            if (body, erases) != self._written.get(name):
                await asyncio.to_thread(self._save_one, name, body, (seq, erases))
                self._written[name] = (body, erases)

    async def drop_outdated(self) -> None:
        """Remove the files that were written before the newest erasing, where no cache writes them anew."""
        for name in self._kinds:
            noted = self._noted(name)
            if noted is not None and noted != self._log.erases:
                (self._folder / name).unlink()

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that all files know of; None where there is no file."""
        noted = [erases for erases in map(self._noted, self._kinds) if erases is not None]
        return min(noted, default=None)

    def _noted(self, name: str) -> int | None:
        try:
            kept = parsed((self._folder / name).read_bytes())
        except FileNotFoundError:
            return None
        # One that was written before there was erasing, or that does not read back, knows of none.
        return int(kept.get("erases", 0)) if kept else 0

    def _save_one(self, name: str, body: bytes, mark: tuple[int, int]) -> None:
        seq, erases = mark
        checksum = self._history.checksum(seq)
        head = {"log_id": self._log_id, "seq": seq, "checksum": checksum, "erases": erases}
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{name}.tmp"
        temporary.write_bytes(seal(orjson.dumps(head)[:-1] + b',"entries":' + body))
        temporary.rename(self._folder / name)

    def _load_one(
        self, name: str, touched: Callable[[str, Sequence[Mapping[str, Any]]], set[tuple[str, str]]]
    ) -> list[Entry]:
        try:
            kept = parsed((self._folder / name).read_bytes())
        except OSError:
            return []
        match kept:
            case {
                "log_id": self._log_id,
                "seq": int() as seq,
                "checksum": str() as checksum,
                "entries": [*entries],
                **rest,
            } if rest.get("erases", 0) == self._log.erases:
                pass
            case _:
                return []
        if seq > self._history.last_seq or self._history.checksum(seq) != checksum:
            return []
        gone = self._touched_since(seq, touched)
        if gone is None:
            return []
        try:
            return [entry for entry in entries if gone.isdisjoint(map(tuple, entry["uses"]))]
        except (KeyError, TypeError):
            # Another version of KnowHub wrote it: all of it is found again.
            return []

    def _touched_since(
        self, seq: int, touched: Callable[[str, Sequence[Mapping[str, Any]]], set[tuple[str, str]]]
    ) -> set[tuple[str, str]] | None:
        if self._history.last_seq - seq > _OPERATIONS_READ:
            # Reading so much would cost more than asking again.
            return None
        gone: set[tuple[str, str]] = set()
        for number in range(seq + 1, self._history.last_seq + 1):
            record = parsed(self._history.line(number) or b"")
            if record is None:
                return None
            gone |= touched(record["account"], record["changes"])
        return gone
