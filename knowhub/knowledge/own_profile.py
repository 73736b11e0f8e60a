"""What an agent loads at its start: what is known about the caller, the surest first (KS-056, KS-057)."""

from knowhub.core.clock import Clock
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import heads
from knowhub.knowledge.model import COLLECTION, Head, KnowledgeType, ListQuery, SearchQuery
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView
from knowhub.knowledge.rules import Rules
from knowhub.knowledge.shown import shown_json

_LOOKED_AT = 1_000
_ANY_SCORE = 1


class OwnProfile:
    """Profile records of a caller, of the newest 1,000."""

    def __init__(self, store: KnowledgeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def records(self, ctx: RequestContext, limit: int) -> list[bytes]:
        """Return up to `limit` profile records that stand now, by confidence, then by helpfulness, as JSON text.

        A named caller's are those for or of their user and agent: what somebody else shared about themselves with the
        caller's project is no profile of the caller, nor is what an admin sees. The local principal's are all.
        """
        await self._store.refresh()
        view = self._store.view(ctx.account)
        rules = Rules(view, ctx, SearchQuery("", min_score=_ANY_SCORE), self._clock.now())
        filters = [frozenset({heads.facet("type", KnowledgeType.USER_PROFILE)})]
        if not ctx.is_root:
            filters.append(heads.audience_facets(ctx.own))
        standing = [head for head in view.page(ListQuery(filters, _LOOKED_AT)) if rules.passes(head)]
        ranked = sorted(standing, key=lambda head: _rank(view, head))
        return [shown_json(view, ctx, head) for head in ranked[:limit]]


def _rank(view: KnowledgeView, head: Head) -> tuple[float, int]:
    row: Row = view.get(COLLECTION, head.id) or {}
    return -row["eval"]["confidence"], -head.helpful
