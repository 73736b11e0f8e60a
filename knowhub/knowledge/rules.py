"""The rules that a record must pass to be found, each with a name that an explanation can give."""

from collections.abc import Mapping
from typing import Any

from knowhub.core.clock import parse_iso
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import heads, ranking
from knowhub.knowledge.model import COLLECTION, Head, SearchQuery
from knowhub.knowledge.ports import KnowledgeView

ALREADY_SHOWN = "already_shown"
OVER_BUDGET = "over_budget"
_FILTERED_SHOWN = 50


class Rules:
    """The rules of one search at one moment; remembers for an explanation which rule dropped which.

    `as_of` in seconds since the epoch; `left_out` are the ids that the caller was shown and does not want again.
    """

    def __init__(
        self,
        view: KnowledgeView,
        ctx: RequestContext,
        query: SearchQuery,
        as_of: float,
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        self._view = view
        self._ctx = ctx
        self._query = query
        self._as_of = as_of
        self._left_out = left_out
        self._dropped: dict[str, str] = {}

    def groups(self) -> list[frozenset[str]]:
        """Return what a record must have one of: who sees it, then its types and scopes where they are asked."""
        groups = [heads.audience_facets(self._ctx.visible)] if self._ctx.visible is not None else []
        if self._query.types:
            groups.append(frozenset(heads.facet("type", kind) for kind in self._query.types))
        if self._query.scopes:
            groups.append(frozenset(heads.facet("scope", scope) for scope in self._query.scopes))
        return groups

    def accept(self, head: Head) -> bool:
        """Tell whether a record that is about the question passes, and remember why it does not."""
        # What the caller may not see is dropped before any rule could name it.
        if not self._is_there(head):
            return False
        rule = self._rule_against(head)
        if rule is not None:
            self.drop(head.id, rule)
        return rule is None

    def passes(self, head: Head) -> bool:
        """Tell whether a record passes, of which nothing says yet that it is about the question."""
        return self._is_there(head) and self._rule_against(head) is None

    def drop(self, knowledge_id: str, rule: str) -> None:
        """Remember that a record was left out, and by which rule."""
        if self._query.explain:
            self._dropped[knowledge_id] = rule

    def explanation(self) -> Mapping[str, Any]:
        """Return what was dropped and why, in the order of relevance, the first 50."""
        dropped = [{"id": row_id, "rule": rule} for row_id, rule in self._dropped.items()]
        return {"filtered": dropped[:_FILTERED_SHOWN], "filtered_count": len(dropped)}

    def _is_there(self, head: Head) -> bool:
        return head.live and self._ctx.sees(head.audience)

    def _rule_against(self, head: Head) -> str | None:
        return (
            ranking.validity_against(head, self._as_of)
            or self._not_yet_made(head)
            or self._superseded(head)
            or ranking.rule_against(head, self._query.min_score)
            or (ALREADY_SHOWN if head.id in self._left_out else None)
        )

    def _not_yet_made(self, head: Head) -> str | None:
        # What replaces another does so from one moment on: before it the old one stands, and only that.
        if head.supersedes is not None and self._as_of < self._effective_from(head):
            return "not_yet_valid"
        return None

    def _superseded(self, head: Head) -> str | None:
        # A record that the caller cannot see must not make one disappear that they can.
        for newer in self._view.superseders(head.id):
            if newer.id != head.id and self._ctx.sees(newer.audience) and self._effective_from(newer) <= self._as_of:
                return "superseded"
        return None

    def _effective_from(self, newer: Head) -> float:
        """Return when a record begins to replace the one that it supersedes: as it says, or as it was made."""
        if newer.valid_from is not None:
            return newer.valid_from
        row = self._view.get(COLLECTION, newer.id) or {}
        return parse_iso(row["created_at"])
