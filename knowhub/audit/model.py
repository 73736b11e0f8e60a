"""What an audit asks and answers: kinds of findings, how grave each is, and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

DEFAULT_LIMIT = 200
MAX_LIMIT = 1000
DEFAULT_STALE_DAYS = 90
MAX_STALE_DAYS = 36_500


class Kind(StrEnum):
    """What may be wrong with a row; the order is that of the report, within one severity."""

    SECRET = "secret"  # noqa: S105 -- the name of a kind, and no secret
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    FEEDBACK_LOOP = "feedback_loop"
    STALE = "stale"
    NEVER_FOUND = "never_found"


class Severity(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Question:
    """What is wanted: at most `limit` findings, of these kinds only; a row is old after `stale_days`."""

    limit: int = DEFAULT_LIMIT
    kinds: frozenset[Kind] = frozenset(Kind)
    stale_days: float = DEFAULT_STALE_DAYS


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found on the row `id`, with the rows that it has to do with and what shows it."""

    kind: Kind
    severity: Severity
    collection: str
    id: str
    evidence: Mapping[str, Any]
    suggestion: str
    related: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, worst first. `summary` counts all of them, also those beyond the limit."""

    account: str
    records: int
    infos: int
    junk: int
    summary: Mapping[str, int]
    findings: Sequence[Finding]
    searches_known_since: float

    @property
    def junk_rate(self) -> float:
        """Return the share of live records and infos that are junk; 0 where there are none."""
        rows = self.records + self.infos
        return round(self.junk / rows, 6) if rows else 0.0

    @property
    def is_truncated(self) -> bool:
        """Tell whether there are more findings than are shown."""
        return sum(self.summary.values()) > len(self.findings)


@dataclass(frozen=True, slots=True)
class Document:
    """A live row as the audit looks at it. `texts` are its fields by name."""

    collection: str
    id: str
    created_at: float
    author: str
    texts: Mapping[str, str]
    row: Mapping[str, Any] = field(repr=False)

    @property
    def content(self) -> str:
        """Return the text that others would quote."""
        return self.texts["content"]

    @property
    def whole(self) -> str:
        """Return what is compared: the task, where there is one, and the content."""
        return "\n".join(filter(None, (self.texts.get("task", ""), self.content)))
