"""The layout of a data directory and its version (`docs/reference/data-directory.md`)."""

import re
from pathlib import Path
from typing import Final

import orjson

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.lock import contains_position

_PREFIX: Final = "snapshot_"
_SUFFIX: Final = ".tar.gz"
TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z(?:-[0-9]{1,6})?")
FORMAT_VERSION = 2
"""Since version 2 a manifest says which files of the log are current."""
ARCHIVE_VERSION = 1
"""What a snapshot says of itself: a log in it has no manifest, so that every version reads it."""
_READ_VERSIONS = (1, FORMAT_VERSION)
KEYRING = "keys/keyring.json"
PUT_LOG_BACK = "put change_log/ back from a backup before anything is started here, which would begin an empty log"


class DataDirectory:
    """The paths of everything that a data directory holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.format = root / "FORMAT"
        self.lock = root / "LOCK"
        self.leader_lock = root / "KEEPER"
        self.change_log = root / "change_log"
        self.records = root / "records"
        self.indexes = root / "indexes"
        self.context = root / "context"
        self.snapshots = root / "snapshots"
        self.keys = root / "keys"
        self.keyring = root / KEYRING
        self.master_key = self.keys / "master.key"
        self.quarantine = root / "quarantine"

    def list_quarantine(self) -> list[Path]:
        """Return the files with bytes that were removed from the log."""
        return sorted(self.quarantine.iterdir()) if self.quarantine.is_dir() else []


def check_format(files: FileSystem, directory: DataDirectory) -> None:
    """Refuse a directory that a newer KnowHub wrote, before a byte of it is touched. Raises Unavailable, OSError."""
    try:
        text = files.read(directory.format)
    except FileNotFoundError:
        return
    try:
        version = orjson.loads(text)["knowhub_data"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
        raise Unavailable(f"{directory.format} is damaged; it should hold {format_text()!r}") from problem
    if version not in _READ_VERSIONS:
        raise Unavailable(
            f"{directory.root} has data format {version}; this KnowHub reads format {FORMAT_VERSION}. "
            "Nothing was touched: start a KnowHub that knows it, or name another data directory"
        )


def check_log(files: FileSystem, directory: DataDirectory) -> None:
    """Refuse a directory whose log is missing although other files were made from one. Raises Unavailable and OSError.

    Without a log the store would start an empty one, and the leader would rebuild the record files from that.
    """
    # Traces are searched before the log: a process that creates the directory meanwhile creates the log first.
    witness = find_log_trace(files, directory)
    if witness is None or any(name.startswith(("segment-", "base-")) for name in files.names(directory.change_log)):
        return
    raise Unavailable(
        f"{directory.change_log} is gone or empty, and {witness} tells of a log. Nothing was touched: {PUT_LOG_BACK}"
    )


def find_log_trace(files: FileSystem, directory: DataDirectory) -> Path | None:
    """Return a file that exists only if a log was written: a record file, or a LOCK with a position."""
    records = next(directory.records.rglob("*.jsonl"), None)
    if records is not None:
        return records
    try:
        return directory.lock if contains_position(files.read(directory.lock)) else None
    except FileNotFoundError:
        return None


def write_format(files: FileSystem, directory: DataDirectory) -> None:
    """Write the version of the layout into a new directory, or into one of an earlier version. Raises OSError."""
    text = format_text().encode()
    if not directory.format.exists() or files.read(directory.format) != text:
        replace_file(files, directory.format, text)


def format_text(version: int = FORMAT_VERSION) -> str:
    """Return what the FORMAT file of a version holds."""
    return f'{{"knowhub_data":{version}}}\n'


def snapshot_path(directory: DataDirectory, ts: str) -> Path:
    """Return where a snapshot lies."""
    return directory.snapshots / f"{_PREFIX}{ts}{_SUFFIX}"


def list_timestamps(files: FileSystem, directory: DataDirectory) -> list[str]:
    """Return the timestamps in the names of all snapshots, also of files that only look like one. Raises OSError."""
    names = [name for name in files.names(directory.snapshots) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return [name[len(_PREFIX) : -len(_SUFFIX)] for name in names]
