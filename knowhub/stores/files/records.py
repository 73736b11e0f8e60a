"""records/*.jsonl: every version of every row, for people and tools to read; derived, never trusted (seed 000 §4.1)."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from knowhub.stores.files.history import History
from knowhub.stores.files.log_line import RawChange, line_checksum, parsed, seal
from knowhub.stores.files.record_rows import record_file, record_of, record_text

_OPERATIONS_PER_TURN = 500
_BYTES_PER_TURN = 512 * 1024
_RECENT_BYTES = 16 * 1024 * 1024

_Rows = list[tuple[str, str, bytes]]
"""Account, collection and text of each row that an operation wrote."""


@dataclass(slots=True)
class Checkpoint:
    """Up to which line of which log the files are written, and how long each of them then was."""

    log_id: str = ""
    seq: int = 0
    checksum: str = ""
    lengths: dict[str, int] = field(default_factory=dict)


class RecordFiles:
    """Brings the record files up to the log, a little at a time. Only the keeper of the directory does."""

    def __init__(self, folder: Path, history: History, log_id: str) -> None:
        self._folder = folder
        self._history = history
        self._log_id = log_id
        # What was written lately, so that it need not be read and parsed again; when it is not enough, the log is.
        self._recent: deque[tuple[int, _Rows]] = deque()
        self._recent_bytes = 0

    def follow(self, account: str, seq: int, changes: Sequence[RawChange]) -> None:
        """Keep the rows of an operation for the next time. Called by the store, in order."""
        self._recent.append((seq, [(account, change.collection, change.after) for change in changes]))
        self._recent_bytes += sum(len(change.after) for change in changes)
        while self._recent_bytes > _RECENT_BYTES:
            self._forget_oldest()

    async def bring_up(self) -> int:
        """Append the rows of every operation that the files lack; return how many operations that were."""
        checkpoint = self.checkpoint()
        if not self.fits(checkpoint):
            self._clear()
            checkpoint = Checkpoint(self._log_id)
        written = 0
        while checkpoint.seq < self._history.last_seq:
            written += self._append(checkpoint)
            await asyncio.sleep(0)
        self._forget_up_to(checkpoint.seq)
        return written

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
        line = self._history.line(checkpoint.seq)
        return (
            checkpoint.log_id == self._log_id
            and (line_checksum(line) if line else "") == checkpoint.checksum
            and all(_size(self._folder / name) >= length for name, length in checkpoint.lengths.items())
        )

    def _append(self, checkpoint: Checkpoint) -> int:
        texts: dict[str, list[bytes]] = defaultdict(list)
        operations = self._next_operations(checkpoint.seq)
        for _, rows in operations:
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
        checkpoint.seq = operations[-1][0] if operations else self._history.last_seq
        checkpoint.checksum = line_checksum(self._history.line(checkpoint.seq) or b"")
        self._note(checkpoint)
        return len(operations)

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


def rows_of(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, row as a line of JSON) for every change in lines of the log."""
    for line in lines:
        for name, row in _rows_of(line)[1]:
            yield name, row + b"\n"


def _rows_of(line: bytes) -> tuple[int, list[tuple[str, bytes]]]:
    record = orjson.loads(line)
    account = record["account"]
    rows = [
        (record_file(account, change["collection"]), record_of(change["collection"], change["after"]))
        for change in record["changes"]
    ]
    return record["seq"], rows


def _recorded(rows: _Rows) -> list[tuple[str, bytes]]:
    return [(record_file(account, collection), record_text(collection, text)) for account, collection, text in rows]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
