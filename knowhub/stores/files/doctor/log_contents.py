"""Read a log for the doctor, and compare what is derived from it. Nothing is created or written."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from knowhub.core.collection import Collections
from knowhub.core.operation import is_live
from knowhub.core.projection import CheckResult
from knowhub.core.row_check import RowCheck
from knowhub.engine.view import AccountView
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_reader import LogBounds, LogReader
from knowhub.stores.files.replica import Replica

LOST_OPERATION = "lose_operation"
"""The name of the operation that replaces each lost operation. It changes no row."""


class LogContents(Replica):
    """All that reading a log gave: the rows of every account, and the position of each operation.

    It implements `ProjectionLog`, so that derived files can be compared with it.
    """

    def __init__(self, log: ChangeLog, collections: Collections, row_checks: Sequence[RowCheck] = ()) -> None:
        super().__init__(log, collections, retry_key_lifetime_s=0.0)
        self._row_checks = row_checks
        self.log_id = ""
        self.lost: list[int] = []
        self.is_damaged = False

    @property
    def last_seq(self) -> int:
        """The number of the last operation."""
        return self.history.last_seq

    def list_sealed(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each account that has live sealed rows, with the data keys of these rows by their ids."""
        fields = {name: declared.sealed_field for name, declared in self.collections.items() if declared.sealed_field}
        for account in sorted(self.accounts):
            keys: dict[str, str] = {}
            for name, sealed_field in fields.items():
                rows = self.account(account).read_rows(name)
                keys |= {
                    row_id: row[sealed_field]["key_id"] for row_id, row in rows if is_live(row) and row[sealed_field]
                }
            if keys:
                yield account, keys

    def read(self, bounds: LogBounds) -> LogReader:
        """Read all of the log, and return what was found wrong. Raises OSError."""
        reader = LogReader(self._log, self)
        reader.read(bounds)
        self.log_id, self.is_damaged = reader.log_id, bool(reader.damage)
        return reader

    async def refresh(self) -> None:
        """Do nothing: what was read is compared as it is."""

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty where there is none."""
        return self.history.checksum(seq)

    def view(self, account: str) -> AccountView:
        """Return the rows of an account."""
        return AccountView(self.account(account), now=0.0)

    def load_rows(self, line: Line) -> None:
        """Load a line of the base. Raises one of SHAPE_ERRORS for another line."""
        super().load_rows(line)
        self._add_to_checks(line.record or {})

    def load_operation(self, line: Line) -> None:
        """Load the line of an operation. Raises one of SHAPE_ERRORS for another line."""
        super().load_operation(line)
        record = line.record or {}
        if record["op"] == LOST_OPERATION:
            self.lost.append(record["seq"])
        self._add_to_checks(record)

    def _add_to_checks(self, record: Mapping[str, Any]) -> None:
        for change in record.get("changes", ()):
            for check in self._row_checks:
                check.add(record["account"], change["collection"], change["after"])


_ADVICE: Final = (
    "nothing is lost: run `knowhub reindex`, or stop every KnowHub on this directory and run `knowhub doctor --repair`"
)


class CheckedProjection(Protocol):
    """What the doctor needs of a projection."""

    def check(self) -> CheckResult:
        """Compare what is on disk with what a rebuild would write. Raises OSError."""

    def discard(self) -> None:
        """Remove what is on disk, so that the next leader builds it again. Raises OSError."""


ProjectionsOf: TypeAlias = Callable[[LogContents], Iterable[tuple[str, CheckedProjection]]]
"""Returns the projections of a log, each with its name or path."""


def check_projections(
    projections: Iterable[tuple[str, CheckedProjection]], log: LogContents
) -> Iterator[tuple[CheckedProjection, Finding, bool]]:
    """Compare every projection with the log; yield what was found, and whether it is right, if perhaps behind the log.

    Raises OSError.
    """
    for name, projection in projections:
        if log.is_damaged:
            yield projection, Finding(Severity.NOTE, name, "not compared, as the log is damaged"), True
            continue
        result = projection.check()
        if not result.is_empty:
            is_right = result.fits and not result.differences
            yield projection, _describe(name, result, log), is_right


def _describe(name: str, result: CheckResult, log: LogContents) -> Finding:
    if not result.fits:
        return Finding(Severity.NOTE, name, "does not fit the log; the leader writes it again")
    if result.differences:
        detail = f"not as the log says: {format_names(list(result.differences))}"
        return Finding(Severity.PROBLEM, name, detail, _ADVICE)
    if result.position is None:
        return Finding(Severity.NOTE, name, "not written yet; the leader writes it")
    behind = log.last_seq - result.position
    if behind > 0:
        detail = f"{result.summary}; {behind} operations behind the log, which the leader brings in"
        return Finding(Severity.NOTE, name, detail)
    return Finding(Severity.OK, name, result.summary)
