"""The newest row under every key of a log, in memory: what a snapshot held, and what is to be compared with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_reading import LogEnd, LogTold, read_log
from knowhub.stores.files.log.sliced_line import SlicedChange, row_text


@dataclass(frozen=True, slots=True)
class LogRows:
    """What a log told, and rows by collection and id, tombstones too, in the order of their creation, as JSON text."""

    told: LogTold
    rows: Mapping[tuple[str, str], bytes]


def latest_rows(files: FileSystem, folder: Path, account: str | None, *, end: LogEnd | None = None) -> LogRows:
    """Read the rows of an account, of none if it is None, out of a change_log folder that is durable up to `end`.

    Raises DamagedLog for the first thing that is wrong, whosever it is, and OSError.
    """
    rows: dict[tuple[str, str], bytes] = {}

    def take(of: str, changes: Sequence[SlicedChange], _seq: int) -> None:
        texts = {(change.collection, change.id): row_text(change) for change in changes}
        if of == account:
            rows.update(texts)

    return LogRows(read_log(files, folder, take, end=end), rows)
