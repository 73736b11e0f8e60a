"""Every collection that there is: the one registry."""

from typing import Final

from knowhub.context import collections as context
from knowhub.core.collection import Collections, table_schemas
from knowhub.core.row_check import RowCheck
from knowhub.identity import collections as identity
from knowhub.keywords import collections as keywords
from knowhub.keywords.tree_check import TreeCheck
from knowhub.knowledge import collections as knowledge
from knowhub.resources import collections as resources

COLLECTIONS: Final[Collections] = {
    collection.name: collection
    for declared in (
        knowledge.COLLECTIONS,
        keywords.COLLECTIONS,
        resources.COLLECTIONS,
        context.COLLECTIONS,
        identity.COLLECTIONS,
    )
    for collection in declared
}
SCHEMAS: Final = table_schemas(COLLECTIONS)
FIXED_IDS: Final = {name: collection.fixed_ids for name, collection in COLLECTIONS.items() if collection.is_undoable}
"""The collections that a snapshot restores, each with the rows that every account has, targets of references first."""


def row_checks() -> list[RowCheck]:
    """Return the checks of rows that `knowhub doctor` makes."""
    return [TreeCheck()]
