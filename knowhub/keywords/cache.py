"""The cached decisions of a model, the recent matches of each reader, and what an operation changes of them."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowhub.core.clock import Clock, SystemClock
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Change, Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import KEYWORDS

TTL_S: Final = 3_600.0
CAPACITY: Final = 20_000


class DecisionCache:
    """An LRU cache of a model's decisions, each for an hour.

    A key names the account, the question, and all that the decision depends on: nothing needs to be invalidated.
    """

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[str, tuple[Any, float]] = OrderedDict()

    def get(self, key: str) -> Any | None:  # noqa: ANN401 -- each kind of key has its own kind of value
        """Return the decision; None if there is none, or it has expired."""
        value, put_at = self._entries.pop(key, (None, 0.0))
        # Also expired if the clock was set back to before the put.
        if value is None or not put_at <= self._clock.now() < put_at + TTL_S:
            return None
        self._entries[key] = value, put_at
        return value

    def put(self, key: str, value: Any) -> None:  # noqa: ANN401 -- as `get`
        """Cache a decision."""
        self._entries[key] = value, self._clock.now()
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop every decision."""
        self._entries.clear()


NO_CACHE: Final = DecisionCache(SystemClock(), capacity=0)
"""Keeps nothing."""


RECENT_CAPACITY: Final = 128
_READERS: Final = 1_000


class RecentMatchesByReader:
    """The ids of the keywords that each reader matched last, up to `capacity`.

    Callers of an account who see the same scopes share them. At most a thousand readers are remembered, the last to
    read longest.
    """

    def __init__(self, capacity: int = RECENT_CAPACITY, readers: int = _READERS) -> None:
        self._capacity = capacity
        self._readers = readers
        self._of: OrderedDict[tuple[str, frozenset[str] | None], OrderedDict[str, None]] = OrderedDict()

    def add(self, ctx: RequestContext, ids: Iterable[str]) -> None:
        """Add the ids of a path from the root; its end becomes the newest, and over capacity the oldest are dropped."""
        recent = self._get_for(ctx)
        for keyword_id in ids:
            recent[keyword_id] = None
            recent.move_to_end(keyword_id)
        while len(recent) > self._capacity:
            recent.popitem(last=False)

    def list_newest(self, ctx: RequestContext) -> list[str]:
        """List the ids of this caller, the newest first."""
        return list(reversed(self._get_for(ctx)))

    def remove(self, account: str, keyword_id: str) -> None:
        """Remove a keyword that was deleted, merged or moved from all recent matches of its account."""
        for (of_account, _), recent in self._of.items():
            if of_account == account:
                recent.pop(keyword_id, None)

    def _get_for(self, ctx: RequestContext) -> OrderedDict[str, None]:
        reader = (ctx.account, ctx.visible)
        recent = self._of.setdefault(reader, OrderedDict())
        self._of.move_to_end(reader)
        if len(self._of) > self._readers:
            self._of.popitem(last=False)
        return recent


@dataclass(frozen=True, slots=True)
class TreeFollower:
    """Follows the log: removes deleted keywords from the recent matches, and clears the decisions after an erase."""

    cache: DecisionCache
    recents: RecentMatchesByReader

    def follow(self, account: str, _seq: int, changes: Sequence[Change]) -> None:
        """Apply an operation. Called by the store, in order."""
        for change in changes:
            if change.collection == KEYWORDS and _is_removed(change.before, change.after):
                self.recents.remove(account, change.id)
        if any(is_erased(change.after) for change in changes):
            # The reason of a decision may contain the text of a row.
            self.cache.clear()


def _is_removed(before: Row | None, after: Row) -> bool:
    return before is not None and bool(after.get("deleted") or after["parent_id"] != before["parent_id"])
