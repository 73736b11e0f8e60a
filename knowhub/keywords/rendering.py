"""Rows as answers show them: keywords with the fields computed from the tree, and pages of infos."""

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

from knowhub.core.errors import InvalidInput, NotFound, TooLarge
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields, tree
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    RELATION_RANKS,
    ROOT_ID,
    InfoQuery,
    InfoSort,
    Node,
    RelationType,
    make_link_id,
)
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.tree import BY_KEYWORD, BY_PARENT, Info, find_info, list_children, list_infos_of_keyword

SEPARATOR = "/"
_MAX_PARTS = 60
# A name may have separators of its own, such as TCP/IP.
_MAX_PARTS_PER_NAME = 5
_UNCHANGED_ROOT = json.dumps(tree.make_root_row(), separators=(",", ":")).encode()


def render_keyword(
    view: View, ctx: RequestContext, node: Node, *, with_children: bool = False, level: int | None = None
) -> bytes:
    """Return a keyword as JSON text: its stored row with `level`, `children` if wanted, and `child_count` appended.

    The row is not parsed, as every exact search comes here. Pass `level` if it is known, to save a walk to the root.
    """
    raw = view.raw(KEYWORDS, node.id) or _UNCHANGED_ROOT
    if not _is_parent_visible(view, ctx, node.parent_id):
        raw = json.dumps({**json.loads(raw), "parent_id": None}, ensure_ascii=False, separators=(",", ":")).encode()
    level = get_level(view, ctx, node.parent_id) if level is None else level
    children, count = b"", count_visible_children(view, ctx, node.id)
    if with_children:
        # Ids are UUIDs or "root": nothing in them needs escaping.
        ids = [f'"{child.id}"' for child in list_visible_children(view, ctx, node.id)]
        children = b'"children":[%s],' % ",".join(ids).encode()
    return b'%s,"level":%d,%s"child_count":%d}' % (raw[:-1], level, children, count)


def render_candidate(view: View, ctx: RequestContext, node: Node, infos: Sequence[bytes] | None = None) -> bytes:
    """Return a keyword of several to choose from, with `path`, the counts of children and infos, and its `infos`."""
    row = render_keyword(view, ctx, node)
    path = json.dumps(format_path(view, ctx, node), ensure_ascii=False).encode()
    counts = count_visible_children(view, ctx, node.id), count_visible_infos(view, ctx, node.id)
    more = b"" if infos is None else b',"infos":[%s]' % b",".join(infos)
    return b'%s,"path":%s,"children_count":%d,"infos_count":%d%s}' % (row[:-1], path, *counts, more)


def format_path(view: View, ctx: RequestContext, node: Node) -> str:
    """Return the path of a keyword as requests name it: `目的地/Java`; the root is `root`."""
    names = [above.name for above in list_visible_path(view, ctx, node.id) if above.id != ROOT_ID]
    return SEPARATOR.join(names) or ROOT_ID


def add_tree_fields(view: View, ctx: RequestContext, row: Row, *, level: int | None = None) -> dict[str, Any]:
    """Return a row with `level`, `children` and `child_count`, for the answer of a write."""
    children = [child.id for child in list_visible_children(view, ctx, row["id"])]
    level = get_level(view, ctx, row["parent_id"]) if level is None else level
    parent = {} if _is_parent_visible(view, ctx, row["parent_id"]) else {"parent_id": None}
    return {**row, **parent, "level": level, "children": children, "child_count": len(children)}


def get_keyword_row(view: View, keyword_id: str) -> Row:
    """Return the row of a keyword, also of a root that was never written. Raises NotFound."""
    row = view.get(KEYWORDS, keyword_id)
    if row is not None:
        return row
    if keyword_id == tree.ROOT_NODE.id:
        return tree.make_root_row()
    raise NotFound.of("keyword", keyword_id)


def require_node(view: View, ctx: RequestContext, keyword_id: str) -> Node:
    """Return a live keyword that the caller sees. Raises NotFound, also for a hidden one."""
    node = get_visible_node(view, ctx, keyword_id)
    if node is None:
        raise NotFound.of("keyword", keyword_id)
    return node


def get_visible_node(view: View, ctx: RequestContext, keyword_id: str) -> Node | None:
    """Return a live keyword that the caller sees, else None."""
    node = tree.get_live_node(view, keyword_id)
    return node if node is not None and ctx.sees(node.audience) else None


def find_by_name_keys(view: View, ctx: RequestContext, name_keys: Iterable[str]) -> Iterator[Node]:
    """Yield the live keywords that the caller sees and whose name or alias has one of these normal forms."""
    return (node for name_key in name_keys for node in view.lookup(tree.BY_NAME, name_key) if ctx.sees(node.audience))


