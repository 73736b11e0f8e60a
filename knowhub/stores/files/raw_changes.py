"""From an operation that was read back to the rows as text that memory holds."""

import orjson

from knowhub.core.operation import Operation
from knowhub.stores.files.log_line import RawChange


def raw_changes(operation: Operation) -> list[RawChange]:
    """Return the changes with their after-rows as JSON text; what was before is not needed again."""
    return [
        RawChange(change.collection, change.id, None, orjson.dumps(change.after), change.after)
        for change in operation.changes
    ]
