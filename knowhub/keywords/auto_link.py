"""Which keywords a content is about: those that it mentions, and what a model makes of them (KT-236…240, G-27)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, info_decisions, mentions, rendering
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, Options, RelationType
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView

BY_AGENT = "agent"
BY_RULE = "auto_link"
MAX_MENTIONED = 1_000


@dataclass(frozen=True, slots=True)
class AutoLinks:
    """Where an info belongs, chosen before the decision that writes it: what is gone by then is left out.

    `names` are keywords that are to be created, `calls` what a model was asked, `degraded` says that it failed.
    """

    links: Sequence[tuple[str, RelationType]] = ()
    created_by: str = BY_RULE
    names: Sequence[str] = ()
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()


class AutoLinker:
    """Chooses the keywords of an info, and says what linking them writes."""

    def __init__(self, store: KeywordStore, text: KeywordText, ids: Ids, agent: KeywordAgent, options: Options) -> None:
        self._store = store
        self._text = text
        self._ids = ids
        self._agent = agent
        self._options = options

    async def choose(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Let the model choose among the keywords that a content mentions; without it, or when it fails, take all.

        Where nothing is mentioned, or nothing of it fits, and the policy allows it, the names that the model suggests
        are to be created (KT-238).
        """
        view = self._store.view(ctx.account)
        nodes = self._mentioned(view, ctx, content)
        may_create = self._options.auto_link_creates
        if not self._agent.available or not (nodes or may_create):
            return _all_related(nodes)
        chosen = await self._agent.link_info(ctx, view, content, nodes, self._options.write_budget_s)
        if chosen.failure is not None:
            fallback = _all_related(nodes)
            return AutoLinks(fallback.links, fallback.created_by, (), chosen.calls, ("llm",))
        names = chosen.suggested_names if may_create and not chosen.links else ()
        return AutoLinks(chosen.links, BY_AGENT, names, chosen.calls)

    @contextmanager
    def keeping_calls(self, ctx: RequestContext, auto: AutoLinks) -> Iterator[Callable[[], Sequence[Row]]]:
        """Yield what gives the calls to the operation of an info; those that it does not take are kept without it.

        So it is where the info is refused or broken off, or is a retry of one that came in meanwhile.
        """
        is_taken = False

        def taken() -> Sequence[Row]:
            nonlocal is_taken
            is_taken = True
            return list(auto.calls)

        try:
            yield taken
        finally:
            if not is_taken:
                self._agent.note(ctx, auto.calls)

    def mentions(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Take every keyword that a content mentions, as RELATED; no model is asked."""
        return _all_related(self._mentioned(self._store.view(ctx.account), ctx, content))

    def writes(
        self, view: KeywordView, ctx: RequestContext, info_id: str, auto: AutoLinks, *, explicit: frozenset[str]
    ) -> list[Write]:
        """Return the new keywords and links of an info that is being created; `explicit` ones are linked already."""
        created: dict[str, Row] = {}
        links = {
            keyword_id: relation
            for keyword_id, relation in auto.links
            if keyword_id not in explicit and rendering.seen_node(view, ctx, keyword_id) is not None
        }
        for name in auto.names:
            keyword_id = self._standing(view, ctx, name, created) or self._create(view, ctx, name, created)
            if keyword_id is not None and keyword_id not in explicit:
                links.setdefault(keyword_id, RelationType.PRIMARY)
        rows = [
            info_decisions.new_link_row(info_id, keyword_id, relation, auto.created_by, None, view.now)
            for keyword_id, relation in links.items()
        ]
        return [*map(decisions.write_keyword, created.values()), *map(info_decisions.write_link, rows)]

    def _mentioned(self, view: KeywordView, ctx: RequestContext, content: str) -> list[Node]:
        def named(token: str) -> list[Node]:
            return [node for node in view.by_token(token) if ctx.sees(node.audience)]

        tokens = mentions.mentioned(content, self._text.tokens, lambda token: bool(named(token)))
        nodes = {node.id: node for token in tokens for node in named(token)}
        return list(nodes.values())[:MAX_MENTIONED]

    def _standing(self, view: KeywordView, ctx: RequestContext, name: str, created: dict[str, Row]) -> str | None:
        """Return the keyword that a suggested name is already, one of those just created too."""
        tokens = self._text.tokens(name)
        for row_id, row in created.items():
            if not set(tokens).isdisjoint(row["normalized"]):
                return row_id
        nodes = (node for token in tokens for node in view.by_token(token) if ctx.sees(node.audience))
        return next((node.id for node in nodes), None)

    def _create(self, view: KeywordView, ctx: RequestContext, name: str, created: dict[str, Row]) -> str | None:
        try:
            row = decisions.new_keyword_row(NewKeyword(name), (uuid4_id(self._ids), ROOT_ID), ctx, self._text, view.now)
        except InvalidInput:
            # The model's words are no names by law: what cannot be one is left out, and the info stands.
            return None
        created[row["id"]] = row
        return str(row["id"])


def _all_related(nodes: Sequence[Node]) -> AutoLinks:
    return AutoLinks([(node.id, RelationType.RELATED) for node in nodes])
