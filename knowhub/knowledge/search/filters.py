"""The rules that a record must pass to be found. Each has a name that an explanation can give."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import table
from knowhub.knowledge.model import KNOWLEDGE, KnowledgeSummary, SearchQuery
from knowhub.knowledge.visibility import list_visible_replacements

ALREADY_SHOWN = "already_shown"
OVER_BUDGET = "over_budget"
BELOW_FLOOR = "below_min_relevance"
_MAX_EXPLAINED = 50


@dataclass(slots=True)
class SearchFilter:
    """The rules of one search at one moment. It remembers which rule dropped which record.

    `as_of` is in seconds since the epoch; `shown_ids` were shown before, and are dropped.
    """

    view: View
    ctx: RequestContext
    query: SearchQuery
    as_of: float
    shown_ids: frozenset[str] = frozenset()
    _dropped: dict[str, str] = field(default_factory=dict)

    def get_row(self, knowledge_id: str) -> Row:
        """Return the row of a record that was found."""
        return self.view.get(KNOWLEDGE, knowledge_id) or {}

    def make_groups(self) -> list[frozenset[str]]:
        """Return the facet filters: visibility first, then those of the query."""
        return table.limit_to_visible(self.query.filters, self.ctx)

    def accept(self, summary: KnowledgeSummary, *, is_reported: bool = True) -> bool:
        """Return whether a relevant record passes; remember the rule that it breaks, if `is_reported`."""
        # A hidden record is dropped before a rule could name it.
        if not summary.live or not self.ctx.sees(summary.audience):
            return False
        rule = self._find_rule(summary)
        if rule is not None and is_reported:
            self.drop(summary.id, rule)
        return rule is None

    def drop(self, knowledge_id: str, rule: str) -> None:
        """Remember that a record was dropped, and by which rule."""
        if self.query.explain:
            self._dropped[knowledge_id] = rule

    def explain(self) -> Mapping[str, Any]:
        """Return the first 50 dropped records with their rules, in the order of relevance, and the count of all."""
        dropped = [{"id": row_id, "rule": rule} for row_id, rule in self._dropped.items()]
        return {"filtered": dropped[:_MAX_EXPLAINED], "filtered_count": len(dropped)}

    def _find_rule(self, summary: KnowledgeSummary) -> str | None:
        """Return the name of the first rule that drops a record; None if it passes."""
        # Without `as_of`, only a record that supersedes another may begin later: all others are stored already.
        may_begin_later = self.query.as_of is not None or summary.supersedes is not None
        rule = None
        if summary.valid_from is not None and self.as_of < summary.valid_from:
            rule = "not_yet_valid"
        elif summary.valid_to is not None and self.as_of >= summary.valid_to:
            rule = "no_longer_valid"
        elif may_begin_later and self.as_of < _get_start(summary):
            rule = "not_yet_valid"
        elif self._is_superseded(summary):
            rule = "superseded"
        elif summary.score < self.query.min_score:
            rule = "score_below_min_score"
        elif not self.query.created.contains(summary.created_at):
            rule = "created_out_of_range"
        elif summary.id in self.shown_ids:
            rule = ALREADY_SHOWN
        return rule

    def _is_superseded(self, summary: KnowledgeSummary) -> bool:
        newer = list_visible_replacements(self.view, self.ctx, summary.id)
        return any(_get_start(replacement) <= self.as_of for replacement in newer)


def _get_start(newer: KnowledgeSummary) -> float:
    """Return when a record begins to count: its `valid_from`, else its creation."""
    return newer.created_at if newer.valid_from is None else newer.valid_from
