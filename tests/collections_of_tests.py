"""The collections of the product, and two that only tests write to: plain notes, and labels that no two rows share."""

from dataclasses import dataclass
from typing import Final

from knowhub.core.collection import Collection, Collections
from knowhub.core.operation import Row, is_live
from knowhub.core.table_schema import Index, TableSchema
from knowhub.wiring.collections import COLLECTIONS

NOTES: Final = "notes"
LABELS: Final = "labels"


@dataclass(frozen=True, slots=True)
class Label:
    id: str
    live: bool
    text: str


def summarize(row: Row, _ordinal: int, _change: int, _earlier: Label | None) -> Label:
    return Label(row["id"], is_live(row), row["text"])


BY_TEXT: Final = Index[Label](LABELS, "text", keys=lambda label: (label.text,))
WITH_NOTES: Final[Collections] = {
    **COLLECTIONS,
    NOTES: Collection(NOTES),
    LABELS: Collection(LABELS, table=TableSchema(LABELS, summarize, indexes=(BY_TEXT,)), unique=(BY_TEXT,)),
}
