"""What a check found, and whether somebody has to act."""

from dataclasses import dataclass
from enum import StrEnum

RESTORE = (
    "the good records stay readable and nothing more is written; stop every KnowHub on this directory, keep a copy of "
    "it, and put this file back from a backup, or run `knowhub doctor --repair`"
)
REPAIR = "stop every KnowHub on this directory and run `knowhub doctor --repair`"

_MEGABYTE = 1024 * 1024
_NAMED = 5


class Severity(StrEnum):
    """`ok`: checked and good. `note`: nobody has to act. `problem`: somebody has to act."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, what was found, and what to do about it."""

    severity: Severity
    subject: str
    detail: str
    advice: str = ""


def format_size(count: int) -> str:
    """Write a number of bytes as a person reads it."""
    return f"{count} bytes" if count < _MEGABYTE else f"{count // _MEGABYTE} MiB"


def format_names(names: list[str]) -> str:
    """Name the first few of many."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def format_ranges(numbers: list[int]) -> str:
    """Write ascending numbers as `3, 7-9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
