"""Operations that were made of what others wrote, such as what a model read in the messages of a commit."""

from collections.abc import Sequence

from knowhub.core.collection import Collections
from knowhub.core.operation import HistoryStore, Operation


async def find_derived(store: HistoryStore, collections: Collections, chosen: Sequence[Operation]) -> list[Operation]:
    """Return the later operations that were made of what these wrote, and that are not undone yet.

    They are found on the rows that the written ones refer to.
    """
    known = {operation.operation_id for operation in chosen}
    found: dict[str, Operation] = {}
    for operation in chosen:
        sources = {
            target: collection.is_derived
            for change in operation.changes
            if (collection := collections.get(change.collection)) is not None and collection.is_derived is not None
            for reference in collection.references
            if (target := reference.key(change.after)) is not None
        }
        for target, is_derived in sources.items():
            async for later in store.operations_on(operation.account, *target):
                if later.seq <= operation.seq:
                    break
                is_undone = store.undone_by(later.account, later.operation_id) is not None
                if later.operation_id not in known and not is_undone and is_derived(operation, later):
                    found[later.operation_id] = later
    return list(found.values())
