"""A follow-up of an erasure with no derived files and no snapshots."""

from collections.abc import Sequence

from knowhub.core.operation import Operation
from knowhub.operations.erasure import ErasureService
from knowhub.stores.files.store import FileStore
from knowhub.wiring.collections import COLLECTIONS


class NoFollowUp:
    """Does nothing after an erasure, and finds no snapshot."""

    async def follow(self, operation: Operation) -> Sequence[str]:
        return ()

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        return ()


def erasures_on(store: FileStore) -> ErasureService:
    """Return what erases rows of a store and does nothing after that."""
    return ErasureService(store, NoFollowUp(), COLLECTIONS)
