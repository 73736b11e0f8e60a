"""The registry of collections: what every `knowhub/<domain>/collections.py` declares."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import knowhub
from knowhub.core.collection import Collection, Collections
from knowhub.core.row_check import RowCheck
from knowhub.keywords.tree_check import TreeCheck
from knowhub.search.keyword_text import KeywordTextRules


def _load_collections() -> Iterator[Collection]:
    for path in sorted(Path(knowhub.__path__[0]).glob("*/collections.py")):
        if path != Path(__file__):
            yield from import_module(f"knowhub.{path.parent.name}.collections").COLLECTIONS


COLLECTIONS: Final[Collections] = {collection.name: collection for collection in _load_collections()}
FIXED_IDS: Final = {name: collection.fixed_ids for name, collection in COLLECTIONS.items() if collection.is_undoable}
"""The collections that a snapshot restores, each with the rows that every account has, targets of references first."""


def row_checks() -> list[RowCheck]:
    """Return the checks of rows that `knowhub doctor` makes."""
    return [TreeCheck(KeywordTextRules().name_keys)]
