"""What memory holds of rows, dropped when an operation touches them, here or in another process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.erasing import is_erased
from knowhub.keywords.caches import ResultCache, touched
from knowhub.keywords.model import KEYWORDS
from knowhub.keywords.recent import Recents
from knowhub.stores.files.log.log_line import RawChange


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Drops what a cache holds of what an operation touched, and what went away of what was matched lately."""

    cache: ResultCache | None
    recents: Recents

    def follow(self, account: str, _seq: int, changes: Sequence[RawChange]) -> None:
        """Take in an operation. Called by the store, in order."""
        for change in changes:
            if change.collection == KEYWORDS and _has_gone(change):
                self.recents.forget(account, change.id)
        if self.cache is None:
            return
        self.cache.touch(account, _touched(changes))
        if any(is_erased(change.after_row) for change in changes):
            # What a model said of a row may stand where the row itself is not named.
            self.cache.clear()


def touched_since(account: str, changes: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Name what the changes of a line touched, each with its account."""
    return {(account, name) for one in changes for name in touched(one["collection"], one["before"], one["after"])}


def _has_gone(change: RawChange) -> bool:
    before, after = change.before_row, change.after_row
    return before is not None and bool(after.get("deleted") or after["parent_id"] != before["parent_id"])


def _touched(changes: Sequence[RawChange]) -> set[str]:
    return {name for one in changes for name in touched(one.collection, one.before_row, one.after_row)}
