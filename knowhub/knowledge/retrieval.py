"""Finding records: recall, then rules, then quality, each step able to say why (seed 003 检索流程, seed 004)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowhub.core import scopes
from knowhub.core.clock import Clock, parse_iso
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import heads, ranking
from knowhub.knowledge.model import COLLECTION, Found, Head, Hit, Order, SearchQuery
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeStore, KnowledgeView

_SHOWN = ("id", "task", "content", "types", "type", "tags", "scopes", "owner", "resource_ids")
_EVALUATION_SHOWN = ("score", "helpful", "harmful", "confidence")
_FILTERED_SHOWN = 50


class KnowledgeRetrieval:
    """Search over the records that the caller sees; with no LLM and no embedder it is exact arithmetic.

    `note_shown(account, ids)` is told what each search showed; it must not fail.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        index: KnowledgeIndex,
        clock: Clock,
        note_shown: Callable[[str, Sequence[str]], None] | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._note_shown = note_shown

    async def search(self, ctx: RequestContext, query: SearchQuery) -> Found:
        """Return the best `top_k` records, always so many when that many match (KM-057…064)."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        rules = _Rules(view, ctx, query, self._clock.now() if query.as_of is None else query.as_of)
        limit = query.top_k if query.order is Order.RELEVANCE else 2 * query.top_k
        recalled = await self._index.search(ctx.account, query.text, _groups(ctx, query), rules.accept, limit)
        chosen = ranking.select(recalled.hits, query.top_k, query.order, ctx)
        records = [self._present(view, ctx, query, hit, rank) for hit, rank in _with_ranks(chosen, recalled.hits)]
        if self._note_shown is not None:
            self._note_shown(ctx.account, [hit.head.id for hit in chosen])
        explanation = rules.explanation() if query.explain else None
        return Found(records, recalled.index_lag, explanation)

    def _present(
        self, view: KnowledgeView, ctx: RequestContext, query: SearchQuery, hit: Hit, rank: int
    ) -> Mapping[str, Any]:
        row = view.get(COLLECTION, hit.head.id) or {}
        record = {name: row[name] for name in _SHOWN}
        record["eval"] = {name: row["eval"][name] for name in _EVALUATION_SHOWN}
        record["quality_score"] = ranking.head_quality(hit.head)
        if query.explain:
            record["why"] = self._why(ctx, query, hit, rank, row)
        return record

    def _why(
        self, ctx: RequestContext, query: SearchQuery, hit: Hit, rank: int, row: Mapping[str, Any]
    ) -> dict[str, Any]:
        head = hit.head
        tags = " ".join(f"{name} {value}" for name, value in row["tags"].items())
        return {
            "recall": {
                "stage": "lexical",
                "rank": rank,
                "score": round(hit.relevance, 4),
                "matched": self._index.matched_terms(query.text, row["task"], row["content"], tags),
            },
            "quality": {
                "score": head.score,
                "helpful": head.helpful,
                "harmful": head.harmful,
                "formula": "score + helpful - 2.0*harmful",
                "quality_score": ranking.head_quality(head),
            },
            "scope": {
                "seen_by": scopes.best(head.scopes, head.owner, ctx.visible),
                "rank": scopes.rank(head.scopes, head.owner, ctx.visible),
            },
            "order": query.order.value,
        }


class _Rules:
    """The rules that every candidate must pass; remembers for an explanation which rule dropped which."""

    def __init__(self, view: KnowledgeView, ctx: RequestContext, query: SearchQuery, as_of: float) -> None:
        self._view = view
        self._ctx = ctx
        self._query = query
        self._as_of = as_of
        self._dropped: dict[str, str] = {}

    def accept(self, head: Head) -> bool:
        # What the caller may not see is dropped before any rule could name it.
        if not head.live or not self._ctx.sees(head.audience):
            return False
        rule = self._rule_against(head)
        if rule is not None and self._query.explain:
            self._dropped[head.id] = rule
        return rule is None

    def explanation(self) -> Mapping[str, Any]:
        """Return what was dropped and why, in the order of relevance, the first 50."""
        dropped = [{"id": row_id, "rule": rule} for row_id, rule in self._dropped.items()]
        return {"filtered": dropped[:_FILTERED_SHOWN], "filtered_count": len(dropped)}

    def _rule_against(self, head: Head) -> str | None:
        return (
            ranking.validity_against(head, self._as_of)
            or self._not_yet_made(head)
            or self._superseded(head)
            or ranking.rule_against(head, self._query.min_score)
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


def _groups(ctx: RequestContext, query: SearchQuery) -> list[frozenset[str]]:
    """Return what every record must have one of: who sees it, then its types and scopes where they are asked."""
    groups = [heads.audience_facets(ctx.visible)] if ctx.visible is not None else []
    if query.types:
        groups.append(frozenset(heads.facet("type", kind) for kind in query.types))
    if query.scopes:
        groups.append(frozenset(heads.facet("scope", scope) for scope in query.scopes))
    return groups


def _with_ranks(chosen: list[Hit], recalled: Sequence[Hit]) -> list[tuple[Hit, int]]:
    ranks = {hit.head.id: rank for rank, hit in enumerate(recalled, start=1)}
    return [(hit, ranks[hit.head.id]) for hit in chosen]
