"""records/*.jsonl: every version of every row, for people and tools to read; derived, never trusted (seed 000 §4.1)."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

import orjson

from knowhub.core.request_context import DEFAULT_ACCOUNT
from knowhub.stores.files.history import History
from knowhub.stores.files.log_line import line_checksum, parsed, seal

_OPERATIONS_PER_TURN = 200


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
        last = min(checkpoint.seq + _OPERATIONS_PER_TURN, self._history.last_seq)
        lines = list(self._history.lines_up(checkpoint.seq, _OPERATIONS_PER_TURN))
        for name, text in rows_of(lines):
            texts[name].append(text)
        for name, rows in texts.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                # What stands behind the checkpoint was written by a keeper that died: it is written again.
                file.truncate(checkpoint.lengths.get(name, 0))
                file.write(b"".join(rows))
                checkpoint.lengths[name] = file.tell()
        checkpoint.seq = last
        checkpoint.checksum = line_checksum(self._history.line(last) or b"")
        self._note(checkpoint)
        return len(lines)

    def _note(self, checkpoint: Checkpoint) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / "checkpoint.json.tmp"
        temporary.write_bytes(seal(orjson.dumps(asdict(checkpoint))[:-1]))
        temporary.rename(self._folder / "checkpoint.json")

    def _clear(self) -> None:
        for path in sorted(self._folder.rglob("*.jsonl")):
            path.unlink()


def rows_of(lines: Iterable[bytes]) -> Iterable[tuple[str, bytes]]:
    """Yield (file name, row as a line of JSON) for every change in lines of the log."""
    for line in lines:
        record = orjson.loads(line)
        account = record["account"]
        folder = "" if account == DEFAULT_ACCOUNT else f"accounts/{quote(account, safe='').replace('.', '%2E')}/"
        for change in record["changes"]:
            yield f"{folder}{change['collection']}.jsonl", orjson.dumps(change["after"]) + b"\n"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
