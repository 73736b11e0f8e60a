"""The optional models of a search: a router that picks records by their tasks, and a reranker that orders them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from knowhub.core.background_writes import NoteCalls
from knowhub.core.language_models import ChatFailed, ChatModel, ChatRequest, Reranker, rank_texts
from knowhub.core.model_calls import DATA_RULE, ModelConversation, NumberedChoices, list_pointers, make_question
from knowhub.core.operation import Row
from knowhub.core.recall import StageScore
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import RERANK, ROUTING, DroppedPart, KnowledgeSummary, ListQuery
from knowhub.knowledge.search.filters import BELOW_FLOOR, SearchFilter
from knowhub.knowledge.search.ranking import RecordHit
from knowhub.knowledge.table import find_record, list_records

ROUTE = "route_knowledge"
DEFAULT_BUDGET_S = 3.0
DEFAULT_CANDIDATES = 100
DEFAULT_RERANK_BUDGET_S = 3.0
DEFAULT_RERANKED = 50
LLM = "llm"
RERANKER = "reranker"
_RERANKED_CHARS = 2_000
TASK_CHARS = 100
_QUERY_CHARS = 1_000

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "the ids of the candidates that are about the query, the most related first",
        },
        "reason": {"type": "string", "description": "why, in one short sentence"},
    },
    "required": ["ids"],
}

_TASK = f"""
You route a question to records of a knowledge base. Each candidate has an `id`, its `types`, and the beginning of its
`task`: in what situation it helps, and to what end. Choose the candidates that would help whoever asks `query`, by what
they mean and not by the words they share, the most related first, at most `most` of them. An empty list is a fine
answer.
{DATA_RULE}
Texts may be Chinese, English or mixed. Give ids exactly as they are listed, and only ones that are listed. Answer with
one JSON object."""


Picks: TypeAlias = tuple[list[str], Sequence[DroppedPart]]
"""The ids of the records that a model picked, and how many of its picks were left out."""


class Router:
    """Asks a model which candidates are about a question. A failing model never raises here.

    `budget_s` is for one routing, retries included; `max_candidates` are shown at once.
    """

    def __init__(
        self,
        chat: ChatModel,
        record_calls: NoteCalls,
        budget_s: float = DEFAULT_BUDGET_S,
        max_candidates: int = DEFAULT_CANDIDATES,
    ) -> None:
        self._chat = chat
        self._record_calls = record_calls
        self._budget_s = budget_s
        self.max_candidates = max_candidates

    async def route(self, ctx: RequestContext, query: str, candidates: Sequence[Row], max_picks: int) -> Picks | None:
        """Return up to `max_picks` records that the model picks; it may pick none. None if it fails.

        An answer with unknown ids only is a failure.
        """
        choices = NumberedChoices([candidate["id"] for candidate in candidates])
        conversation = ModelConversation(self._chat, self._budget_s)
        try:
            question = make_routing_question(query, candidates, max_picks)
            return await conversation.ask(
                question, choices.by_idx, lambda answer: parse_picks(answer, choices, max_picks)
            )
        except ChatFailed:
            return None
        finally:
            self._record_calls(ctx, conversation.calls)


def make_routing_question(query: str, candidates: Sequence[Row], max_picks: int) -> ChatRequest:
    """Ask which of the candidates are about the query."""
    data = {
        "query": query[:_QUERY_CHARS],
        "most": max_picks,
        "candidates": [
            {"id": row["id"], "types": row["types"], "task": row["task"][:TASK_CHARS]} for row in candidates
        ],
    }
    return make_question(ROUTE, _TASK, data, SCHEMA)


def parse_picks(answer: Mapping[str, Any], choices: NumberedChoices, max_picks: int) -> Picks | None:
    """Return the first `max_picks` picks of an answer, each once; None when it names only unknown ids."""
    if not isinstance(answer.get("ids"), list):
        return None
    named = list_pointers(answer["ids"])
    picked = [item for item in map(choices.pick, named) if item is not None]
    if named and not picked:
        return None
    ids = list(dict.fromkeys(picked))
    left_out = (("unknown", len(named) - len(picked)), ("too_many", len(ids) - max_picks))
    return ids[:max_picks], [DroppedPart("picks", why, count) for why, count in left_out if count > 0]


@dataclass(frozen=True, slots=True)
class KnowledgeReranking:
    """A reranker with its limits: `budget_s` seconds, and `max_records` at once."""

    reranker: Reranker
    budget_s: float = DEFAULT_RERANK_BUDGET_S
    max_records: int = DEFAULT_RERANKED


@dataclass(slots=True)
class HitPool:
    """The hits of one search, best first, for the optional models between recall and ranking.

    `degraded` names the models that failed: their stage keeps the order. `routed` are the picks of a router that
    decided, and `dropped` those that were left out. Hits that changed while a model ran are filtered again.
    """

    rules: SearchFilter
    hits: list[RecordHit]
    degraded: list[str] = field(default_factory=list)
    routed: list[str] | None = None
    dropped: Sequence[DroppedPart] = ()

    async def route(self, router: Router, is_relevant: Callable[[RecordHit], bool]) -> None:
        """Replace the hits by the picks of a model, at most 2·k; keep them if it fails or has nothing to choose."""
        summaries = self._list_candidates(router.max_candidates)
        relevant = sum(map(is_relevant, self.hits))
        query = self.rules.query
        if len(summaries) <= min(relevant, query.top_k):
            # Every candidate was recalled and will be returned: there is nothing to choose.
            return
        picks = await router.route(
            self.rules.ctx, query.text, list(map(self.rules.get_row, summaries)), 2 * query.top_k
        )
        if picks is None:
            self.degraded.append(LLM)
        else:
            self.routed, self.dropped = picks
            recalled = {hit.summary.id: hit for hit in self.hits}
            found = (recalled.get(picked) or RecordHit(summaries[picked]) for picked in self.routed)
            self.hits = [
                replace(hit, stages=(*hit.stages, StageScore(ROUTING, rank, None))) for rank, hit in enumerate(found, 1)
            ]
        self._refresh_hits()

    def drop_irrelevant(self, is_relevant: Callable[[RecordHit], bool]) -> None:
        """Leave out the hits that are not relevant enough."""
        for hit in self.hits:
            if not is_relevant(hit):
                self.rules.drop(hit.summary.id, BELOW_FLOOR)
        self.hits = list(filter(is_relevant, self.hits))

    async def rerank(self, reranking: KnowledgeReranking) -> None:
        """Order the first hits by the reranker's scores; equal scores keep the order."""
        first, rest = self.hits[: reranking.max_records], self.hits[reranking.max_records :]
        if len(first) < 2:  # noqa: PLR2004 -- a single hit needs no order
            return
        rows = [self.rules.get_row(hit.summary.id) for hit in first]
        texts = [f"{row['task']}\n{row['content']}"[:_RERANKED_CHARS].strip() for row in rows]
        ranked = await rank_texts(reranking.reranker, self.rules.query.text, texts, reranking.budget_s)
        if ranked is None:
            self.degraded.append(RERANKER)
        else:
            ordered = [
                replace(first[index], stages=(*first[index].stages, StageScore(RERANK, rank, score)))
                for rank, (index, score) in enumerate(ranked, 1)
            ]
            self.hits = [*ordered, *rest]
        self._refresh_hits()

    def _list_candidates(self, max_candidates: int) -> dict[str, KnowledgeSummary]:
        """Return the recalled records, and all that the caller may find if these are not more than `max_candidates`."""
        summaries = {hit.summary.id: hit.summary for hit in self.hits}
        newest = list_records(self.rules.view, ListQuery(self.rules.make_groups(), max_candidates + 1))
        if len(newest) <= max_candidates:
            summaries |= {item.id: item for item in newest if self.rules.accept(item, is_reported=False)}
        return dict(list(summaries.items())[:max_candidates])

    def _refresh_hits(self) -> None:
        # While a model runs, records may be deleted, hidden or voted down.
        current = ((hit, find_record(self.rules.view, hit.summary.id)) for hit in self.hits)
        self.hits = [
            replace(hit, summary=summary)
            for hit, summary in current
            if summary is not None and self.rules.accept(summary, is_reported=False)
        ]