def find_by_path(view: View, ctx: RequestContext, text: KeywordText, path: str) -> list[Node]:
    """Return the visible keywords at a path of names or aliases, oldest first.

    A path from the top of the tree wins over the end of a longer one. A name alone is a path too.
    """
    parts = [part.strip() for part in path.split(SEPARATOR)]
    parts = [part for part in parts if part]
    if parts[:1] == [ROOT_ID] and len(parts) > 1:
        parts = parts[1:]
    if not 0 < len(parts) <= _MAX_PARTS:
        return []
    whole: dict[str, Node] = {}
    ends: dict[str, Node] = {}
    for name_keys, above in _split_last(text, parts):
        for node in find_by_name_keys(view, ctx, name_keys):
            is_top = _match_path(view, ctx, text, node, above)
            if is_top is not None:
                (whole if is_top else ends)[node.id] = node
    return sorted((whole or ends).values(), key=lambda node: node.ordinal)


def _split_last(text: KeywordText, parts: Sequence[str]) -> Iterator[tuple[list[str], Sequence[str]]]:
    """Yield each possible last name of a path as normal forms, with the parts above it."""
    for count in range(1, min(len(parts), _MAX_PARTS_PER_NAME) + 1):
        name_keys = text.name_keys(SEPARATOR.join(parts[-count:]))
        if name_keys:
            yield name_keys, parts[:-count]


def _match_path(view: View, ctx: RequestContext, text: KeywordText, node: Node, above: Sequence[str]) -> bool | None:
    """Return whether a path that leads to `node` begins at the top of the tree; None if it does not lead there."""
    parents = [item for item in list_visible_path(view, ctx, node.id)[:-1] if item.id != ROOT_ID]
    if not above:
        return not parents
    if not parents:
        return None
    parent = parents[-1]
    for name_keys, rest in _split_last(text, above):
        if not set(name_keys).isdisjoint(parent.name_keys):
            is_top = _match_path(view, ctx, text, parent, rest)
            if is_top is not None:
                return is_top
    return None


def require_info(view: View, ctx: RequestContext, info_id: str) -> Info:
    """Return the summary of a live info that the caller sees. Raises NotFound, also for a hidden one."""
    info = find_info(view, info_id)
    if info is None or not info.live or not ctx.sees(info.audience):
        raise NotFound.of("info", info_id)
    return info


def list_visible_path(view: View, ctx: RequestContext, keyword_id: str) -> list[Node]:
    """Return the visible keywords from the root to this one."""
    return [above for above in tree.get_path(view, keyword_id) if ctx.sees(above.audience)]


def render_path(view: View, ctx: RequestContext, node: Node) -> list[bytes]:
    """Return `list_visible_path` as JSON text, without children; hidden keywords do not count in the levels."""
    above = list_visible_path(view, ctx, node.id)
    return [render_keyword(view, ctx, item, level=level) for level, item in enumerate(above)]


def get_level(view: View, ctx: RequestContext, parent_id: str | None) -> int:
    """Return the level of a keyword below this parent, also of a deleted one: hidden ancestors do not count."""
    return 0 if parent_id is None else len(list_visible_path(view, ctx, parent_id))


def list_visible_children(view: View, ctx: RequestContext, keyword_id: str) -> list[Node]:
    """Return the live children of a keyword that the caller sees, oldest first."""
    children = list_children(view, keyword_id)
    return list(children) if ctx.sees_everything else [child for child in children if ctx.sees(child.audience)]


def _is_parent_visible(view: View, ctx: RequestContext, parent_id: str | None) -> bool:
    return parent_id is None or ctx.sees_everything or get_visible_node(view, ctx, parent_id) is not None


def count_visible_children(view: View, ctx: RequestContext, keyword_id: str) -> int:
    """Return how many live children of a keyword the caller sees."""
    if ctx.sees_everything:
        return view.count(BY_PARENT, keyword_id)
    return len(list_visible_children(view, ctx, keyword_id))


def count_visible_infos(view: View, ctx: RequestContext, keyword_id: str) -> int:
    """Return how many infos of a keyword the caller sees. A caller with limited rights gets at most 1,000."""
    if ctx.sees_everything:
        return view.count(BY_KEYWORD, keyword_id)
    summaries = islice(list_infos_of_keyword(view, keyword_id, InfoQuery()), MAX_SIZE)
    return sum(_is_visible(ctx, summary) for summary in summaries)


MAX_SIZE = 1_000
MAX_NODES = 10_000
MAX_SHOWN_BYTES = 1024 * 1024
MAX_PAGE_BYTES = 64 * 1024 * 1024
MAX_DEPENDENCIES = 5_000
"""A page that examined more infos is not cached: it would have too many dependencies."""


@dataclass(frozen=True, slots=True)
class LinkedInfoPage:
    """A page of a keyword's infos, and the ids of all infos that were examined for it.

    The page depends on the keyword, its links and all examined infos: a hidden info may become visible, and the infos
    before the page decide where it begins.
    """

    shown: Sequence[Info]
    examined: Sequence[str]


def get_info_page(view: View, ctx: RequestContext, keyword_id: str, query: InfoQuery) -> LinkedInfoPage:
    """Return a page of a keyword's infos; past the end it is empty. The query was checked."""
    first, end = query.page * query.size, (query.page + 1) * query.size
    shown: list[Info] = []
    examined: list[str] = []
    visible = 0
    for summary in _list_infos(view, ctx, keyword_id, query):
        examined.append(summary.id)
        if not _is_visible(ctx, summary):
            continue
        visible += 1
        if visible > first:
            shown.append(summary)
        if visible == end:
            break
    return LinkedInfoPage(shown, examined)


