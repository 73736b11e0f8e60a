"""The tree as it stands in the midst of one operation: rows that are decided, and not yet written, over a view."""

import json
from collections.abc import Iterable, Iterator, Sequence

from knowhub.core import scopes
from knowhub.core.operation import Row, Write, is_live, next_version
from knowhub.keywords.model import KEYWORDS, LINKS, InfoHead, InfoQuery, Link, Node, RelationType
from knowhub.keywords.ports import KeywordView
from knowhub.keywords.tree import node_of

_BOOKKEEPING = ("version", "updated_at")


class PlannedView:
    """A `KeywordView` in which each step of a plan sees what the steps before it did.

    However many steps touch a row, it is written once, so its version rises once.
    """

    def __init__(self, below: KeywordView) -> None:
        self._below = below
        self._rows: dict[tuple[str, str], Row] = {}
        self._nodes: dict[str, Node] = {}
        self._links_of_info: dict[str, dict[str, Link | None]] = {}
        self._links_of_keyword: dict[str, dict[str, Link | None]] = {}

    @property
    def now(self) -> float:
        """The time of the decision, in seconds since the epoch."""
        return self._below.now

    def put(self, writes: Iterable[Write]) -> None:
        """Take in rows: from here on they are how things stand."""
        for write in writes:
            version = next_version(self._below.get(write.collection, write.id))
            row = {**write.after, "version": version}
            self._rows[write.collection, write.id] = row
            if write.collection == KEYWORDS:
                self._nodes[write.id] = self._node_of(row)
            elif write.collection == LINKS:
                link = Link(row["info_id"], row["keyword_id"], RelationType(row["relation"])) if is_live(row) else None
                self._links_of_info.setdefault(row["info_id"], {})[row["keyword_id"]] = link
                self._links_of_keyword.setdefault(row["keyword_id"], {})[row["info_id"]] = link

    def writes(self) -> list[Write]:
        """Return what there is to write: rows that came out as they were, or were made and deleted again, are not.

        Fresh rows come first and tombstones last: an undo goes backwards, and finds what it hangs things on.
        """
        found = [
            (before, Write(collection, row_id, row))
            for (collection, row_id), row in self._rows.items()
            if _is_change(before := self._below.get(collection, row_id), row)
        ]
        found.sort(key=lambda one: (not is_live(one[1].after), is_live(one[0])))
        return [write for _, write in found]

    def get(self, collection: str, row_id: str) -> Row | None:
        """Return the row as it stands, a tombstone too."""
        row = self._rows.get((collection, row_id))
        return self._below.get(collection, row_id) if row is None else row

    def raw(self, collection: str, row_id: str) -> bytes | None:
        """Return the row as JSON text, a tombstone too."""
        row = self._rows.get((collection, row_id))
        if row is None:
            return self._below.raw(collection, row_id)
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()

    def node(self, keyword_id: str) -> Node | None:
        """Return a keyword, a deleted one too."""
        return self._nodes.get(keyword_id) or self._below.node(keyword_id)

    def by_token(self, token: str) -> Sequence[Node]:
        """Return the live keywords whose name or alias has this normal form, oldest first."""
        return self._over(self._below.by_token(token), [node for node in self._live() if token in node.tokens])

    def by_pinyin(self, token: str) -> Sequence[Node]:
        """Return the live keywords whose name or alias is spelt so in pinyin, oldest first."""
        return self._over(self._below.by_pinyin(token), [node for node in self._live() if token in node.pinyin])

    def by_term(self, term: str, limit: int) -> Sequence[Node]:
        """Return up to `limit` live keywords that have this word, oldest first."""
        # Those below that were changed here are dropped, and must not use up places.
        found = self._below.by_term(term, limit + len(self._nodes))
        return self._over(found, [node for node in self._live() if term in node.terms])[:limit]

    def children(self, keyword_id: str) -> Sequence[Node]:
        """Return the live children of a keyword, oldest first."""
        here = [node for node in self._live() if node.parent_id == keyword_id]
        return self._over(self._below.children(keyword_id), here)

    def child_ids(self, keyword_id: str) -> Sequence[str]:
        """Return the ids of `children`."""
        return [child.id for child in self.children(keyword_id)]

    def child_count(self, keyword_id: str) -> int:
        """Return how many `children` there are."""
        return len(self.children(keyword_id))

    def nodes(self) -> Iterator[Node]:
        """Yield every live keyword, oldest first."""
        return iter(self._over(self._below.nodes(), list(self._live())))

    def info(self, info_id: str) -> InfoHead | None:
        """Return the head of an info. A plan changes no info."""
        return self._below.info(info_id)

    def infos_newest(self, before: int | None = None) -> Iterator[InfoHead]:
        """Yield the live infos below ordinal `before`, newest first."""
        return self._below.infos_newest(before)

    def links_of_info(self, info_id: str) -> Sequence[Link]:
        """Return the live links of an info."""
        changed = self._links_of_info.get(info_id, {})
        kept = [link for link in self._below.links_of_info(info_id) if link.keyword_id not in changed]
        return [*kept, *(link for link in changed.values() if link is not None)]

    def links_of_keyword(self, keyword_id: str) -> Sequence[Link]:
        """Return the live links of a keyword, oldest info first."""
        changed = self._links_of_keyword.get(keyword_id)
        if not changed:
            return self._below.links_of_keyword(keyword_id)
        kept = [link for link in self._below.links_of_keyword(keyword_id) if link.info_id not in changed]
        links = [*kept, *(link for link in changed.values() if link is not None)]
        return sorted(links, key=self._age)

    def infos_of_keyword(self, keyword_id: str, query: InfoQuery) -> Iterator[InfoHead]:
        """Yield the infos of a keyword as it stood before the plan's steps, which are no reader's page yet."""
        return self._below.infos_of_keyword(keyword_id, query)

    def _live(self) -> Iterator[Node]:
        return (node for node in self._nodes.values() if node.live)

    def _over(self, below: Iterable[Node], here: Sequence[Node]) -> list[Node]:
        kept = [node for node in below if node.id not in self._nodes]
        return sorted([*kept, *here], key=lambda node: node.ordinal) if here else kept

    def _age(self, link: Link) -> int:
        head = self._below.info(link.info_id)
        return -1 if head is None else head.ordinal

    def _node_of(self, row: Row) -> Node:
        known = self.node(row["id"])
        # Younger than all that is there: whoever is made here comes last.
        ordinal = known.ordinal if known is not None else 2**62 + len(self._nodes)
        own_scopes = tuple(row["scopes"])
        return node_of(row, ordinal, (row["owner"], own_scopes, scopes.audience(own_scopes, row["owner"])))


def _is_change(before: Row | None, after: Row) -> bool:
    if before is None or not (is_live(before) or is_live(after)):
        return is_live(after)
    one, other = ({name: value for name, value in row.items() if name not in _BOOKKEEPING} for row in (before, after))
    return one != other
