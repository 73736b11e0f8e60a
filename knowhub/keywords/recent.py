"""Which keywords were matched last: the first candidates of the next descent (KT-032, KT-077…080)."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from knowhub.core.request_context import RequestContext

CAPACITY: Final = 128

_READERS: Final = 1_000
_Reader: TypeAlias = tuple[str, frozenset[str] | None]


class Recent:
    """The ids of the keywords that were matched last, up to `capacity`; kept in memory only."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._ids: OrderedDict[str, None] = OrderedDict()

    def touch(self, keyword_id: str) -> None:
        """Put an id at the head; over capacity, the one at the tail goes (KT-077)."""
        self._ids[keyword_id] = None
        self._ids.move_to_end(keyword_id)
        if len(self._ids) > self._capacity:
            self._ids.popitem(last=False)

    def touch_path(self, ids: Iterable[str]) -> None:
        """Touch every id from root to match, in this order, so that the match ends at the head (KT-138, C-22)."""
        for keyword_id in ids:
            self.touch(keyword_id)

    def remove(self, keyword_id: str) -> None:
        """Take an id out, if it is there (KT-078)."""
        self._ids.pop(keyword_id, None)

    def snapshot(self) -> list[str]:
        """List the ids, the newest first (KT-079)."""
        return list(reversed(self._ids))


class Recents:
    """A Recent for each who reads: what some may not see comes first for nobody else, and is not known to be read.

    Those who see the same of one account share one. Of more than a thousand, who has not read longest is forgotten.
    """

    def __init__(self, capacity: int = CAPACITY, readers: int = _READERS) -> None:
        self._capacity = capacity
        self._readers = readers
        self._of: OrderedDict[_Reader, Recent] = OrderedDict()

    def of(self, ctx: RequestContext) -> Recent:
        """Return what this caller matched last."""
        reader = (ctx.account, ctx.visible)
        recent = self._of.setdefault(reader, Recent(self._capacity))
        self._of.move_to_end(reader)
        if len(self._of) > self._readers:
            self._of.popitem(last=False)
        return recent

    def forget(self, account: str, keyword_id: str) -> None:
        """Take a keyword that was deleted, merged or moved out of everybody's, in its account."""
        for (of_account, _), recent in self._of.items():
            if of_account == account:
                recent.remove(keyword_id)
