"""Cached search results and recent matches, and what an operation invalidates of them."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from knowhub.core.clock import Clock, SystemClock
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Change, Row, is_live
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS

TTL_S: Final = 3_600.0
CAPACITY: Final = 20_000
CAPACITY_BYTES: Final = 64 * 1024 * 1024

_DEPENDENCIES_PER_ENTRY: Final = 32
# A single value may use at most a sixteenth of the bytes.
_SHARE: Final = 16

Dependency: TypeAlias = tuple[str, str]
"""An account, and in it the id of a keyword or an info, or `name:<key>` for a name or its pinyin."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    put_at: float
    dependencies: Sequence[Dependency]
    size: int


class ResultCache:
    """An LRU cache. A value is kept for an hour, or until one of its dependencies changes.

    A key names the account and the reader. Entries, bytes and dependencies are bounded: at most 32 dependencies per
    entry on average.
    """

    def __init__(self, clock: Clock, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._clock = clock
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._keys_by_dependency: dict[Dependency, set[str]] = {}
        self._bytes = 0
        self._dependency_count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Any | None:  # noqa: ANN401 -- each kind of key has its own kind of value
        """Return the value; None if there is none, or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        # Also expired if the clock was set back to before the put.
        if not entry.put_at <= self._clock.now() < entry.put_at + TTL_S:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key: str, value: Any, dependencies: Sequence[Dependency] = (), rows: Iterable[bytes] = ()) -> None:  # noqa: ANN401 -- as `get`
        """Cache a value until one of its dependencies changes; `rows` are its texts, whose bytes are counted."""
        size = sum(map(len, rows))
        self._drop(key)
        if (
            not self._capacity
            or len(dependencies) > self._capacity * _DEPENDENCIES_PER_ENTRY
            or size > self._capacity_bytes // _SHARE
        ):
            return
        self._entries[key] = _Entry(value, self._clock.now(), dependencies, size)
        for dependency in dependencies:
            self._keys_by_dependency.setdefault(dependency, set()).add(key)
        self._dependency_count += len(dependencies)
        self._bytes += size
        while (
            len(self._entries) > self._capacity
            or self._dependency_count > self._capacity * _DEPENDENCIES_PER_ENTRY
            or self._bytes > self._capacity_bytes
        ):
            self._drop(next(iter(self._entries)))

    def invalidate(self, account: str, changed: Iterable[str]) -> None:
        """Drop the entries that depend on what was changed in an account."""
        for name in changed if self._entries else ():
            for key in list(self._keys_by_dependency.get((account, name), ())):
                self._drop(key)

    def clear(self) -> None:
        """Drop every entry."""
        for key in list(self._entries):
            self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._dependency_count -= len(entry.dependencies)
        self._bytes -= entry.size
        for dependency in set(entry.dependencies):
            self._keys_by_dependency[dependency].discard(key)
            if not self._keys_by_dependency[dependency]:
                del self._keys_by_dependency[dependency]


NO_CACHE: Final = ResultCache(SystemClock(), capacity=0)
"""Keeps nothing."""


def list_changed_dependencies(change: Change) -> set[str]:
    """List the dependencies of cached answers that one change of a row invalidates.

    | change of | dependencies |
    |---|---|
    | a keyword | its id; the keys of its names before and after |
    | … that is created, deleted, moved or has other readers | also its parent before and after |
    | an info | its id |
    | a link | the ids of both ends |

    An answer with a path depends on every keyword of the path, so descendants are not listed.
    """
    before, after = change.before, change.after
    if change.collection == LINKS:
        return {str(after["info_id"]), str(after["keyword_id"])}
    changed = {str(after["id"])} if change.collection in {KEYWORDS, INFOS} else set[str]()
    if change.collection != KEYWORDS:
        return changed
    rows = [row for row in (before, after) if row is not None]
    changed.update(f"name:{name_key}" for row in rows for name in ("normalized", "pinyin") for name_key in row[name])
    if before is None or _get_position(before) != _get_position(after):
        changed.update(str(row["parent_id"]) for row in rows if row["parent_id"] is not None)
    return changed


def _get_position(row: Row) -> tuple[Any, ...]:
    """Return what decides whose child a keyword is, and for which readers."""
    return is_live(row), row["parent_id"], sorted(map(str, row["scopes"])), row["owner"]


RECENT_CAPACITY: Final = 128
_READERS: Final = 1_000


class RecentMatchesByReader:
    """The ids of the keywords that each reader matched last, up to `capacity`.

    Callers of an account who see the same scopes share them. At most a thousand readers are remembered; the
    least recently used is dropped first.
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
class Invalidation:
    """Follows the log: invalidates cached answers, and removes deleted keywords from the recent matches."""

    cache: ResultCache
    recents: RecentMatchesByReader

    def follow(self, account: str, _seq: int, changes: Sequence[Change]) -> None:
        """Apply an operation. Called by the store, in order."""
        for change in changes:
            before, after = change.before, change.after
            if (
                change.collection == KEYWORDS
                and before is not None
                and (not is_live(after) or after["parent_id"] != before["parent_id"])
            ):
                self.recents.remove(account, change.id)
        # The names are listed as they are needed: an empty cache needs none of them.
        names = (name for change in changes for name in list_changed_dependencies(change))
        self.cache.invalidate(account, names)
        if any(is_erased(change.after) for change in changes):
            # A cached answer of a model may contain the text of a row without its id.
            self.cache.clear()
