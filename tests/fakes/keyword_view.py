"""A keyword tree for tests that only read: the view of an account without a store."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from knowhub.core import scopes
from knowhub.engine.view import AccountView
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, Link, Node
from knowhub.keywords.tree import Info, find_info, find_keyword, list_keywords
from tests.fakes.account_rows import AccountRows

OWNER = "user:local"
Shape: TypeAlias = Mapping[str, "Shape"]
"""Names and what hangs below them: `{"编程语言": {"Python": {}, "Go": {}}}`."""


class FakeKeywordView(AccountView):
    """The view of an account with keywords. `put`, `edit`, `drop` and `link` change it as other callers would."""

    def __init__(self, now: float = 0.0) -> None:
        self.stored = AccountRows()
        super().__init__(self.stored.account, now)

    def put(self, name: str, parent_id: str = ROOT_ID, **fields: Any) -> Node:  # noqa: ANN401 -- any field of a row
        """Add a keyword; its id is `id` or `k<number>`. A deleted one is not `live`."""
        name_key = name.casefold().strip()
        row = {
            "id": f"k{len(self.stored.account.table(KEYWORDS))}",
            "name": name,
            "aliases": [],
            "normalized": [name_key],
            "pinyin": [],
            "terms": name_key.split(),
            "parent_id": parent_id,
            "description": "",
            "metadata": {},
            "scopes": (scopes.PUBLIC,),
            "owner": OWNER,
            "version": 1,
            "created_at": "2026-03-05T12:00:00.000Z",
            "updated_at": "2026-03-05T12:00:00.000Z",
        }
        return self._write(row, fields)

    def edit(self, keyword_id: str, **fields: Any) -> Node:  # noqa: ANN401 -- any field of a row
        """Change fields of a keyword, such as `parent_id` or `name`; its version rises."""
        before = dict(self.get(KEYWORDS, keyword_id) or {})
        return self._write({**before, "version": before["version"] + 1}, fields)

    def drop(self, keyword_id: str) -> None:
        """Delete a keyword and keep its children."""
        self.edit(keyword_id, live=False)

    def put_info(
        self,
        info_id: str,
        content: str = "",
        *,
        owner: str = OWNER,
        shown: Sequence[str] = (scopes.PUBLIC,),
        live: bool = True,
    ) -> Info:
        """Add an info."""
        row = {"id": info_id, "content": content, "owner": owner, "scopes": list(shown), "version": 1}
        self.stored.load(INFOS, row if live else row | {"deleted": True})
        summary = find_info(self, info_id)
        assert summary is not None
        return summary

    def link(self, link: Link, **fields: Any) -> None:  # noqa: ANN401 -- any field of a row
        """Link an info to a keyword."""
        row = {"info_id": link.info_id, "keyword_id": link.keyword_id, "relation": link.relation.value}
        self.put_link(row | {"created_by": "user", "version": 1} | fields)

    def put_link(self, row: Mapping[str, Any]) -> None:
        """Write the row of a link."""
        self.stored.load(LINKS, row)

    def id_of(self, name: str) -> str:
        """Return the id of the oldest live keyword of this name. Raises StopIteration."""
        return next(node.id for node in list_keywords(self) if node.name == name)

    def _write(self, row: Mapping[str, Any], fields: Mapping[str, Any]) -> Node:
        named = {"name_keys": "normalized"}
        row = {**row, **{named.get(name, name): value for name, value in fields.items() if name != "live"}}
        if fields.get("live", True):
            row.pop("deleted", None)
        else:
            row["deleted"] = True
        self.stored.load(KEYWORDS, row)
        node = find_keyword(self, row["id"])
        assert node is not None
        return node


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
