"""What stands between recall and quality where it is configured: a model that routes, a reranker that orders."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from knowhub.core.recall import Hit, Part
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import COLLECTION, ROUTING, Head, ListQuery, Order, SearchQuery
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.reranking import Reranking
from knowhub.knowledge.routing import Candidate, Router
from knowhub.knowledge.rules import Rules

LLM = "llm"
RERANKER = "reranker"
_RERANKED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Pooled:
    """Hits best first, and the parts that were needed and failed."""

    hits: Sequence[Hit[Head]]
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages that a search goes through between recall and quality; None is a stage that is not configured."""

    router: Router | None = None
    reranking: Reranking | None = None

    def recalled_at_most(self, query: SearchQuery) -> int:
        """Return how many hits recall is to find, so that every stage has enough to choose from."""
        pool = query.top_k if query.order is Order.RELEVANCE else 2 * query.top_k
        shown = self.router.most_candidates if self.router is not None else 0
        read = self.reranking.most if self.reranking is not None else 0
        return max(pool, shown, read)

    async def ordered(
        self, ctx: RequestContext, query: SearchQuery, view: KnowledgeView, rules: Rules, recalled: Sequence[Hit[Head]]
    ) -> Pooled:
        """Return what was recalled in the order that the stages give it; one that fails leaves the order as it was.

        The model picks 2·k of its candidates, and recall's order fills what it leaves. The reranker orders those 2·k;
        where nothing was routed, the first of recall. Whatever stands no longer when they have answered is left out.
        """
        pool = _Pool(ctx, query, view, rules, list(recalled))
        is_routed = self.router is not None and await pool.route(self.router)
        if self.reranking is not None:
            most = self.reranking.most
            await pool.rerank(self.reranking, min(most, 2 * query.top_k) if is_routed else most)
        return Pooled(pool.hits, pool.degraded)


@dataclass(slots=True)
class _Pool:
    """The hits of one search on their way from stage to stage."""

    ctx: RequestContext
    query: SearchQuery
    view: KnowledgeView
    rules: Rules
    hits: list[Hit[Head]]
    degraded: list[str] = field(default_factory=list)

    async def route(self, router: Router) -> bool:
        """Put first what the model picks; tell whether it did."""
        candidates = self._candidates(router.most_candidates)
        if not _is_a_choice(candidates, self.hits, self.query.top_k):
            return False
        told = [_candidate(self.view, head) for head in candidates]
        routed = await router.route(self.ctx, self.query.text, told, 2 * self.query.top_k)
        if routed.has_failed:
            self.degraded.append(LLM)
        else:
            self.hits = _picked_first(self.hits, candidates, routed.ids)
        self._keep_what_stands()
        return not routed.has_failed

    async def rerank(self, reranking: Reranking, most: int) -> None:
        """Put the first `most` in the reranker's order."""
        first, rest = self.hits[:most], self.hits[most:]
        if len(first) < 2:  # noqa: PLR2004 -- one alone has an order
            return
        ordered = await reranking.ordered(self.query.text, first, [_text(self.view, hit.head) for hit in first])
        if ordered is None:
            self.degraded.append(RERANKER)
        else:
            self.hits = [*ordered, *rest]
        self._keep_what_stands()

    def _candidates(self, most: int) -> list[Head]:
        """Return what the model chooses among: all that the caller may find while that fits, else what was recalled."""
        heads = {hit.head.id: hit.head for hit in self.hits}
        newest = self.view.page(ListQuery(self.rules.groups(), most + 1))
        if len(newest) <= most:
            heads |= {head.id: head for head in newest if self.rules.passes(head)}
        return list(heads.values())[:most]

    def _keep_what_stands(self) -> None:
        # While a model thinks, records are deleted, hidden and voted down.
        newest = ((hit, self.view.head(hit.head.id)) for hit in self.hits)
        self.hits = [replace(hit, head=head) for hit, head in newest if head is not None and self.rules.passes(head)]


def _is_a_choice(candidates: Sequence[Head], recalled: Sequence[Hit[Head]], top_k: int) -> bool:
    # Where all there is was recalled and will be answered, nothing is left to choose.
    return len(candidates) > min(len(recalled), top_k)


def _candidate(view: KnowledgeView, head: Head) -> Candidate:
    row = view.get(COLLECTION, head.id) or {}
    return Candidate(head.id, head.types, row["task"])


def _text(view: KnowledgeView, head: Head) -> str:
    row = view.get(COLLECTION, head.id) or {}
    return f"{row['task']}\n{row['content']}"[:_RERANKED_CHARS].strip()


def _picked_first(hits: Sequence[Hit[Head]], candidates: Sequence[Head], picked: Sequence[str]) -> list[Hit[Head]]:
    recalled = {hit.head.id: hit for hit in hits}
    heads = {head.id: head for head in candidates}
    first = []
    for rank, knowledge_id in enumerate(picked, 1):
        hit = recalled.pop(knowledge_id, None) or Hit(heads[knowledge_id], 0.0)
        first.append(replace(hit, parts=(*hit.parts, Part(ROUTING, rank, None))))
    return [*first, *recalled.values()]
