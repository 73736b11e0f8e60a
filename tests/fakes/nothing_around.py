"""What lies around a log from which nothing is derived, and of which there is no snapshot."""

from collections.abc import Sequence

from knowhub.core.operation import Operation


class NothingAround:
    """Has nothing to follow an erasing with."""

    async def follow(self, operation: Operation) -> Sequence[str]:
        return ()

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        return ()
