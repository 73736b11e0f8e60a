"""The collections of the product, and three that only tests write to: notes, labels of unique texts, and clippings."""

from dataclasses import dataclass
from typing import Final

from knowhub.core.collection import Collection, Collections
from knowhub.core.erasing import EraseRules
from knowhub.core.operation import Row, is_live
from knowhub.core.owned_rows import summarize_owned
from knowhub.core.table_schema import Index, TableSchema
from knowhub.wiring.collections import COLLECTIONS

NOTES: Final = "notes"
LABELS: Final = "labels"
CLIPPINGS: Final = "clippings"


@dataclass(frozen=True, slots=True)
class Label:
    id: str
    live: bool
    text: str


def summarize(row: Row, _ordinal: int, _change: int, _earlier: Label | None) -> Label:
    return Label(row["id"], is_live(row), row["text"])


BY_TEXT: Final = Index[Label](LABELS, "text", keys=lambda label: (label.text,))
CLIPPING_TABLE: Final = TableSchema(CLIPPINGS, summarize_owned)
CLIPPING: Final = Collection(CLIPPINGS, erase=EraseRules("clipping", {"url": "", "content": ""}), table=CLIPPING_TABLE)
WITH_NOTES: Final[Collections] = {
    **COLLECTIONS,
    NOTES: Collection(NOTES),
    LABELS: Collection(LABELS, table=TableSchema(LABELS, summarize, indexes=(BY_TEXT,)), unique=(BY_TEXT,)),
    CLIPPINGS: CLIPPING,
}
