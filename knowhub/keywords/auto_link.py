"""Automatic links of an info: the keywords that its text names, and the choice of a model among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, Store, View, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules, keyword_rules, rendering
from knowhub.keywords.edits import PendingRows
from knowhub.keywords.mentions import READ_CHARS, Mention, count_unread, find_mentions
from knowhub.keywords.model import ROOT_ID, NewInfo, NewKeyword, Node, RelationType, TreeOptions
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.tree import list_children

BY_AGENT = "agent"
BY_RULE = "auto_link"
MAX_MENTIONED = 1_000
_PIECE_CHARS = 24
_SUPPORT_CHARS = 2_000
_MAX_NEAR = 20
_LAST_LATIN = "\u024f"


@dataclass(frozen=True, slots=True)
class AutoLinks:
    """The links of an info, chosen before the decision that writes it; deleted keywords are then left out.

    `names` are keywords to create, `calls` the calls of the model. `unread_characters` are at the end of the text.
    `unknown_targets` counts the links of the model to what it was not shown.
    """

    links: Sequence[tuple[str, RelationType]] = ()
    created_by: str = BY_RULE
    names: Sequence[str] = ()
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()
    unread_characters: int = 0
    unknown_targets: int = 0


@dataclass(frozen=True, slots=True)
class NewInfoRow:
    """An info before its decision: its row without times, its explicit links, and what `auto_link` found."""

    new: NewInfo
    row: Row
    keyword_ids: Sequence[str]
    links: Sequence[tuple[str, RelationType]]
    auto: AutoLinks = field(default_factory=AutoLinks)

    @property
    def relations(self) -> dict[str, RelationType]:
        """The relation of each explicitly linked keyword."""
        return {**dict.fromkeys(self.keyword_ids, RelationType.PRIMARY), **dict(self.links)}


class KeywordMatcher:
    """Chooses the keywords of an info, and makes the writes of their links."""

    def __init__(self, store: Store, text: KeywordText, ids: Ids, agent: KeywordAgent, options: TreeOptions) -> None:
        self._store = store
        self._text = text
        self._ids = ids
        self._agent = agent
        self._options = options

    async def select_keywords(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Let the model choose among the keywords that a text names; without a model, or if it fails, by `match_text`.

        If it chooses none and `auto_link_creates` is on, the keywords that it suggests are created.
        """
        view = self._store.view(ctx.account)
        named = {node.id: node for _, found in self._find_named(view, ctx, content) for node in found}
        nodes = list(named.values())[:MAX_MENTIONED]
        can_create = self._options.auto_link_creates
        if not self._agent.available or not (nodes or can_create):
            return self.match_text(ctx, content)
        chosen = await self._agent.link_info(ctx, view, content, nodes, self._options.write_budget_s)
        if chosen.failure is not None:
            fallback = self.match_text(ctx, content)
            return replace(fallback, calls=chosen.calls, degraded=("llm",))
        names = chosen.suggested_names if can_create and not chosen.links else ()
        unread = count_unread(content)
        return AutoLinks(
            chosen.links,
            BY_AGENT,
            names,
            chosen.calls,
            unread_characters=unread,
            unknown_targets=chosen.unknown_targets,
        )

    def match_text(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Link the keywords that a text surely names, as RELATED, without a model.

        A name of several keywords, of one letter, of two characters that are a part of another word, or of an English
        word that is spelt otherwise may mean something else: such a keyword is linked only if its neighbours share
        words with the text.
        """
        view = self._store.view(ctx.account)
        words: set[str] | None = None
        found: dict[str, Node] = {}
        is_english = not any(char > _LAST_LATIN and char.isalpha() for char in content[:READ_CHARS])
        for mention, nodes in self._find_named(view, ctx, content):
            exact = [node for node in nodes if mention.word and mention.word in self._list_names(view, node)]
            chosen = exact if len(exact) == 1 else nodes
            if len(chosen) > 1 or _needs_context(mention, is_exact=bool(exact), is_english=is_english):
                words = self._read_words(content) if words is None else words
                chosen = self._select_supported(view, ctx, chosen, words)
            found |= {node.id: node for node in chosen}
        links = [(keyword_id, RelationType.RELATED) for keyword_id in list(found)[:MAX_MENTIONED]]
        return AutoLinks(links, unread_characters=count_unread(content))

    def make_writes(self, view: View, ctx: RequestContext, info_id: str, new_row: NewInfoRow) -> list[Write]:
        """Return the writes of new keywords and of links that are missing and not explicit."""
        created = PendingRows(view)
        auto, explicit = new_row.auto, new_row.relations
        links = {
            keyword_id: relation
            for keyword_id, relation in auto.links
            if keyword_id not in explicit and rendering.get_visible_node(view, ctx, keyword_id) is not None
        }
        for name in auto.names:
            known = next(rendering.find_by_name_keys(created.view, ctx, self._text.name_keys(name)), None)
            keyword_id = self._create(ctx, name, created) if known is None else known.id
            if keyword_id is not None and keyword_id not in explicit:
                links.setdefault(keyword_id, RelationType.PRIMARY)
        rows = info_rules.make_missing_links(view, info_id, links, auto.created_by)
        return [*created.list_writes(), *map(info_rules.write_link, rows)]

    def _find_named(self, view: View, ctx: RequestContext, content: str) -> Iterator[tuple[Mention, list[Node]]]:
        def find_nodes(name_key: str) -> list[Node]:
            return list(rendering.find_by_name_keys(view, ctx, [name_key]))

        for mention in find_mentions(
            content, self._text.name_keys, lambda name_key: bool(find_nodes(name_key)), words_of=self._text.words
        ):
            yield mention, find_nodes(mention.name_key)

    def _list_names(self, view: View, node: Node) -> set[str]:
        row = rendering.get_keyword_row(view, node.id)
        names = {row["name"], *row["aliases"]}
        return names | {f"{name}s" for name in names}

    def _select_supported(self, view: View, ctx: RequestContext, nodes: Sequence[Node], words: set[str]) -> list[Node]:
        """Return the one keyword whose neighbours share the most words with a text; none if no one does."""
        scores = [(len(words & self._list_context_words(view, ctx, node)), node) for node in nodes]
        scores.sort(key=lambda scored: (-scored[0], scored[1].ordinal))
        best = scores[0]
        is_only = len(scores) == 1 or scores[1][0] < best[0]
        return [best[1]] if best[0] and is_only else []

    def _list_context_words(self, view: View, ctx: RequestContext, node: Node) -> set[str]:
        row = rendering.get_keyword_row(view, node.id)
        above = [item for item in rendering.list_visible_path(view, ctx, node.id)[:-1] if item.id != ROOT_ID]
        beside = rendering.list_visible_children(view, ctx, node.parent_id or ROOT_ID)[:_MAX_NEAR]
        below = [child for child in list_children(view, node.id)[:_MAX_NEAR] if ctx.sees(child.audience)]
        names = [item.name for item in (*above, *below, *(item for item in beside if item.id != node.id))]
        own = {word for name in (row["name"], *row["aliases"]) for word in self._read_words(name)}
        return {word for text in (row["description"], *names) for word in self._read_words(text)} - own

    def _read_words(self, text: str) -> set[str]:
        # `terms` returns a limited number of words: a long text is read in pieces that overlap.
        pieces = (
            text[start : start + _PIECE_CHARS] for start in range(0, min(len(text), _SUPPORT_CHARS), _PIECE_CHARS - 2)
        )
        return {term for piece in pieces for term in self._text.terms(piece) if len(term) > 1}

    def _create(self, ctx: RequestContext, name: str, created: PendingRows) -> str | None:
        row_ids, now = (uuid4_id(self._ids), ROOT_ID), created.view.now
        try:
            row = keyword_rules.make_keyword_row(NewKeyword(name), row_ids, ctx, self._text, now)
        except InvalidInput:
            # The model suggested an invalid name: the info is saved without it.
            return None
        created.put([keyword_rules.write_keyword(row)])
        return str(row["id"])


def _needs_context(mention: Mention, *, is_exact: bool, is_english: bool) -> bool:
    if len(mention.name_key) == 1 or mention.is_part:
        return True
    return is_english and mention.word.isascii() and mention.word.isalpha() and not is_exact


def check_links(view: View, ctx: RequestContext, new_row: NewInfoRow) -> None:
    """Raise InvalidInput for a link to a keyword that the caller does not see, and for too many links."""
    named = {f"keyword_ids.{index}": keyword_id for index, keyword_id in enumerate(new_row.keyword_ids)}
    named |= {f"links.{index}.keyword_id": keyword_id for index, (keyword_id, _) in enumerate(new_row.links)}
    if len(named) > info_rules.MAX_KEYWORD_IDS:
        message = f"must have at most {info_rules.MAX_KEYWORD_IDS} entries, with those of `links`"
        raise InvalidInput.of("keyword_ids", message)
    for name, keyword_id in named.items():
        if rendering.get_visible_node(view, ctx, keyword_id) is None:
            raise InvalidInput.of(name, f"no keyword with id {keyword_id!r}")
