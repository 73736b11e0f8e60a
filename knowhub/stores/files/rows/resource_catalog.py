"""The resources of one account in memory: their heads, listed in the order of their ids."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from knowhub.core import clock
from knowhub.core.operation import Row
from knowhub.resources.model import ResourceHead
from knowhub.stores.files.rows.keyword_catalog import reach


class ResourceCatalog:
    """Fed by the log, and by nothing else. Ids are put in order when they are next listed."""

    def __init__(self) -> None:
        self._heads: dict[str, ResourceHead] = {}
        self._ids: list[str] = []
        self._is_sorted = True

    def put(self, row: Row) -> None:
        """Take in a resource's new content."""
        head = _head_of(row)
        if head.id not in self._heads:
            self._is_sorted = self._is_sorted and (not self._ids or self._ids[-1] < head.id)
            self._ids.append(head.id)
        self._heads[head.id] = head

    def heads(self, prefix: str, after: str | None) -> Iterator[ResourceHead]:
        """Yield the live ones whose id begins so, by id, those behind `after` only."""
        if not self._is_sorted:
            self._ids.sort()
            self._is_sorted = True
        start = bisect_left(self._ids, prefix)
        if after is not None:
            start = max(start, bisect_right(self._ids, after))
        for index in range(start, len(self._ids)):
            resource_id = self._ids[index]
            if not resource_id.startswith(prefix):
                return
            head = self._heads[resource_id]
            if head.live:
                yield head


def _head_of(row: Row) -> ResourceHead:
    _, _, audience = reach(row["owner"], tuple(row["scopes"]))
    expires_at = row.get("expires_at")
    return ResourceHead(
        id=row["id"],
        live=not row.get("deleted", False),
        audience=audience,
        content_type=row["content_type"],
        expires_at=None if expires_at is None else clock.parse_iso(expires_at),
    )
