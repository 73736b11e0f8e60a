"""Figures of a tree: orphans, depth, width, missing descriptions and duplicate names."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.tree import BY_INFO, BY_KEYWORD, find_info

DEEP_LEVEL = 6
MAX_LISTED = 100
MAX_WIDEST = 10
MAX_DUPLICATES = 50
_Levels: TypeAlias = Mapping[str | None, int]


def measure_tree(view: View, ctx: RequestContext) -> Iterator[dict[str, Any] | None]:
    """Yield None where the caller may pause, and last the figures of the tree as the caller sees it.

    Lists show the worst items; the counts are complete.
    """
    nodes: list[Node] = []
    links: Counter[str] = Counter()
    children: Counter[str | None] = Counter()
    by_name: dict[str, list[Node]] = defaultdict(list)
    for node in tree.list_keywords(view):
        yield None
        if node.id == ROOT_ID or not ctx.sees(node.audience):
            continue
        nodes.append(node)
        children[node.parent_id] += 1
        links[node.id] = _count_links(view, ctx, node)
        for name_key in node.name_keys:
            by_name[name_key].append(node)
    used: set[str | None] = {keyword_id for keyword_id, count in links.items() if count}
    levels = yield from _measure_levels(view, ctx, used)
    orphans = [node.id for node in nodes if node.id not in levels or node.id not in used]
    orphan_infos = []
    for info in view.newest(tree.INFO_TABLE):
        yield None
        linked = (link.keyword_id for link in view.lookup(BY_INFO, info.id))
        if ctx.sees(info.audience) and not any(rendering.get_visible_node(view, ctx, item) for item in linked):
            orphan_infos.append(info.id)
    depths = Counter([0, *(levels[node.id] for node in nodes if node.id in levels)])
    undescribed = sum(not node.is_described for node in nodes)
    yield {
        "nodes": len(nodes),
        "links": links.total(),
        "leaves": sum(not children[node.id] for node in nodes),
        "max_depth": max(depths),
        "depths": {str(level): depths[level] for level in sorted(depths)},
        "orphan_count": len(orphans) + len(orphan_infos),
        "orphan_keyword_count": len(orphans),
        "orphan_info_count": len(orphan_infos),
        "orphans": [*orphans, *orphan_infos][:MAX_LISTED],
        "missing_descriptions": {
            "count": undescribed,
            "rate": round(undescribed / len(nodes), 4) if nodes else 0.0,
        },
        "fan_out": _summarize_widths([tree.get_live_node(view, ROOT_ID) or tree.ROOT_NODE, *nodes], children),
        **_list_deep(nodes, levels),
        **_list_duplicates(by_name),
    }


def _measure_levels(
    view: View, ctx: RequestContext, used: set[str | None]
) -> Generator[None, None, Mapping[str | None, int]]:
    """Return the level of each keyword below the root, and add those with visible ones below them to `used`."""
    levels: dict[str | None, int] = {ROOT_ID: 0}
    walked = []
    for _, node in tree.walk(view, [ROOT_ID]):
        yield None
        # A path may lead through hidden keywords, which do not count.
        levels[node.id] = levels[node.parent_id] + ctx.sees(node.audience)
        walked.append(node)
    for node in reversed(walked):
        if ctx.sees(node.audience) or node.id in used:
            used.add(node.parent_id)
    return levels


def _count_links(view: View, ctx: RequestContext, node: Node) -> int:
    links = view.lookup(BY_KEYWORD, node.id)
    if ctx.sees_everything:
        return len(links)
    infos = (find_info(view, link.info_id) for link in links)
    return sum(info is not None and info.live and ctx.sees(info.audience) for info in infos)


def _summarize_widths(nodes: Sequence[Node], children: Mapping[str | None, int]) -> dict[str, Any]:
    parents = [(children[node.id], -node.ordinal, node) for node in nodes if children[node.id]]
    widths = sorted(width for width, _, _ in parents)
    return {
        "mean": round(sum(widths) / len(widths), 2) if widths else 0.0,
        "max": max(widths, default=0),
        "p50": _get_percentile(widths, 50),
        "p95": _get_percentile(widths, 95),
        "widest": [
            {"id": node.id, "name": node.name, "children": width}
            for width, _, node in heapq.nlargest(MAX_WIDEST, parents)
        ],
    }


def _list_deep(nodes: Sequence[Node], levels: _Levels) -> dict[str, Any]:
    deep = [(levels[node.id], -node.ordinal, node) for node in nodes if levels.get(node.id, 0) > DEEP_LEVEL]
    worst = heapq.nlargest(MAX_LISTED, deep)
    return {
        "deep_count": len(deep),
        "deep": [{"id": node.id, "name": node.name, "level": level} for level, _, node in worst],
    }


def _list_duplicates(by_name: Mapping[str, Sequence[Node]]) -> dict[str, Any]:
    doubles = [(-len(found), found[0].ordinal, name_key) for name_key, found in by_name.items() if len(found) > 1]
    worst = [name_key for _, _, name_key in heapq.nsmallest(MAX_DUPLICATES, doubles)]
    return {
        "duplicate_count": len(doubles),
        "duplicates": [
            {"token": name_key, "ids": [node.id for node in by_name[name_key][:MAX_LISTED]]} for name_key in worst
        ],
    }


def _get_percentile(figures: Sequence[int], percent: int) -> int:
    """Return the least of sorted figures that at least `percent` % of them do not exceed; 0 if there are none."""
    return figures[-(-len(figures) * percent // 100) - 1] if figures else 0
