"""What an audit asks and answers: kinds of findings, how grave each is, what to do about it, and the report."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

DEFAULT_LIMIT = 200
MAX_LIMIT = 1000
DEFAULT_STALE_DAYS = 90
MAX_STALE_DAYS = 36_500


class FindingKind(StrEnum):
    """What may be wrong with a row; the order is that of the report, within one severity."""

    SECRET = "secret"  # noqa: S105 -- the name of a kind, and no secret
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    FEEDBACK_LOOP = "feedback_loop"
    STALE = "stale"


class AuditSeverity(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """What is wanted: at most `limit` findings, of these kinds only; a row is old after `stale_days`."""

    limit: int = DEFAULT_LIMIT
    kinds: frozenset[FindingKind] = frozenset(FindingKind)
    stale_days: float = DEFAULT_STALE_DAYS


@dataclass(frozen=True, slots=True)
class RowFinding:
    """One thing found on the row `id`, with the rows that it has to do with and what shows it."""

    kind: FindingKind
    severity: AuditSeverity
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
    findings: Sequence[RowFinding]

    @property
    def junk_rate(self) -> float:
        """Return the share of live records and infos that are junk; 0 where there are none."""
        rows = self.records + self.infos
        return round(self.junk / rows, 6) if rows else 0.0

    @property
    def is_truncated(self) -> bool:
        """Return whether there are more findings than are shown."""
        return sum(self.summary.values()) > len(self.findings)


@dataclass(frozen=True, slots=True)
class AuditDocument:
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
    def full_text(self) -> str:
        """Return what is compared: the task, where there is one, and the content."""
        return "\n".join(filter(None, (self.texts.get("task", ""), self.content)))


CREDENTIAL = "Change the credential where it is used; then erase this row, or take it out of the text."
DUPLICATE = "Keep the oldest, `id`, and delete the others."
NEAR_DUPLICATE = "Compare them: they may differ in what matters. Keep one that says all, delete the others."
KEYWORD_DUPLICATE = "Merge them, where they mean the same."
FEEDBACK_LOOP = "Delete it, unless it adds something of its own: then save that alone."
SEVERAL_AUTHORS = "Find out who said it first: what agents hand on to each other is no evidence."
STALE = {
    "expired": "Delete it, or give it another `valid_to`.",
    "superseded": "Nothing needs to be done; delete it when nobody asks for the past.",
    "bad_evidence": "Correct it, or delete it: it misled more often than its score is worth.",
    "untouched": "See whether it still holds; any feedback or change makes it fresh.",
}


_SEVERITIES = list(AuditSeverity)
_KINDS = list(FindingKind)


class FindingCollector:
    """Takes findings in, and holds few more of each kind and severity than an answer may show."""

    def __init__(self, question: AuditQuery) -> None:
        self._question = question
        self._counts: Counter[FindingKind] = Counter()
        self._kept: defaultdict[tuple[int, int], list[RowFinding]] = defaultdict(list)

    def add(self, finding: RowFinding) -> None:
        """Add a finding if its kind was asked for. Of too many, those with the most copies are kept."""
        if finding.kind not in self._question.kinds:
            return
        self._counts[finding.kind] += 1
        kept = self._kept[_SEVERITIES.index(finding.severity), _KINDS.index(finding.kind)]
        kept.append(finding)
        if len(kept) > 2 * self._question.limit:
            kept.sort(key=_count_copies, reverse=True)
            del kept[self._question.limit :]

    def count_findings(self, more: Mapping[FindingKind, int] | None = None) -> dict[str, int]:
        """Return how many findings there are of each kind that was asked for."""
        extra = more or {}
        return {kind.value: self._counts[kind] + extra.get(kind, 0) for kind in _KINDS if kind in self._question.kinds}

    def list_findings(self) -> list[RowFinding]:
        """Return the gravest first, as many as were asked for."""
        found = (sorted(self._kept[key], key=_count_copies, reverse=True) for key in sorted(self._kept))
        return [finding for findings in found for finding in findings][: self._question.limit]


def _count_copies(finding: RowFinding) -> int:
    copies: int = finding.evidence.get("copies", 0)
    return copies
