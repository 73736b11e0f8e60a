"""A follow-up of an erasure with no derived files and no snapshots."""

from collections.abc import Sequence

from knowhub.core.operation import Operation


class NoFollowUp:
    """Does nothing after an erasure, and finds no snapshot."""

    async def follow(self, operation: Operation) -> Sequence[str]:
        return ()

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        return ()
