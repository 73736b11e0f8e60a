"""The one check of everything derived from the log: each projection is built again in memory and compared."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from knowhub.core.projection import CheckResult
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names
from knowhub.stores.files.doctor.log_contents import LogContents

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
