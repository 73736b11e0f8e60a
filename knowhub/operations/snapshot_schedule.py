"""Periodic snapshots, and how many of them are kept."""

from collections.abc import Awaitable, Callable

from knowhub.core.clock import Clock, parse_iso
from knowhub.core.store_results import SnapshotReason
from knowhub.operations.jobs import Background
from knowhub.operations.snapshots import SnapshotArchives

_HOUR_S = 3600.0
_LOOK_AGAIN_S = 60.0


class PeriodicSnapshots(Background):
    """Makes a snapshot at intervals if something was written, and keeps the newest ones.

    `limits` are the hours between two of them, 0 for none, and how many are kept. Snapshots that somebody asked for, or
    that a restore made, are left alone. `newest` returns the number of the
    newest operation, `begun` the time of the oldest known operation, or None.
    """

    def __init__(
        self,
        archives: SnapshotArchives,
        clock: Clock,
        limits: tuple[float, int],
        newest: Callable[[], int],
        begun: Callable[[], Awaitable[float | None]],
    ) -> None:
        self._archives = archives
        self._every_s, self._kept = limits[0] * _HOUR_S, limits[1]
        self._newest = newest
        self._begun = begun
        super().__init__(clock, _LOOK_AGAIN_S, self._make, self._is_snapshot_due)

    async def _is_snapshot_due(self, now: float) -> bool:
        if not self._every_s:
            return False
        whole = [entry for entry in await self._archives.entries() if entry.created_at is not None]
        if whole:
            made = max(parse_iso(entry.created_at or "") for entry in whole)
            return now >= made + self._every_s and self._newest() > max(entry.last_seq or 0 for entry in whole)
        begun = await self._begun()
        return begun is not None and now >= begun + self._every_s

    async def _make(self) -> None:
        await self._archives.create(SnapshotReason.PERIODIC)
        periodic = [entry for entry in await self._archives.entries() if entry.reason is SnapshotReason.PERIODIC]
        for entry in periodic[self._kept :]:
            await self._archives.delete(entry.ts)
