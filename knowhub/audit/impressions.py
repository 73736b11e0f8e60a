"""Which records searches have shown, and when last: coarse, in memory, for the audit's evidence alone."""

from collections import OrderedDict
from collections.abc import Sequence

from knowhub.core.clock import Clock

MAX_REMEMBERED = 100_000


class RecentImpressions:
    """Remembers the last time of each record, of the `limit` shown last. It ends with the process."""

    def __init__(self, clock: Clock, limit: int = MAX_REMEMBERED) -> None:
        self._clock = clock
        self._limit = limit
        self._known_since = clock.now()
        self._times: OrderedDict[tuple[str, str], float] = OrderedDict()

    @property
    def known_since(self) -> float:
        """Return from when on every showing is known, in seconds since the epoch."""
        return self._known_since

    def note(self, account: str, ids: Sequence[str]) -> None:
        """Remember that a search has just shown these."""
        now = self._clock.now()
        for record_id in ids:
            self._times[account, record_id] = now
            self._times.move_to_end((account, record_id))
        while len(self._times) > self._limit:
            # What is forgotten was shown then or before: of later showings all are known.
            self._known_since = max(self._known_since, self._times.popitem(last=False)[1])

    def last_shown(self, account: str, record_id: str) -> float | None:
        """Return when a search last showed the record; None when none has since `known_since`."""
        return self._times.get((account, record_id))
