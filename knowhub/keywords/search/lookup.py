"""Search of the keyword tree: by name, then by pinyin, then by a model that walks down the tree."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from knowhub.core.background_writes import DecisionLog
from knowhub.core.operation import Store, View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.cache import NO_CACHE, ResultCache
from knowhub.keywords.missed import MissedQuery, record_missed_query
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    InfoQuery,
    KeywordSearchResult,
    Node,
    SearchStatus,
    TextRows,
    TreeOptions,
)
from knowhub.keywords.search.agent import NO_MODEL, KeywordAgent
from knowhub.keywords.search.prompts import Goal, NearKeywordIds
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.tree import BY_KEYWORD, BY_NAME, BY_PINYIN, Info

EXACT = "exact"
_EXPANDED_INFOS = 5
GONE = "gone_meanwhile"
DEGRADED = ("llm",)


class KeywordSearch:
    """Search over the keywords that the caller sees; hidden keywords count as missing.

    Without `log` no missed query is recorded. A cached answer always equals a fresh one: `Invalidation` must receive
    every operation.
    """

    def __init__(
        self,
        store: Store,
        near: NearKeywords,
        agent: KeywordAgent,
        options: TreeOptions,
        cache: ResultCache = NO_CACHE,
        log: DecisionLog | None = None,
    ) -> None:
        self._store = store
        self._near = near
        self._text = near.rules
        self._agent = agent
        self._options = options
        self._cache = cache
        self._log = log

    async def search(
        self,
        ctx: RequestContext,
        query: str,
        *,
        expand: bool = True,
        disambiguate: bool = False,
        with_infos: bool = False,
    ) -> KeywordSearchResult:
        """Find the keyword that `query` names; never raises for any text.

        Several keywords of one name are ambiguous; with `disambiguate` a model chooses. If no name matches, full pinyin
        is looked up. Then, with `expand`, a model walks the tree. Otherwise, or if the model fails, the answer has
        candidates that come near the query by words or by meaning. The id or the path of a keyword finds it too. With
        `with_infos` each of several candidates has its first infos.
        """
        found = await self._search(ctx, query, expand=expand, disambiguate=disambiguate)
        return self._add_infos(ctx, found) if with_infos and found.candidate_ids else found

    async def search_texts(
        self, ctx: RequestContext, text: str, limit: int, min_relevance: float | None = None
    ) -> TextRows:
        """Return the keywords and infos whose texts fit best, by words and by meaning."""
        await self._store.refresh(ctx.account)
        if self._near.texts is None:
            return TextRows()
        found = await self._near.texts.find(ctx, text, limit, min_relevance=min_relevance)
        view = self._store.view(ctx.account)
        rows = []
        for hit in found.hits:
            summary = hit.summary
            if isinstance(summary, Info):
                rows += [(INFOS, hit.score, row) for row in rendering.render_infos(view, [summary])]
            else:
                rows.append((KEYWORDS, hit.score, rendering.render_candidate(view, ctx, summary)))
        return TextRows(rows, found.index_lag, found.degraded)

    async def _search(
        self, ctx: RequestContext, query: str, *, expand: bool, disambiguate: bool
    ) -> KeywordSearchResult:
        await self._store.refresh(ctx.account)
        request = _SearchRequest(ctx, query, tuple(self._text.name_keys(query)))
        if not request.name_keys:
            return KeywordSearchResult(SearchStatus.NOT_FOUND, reason="empty_query")
        chooses = disambiguate and self._agent.available
        cached: KeywordSearchResult | None = self._cache.get(request.cache_key)
        if cached is not None and not (chooses and cached.status is SearchStatus.AMBIGUOUS):
            return cached
        view = self._store.view(ctx.account)
        hits = _join_nodes(view.lookup(BY_NAME, name_key) for name_key in request.name_keys)
        seen = [node for node in hits if ctx.sees(node.audience)]
        if len(seen) > 1 and chooses:
            return await self._disambiguate(request, seen)
        if seen:
            return self._match_names(view, request, seen, EXACT)
        found = self._find_by_id_or_path(view, request)
        if found is None and expand and self._agent.available:
            found = await self._descend(request)
        return found or await self._make_not_found(request, NO_MODEL if expand else "exact_miss_llm_disabled")

    def _find_by_id_or_path(self, view: View, request: "_SearchRequest") -> KeywordSearchResult | None:
        """Find a keyword by its id, its path or its full pinyin."""
        ctx, query = request.ctx, request.query
        named = rendering.get_visible_node(view, ctx, query.strip())
        if named is not None:
            return self._render_match(view, ctx, named, "id")[0]
        seen = rendering.find_by_path(view, ctx, self._text, query) if rendering.SEPARATOR in query else []
        if seen:
            return self._make_answer(view, ctx, seen, "path")[0]
        spelt = _join_nodes(view.lookup(BY_PINYIN, name_key) for name_key in request.name_keys)
        seen = [node for node in spelt if ctx.sees(node.audience) and self._has_full_pinyin(view, request, node)]
        return self._match_names(view, request, seen, "pinyin") if seen else None

    def _has_full_pinyin(self, view: View, request: "_SearchRequest", node: Node) -> bool:
        # Many words share their initials, so initials give candidates, never a match.
        row = rendering.get_keyword_row(view, node.id)
        spellings = (spelt for name in (row["name"], *row["aliases"]) for spelt in self._text.spellings(name))
        return any(spelt in request.name_keys for spelt in spellings)

    def _match_names(
        self, view: View, request: "_SearchRequest", nodes: Sequence[Node], reason: str
    ) -> KeywordSearchResult:
        found, row_ids = self._make_answer(view, request.ctx, nodes, reason)
        # Any change of a keyword of this name invalidates the answer: a hidden keyword may become visible.
        names = [*dict.fromkeys(row_ids), *(f"name:{name_key}" for name_key in request.name_keys)]
        if len(names) <= rendering.MAX_DEPENDENCIES:
            rows = (found.node or b"", *found.path, *found.infos, *found.candidates)
            self._cache.put(request.cache_key, found, [(request.ctx.account, name) for name in names], rows)
        return found

    async def _disambiguate(self, request: "_SearchRequest", nodes: Sequence[Node]) -> KeywordSearchResult:
        """Let the model choose among keywords of one name; if it does not, the answer is ambiguous."""
        ctx = request.ctx
        view = self._store.view(ctx.account)
        chosen = await self._agent.disambiguate(ctx, view, request.query, nodes, self._options.descent_budget_s)
        self._agent.record_calls(ctx, chosen.calls)
        view = self._store.view(ctx.account)
        left = _list_visible_nodes(view, ctx, _list_ids(nodes))
        node = next((item for item in left if item.id == chosen.node_id), None)
        if node is not None:
            return self._render_match(view, ctx, node, "disambiguated")[0]
        if not left:
            return await self._make_not_found(request, GONE)
        found, _ = self._make_answer(view, ctx, left, EXACT)
        if found.status is SearchStatus.MATCHED:
            return found
        if chosen.failure is not None:
            return replace(found, reason=chosen.failure, degraded=DEGRADED)
        return replace(found, reason=chosen.reason or "undecided")

    async def _descend(self, request: "_SearchRequest") -> KeywordSearchResult:
        """Let the model walk down the tree. If it finds nothing or fails, the candidates are those without a model."""
        ctx = request.ctx
        near = await self._near.find(self._store.view(ctx.account), ctx, request.query)
        descended = await self._agent.descend(
            ctx,
            lambda: self._store.view(ctx.account),
            Goal(request.query, near=near, normal_form=request.normal_form),
            self._options.descent_budget_s,
        )
        self._agent.record_calls(ctx, descended.calls)
        view = self._store.view(ctx.account)
        if descended.outcome == "missing":
            found = self._render_near(view, ctx, near, descended.reason)
            degraded = (*(DEGRADED if descended.failure is not None else ()), *near.degraded)
            parent_id, name = descended.suggested_parent_id, descended.suggested_name
            if self._log is not None and descended.calls and descended.failure is None:
                missed = MissedQuery(request.query, parent_id, name, descended.reason)
                self._log.start(ctx, lambda view: record_missed_query(ctx, missed, request.normal_form, view))
            return replace(found, suggested_parent_id=parent_id, suggested_name=name, degraded=degraded)
        nodes = _list_visible_nodes(view, ctx, descended.candidates)
        if nodes:
            return self._make_ambiguous(view, ctx, nodes, descended.reason)[0]
        node = rendering.get_visible_node(view, ctx, descended.node_id) if descended.node_id is not None else None
        if node is None:
            # The chosen keyword was deleted or hidden while the model was asked.
            return self._render_near(view, ctx, near, GONE)
        return self._render_match(view, ctx, node, descended.reason)[0]

    def _make_answer(
        self, view: View, ctx: RequestContext, nodes: Sequence[Node], reason: str
    ) -> tuple[KeywordSearchResult, list[str]]:
        if len(nodes) == 1:
            return self._render_match(view, ctx, nodes[0], reason)
        return self._make_ambiguous(view, ctx, nodes, reason)

    def _make_ambiguous(
        self, view: View, ctx: RequestContext, nodes: Sequence[Node], reason: str
    ) -> tuple[KeywordSearchResult, list[str]]:
        # At most as many as a model would be shown.
        shown = nodes[: self._options.max_candidates]
        found = KeywordSearchResult(
            SearchStatus.AMBIGUOUS,
            candidates=_render_nodes(view, ctx, shown),
            candidate_ids=_list_ids(shown),
            reason=reason,
        )
        dependencies = [above.id for node in shown for above in tree.get_path(view, node.id)]
        if not ctx.sees_everything:
            # A hidden info may become visible, and count.
            links = (islice(view.lookup(BY_KEYWORD, node.id), rendering.MAX_SIZE) for node in shown)
            dependencies += [link.info_id for of_node in links for link in of_node]
        return found, dependencies

    def _add_infos(self, ctx: RequestContext, found: KeywordSearchResult) -> KeywordSearchResult:
        view = self._store.view(ctx.account)
        query = InfoQuery(size=_EXPANDED_INFOS)
        rows = []
        for node in _list_visible_nodes(view, ctx, found.candidate_ids):
            page = rendering.get_info_page(view, ctx, node.id, query)
            infos = rendering.render_first_infos(view, page.shown)
            rows.append(rendering.render_candidate(view, ctx, node, infos))
        return replace(found, candidates=rows)

    async def _make_not_found(self, request: "_SearchRequest", reason: str) -> KeywordSearchResult:
        ctx = request.ctx
        near = await self._near.find(self._store.view(ctx.account), ctx, request.query)
        return self._render_near(self._store.view(ctx.account), ctx, near, reason)

    def _render_near(self, view: View, ctx: RequestContext, near: NearKeywordIds, reason: str) -> KeywordSearchResult:
        nodes = _list_visible_nodes(view, ctx, [*near.by_name, *near.by_text])
        return KeywordSearchResult(
            SearchStatus.NOT_FOUND,
            candidates=_render_nodes(view, ctx, nodes),
            candidate_ids=_list_ids(nodes),
            reason=reason,
            degraded=near.degraded,
        )

    def _render_match(
        self, view: View, ctx: RequestContext, node: Node, reason: str
    ) -> tuple[KeywordSearchResult, list[str]]:
        """Return a match with its path and first infos, and the ids that the answer depends on."""
        path = rendering.render_path(view, ctx, node)
        page = rendering.get_info_page(view, ctx, node.id, InfoQuery())
        found = KeywordSearchResult(
            SearchStatus.MATCHED,
            node=rendering.render_keyword(view, ctx, node, with_children=True, level=len(path) - 1),
            path=tuple(path),
            infos=tuple(rendering.render_first_infos(view, page.shown)),
            reason=reason,
        )
        return found, [*_list_ids(tree.get_path(view, node.id)), *page.examined]


@dataclass(frozen=True, slots=True)
class _SearchRequest:
    """One query of one caller, with the keys by which it is looked up."""

    ctx: RequestContext
    query: str
    name_keys: tuple[str, ...]

    @property
    def normal_form(self) -> str:
        """The query without differences of spelling that do not matter."""
        return " ".join(self.name_keys)

    @property
    def cache_key(self) -> str:
        """The key of the answer by name."""
        return f"exact:{self.ctx.account}:{rendering.make_reader_key(self.ctx.visible)}:{self.normal_form}"


def _render_nodes(view: View, ctx: RequestContext, nodes: Iterable[Node]) -> tuple[bytes, ...]:
    return tuple(rendering.render_candidate(view, ctx, node) for node in nodes)


def _list_visible_nodes(view: View, ctx: RequestContext, keyword_ids: Iterable[str]) -> list[Node]:
    nodes = (rendering.get_visible_node(view, ctx, keyword_id) for keyword_id in dict.fromkeys(keyword_ids))
    return [node for node in nodes if node is not None]


def _join_nodes(found: Iterable[Sequence[Node]]) -> list[Node]:
    """Join the matches of several keys, each keyword once, oldest first."""
    nodes = {node.id: node for item in found for node in item}
    return sorted(nodes.values(), key=lambda node: node.ordinal)


def _list_ids(nodes: Iterable[Node]) -> list[str]:
    return [node.id for node in nodes]
