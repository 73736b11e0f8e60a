"""Finding records: recall, routing, rules, then quality, each step able to say why (seed 003 检索流程, seed 004)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowhub.core.clock import Clock
from knowhub.core.recall import LEXICAL, Hit, Part, told_lag
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import ranking
from knowhub.knowledge.explanation import why
from knowhub.knowledge.model import COLLECTION, Found, Head, SearchQuery
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeStore, KnowledgeView
from knowhub.knowledge.rules import OVER_BUDGET, Rules
from knowhub.knowledge.showings import Showings, Shown
from knowhub.knowledge.stages import Stages
from knowhub.knowledge.token_budget import cut_to, estimated_tokens, fitting

_SHOWN = ("id", "task", "content", "types", "type", "tags", "scopes", "owner", "resource_ids")
_EVALUATION_SHOWN = ("score", "helpful", "harmful", "confidence", "effective")
_TEXTS = ("task", "content")


@dataclass(frozen=True, slots=True)
class Aids:
    """What helps a search, none of it needed: a hub with nothing configured has no stages.

    `note_shown(account, ids)` is told what each search showed; it must not fail.
    """

    stages: Stages = field(default_factory=Stages)
    showings: Showings | None = None
    note_shown: Callable[[str, Sequence[str]], None] | None = None


class KnowledgeRetrieval:
    """Search over the records that the caller sees; with no LLM and no embedder it is exact arithmetic."""

    def __init__(self, store: KnowledgeStore, index: KnowledgeIndex, clock: Clock, aids: Aids | None = None) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._aids = aids or Aids()

    async def search(self, ctx: RequestContext, query: SearchQuery) -> Found:
        """Return the best `top_k` records, always so many when that many match (KM-057…066).

        Fewer only where a token budget ends before. A part that fails is named in `degraded` and costs no more than
        its own say.
        """
        await self._store.refresh()
        view = self._store.view(ctx.account)
        shown = Shown(query.session_id, query.goal_id)
        known = self._aids.showings.known(ctx, shown) if self._aids.showings is not None else frozenset()
        as_of = self._clock.now() if query.as_of is None else query.as_of
        rules = Rules(view, ctx, query, as_of, known if query.unseen else frozenset())
        stages = self._aids.stages
        limit = stages.recalled_at_most(query)
        recalled = await self._index.search(ctx.account, query.text, rules.groups(), rules.accept, limit)
        pooled = await stages.ordered(ctx, query, view, rules, _with_parts(recalled.hits))
        chosen = _within_budget(view, query, rules, ranking.chosen(pooled.hits, query.top_k, query.order))
        hits = ranking.arranged(chosen, query.order, ctx)
        records = [self._present(view, ctx, query, hit) for hit in hits]
        if shown.is_named:
            records = [{**record, "shown": record["id"] in known} for record in records]
        self._note(ctx, shown, [hit.head.id for hit in hits])
        return Found(
            records,
            told_lag(ctx, recalled.index_lag),
            rules.explanation() if query.explain else None,
            [*recalled.degraded, *pooled.degraded],
            None if query.budget_tokens is None else sum(map(_cost, records)),
        )

    def _present(
        self, view: KnowledgeView, ctx: RequestContext, query: SearchQuery, hit: Hit[Head]
    ) -> Mapping[str, Any]:
        row = view.get(COLLECTION, hit.head.id) or {}
        record = {name: row[name] for name in _SHOWN}
        record["eval"] = {name: row["eval"][name] for name in _EVALUATION_SHOWN if name in row["eval"]}
        record["quality_score"] = ranking.head_quality(hit.head)
        if query.budget_tokens is not None:
            record |= _cut(record, query.budget_tokens)
        if query.explain:
            record["why"] = why(ctx, query, self._index, hit, row)
        return record

    def _note(self, ctx: RequestContext, shown: Shown, ids: Sequence[str]) -> None:
        if self._aids.note_shown is not None:
            self._aids.note_shown(ctx.account, ids)
        if self._aids.showings is not None:
            self._aids.showings.note(ctx, shown, ids)


def _with_parts(hits: Sequence[Hit[Head]]) -> list[Hit[Head]]:
    # An index over words alone need not say so of each hit.
    return [
        hit if hit.parts else replace(hit, parts=(Part(LEXICAL, rank, hit.relevance),))
        for rank, hit in enumerate(hits, 1)
    ]


def _within_budget(view: KnowledgeView, query: SearchQuery, rules: Rules, chosen: list[Hit[Head]]) -> list[Hit[Head]]:
    """Return those whose texts fit the budget together, the best before all; the very best in any case."""
    if query.budget_tokens is None:
        return chosen
    kept = fitting([_cost(view.get(COLLECTION, hit.head.id) or {}) for hit in chosen], query.budget_tokens)
    for place in set(range(len(chosen))).difference(kept):
        rules.drop(chosen[place].head.id, OVER_BUDGET)
    return [chosen[place] for place in kept]


def _cost(texts: Mapping[str, Any]) -> int:
    return sum(estimated_tokens(texts[name]) for name in _TEXTS)


def _cut(texts: Mapping[str, Any], budget: int) -> dict[str, Any]:
    task = cut_to(texts["task"], budget)
    content = cut_to(texts["content"], budget - estimated_tokens(task))
    return {"task": task, "content": content, "truncated": (task, content) != (texts["task"], texts["content"])}
