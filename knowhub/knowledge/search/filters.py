"""The rules that a record must pass to be found. Each has a name that an explanation can give."""

from collections.abc import Mapping
from typing import Any

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import table
from knowhub.knowledge.model import KnowledgeSummary, SearchQuery
from knowhub.knowledge.table import find_replacements

ALREADY_SHOWN = "already_shown"
OVER_BUDGET = "over_budget"
BELOW_FLOOR = "below_min_relevance"
_MOST_EXPLAINED = 50


class SearchFilter:
    """The rules of one search at one moment. It remembers which rule dropped which record.

    `as_of` is in seconds since the epoch; `shown_ids` are dropped, too.
    """

    def __init__(
        self,
        view: View,
        ctx: RequestContext,
        query: SearchQuery,
        as_of: float,
        shown_ids: frozenset[str] = frozenset(),
    ) -> None:
        self._view = view
        self._ctx = ctx
        self._query = query
        self._as_of = as_of
        self._shown_ids = shown_ids
        self._dropped: dict[str, str] = {}

    def groups(self) -> list[frozenset[str]]:
        """Return the facet filters: visibility first, then those of the query."""
        return table.limit_to_visible(self._query.filters, self._ctx)

    def accept(self, summary: KnowledgeSummary) -> bool:
        """Return whether a relevant record passes; remember the rule that it breaks."""
        # A hidden record is dropped before a rule could name it.
        if not self._is_visible(summary):
            return False
        rule = self._find_rule(summary)
        if rule is not None:
            self.drop(summary.id, rule)
        return rule is None

    def passes(self, summary: KnowledgeSummary) -> bool:
        """Return whether a record passes all rules."""
        return self._is_visible(summary) and self._find_rule(summary) is None

    def drop(self, knowledge_id: str, rule: str) -> None:
        """Remember that a record was dropped, and by which rule."""
        if self._query.explain:
            self._dropped[knowledge_id] = rule

    def explain(self) -> Mapping[str, Any]:
        """Return the first 50 dropped records with their rules, in the order of relevance, and the count of all."""
        dropped = [{"id": row_id, "rule": rule} for row_id, rule in self._dropped.items()]
        return {"filtered": dropped[:_MOST_EXPLAINED], "filtered_count": len(dropped)}

    def _is_visible(self, summary: KnowledgeSummary) -> bool:
        return summary.live and self._ctx.sees(summary.audience)

    def _find_rule(self, summary: KnowledgeSummary) -> str | None:
        """Return the name of the first rule that drops a record; None if it passes."""
        return (
            find_time_rule(summary, self._as_of)
            or ("not_yet_valid" if self._is_future(summary) else None)
            or ("superseded" if self._is_superseded(summary) else None)
            or ("score_below_min_score" if summary.score < self._query.min_score else None)
            or (None if self._query.created.contains(summary.created_at) else "created_out_of_range")
            or (ALREADY_SHOWN if summary.id in self._shown_ids else None)
        )

    def _is_future(self, summary: KnowledgeSummary) -> bool:
        # Today's records are stored already. A record that supersedes another may take effect later.
        if self._query.as_of is None and summary.supersedes is None:
            return False
        return self._as_of < _effective_from(summary)

    def _is_superseded(self, summary: KnowledgeSummary) -> bool:
        # A record that the caller cannot see must not hide another record.
        for newer in find_replacements(self._view, summary.id):
            if newer.id != summary.id and self._ctx.sees(newer.audience) and _effective_from(newer) <= self._as_of:
                return True
        return False


def find_time_rule(summary: KnowledgeSummary, as_of: float) -> str | None:
    """Return the name of the rule that drops a record for its validity; None if it is valid at `as_of`."""
    if summary.valid_from is not None and as_of < summary.valid_from:
        return "not_yet_valid"
    return "no_longer_valid" if summary.valid_to is not None and as_of >= summary.valid_to else None


def _effective_from(newer: KnowledgeSummary) -> float:
    """Return when a record begins to count: its `valid_from`, else its creation."""
    return newer.created_at if newer.valid_from is None else newer.valid_from
