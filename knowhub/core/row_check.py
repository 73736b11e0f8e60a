"""Checks of rows against one another, which `knowhub doctor` runs over a whole log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class RowProblem:
    """What is wrong, with which rows, and what to do about it. With `is_note` it may be intended."""

    subject: str
    detail: str
    rows: Sequence[str]
    advice: str
    is_note: bool = False


class RowCheck(Protocol):
    """A check that a domain makes on its rows. `name` is the subject if nothing is wrong."""

    name: str

    def add(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        """Take the newest version of a row so far."""

    def find_problems(self) -> Iterator[RowProblem]:
        """Yield what is wrong with the rows, all rows with the same problem together."""

    def summarize(self) -> str | None:
        """Describe what was checked; None if there was nothing to check."""
