"""Searching the tree: by name, else by spelling, else by a model that walks it (seed 000 §6.3, seed 001 §5.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_pages, rendering, tree
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.audit import DecisionLog
from knowhub.keywords.caches import DESCEND_TTL_S, EXACT_TTL_S, ResultCache
from knowhub.keywords.candidates_by_words import candidates_by_words
from knowhub.keywords.descent import Descended
from knowhub.keywords.model import ROOT_ID, Found, InfoQuery, Node, Options, SearchStatus
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView

EMPTY_QUERY = "empty_query"
EXACT = "exact"
PINYIN = "pinyin"
DISAMBIGUATED = "disambiguated"
UNDECIDED = "undecided"
LLM_DISABLED = "exact_miss_llm_disabled"
NO_LLM = "exact_miss_no_llm"
GONE = "gone_meanwhile"
DEGRADED = ("llm",)

_Path: TypeAlias = tuple[list[str], tuple[bytes, ...]]
"""The ids of the keywords of a path, and those of them that the caller sees as JSON text."""


class KeywordSearch:
    """Search over the keywords that the caller sees; whoever they do not see counts as missing.

    Without `caches` nothing is kept, without `log` no decision of a model is. What is kept is what an uncached search
    would answer: `ResultCache.touch` must hear of every operation.
    """

    def __init__(
        self,
        store: KeywordStore,
        text: KeywordText,
        agent: KeywordAgent,
        options: Options,
        caches: ResultCache | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self._store = store
        self._text = text
        self._agent = agent
        self._options = options
        self._caches = caches
        self._log = log

    async def search(
        self, ctx: RequestContext, query: str, *, expand: bool = True, disambiguate: bool = False
    ) -> Found:
        """Find the keyword that `query` names (KT-149…165).

        One of that name is the answer, several are ambiguous unless a model is to choose (`disambiguate`, C-23).
        Where there is none, pinyin is asked (C-19), and then with `expand` the model walks the tree; without it, or
        without a model, or when it fails, the answer offers what shares words with the query. Raises nothing for any
        text.
        """
        await self._store.refresh()
        asked = _Asked(ctx, query, tuple(self._text.tokens(query)))
        if not asked.tokens:
            return Found(SearchStatus.NOT_FOUND, reason=EMPTY_QUERY)
        chooses = disambiguate and self._agent.available
        kept: Found | None = self._kept(asked.key("exact"))
        if kept is not None and not (chooses and kept.status is SearchStatus.AMBIGUOUS):
            return kept
        view = self._store.view(ctx.account)
        hits = _union(map(view.by_token, asked.tokens))
        seen = [node for node in hits if ctx.sees(node.audience)]
        if len(seen) > 1 and chooses:
            return await self._disambiguate(asked, seen)
        if seen:
            return self._named(view, asked, seen, EXACT)
        spelt = _union(map(view.by_pinyin, asked.tokens))
        seen = [node for node in spelt if ctx.sees(node.audience)]
        return self._named(view, asked, seen, PINYIN) if seen else await self._expand(asked, expand=expand)

    def _named(self, view: KeywordView, asked: "_Asked", nodes: Sequence[Node], reason: str) -> Found:
        found, uses = self._one_or_many(view, asked.ctx, nodes, reason)
        self._keep(asked.key("exact"), asked, found, uses)
        return found

    async def _expand(self, asked: "_Asked", *, expand: bool) -> Found:
        if expand and self._agent.available:
            return self._descended_before(asked) or await self._descend(asked)
        view = self._store.view(asked.ctx.account)
        return self._not_found(view, asked, NO_LLM if expand else LLM_DISABLED)

    async def _disambiguate(self, asked: "_Asked", nodes: Sequence[Node]) -> Found:
        """Let the model choose among keywords of one name; where it does not, they are ambiguous (C-23)."""
        ctx, key = asked.ctx, asked.key("exact", "chosen")
        kept: Found | None = self._kept(key)
        if kept is not None:
            return kept
        view = self._store.view(ctx.account)
        # The model chooses by the paths of all of them.
        shown = [above.id for one in nodes for above in tree.path_of(view, one.id)]
        touches = self._touches(asked)
        chosen = await self._agent.disambiguate(ctx, view, asked.query, nodes, self._options.descent_budget_s)
        self._note(ctx, chosen.calls)
        view = self._store.view(ctx.account)
        left = _seen(view, ctx, _ids(nodes))
        node = next((one for one in left if one.id == chosen.node_id), None)
        if node is not None:
            found, uses = self._matched(view, ctx, node, DISAMBIGUATED)
            if touches == self._touches(asked):
                self._keep(key, asked, found, [*uses, *shown])
            return found
        if not left:
            return self._not_found(view, asked, GONE)
        found, _ = self._one_or_many(view, ctx, left, EXACT)
        if found.status is SearchStatus.MATCHED:
            return found
        if chosen.failure is not None:
            return replace(found, reason=chosen.failure, degraded=DEGRADED)
        return replace(found, reason=chosen.reason or UNDECIDED)

    def _descended_before(self, asked: "_Asked") -> Found | None:
        whole: Found | None = self._kept(asked.key("exact", "descended"))
        if whole is not None:
            return whole
        key, view = asked.key("descend"), self._store.view(asked.ctx.account)
        # What a file brought back is looked at before it is used.
        match self._kept(key):
            case {"path": [*_, str(keyword_id)], "reason": str(reason)} if keyword_id != ROOT_ID:
                node = rendering.seen_node(view, asked.ctx, keyword_id)
                return self._reached(view, asked, node, reason, self._left_s(key)) if node is not None else None
        return None

    async def _descend(self, asked: "_Asked") -> Found:
        ctx, touches = asked.ctx, self._touches(asked)
        descended = await self._agent.descend(
            ctx, lambda: self._store.view(ctx.account), asked.query, Intent.SEARCH, self._options.descent_budget_s
        )
        self._note(ctx, descended.calls)
        view = self._store.view(ctx.account)
        nodes = _seen(view, ctx, descended.candidates)
        if descended.failure is not None:
            found = self._not_found(view, asked, descended.failure, nodes)
            return replace(_with_suggestion(found, descended), degraded=DEGRADED)
        if descended.outcome == "missing":
            return _with_suggestion(Found(SearchStatus.NOT_FOUND, reason=descended.reason), descended)
        if descended.outcome == "ambiguous" and nodes:
            return self._ambiguous(view, ctx, nodes, descended.reason)[0]
        node = rendering.seen_node(view, ctx, descended.node_id) if descended.node_id is not None else None
        if node is None:
            # While the model thought, somebody deleted or hid what it chose.
            return self._not_found(view, asked, GONE)
        path = _ids(tree.path_of(view, node.id))
        if touches != self._touches(asked):
            # What was written while the model thought, it did not see.
            return self._matched(view, ctx, node, descended.reason)[0]
        self._keep(asked.key("descend"), asked, {"path": path, "reason": descended.reason}, path, DESCEND_TTL_S)
        return self._reached(view, asked, node, descended.reason, DESCEND_TTL_S)

    def _reached(self, view: KeywordView, asked: "_Asked", node: Node, reason: str, ttl_s: float) -> Found:
        # `ttl_s` is what the descent has left: an answer made of it again must not outlive it.
        found, uses = self._matched(view, asked.ctx, node, reason)
        self._keep(asked.key("exact", "descended"), asked, found, uses, min(ttl_s, EXACT_TTL_S))
        return found

    def _one_or_many(
        self, view: KeywordView, ctx: RequestContext, nodes: Sequence[Node], reason: str
    ) -> tuple[Found, list[str]]:
        if len(nodes) == 1:
            return self._matched(view, ctx, nodes[0], reason)
        return self._ambiguous(view, ctx, nodes, reason)

    def _ambiguous(
        self, view: KeywordView, ctx: RequestContext, nodes: Sequence[Node], reason: str
    ) -> tuple[Found, list[str]]:
        # Hundreds of one name help nobody to choose: as many are shown as a model would be.
        shown = nodes[: self._options.max_candidates]
        found = Found(SearchStatus.AMBIGUOUS, candidates=_short(view, ctx, shown), reason=reason)
        return found, [above.id for node in shown for above in tree.path_of(view, node.id)]

    def _not_found(self, view: KeywordView, asked: "_Asked", reason: str, nodes: Sequence[Node] = ()) -> Found:
        nearest = nodes or candidates_by_words(view, asked.ctx, self._text, asked.query)
        return Found(SearchStatus.NOT_FOUND, candidates=_short(view, asked.ctx, nearest), reason=reason)

    def _matched(self, view: KeywordView, ctx: RequestContext, node: Node, reason: str) -> tuple[Found, list[str]]:
        """Return a match with its path and first infos, and all on which that answer rests."""
        above_ids, above = self._above(view, ctx, node)
        page = info_pages.page_of_keyword(view, ctx, node.id, InfoQuery())
        with_children, alone = rendering.keyword_json_twice(view, ctx, node, len(above))
        found = Found(
            SearchStatus.MATCHED,
            node=with_children,
            path=(*above, alone),
            infos=tuple(info_pages.first_rows(view, page.shown)),
            reason=reason,
        )
        return found, [*above_ids, node.id, *page.examined]

    def _above(self, view: KeywordView, ctx: RequestContext, node: Node) -> _Path:
        """Return the ids of all keywords above a node, and those that the caller sees as JSON text (`path:id*`)."""
        if node.parent_id is None:
            return [], ()
        kept: _Path | None = self._kept(_path_key(ctx, node.parent_id))
        if kept is not None:
            return kept
        path = tree.path_of(view, node.parent_id)
        # Its own parent's path is shared by more: most of a new one is found there.
        upper: _Path = [], ()
        if len(path) > 1:
            upper = self._kept(_path_key(ctx, path[-2].id)) or self._extended(view, ctx, upper, path[:-1])
        return self._extended(view, ctx, upper, path[-1:])

    def _extended(self, view: KeywordView, ctx: RequestContext, upper: _Path, nodes: Sequence[Node]) -> _Path:
        # Keywords that the caller does not see are neither shown nor counted in the levels.
        seen = (one for one in nodes if ctx.sees(one.audience))
        rows = [
            rendering.keyword_json(view, ctx, one, with_children=False, level=level)
            for level, one in enumerate(seen, len(upper[1]))
        ]
        path = [*upper[0], *_ids(nodes)], (*upper[1], *rows)
        if self._caches is not None:
            uses = [(ctx.account, one) for one in path[0]]
            self._caches.put(_path_key(ctx, nodes[-1].id), path, EXACT_TTL_S, uses)
        return path

    def _touches(self, asked: "_Asked") -> int:
        return self._caches.touches(asked.ctx.account) if self._caches is not None else 0

    def _note(self, ctx: RequestContext, calls: Sequence[Row]) -> None:
        if self._log is not None and calls:
            self._log.note(ctx, calls)

    def _kept(self, key: str) -> Any:  # noqa: ANN401 -- each key has its own kind of value
        return self._caches.get(key) if self._caches is not None else None

    def _left_s(self, key: str) -> float:
        return self._caches.left_s(key) if self._caches is not None else 0.0

    def _keep(self, key: str, asked: "_Asked", value: object, uses: Iterable[str], ttl_s: float = EXACT_TTL_S) -> None:
        # Whatever happens to a keyword of this name touches the name: one that was hidden may come into sight.
        if self._caches is None:
            return
        account = asked.ctx.account
        used = [(account, one) for one in dict.fromkeys(uses)]
        used += [(account, f"token:{token}") for token in asked.tokens]
        if len(used) <= info_pages.MAX_USES:
            self._caches.put(key, value, ttl_s, used)


def _path_key(ctx: RequestContext, keyword_id: str) -> str:
    return f"path:{ctx.account}:{info_pages.reader(ctx)}:{keyword_id}"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One query of one caller, with its normal forms."""

    ctx: RequestContext
    query: str
    tokens: tuple[str, ...]

    def key(self, kind: str, how: str = "") -> str:
        """Name an answer to it. What a model had a part in has a name of its own: without it the answer is another."""
        return f"{kind}:{self.ctx.account}:{info_pages.reader(self.ctx)}:{how}:{' '.join(self.tokens)}"


def _with_suggestion(found: Found, descended: Descended) -> Found:
    parent_id, name = descended.suggested_parent_id, descended.suggested_name
    return replace(found, suggested_parent_id=parent_id, suggested_name=name)


def _short(view: KeywordView, ctx: RequestContext, nodes: Iterable[Node]) -> tuple[bytes, ...]:
    return tuple(rendering.keyword_json(view, ctx, node, with_children=False) for node in nodes)


def _seen(view: KeywordView, ctx: RequestContext, keyword_ids: Iterable[str]) -> list[Node]:
    nodes = (rendering.seen_node(view, ctx, keyword_id) for keyword_id in dict.fromkeys(keyword_ids))
    return [node for node in nodes if node is not None]


def _union(found: Iterable[Sequence[Node]]) -> list[Node]:
    """Join what several tokens found, each keyword once, oldest first (KT-190)."""
    some = list(found)
    if len(some) == 1 and len(some[0]) == 1:
        return list(some[0])
    nodes = {node.id: node for one in some for node in one}
    return sorted(nodes.values(), key=lambda node: node.ordinal)


def _ids(nodes: Iterable[Node]) -> list[str]:
    return [node.id for node in nodes]
