"""The layout of a data directory and its version (`docs/reference/data-directory.md`)."""

from dataclasses import dataclass
from pathlib import Path

import orjson

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem, replace_file

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The names of everything that a data directory holds."""

    root: Path

    @property
    def format(self) -> Path:
        return self.root / "FORMAT"

    @property
    def lock(self) -> Path:
        return self.root / "LOCK"

    @property
    def keeper(self) -> Path:
        return self.root / "KEEPER"

    @property
    def change_log(self) -> Path:
        return self.root / "change_log"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def indexes(self) -> Path:
        return self.root / "indexes"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"


def check_format(files: FileSystem, directory: DataDirectory) -> None:
    """Refuse a directory that a newer KnowHub wrote, before a byte of it is touched. Raises Unavailable."""
    try:
        text = files.read(directory.format)
    except FileNotFoundError:
        return
    try:
        version = orjson.loads(text)["knowhub_data"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
        raise Unavailable(f"{directory.format} is damaged; it should hold {format_text()!r}") from problem
    if version != FORMAT_VERSION:
        raise Unavailable(
            f"{directory.root} has data format {version}; this KnowHub reads format {FORMAT_VERSION}. "
            "Nothing was touched: start a KnowHub that knows it, or name another data directory"
        )


def write_format(files: FileSystem, directory: DataDirectory) -> None:
    """Mark the directory with the version of its layout, once. Raises OSError."""
    if not directory.format.exists():
        replace_file(files, directory.format, format_text().encode())


def format_text() -> str:
    """Return what the FORMAT file holds."""
    return f'{{"knowhub_data":{FORMAT_VERSION}}}\n'
