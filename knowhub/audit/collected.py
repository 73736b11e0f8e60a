"""The findings of one audit: all of them counted, and of each kind the gravest kept."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from knowhub.audit.model import Finding, Kind, Question, Severity

_SEVERITIES = list(Severity)
_KINDS = list(Kind)
_Kept = list[tuple[int, int, Finding]]


class Collected:
    """Takes findings in, and holds no more of each kind and severity than an answer may show."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._counts: Counter[Kind] = Counter()
        self._kept: dict[tuple[Severity, Kind], _Kept] = {}
        self._order = 0

    def add(self, finding: Finding, weight: int = 0) -> None:
        """Take in a finding, when its kind was asked for; of one kind the heaviest are shown, first come first."""
        if finding.kind not in self._question.kinds:
            return
        self._counts[finding.kind] += 1
        self._order += 1
        kept = self._kept.setdefault((finding.severity, finding.kind), [])
        entry = (weight, -self._order, finding)
        if len(kept) < self._question.limit:
            heapq.heappush(kept, entry)
        else:
            heapq.heappushpop(kept, entry)

    def summary(self, more: Mapping[Kind, int] | None = None) -> dict[str, int]:
        """Return how many findings there are of each kind that was asked for."""
        extra = more or {}
        return {kind.value: self._counts[kind] + extra.get(kind, 0) for kind in _KINDS if kind in self._question.kinds}

    def findings(self) -> list[Finding]:
        """Return the gravest first, as many as were asked for."""
        return list(islice(self._gravest_first(), self._question.limit))

    def _gravest_first(self) -> Iterator[Finding]:
        order = sorted(self._kept, key=lambda key: (_SEVERITIES.index(key[0]), _KINDS.index(key[1])))
        for key in order:
            for _, _, finding in sorted(self._kept[key], key=lambda entry: (entry[0], entry[1]), reverse=True):
                yield finding