def list_visible_subtree(view: View, ctx: RequestContext, keyword_id: str) -> list[str]:
    """Return the ids of a keyword and of its visible descendants. Raises InvalidInput for more than 10,000."""
    below = [node for _, node in islice(tree.walk(view, [keyword_id]), MAX_NODES)]
    if len(below) == MAX_NODES:
        raise InvalidInput.of("descendants", f"takes in more than {MAX_NODES} keywords; begin lower")
    return [keyword_id, *(node.id for node in below if ctx.sees(node.audience))]


def _list_infos(view: View, ctx: RequestContext, keyword_id: str, query: InfoQuery) -> Iterator[Info]:
    if not query.descendants:
        yield from list_infos_of_keyword(view, keyword_id, query)
        return
    keyword_ids = list_visible_subtree(view, ctx, keyword_id)
    by_relation = query.relation is None and query.sort is InfoSort.RELEVANCE
    parts = [replace(query, relation=relation) for relation in RelationType] if by_relation else [query]
    seen: set[str] = set()
    for part in parts:
        infos = (list_infos_of_keyword(view, item, part) for item in keyword_ids)
        for info in heapq.merge(*infos, key=lambda info: -info.ordinal):
            if info.id not in seen:
                seen.add(info.id)
                yield info


def render_infos(view: View, summaries: Iterable[Info]) -> list[bytes]:
    """Return infos as JSON text, as they are stored."""
    return [view.raw(INFOS, summary.id) or b"" for summary in summaries]


def render_first_infos(view: View, summaries: Iterable[Info]) -> list[bytes]:
    """Return as many infos as fit in 1 MiB, at least one."""
    rows: list[bytes] = []
    size = 0
    for summary in summaries:
        row = view.raw(INFOS, summary.id) or b""
        size += len(row)
        if rows and size > MAX_SHOWN_BYTES:
            break
        rows.append(row)
    return rows


def render_linked_infos(
    view: View, ctx: RequestContext, keyword_id: str, query: InfoQuery, summaries: Iterable[Info]
) -> list[bytes]:
    """Return infos as JSON text with the `relation` and `created_by` of their link. Raises TooLarge over 64 MiB.

    With descendants it is the strongest link to one of them, and `keyword_id` names the keyword.
    """
    rows = []
    size = 0
    below = set(list_visible_subtree(view, ctx, keyword_id)) if query.descendants else set()
    shown_fields = ("relation", "created_by", "keyword_id") if query.descendants else ("relation", "created_by")
    for summary in summaries:
        raw, target = view.raw(INFOS, summary.id), keyword_id
        if query.descendants:
            links = [link for link in view.lookup(tree.BY_INFO, summary.id) if link.keyword_id in below]
            links = [link for link in links if query.relation in {None, link.relation}]
            target = min(links, key=lambda link: RELATION_RANKS[link.relation]).keyword_id
        link = view.get(LINKS, make_link_id(summary.id, target))
        size += len(raw or b"")
        if size > MAX_PAGE_BYTES:
            raise TooLarge(f"this page has more than {MAX_PAGE_BYTES} bytes of infos; ask for a smaller size")
        if raw is not None and link is not None:
            details = {name: link[name] for name in shown_fields}
            rows.append(raw[:-1] + b"," + json.dumps(details, ensure_ascii=False).encode()[1:])
    return rows


def check_query(query: InfoQuery) -> None:
    """Raise InvalidInput for a negative page, and for a size outside 1 to 1,000."""
    if fields.parse_integer("page", query.page) < 0:
        raise InvalidInput.of("page", "counts from 0 and is not negative")
    check_size("size", query.size)


def check_size(field: str, size: int) -> None:
    """Raise InvalidInput for a size outside 1 to 1,000."""
    if not 1 <= fields.parse_integer(field, size) <= MAX_SIZE:
        raise InvalidInput.of(field, f"must be between 1 and {MAX_SIZE}")


def make_page_key(ctx: RequestContext, keyword_id: str, query: InfoQuery) -> str:
    """Return the cache key of a page of a keyword's infos."""
    relation = query.relation.value if query.relation else "*"
    page = f"{relation}:{query.sort.value}:{query.size}:p{query.page}"
    return f"kw:{ctx.account}:{keyword_id}:infos:{page}:{make_reader_key(ctx.visible)}"


def _is_visible(ctx: RequestContext, summary: Info) -> bool:
    return summary.live and ctx.sees(summary.audience)


# Sorting and hashing the set costs more than an exact search.
@lru_cache(maxsize=1_024)
def make_reader_key(visible: frozenset[str] | None) -> str:
    """Return a cache key for what a caller sees, so that other callers do not get these answers."""
    if visible is None:
        return "*"
    return blake2b("\x1f".join(sorted(visible)).encode(), digest_size=16).hexdigest()
