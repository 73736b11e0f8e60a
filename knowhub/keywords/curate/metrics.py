"""Figures of a tree: orphans, depth, width, missing descriptions and duplicate names."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.tree import (
    find_info,
    find_keyword,
    list_keywords,
    list_links_of_info,
    list_links_of_keyword,
    list_newest_infos,
)

DEEP_LEVEL = 6
MAX_LISTED = 100
MAX_WIDEST = 10
MAX_DUPLICATES = 50


class TreeMetrics:
    """Counts one tree as one caller sees it, bit by bit, so that a large one makes nobody wait.

    Exhaust `count()`, pausing between its steps as others need, then read `get_result()`.
    """

    def __init__(self, view: View, ctx: RequestContext) -> None:
        self._view = view
        self._ctx = ctx
        self._seen: list[Node] = []
        self._parents: dict[str, str | None] = {}
        self._levels: dict[str, int | None] = {ROOT_ID: 0}
        self._hidden: set[str] = set()
        self._child_counts: Counter[str] = Counter()
        self._bearers: dict[str, Node] = {}
        self._doubles: dict[str, list[Node]] = {}
        self._links = self._undescribed = self._leaves = 0
        self._depths: Counter[int] = Counter({0: 1})
        self._widths: Counter[int] = Counter()
        self._widest: list[tuple[int, int, Node]] = []
        self._with_infos: set[str] = set()
        self._with_children: set[str] = set()
        self._orphans: list[str] = []
        self._orphan_keywords = self._orphan_infos = 0
        self._deep: list[tuple[int, int, Node]] = []

    def count(self) -> Iterator[None]:
        """Count, and yield where the caller may pause."""
        for node in list_keywords(self._view):
            # A path may lead through hidden keywords: all parents are read, only visible keywords count.
            self._parents[node.id] = node.parent_id
            if not self._ctx.sees(node.audience):
                self._hidden.add(node.id)
            elif node.id != ROOT_ID:
                self._add_node(node)
            yield None
        self._add_width(tree.get_live_node(self._view, ROOT_ID) or tree.ROOT_NODE)
        for node in self._seen:
            self._add_position(node)
            yield None
        for node in self._seen:
            is_used = node.id in self._with_infos or node.id in self._with_children
            if not is_used or self._levels[node.id] is None:
                self._orphan_keywords += 1
                self._list_orphan(node.id)
        for info in list_newest_infos(self._view):
            if self._ctx.sees(info.audience):
                self._add_info(info.id)
            yield None

    def get_result(self) -> dict[str, Any]:
        """Return the figures. Lists show the worst items; the counts are complete."""
        nodes = len(self._seen)
        worst = heapq.nsmallest(
            MAX_DUPLICATES, self._doubles.items(), key=lambda item: (-len(item[1]), item[1][0].ordinal, item[0])
        )
        return {
            "nodes": nodes,
            "links": self._links,
            "leaves": self._leaves,
            "max_depth": max(self._depths),
            "depths": {str(level): self._depths[level] for level in sorted(self._depths)},
            "orphan_count": self._orphan_keywords + self._orphan_infos,
            "orphan_keyword_count": self._orphan_keywords,
            "orphan_info_count": self._orphan_infos,
            "orphans": self._orphans,
            "missing_descriptions": {
                "count": self._undescribed,
                "rate": round(self._undescribed / nodes, 4) if nodes else 0.0,
            },
            "fan_out": self._summarize_widths(),
            "deep_count": len(self._deep),
            "deep": [
                {"id": node.id, "name": node.name, "level": level}
                for level, _, node in heapq.nlargest(MAX_LISTED, self._deep)
            ],
            "duplicate_count": len(self._doubles),
            "duplicates": [{"token": token, "ids": [node.id for node in nodes][:MAX_LISTED]} for token, nodes in worst],
        }

    def _add_node(self, node: Node) -> None:
        self._seen.append(node)
        self._undescribed += not node.is_described
        if node.parent_id is not None:
            self._child_counts[node.parent_id] += 1
        for token in node.tokens:
            first = self._bearers.setdefault(token, node)
            if first is not node:
                self._doubles.setdefault(token, [first]).append(node)
        links = list_links_of_keyword(self._view, node.id)
        infos = len(links)
        if not self._ctx.sees_everything:
            summaries = (find_info(self._view, link.info_id) for link in links)
            infos = sum(
                summary is not None and summary.live and self._ctx.sees(summary.audience) for summary in summaries
            )
        self._links += infos
        if infos:
            self._with_infos.add(node.id)

    def _add_position(self, node: Node) -> None:
        """Count a keyword at its level, once all parents and links are known."""
        level = self._get_level(node.id)
        if level is not None:
            self._depths[level] += 1
            if level > DEEP_LEVEL:
                self._deep.append((level, -node.ordinal, node))
        self._add_width(node)
        self._leaves += not self._child_counts[node.id]
        # A visible keyword may be below a hidden one.
        above = node.parent_id
        while above is not None and above not in self._with_children:
            self._with_children.add(above)
            above = self._parents.get(above)

    def _add_info(self, info_id: str) -> None:
        keywords = (find_keyword(self._view, link.keyword_id) for link in list_links_of_info(self._view, info_id))
        if not any(node is not None and node.live and self._ctx.sees(node.audience) for node in keywords):
            self._orphan_infos += 1
            self._list_orphan(info_id)

    def _list_orphan(self, row_id: str) -> None:
        if len(self._orphans) < MAX_LISTED:
            self._orphans.append(row_id)

    def _get_level(self, keyword_id: str) -> int | None:
        """Return how many visible ancestors a keyword has; None if it is not below the root."""
        upwards: dict[str, None] = {}
        above: str | None = keyword_id
        while above is not None and above in self._parents and above not in self._levels and above not in upwards:
            upwards[above] = None
            above = self._parents[above]
        level = self._levels.get(above) if above is not None else None
        for passed in reversed(upwards):
            level = None if level is None else level + (passed not in self._hidden)
            self._levels[passed] = level
        return level

    def _add_width(self, node: Node) -> None:
        width = self._child_counts[node.id]
        if width:
            self._widths[width] += 1
            heapq.heappush(self._widest, (width, -node.ordinal, node))
            if len(self._widest) > MAX_WIDEST:
                heapq.heappop(self._widest)

    def _summarize_widths(self) -> dict[str, Any]:
        parents = self._widths.total()
        children = sum(width * count for width, count in self._widths.items())
        return {
            "mean": round(children / parents, 2) if parents else 0.0,
            "max": max(self._widths, default=0),
            "p50": _percentile(self._widths, 50),
            "p95": _percentile(self._widths, 95),
            "widest": [
                {"id": node.id, "name": node.name, "children": width}
                for width, _, node in sorted(self._widest, reverse=True)
            ],
        }


def _percentile(counts: Mapping[int, int], percent: int) -> int:
    """Return the least figure that at least `percent` % of the counts do not exceed; 0 if there are none."""
    wanted = -(-sum(counts.values()) * percent // 100)
    for figure in sorted(counts):
        wanted -= counts[figure]
        if wanted <= 0:
            return figure
    return 0
