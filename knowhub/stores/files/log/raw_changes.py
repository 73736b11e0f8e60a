"""From the line of an operation to what those hear of it who follow the log."""

import orjson

from knowhub.core.operation import Operation
from knowhub.stores.files.log.log_line import RawChange


def raw_changes(operation: Operation) -> list[RawChange]:
    """Return the changes with their after-rows as JSON text; the text of what was before is not needed again."""
    return [
        RawChange(change.collection, change.id, None, orjson.dumps(change.after), change.after, change.before)
        for change in operation.changes
    ]
