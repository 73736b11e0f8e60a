"""The collections of resources: resources, and who was shown what is sealed in them."""

from typing import Final

from knowhub.core.collection import Collection, OnDelete, Reference
from knowhub.resources import decisions
from knowhub.resources.model import RESOURCES, REVEALS
from knowhub.resources.queries import RESOURCE_TABLE

RESOURCE: Final = Collection(
    RESOURCES,
    field_groups=(decisions.SEALED_GROUP,),
    redacted_fields=frozenset({decisions.SEALED}),
    sealed_field=decisions.SEALED,
    erase=decisions.ERASE_RULES,
    table=RESOURCE_TABLE,
)
COLLECTIONS: Final = (
    RESOURCE,
    Collection(
        REVEALS,
        references=(Reference("id", RESOURCES, OnDelete.KEEP, limits_visibility=True),),
        is_undoable=False,
    ),
)
