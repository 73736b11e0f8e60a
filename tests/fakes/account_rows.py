"""An account of the engine without a store; tests put rows into it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from knowhub.core.collection import Collection, table_schemas
from knowhub.core.table_schema import TableSchemas
from knowhub.engine.account import Account, LoadedChange
from knowhub.engine.disk_rows import LogLine
from knowhub.engine.view import AccountView
from knowhub.wiring.collections import COLLECTIONS

SCHEMAS = table_schemas(COLLECTIONS)


class AccountRows:
    """Each call of `load` is one operation. The log lines are in memory; tests may damage them."""

    def __init__(self, schemas: TableSchemas = SCHEMAS) -> None:
        self.lines: list[bytearray] = []
        self.account = Account(schemas, self._read)

    @property
    def view(self) -> AccountView:
        """The rows as a reader sees them."""
        return AccountView(self.account, now=0.0)

    def load(self, collection: str, *rows: Mapping[str, Any]) -> None:
        """Take in rows that were read back."""
        id_of = COLLECTIONS.get(collection, Collection(collection)).id_of
        changes = [LoadedChange(collection, id_of(row), msgspec.Raw(orjson.dumps(row))) for row in rows]
        data = b"".join(b'{"after":%s}' % bytes(change.after) for change in changes)
        self.lines.append(bytearray(data))
        self.account.load(len(self.lines), changes, LogLine(len(self.lines), 0, data))

    def _read(self, segment: int, start: int, end: int) -> bytes:
        return bytes(self.lines[segment - 1][start:end])
