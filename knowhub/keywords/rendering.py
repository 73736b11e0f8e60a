"""Keywords as answers show them: the row, and what is computed of the tree around it; and who sees which."""

import json
from collections.abc import Sequence
from typing import Any

from knowhub.core.errors import NotFound
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.model import KEYWORDS, InfoHead, Node
from knowhub.keywords.ports import KeywordView

_UNCHANGED_ROOT = json.dumps(tree.root_row(), separators=(",", ":")).encode()


def keyword_json(
    view: KeywordView, ctx: RequestContext, node: Node, *, with_children: bool, level: int | None = None
) -> bytes:
    """Return a keyword as JSON text: its row as it lies in memory, and `level`, `children`, `child_count` after it.

    The row is not parsed: this is the path of every exact search. `level` saves the walk to the root where the
    caller knows it.
    """
    raw = _row_json(view, ctx, node)
    level = level_of(view, ctx, node.id) if level is None else level
    if not with_children:
        return _alone(raw[:-1], level, _visible_child_count(view, ctx, node.id))
    return _with_children(raw[:-1], level, visible_child_ids(view, ctx, node.id))


def keyword_json_twice(view: KeywordView, ctx: RequestContext, node: Node, level: int) -> tuple[bytes, bytes]:
    """Return `keyword_json` with the children and without, as a match is told and as the end of its path."""
    row, ids = _row_json(view, ctx, node)[:-1], visible_child_ids(view, ctx, node.id)
    return _with_children(row, level, ids), _alone(row, level, len(ids))


def keyword_answer(view: KeywordView, ctx: RequestContext, row: Row, *, level: int | None = None) -> dict[str, Any]:
    """Return the row of a keyword with `level`, `children` and `child_count`, as the answer of a write shows it."""
    children = visible_child_ids(view, ctx, row["id"])
    level = level_of(view, ctx, row["id"]) if level is None else level
    parent = {} if _is_parent_told(view, ctx, row["parent_id"]) else {"parent_id": None}
    return {**row, **parent, "level": level, "children": children, "child_count": len(children)}


def keyword_row(view: KeywordView, keyword_id: str) -> Row:
    """Return the row of a keyword that is there, of a root that was never written too. Raises NotFound."""
    row = view.get(KEYWORDS, keyword_id)
    if row is not None:
        return row
    if keyword_id == tree.ROOT_NODE.id:
        return tree.root_row()
    raise NotFound.of("keyword", keyword_id)


def visible_node(view: KeywordView, ctx: RequestContext, keyword_id: str) -> Node:
    """Return a live keyword that the caller sees. Raises NotFound, the same for both."""
    node = seen_node(view, ctx, keyword_id)
    if node is None:
        raise NotFound.of("keyword", keyword_id)
    return node


def seen_node(view: KeywordView, ctx: RequestContext, keyword_id: str) -> Node | None:
    """Return a live keyword that the caller sees; None when there is none."""
    node = tree.live_node(view, keyword_id)
    return node if node is not None and ctx.sees(node.audience) else None


def visible_info(view: KeywordView, ctx: RequestContext, info_id: str) -> InfoHead:
    """Return the head of a live info that the caller sees. Raises NotFound, the same for both."""
    info = view.info(info_id)
    if info is None or not info.live or not ctx.sees(info.audience):
        raise NotFound.of("info", info_id)
    return info


def visible_path(view: KeywordView, ctx: RequestContext, node: Node) -> list[Node]:
    """Return the keywords from the root to this one that the caller sees."""
    return [above for above in tree.path_of(view, node.id) if ctx.sees(above.audience)]


def path_json(view: KeywordView, ctx: RequestContext, node: Node, *, with_children: bool) -> list[bytes]:
    """Return `visible_path` as JSON text; who is left out does not count in the levels."""
    return [
        keyword_json(view, ctx, above, with_children=with_children, level=level)
        for level, above in enumerate(visible_path(view, ctx, node))
    ]


def level_of(view: KeywordView, ctx: RequestContext, keyword_id: str) -> int:
    """Return how many keywords that the caller sees stand above this one (KT-042)."""
    if ctx.unrestricted:
        return tree.level_of(view, keyword_id)
    return sum(ctx.sees(above.audience) for above in tree.path_of(view, keyword_id)[:-1])


def visible_children(view: KeywordView, ctx: RequestContext, keyword_id: str) -> list[Node]:
    """Return the live children of a keyword that the caller sees, oldest first."""
    children = view.children(keyword_id)
    return list(children) if ctx.unrestricted else [child for child in children if ctx.sees(child.audience)]


def visible_child_ids(view: KeywordView, ctx: RequestContext, keyword_id: str) -> Sequence[str]:
    """Return the ids of `visible_children`."""
    if ctx.unrestricted:
        return view.child_ids(keyword_id)
    return [child.id for child in visible_children(view, ctx, keyword_id)]


def _with_children(row: bytes, level: int, ids: Sequence[str]) -> bytes:
    # Ids are UUIDs or "root": nothing in them needs escaping.
    children = b'"%s"' % '","'.join(ids).encode() if ids else b""
    return b'%s,"level":%d,"children":[%s],"child_count":%d}' % (row, level, children, len(ids))


def _alone(row: bytes, level: int, child_count: int) -> bytes:
    return b'%s,"level":%d,"child_count":%d}' % (row, level, child_count)


def _row_json(view: KeywordView, ctx: RequestContext, node: Node) -> bytes:
    """Return the row of a keyword as JSON text, without the id of a parent that the caller does not see."""
    raw = view.raw(KEYWORDS, node.id) or _UNCHANGED_ROOT
    if _is_parent_told(view, ctx, node.parent_id):
        return raw
    return json.dumps({**json.loads(raw), "parent_id": None}, ensure_ascii=False, separators=(",", ":")).encode()


def _is_parent_told(view: KeywordView, ctx: RequestContext, parent_id: str | None) -> bool:
    return parent_id is None or ctx.unrestricted or seen_node(view, ctx, parent_id) is not None


def _visible_child_count(view: KeywordView, ctx: RequestContext, keyword_id: str) -> int:
    if ctx.unrestricted:
        return view.child_count(keyword_id)
    return len(visible_children(view, ctx, keyword_id))
