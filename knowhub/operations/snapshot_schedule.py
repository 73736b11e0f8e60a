"""Snapshots that are made by themselves, and how many of them are kept."""

from collections.abc import Callable

from knowhub.core.clock import Clock, parse_iso
from knowhub.operations.background import Background
from knowhub.operations.model import SnapshotEntry, SnapshotReason
from knowhub.operations.snapshots import SnapshotArchives

_HOUR_S = 3600.0
_LOOK_AGAIN_S = 60.0


class PeriodicSnapshots:
    """Makes a snapshot every `interval_h` hours where something was written, and keeps the newest `kept` of these.

    Those that somebody asked for, or that a restore made, are left alone. `newest` gives the number of the newest
    operation, `begun` the time of the oldest one that is known, None while there is none.
    """

    def __init__(
        self,
        archives: SnapshotArchives,
        clock: Clock,
        limits: tuple[float, int],
        newest: Callable[[], int],
        begun: Callable[[], float | None],
    ) -> None:
        self._archives = archives
        self._interval_s, self._kept = limits[0] * _HOUR_S, limits[1]
        self._newest = newest
        self._begun = begun
        self._background = Background(clock, _LOOK_AGAIN_S, self._make, self._is_due)

    async def tend(self) -> None:
        """Begin a snapshot in the background where one is due. Raises what the last one failed with."""
        await self._background.tend()

    async def close(self) -> None:
        """Break off what is under way; a snapshot that is not whole has no name yet."""
        await self._background.close()

    async def _is_due(self, now: float) -> bool:
        if not self._interval_s:
            return False
        begun = self._begun()
        whole = [entry for entry in await self._archives.entries() if entry.created_at is not None]
        if whole:
            made = max(_made_at(entry) for entry in whole)
            return now >= made + self._interval_s and self._newest() > max(entry.last_seq or 0 for entry in whole)
        return begun is not None and now >= begun + self._interval_s

    async def _make(self) -> None:
        await self._archives.create(SnapshotReason.PERIODIC)
        periodic = [one for one in await self._archives.entries() if one.reason is SnapshotReason.PERIODIC]
        for entry in periodic[self._kept :]:
            await self._archives.delete(entry.ts)


def _made_at(entry: SnapshotEntry) -> float:
    return parse_iso(entry.created_at) if entry.created_at is not None else 0.0
