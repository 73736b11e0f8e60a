"""Pending changes of several steps or items that become one operation."""

from collections.abc import Iterable, Mapping
from typing import Any

from knowhub.core.operation import Row, View, Write, is_live, next_version

_BOOKKEEPING = ("version", "updated_at")


class PendingRows:
    """Pending changes over a view; `view` shows them. Each row is written once, so its version rises once."""

    def __init__(self, below: View) -> None:
        self.view = below.plan()
        self._below = below
        self._rows: dict[tuple[str, str], Row] = {}

    def put(self, writes: Iterable[Write]) -> None:
        """Add writes."""
        for write in writes:
            version = next_version(self._below.get(write.collection, write.id))
            row = self._rows[write.collection, write.id] = {**write.after, "version": version}
            self.view.put(write.collection, write.id, row)

    def list_writes(self) -> list[Write]:
        """Return the changed rows, new rows first and deleted rows last: undo goes backwards."""
        found = [
            (before, Write(collection, row_id, row))
            for (collection, row_id), row in self._rows.items()
            if _is_change(before := self._below.get(collection, row_id), row)
        ]
        found.sort(key=lambda item: (not is_live(item[1].after), is_live(item[0])))
        return [write for _, write in found]


def _is_change(before: Row | None, after: Row) -> bool:
    if before is None or not (is_live(before) or is_live(after)):
        return is_live(after)
    return _drop_bookkeeping(before) != _drop_bookkeeping(after)


def _drop_bookkeeping(row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if name not in _BOOKKEEPING}
