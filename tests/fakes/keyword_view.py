"""A keyword tree in a dict, for tests that read one: the view of an account, with no store behind it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import orjson

from knowhub.core import scopes
from knowhub.core.operation import Row
from knowhub.keywords.model import INFOS, KEYWORDS, ROOT_ID, InfoHead, InfoQuery, Link, Node

OWNER = "user:local"
Shape: TypeAlias = Mapping[str, "Shape"]
"""Names and what hangs below them: `{"编程语言": {"Python": {}, "Go": {}}}`."""


class FakeKeywordView:
    """Implements `KeywordView` for reading. `put`, `edit`, `drop` and `link` move the tree as other callers would."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._nodes: dict[str, Node] = {}
        self._infos: dict[str, InfoHead] = {}
        self._links: list[Link] = []

    def put(self, name: str, parent_id: str = ROOT_ID, **fields: Any) -> Node:  # noqa: ANN401 -- any field of a node
        """Add a keyword; its id is `id` or `k<number>`. `description` and `metadata` go to its row."""
        description, metadata = fields.pop("description", ""), fields.pop("metadata", {})
        number = len(self._nodes)
        owner = fields.get("owner", OWNER)
        shown = tuple(fields.get("scopes", (scopes.PUBLIC,)))
        token = name.casefold().strip()
        node = Node(
            **{
                "id": f"k{number}",
                "ordinal": number,
                "name": name,
                "tokens": (token,),
                "pinyin": (),
                "terms": tuple(token.split()),
                "parent_id": parent_id,
                "is_described": bool(description),
                "owner": owner,
                "scopes": shown,
                "audience": scopes.audience(shown, owner),
                "version": 1,
                "live": True,
            }
            | fields
        )
        self._nodes[node.id] = node
        self._write_row(node, description, metadata)
        return node

    def edit(self, keyword_id: str, **fields: Any) -> Node:  # noqa: ANN401 -- any field of a node
        """Change fields of a keyword, such as `parent_id` or `name`; its version rises."""
        before = self._nodes[keyword_id]
        if "scopes" in fields:
            fields["audience"] = scopes.audience(fields["scopes"], fields.get("owner", before.owner))
        node = replace(before, **fields, version=before.version + 1)
        row = self.rows[KEYWORDS, keyword_id]
        self._nodes[keyword_id] = node
        self._write_row(node, row["description"], row["metadata"])
        return node

    def drop(self, keyword_id: str) -> None:
        """Delete a keyword, and leave what hangs below it."""
        self.edit(keyword_id, live=False)

    def put_info(
        self,
        info_id: str,
        content: str = "",
        *,
        owner: str = OWNER,
        shown: Sequence[str] = (scopes.PUBLIC,),
        live: bool = True,
    ) -> InfoHead:
        """Add an info."""
        head = InfoHead(info_id, len(self._infos), owner, scopes.audience(tuple(shown), owner), live)
        self._infos[info_id] = head
        self.rows[INFOS, info_id] = {"id": info_id, "content": content, "owner": owner, "version": 1}
        return head

    def link(self, link: Link) -> None:
        """Link an info to a keyword."""
        self._links.append(link)

    def id_of(self, name: str) -> str:
        """Return the id of the oldest live keyword of this name. Raises StopIteration."""
        return next(node.id for node in self.nodes() if node.name == name)

    def get(self, collection: str, row_id: str) -> Row | None:
        return self.rows.get((collection, row_id))

    def raw(self, collection: str, row_id: str) -> bytes | None:
        row = self.rows.get((collection, row_id))
        return None if row is None else orjson.dumps(row)

    def node(self, keyword_id: str) -> Node | None:
        return self._nodes.get(keyword_id)

    def by_token(self, token: str) -> Sequence[Node]:
        return [node for node in self.nodes() if token in node.tokens]

    def by_pinyin(self, token: str) -> Sequence[Node]:
        return [node for node in self.nodes() if token in node.pinyin]

    def by_term(self, term: str, limit: int) -> Sequence[Node]:
        return [node for node in self.nodes() if term in node.terms][:limit]

    def children(self, keyword_id: str) -> Sequence[Node]:
        return [node for node in self.nodes() if node.parent_id == keyword_id]

    def child_ids(self, keyword_id: str) -> Sequence[str]:
        return [child.id for child in self.children(keyword_id)]

    def child_count(self, keyword_id: str) -> int:
        return len(self.children(keyword_id))

    def nodes(self) -> Iterator[Node]:
        return (node for node in list(self._nodes.values()) if node.live)

    def infos_newest(self, before: int | None = None) -> Iterator[InfoHead]:
        return iter(())

    def info(self, info_id: str) -> InfoHead | None:
        return self._infos.get(info_id)

    def links_of_info(self, info_id: str) -> Sequence[Link]:
        return [link for link in self._links if link.info_id == info_id]

    def links_of_keyword(self, keyword_id: str) -> Sequence[Link]:
        return [link for link in self._links if link.keyword_id == keyword_id]

    def infos_of_keyword(self, keyword_id: str, query: InfoQuery) -> Iterator[InfoHead]:
        links = [one for one in self.links_of_keyword(keyword_id) if query.relation in (None, one.relation)]
        return iter(sorted((self._infos[one.info_id] for one in links), key=lambda head: -head.ordinal))

    def _write_row(self, node: Node, description: str, metadata: Mapping[str, Any]) -> None:
        row: dict[str, Any] = {
            "id": node.id,
            "name": node.name,
            "aliases": [],
            "normalized": list(node.tokens),
            "pinyin": list(node.pinyin),
            "terms": list(node.terms),
            "parent_id": node.parent_id,
            "description": description,
            "metadata": dict(metadata),
            "scopes": list(node.scopes),
            "owner": node.owner,
            "version": node.version,
            "created_at": "2026-03-05T12:00:00.000Z",
            "updated_at": "2026-03-05T12:00:00.000Z",
        }
        self.rows[KEYWORDS, node.id] = row if node.live else row | {"deleted": True}


def tree_of(shape: Shape) -> FakeKeywordView:
    """Build a tree from names: each keyword's id is `k0`, `k1`, … in the order in which the names are read.

    There is no root in it, as in an account that nobody has written to.
    """
    view = FakeKeywordView()
    _plant(view, shape, ROOT_ID)
    return view


def _plant(view: FakeKeywordView, shape: Shape, parent_id: str) -> None:
    for name, below in shape.items():
        _plant(view, below, view.put(name, parent_id).id)
