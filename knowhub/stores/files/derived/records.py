"""records/*.jsonl: every version of every row, for people and tools to read; derived, never trusted (seed 000 §4.1)."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

from knowhub.core.erasing import is_erased
from knowhub.stores.files.derived.record_rows import record_file, record_of, record_text
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import RawChange, parsed, seal

_OPERATIONS_PER_TURN = 500
_BYTES_PER_TURN = 512 * 1024
_RECENT_BYTES = 16 * 1024 * 1024

_Rows = list[tuple[str, str, bytes]]
"""Account, collection and text of each row that an operation wrote."""


@dataclass(slots=True)
class Checkpoint:
    """Up to which line of which log the files are written, from which base on, and how long each of them then was.

    `erases` is the number of the newest erasing that they know of.
    """

    log_id: str = ""
    base: int = 0
    seq: int = 0
    checksum: str = ""
    lengths: dict[str, int] = field(default_factory=dict)
    erases: int = 0


class ErasingLog(Protocol):
    """What is derived from a log has to know of erasing: it is built anew behind each."""

    @property
    def erases(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""

    @property
    def is_erasing(self) -> bool:
        """Whether what is read from the log now may still tell of what goes."""


class RecordFiles:
    """Brings the record files up to the log, a little at a time. Only the keeper of the directory does."""

    def __init__(self, folder: Path, history: History, log_id: str, log: ErasingLog) -> None:
        self._folder = folder
        self._log = log
        self._history = history
        self._log_id = log_id
        # What was written lately, so that it need not be read and parsed again; when it is not enough, the log is.
        self._recent: deque[tuple[int, _Rows]] = deque()
        self._recent_bytes = 0

    def follow(self, account: str, seq: int, changes: Sequence[RawChange]) -> None:
        """Keep the rows of an operation for the next time. Called by the store, in order."""
        if any(is_erased(change.after_row) for change in changes):
            while self._recent:
                self._forget_oldest()
        self._recent.append((seq, [(account, change.collection, change.after) for change in changes]))
        self._recent_bytes += sum(len(change.after) for change in changes)
        while self._recent_bytes > _RECENT_BYTES:
            self._forget_oldest()

    async def bring_up(self) -> int:
        """Append the rows of every operation that the files lack; return how many operations that were."""
        # In this order: where no erasing goes on now, this number says that the log tells nothing of what it erased.
        erases = self._log.erases
        if self._log.is_erasing:
            return 0
        checkpoint = self.checkpoint()
        if not self.fits(checkpoint):
            self._clear()
            checkpoint = Checkpoint(self._log_id, erases=erases)
            await self._append_base(checkpoint)
        written = 0
        while checkpoint.seq < self._history.last_seq:
            written += self._append(checkpoint)
            await asyncio.sleep(0)
        self._forget_up_to(checkpoint.seq)
        return written

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the files know of; None where there are none."""
        return self.checkpoint().erases if next(self._folder.rglob("*.jsonl"), None) is not None else None

    @property
    def lag(self) -> int:
        """How many operations the files are behind the log, whichever process writes them."""
        return max(0, self._history.last_seq - self.checkpoint().seq)

    def checkpoint(self) -> Checkpoint:
        try:
            sealed = parsed((self._folder / "checkpoint.json").read_bytes())
        except FileNotFoundError:
            sealed = None
        if sealed is None:
            return Checkpoint()
        del sealed["crc"]
        return Checkpoint(**sealed)

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Tell whether the files were written from this log, and hold at least what the checkpoint says."""
        return (
            checkpoint.log_id == self._log_id
            and checkpoint.erases == self._log.erases
            # A compaction drops old versions here too (KT-097).
            and checkpoint.base == self._history.base_seq
            and self._history.checksum(checkpoint.seq) == checkpoint.checksum
            and all(_size(self._folder / name) >= length for name, length in checkpoint.lengths.items())
        )

    def _append(self, checkpoint: Checkpoint) -> int:
        operations = self._next_operations(checkpoint.seq)
        self._write(checkpoint, [row for _, rows in operations for row in rows])
        checkpoint.seq = operations[-1][0] if operations else self._history.last_seq
        checkpoint.checksum = self._history.checksum(checkpoint.seq)
        self._note(checkpoint)
        return len(operations)

    async def _append_base(self, checkpoint: Checkpoint) -> None:
        """Begin with the rows of the base, where the log begins with one."""
        base_seq = self._history.base_seq
        for line in self._history.base_lines():
            self._write(checkpoint, _rows_of(line)[1])
            await asyncio.sleep(0)
        if base_seq == self._history.base_seq:
            checkpoint.base, checkpoint.seq, checkpoint.checksum = base_seq, base_seq, self._history.checksum(base_seq)
            self._note(checkpoint)

    def _write(self, checkpoint: Checkpoint, rows: Sequence[tuple[str, bytes]]) -> None:
        texts: dict[str, list[bytes]] = defaultdict(list)
        for name, text in rows:
            texts[name].append(text)
        for name, lines in texts.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                # What stands behind the checkpoint was written by a keeper that died: it is written again.
                file.truncate(checkpoint.lengths.get(name, 0))
                file.write(b"\n".join(lines) + b"\n")
                checkpoint.lengths[name] = file.tell()

    def _next_operations(self, seq: int) -> list[tuple[int, list[tuple[str, bytes]]]]:
        """Return what follows a sequence number, from memory where it is there, else from the log."""
        self._forget_up_to(seq)
        if self._recent and self._recent[0][0] == seq + 1:
            return [(number, _recorded(rows)) for number, rows in self._next_recent(seq + 1)]
        return [_rows_of(line) for line in self._history.lines_up(seq, _OPERATIONS_PER_TURN, _BYTES_PER_TURN)]

    def _next_recent(self, first: int) -> Iterator[tuple[int, _Rows]]:
        size = 0
        for count, (number, rows) in enumerate(self._recent):
            if number != first + count or count == _OPERATIONS_PER_TURN or size > _BYTES_PER_TURN:
                return
            yield number, rows
            size += sum(len(text) for _, _, text in rows)

    def _forget_up_to(self, seq: int) -> None:
        while self._recent and self._recent[0][0] <= seq:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, rows = self._recent.popleft()
        self._recent_bytes -= sum(len(text) for _, _, text in rows)

    def _note(self, checkpoint: Checkpoint) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / "checkpoint.json.tmp"
        temporary.write_bytes(seal(orjson.dumps(asdict(checkpoint))[:-1]))
        temporary.rename(self._folder / "checkpoint.json")

    def _clear(self) -> None:
        for path in sorted(self._folder.rglob("*.jsonl")):
            path.unlink()


def _rows_of(line: bytes) -> tuple[int, list[tuple[str, bytes]]]:
    record = orjson.loads(line)
    account = record["account"]
    rows = [
        (record_file(account, change["collection"]), record_of(change["collection"], change["after"]))
        for change in record["changes"]
    ]
    return record.get("seq", 0), rows


def _recorded(rows: _Rows) -> list[tuple[str, bytes]]:
    return [(record_file(account, collection), record_text(collection, text)) for account, collection, text in rows]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
