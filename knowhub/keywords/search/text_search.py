"""Search over the texts of the tree: names and descriptions of keywords, and infos, by words and by meaning."""

from knowhub.core.operation import View
from knowhub.core.recall import MAX_QUERY_CHARS, SearchHit, SearchHits, SearchIndex, get_visible_lag
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import visibility_facets
from knowhub.keywords.model import INFOS, KEYWORDS, ROOT_ID, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.candidates import MAX_BY_NAME, find_word_candidates
from knowhub.keywords.search.prompts import NearKeywordIds
from knowhub.keywords.tree import Info

MAX_BY_TEXT = 5
EVERYTHING = frozenset({KEYWORDS, INFOS})
ONLY_KEYWORDS = frozenset({KEYWORDS})


class TreeTextSearch:
    """Finds keywords and infos by their texts. `floor` is the least relevance to the rarest words of a query."""

    def __init__(self, index: SearchIndex[Node | Info], floor: float) -> None:
        self._index = index
        self._floor = floor

    async def find(
        self,
        ctx: RequestContext,
        text: str,
        limit: int,
        kinds: frozenset[str] = EVERYTHING,
        min_relevance: float | None = None,
    ) -> SearchHits[Node | Info]:
        """Return the best `limit` rows of these collections that the caller sees. Takes any text.

        The score of each is its relevance: from 0 to 1, comparable between queries.
        """
        groups = [kinds, *([] if ctx.visible is None else [visibility_facets(ctx.visible)])]

        def accept(summary: Node | Info) -> bool:
            return summary.live and summary.id != ROOT_ID and ctx.sees(summary.audience)

        query = text[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
        found = await self._index.search(ctx.account, query, groups, accept, limit)
        floor = found.get_floor(self._floor) if min_relevance is None else min_relevance
        hits = [SearchHit(hit.summary, round(min(1.0, found.get_relevance(hit)), 4)) for hit in found.hits]
        lag = get_visible_lag(ctx, found.index_lag)
        return SearchHits([hit for hit in hits if hit.score >= floor], lag, found.degraded)


class NearKeywords:
    """Finds the keywords that come near a query. Without `texts` these are those that share words with it."""

    def __init__(self, rules: KeywordText, texts: TreeTextSearch | None = None) -> None:
        self.rules = rules
        self.texts = texts

    async def find(self, view: View, ctx: RequestContext, query: str) -> NearKeywordIds:
        """Return up to ten keywords by their names, and up to five more by their texts."""
        by_name = tuple(node.id for node in find_word_candidates(view, ctx, self.rules, query))
        if self.texts is None:
            return NearKeywordIds(by_name)
        found = await self.texts.find(ctx, query, MAX_BY_NAME + MAX_BY_TEXT, ONLY_KEYWORDS)
        by_text = tuple(hit.summary.id for hit in found.hits if hit.summary.id not in by_name)
        return NearKeywordIds(by_name, by_text[:MAX_BY_TEXT], found.degraded)
