"""One account at one moment, as decisions and reads see it: the queries of every domain's ports."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import orjson

from knowhub.context.model import NODES, PARTS, ContextHead
from knowhub.core.operation import Row
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, InfoHead, InfoQuery, Link, Node, link_id
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.model import Head, ListQuery
from knowhub.resources.model import ResourceHead
from knowhub.stores.files.rows.state import AccountState, Pending


@dataclass(frozen=True, slots=True)
class StateView:
    """What is acknowledged, and over it what this batch has decided so far."""

    state: AccountState
    now: float
    pending: Pending | None = None

    @property
    def is_settled(self) -> bool:
        return self.pending is None or not self.pending.rows

    def raw(self, collection: str, row_id: str) -> bytes | None:
        if self.pending is not None:
            decided = self.pending.rows.get((collection, row_id))
            if decided is not None:
                return decided
        return self.state.raw(collection, row_id)

    def get(self, collection: str, row_id: str) -> Row | None:
        raw = self.raw(collection, row_id)
        return None if raw is None else orjson.loads(raw)

    def referrers(self, collection: str, row_id: str) -> Sequence[tuple[str, str]]:
        if collection == knowledge.COLLECTION:
            return [(collection, head.id) for head in self.superseders(row_id)]
        if collection == KEYWORDS:
            children = [(KEYWORDS, child.id) for child in self.children(row_id)]
            return children + [(LINKS, link_id(link.info_id, row_id)) for link in self.links_of_keyword(row_id)]
        if collection == INFOS:
            return [(LINKS, link_id(row_id, link.keyword_id)) for link in self.links_of_info(row_id)]
        if collection == NODES:
            return [(PARTS, part.uri) for part in self.context_parts(row_id)]
        return []

    def undone_by(self, operation_id: str) -> str | None:
        undo = self._undo_of(operation_id)
        # An undo that was itself undone does not count: of a chain of undos every second one does.
        counts, last = False, operation_id
        while (newer := self._undo_of(last)) is not None:
            counts, last = not counts, newer
        return undo if counts else None

    # knowledge

    def head(self, knowledge_id: str) -> Head | None:
        decided = self.pending.knowledge.head(knowledge_id) if self.pending is not None else None
        return decided or self.state.knowledge.head(knowledge_id)

    def duplicates(self, duplicate_key: bytes) -> Sequence[Head]:
        ids = list(self.state.knowledge.duplicate_ids(duplicate_key))
        if self.pending is not None:
            ids += self.pending.knowledge.duplicate_ids(duplicate_key)
        heads = map(self.head, dict.fromkeys(ids))
        return [head for head in heads if head is not None and head.live and head.duplicate_key == duplicate_key]

    def superseders(self, knowledge_id: str) -> Sequence[Head]:
        ids = list(self.state.knowledge.superseder_ids(knowledge_id))
        if self.pending is not None:
            ids += self.pending.knowledge.superseder_ids(knowledge_id)
        heads = map(self.head, dict.fromkeys(ids))
        return [head for head in heads if head is not None and head.live and head.supersedes == knowledge_id]

    def page(self, query: ListQuery) -> Sequence[Head]:
        return self.state.knowledge.page(query)

    def live_heads(self) -> Iterator[Head]:
        return self.state.knowledge.live_heads()

    # keywords

    def node(self, keyword_id: str) -> Node | None:
        decided = self.pending.keywords.node(keyword_id) if self.pending is not None else None
        return decided or self.state.keywords.node(keyword_id)

    def by_token(self, token: str) -> Sequence[Node]:
        decided = self.pending.keywords.by_token(token) if self.pending is not None else ()
        return self._newest(self.state.keywords.by_token(token), decided)

    def by_pinyin(self, token: str) -> Sequence[Node]:
        decided = self.pending.keywords.by_pinyin(token) if self.pending is not None else ()
        return self._newest(self.state.keywords.by_pinyin(token), decided)

    def by_term(self, term: str, limit: int) -> Sequence[Node]:
        decided = self.pending.keywords.by_term(term, limit) if self.pending is not None else ()
        return self._newest(self.state.keywords.by_term(term, limit), decided)[:limit]

    def children(self, keyword_id: str) -> Sequence[Node]:
        decided = self.pending.keywords.children(keyword_id) if self.pending is not None else ()
        return self._newest(self.state.keywords.children(keyword_id), decided)

    def child_ids(self, keyword_id: str) -> Sequence[str]:
        if self.pending is None:
            return self.state.keywords.child_ids(keyword_id)
        return [child.id for child in self.children(keyword_id)]

    def child_count(self, keyword_id: str) -> int:
        if self.pending is None:
            return self.state.keywords.child_count(keyword_id)
        return len(self.children(keyword_id))

    def nodes(self) -> Iterator[Node]:
        if self.pending is None:
            return self.state.keywords.live_nodes()
        return iter(self._newest(self.state.keywords.live_nodes(), self.pending.keywords.live_nodes()))

    # infos and links

    def info(self, info_id: str) -> InfoHead | None:
        decided = self.pending.infos.infos.get(info_id) if self.pending is not None else None
        return decided or self.state.infos.info(info_id)

    def infos_newest(self, before: int | None = None) -> Iterator[InfoHead]:
        return self.state.infos.infos_newest(before)

    def links_of_info(self, info_id: str) -> Sequence[Link]:
        links = self.state.infos.links_of_info(info_id)
        return list(links) if self.pending is None else self.pending.infos.over(links, info_id=info_id)

    def links_of_keyword(self, keyword_id: str) -> Sequence[Link]:
        links = self.state.infos.links_of_keyword(keyword_id)
        return list(links) if self.pending is None else self.pending.infos.over(links, keyword_id=keyword_id)

    def infos_of_keyword(self, keyword_id: str, query: InfoQuery) -> Iterator[InfoHead]:
        return self.state.infos.infos_of_keyword(keyword_id, query)

    # resources

    def resource_heads(self, prefix: str, after: str | None) -> Iterator[ResourceHead]:
        return self.state.resources.heads(prefix, after)

    # layered memories

    def context_head(self, uri: str) -> ContextHead | None:
        decided = self.pending.context.head(uri) if self.pending is not None else None
        return decided or self.state.context.head(uri)

    def context_parts(self, session_uri: str) -> Sequence[ContextHead]:
        return self.context_children(session_uri)

    def context_neighbours(self, uri: str, reach: int) -> Sequence[ContextHead]:
        catalog = self.state.context if self.pending is None else self.pending.context
        return catalog.neighbours(uri, reach)

    def context_children(self, parent_uri: str) -> Sequence[ContextHead]:
        catalog = self.state.context if self.pending is None else self.pending.context
        return list(catalog.children(parent_uri))

    def context_folders(self, parent_uri: str) -> Sequence[str]:
        return self.state.context.folders(parent_uri)

    def context_heads(self) -> Iterator[ContextHead]:
        return self.state.context.live_heads()

    def _newest(self, acknowledged: Iterable[Node], decided: Iterable[Node]) -> list[Node]:
        if self.pending is None:
            return list(acknowledged)
        changed = self.pending.keywords
        kept = (node for node in acknowledged if changed.node(node.id) is None)
        return sorted(chain(kept, decided), key=lambda node: node.ordinal)

    def _undo_of(self, operation_id: str) -> str | None:
        decided = self.pending.undos.get(operation_id) if self.pending is not None else None
        return decided or self.state.undos.get(operation_id)
