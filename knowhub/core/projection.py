"""Projections: data that is derived from the log, kept on disk, and can be removed and built again at any time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Protocol, Self

from knowhub.core.operation import Row


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found: a projection is built again in memory and compared with what is on disk.

    `position` is the last operation that it holds, None where nothing is on disk. `fits` is False where it was made
    from another state of the log: then all of it is rebuilt. `differences` are the paths, below the data directory, of
    what differs from a rebuild. `summary` describes what was compared. `is_empty` says that there is nothing on
    disk, nor to be written.
    """

    position: int | None
    fits: bool = True
    differences: Sequence[str] = ()
    summary: str = ""
    is_empty: bool = False


class LogMark(Protocol):
    """The identity and the end of a log."""

    @property
    def log_id(self) -> str:
        """The identity of the log."""

    @property
    def last_seq(self) -> int:
        """The number of the last operation."""

    @property
    def last_erase_seq(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty where there is none."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far derived data has followed a log: up to the operation `seq`, whose line has this `checksum`.

    `last_erase_seq` is the number of the newest erase that the data knows of.
    """

    log_id: str
    seq: int
    checksum: str
    last_erase_seq: int

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Make a position from the object in a file; ignores keys that it does not know. Raises TypeError."""
        keys = {field.name: _STORED_NAMES.get(field.name, field.name) for field in fields(cls)}
        return cls(**{name: stored[key] for name, key in keys.items() if key in stored})

    def to_stored(self) -> dict[str, Any]:
        """Return the object for a file."""
        return {_STORED_NAMES.get(name, name): value for name, value in asdict(self).items()}

    def fits(self, log: LogMark) -> bool:
        """Return whether the data was made from this log."""
        return self.log_id == log.log_id and self.seq <= log.last_seq and self.checksum == log.checksum(self.seq)


_STORED_NAMES: Final = {"last_erase_seq": "erases"}


class ErasureProgress(Protocol):
    """How far derived data, keys or open files have followed the erases in the log."""

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that it knows of; None where nothing is on disk. Raises OSError."""


class Projection(ErasureProgress, Protocol):
    """What the leader process of a data directory keeps up to date with the log."""

    async def catch_up(self) -> None:
        """Apply the operations that it lacks; rebuild it where it does not fit the log. Raises OSError, KnowHubError.

        The leader alone calls this. A crash at any moment leaves something that the next call makes right.
        """


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """How a domain shows its rows as directories; each directory belongs to one row.

    `directory_id(collection, row_id)` names the row in whose directory a row is shown, None where it is shown in none.
    `path(row_id)` is the path of that directory; no row's directory is inside another's. `live_ids(view)` yields the
    rows of an account that have one. `sources(view, row_id)` names the collection and the id of all rows that make a
    directory, None where the row has no directory (any more). `render(rows)` makes the files of these rows, by
    name, in the order in which they are to be written; it may run in a thread.
    """

    directory_id: Callable[[str, str], str | None]
    path: Callable[[str], str]
    live_ids: Callable[[Any], Iterator[str]]
    sources: Callable[[Any, str], Sequence[tuple[str, str]] | None]
    render: Callable[[Sequence[Row]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """The record file of a collection: its `name`, and `encode(row)`, which makes a JSON object of a row."""

    name: str
    encode: Callable[[Row], Mapping[str, Any]]
