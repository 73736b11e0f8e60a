"""The collections of resources: resources, how they are held and found, and who was shown what is sealed."""

from collections.abc import Iterator
from typing import Final

from knowhub.core import clock, scopes
from knowhub.core.collection import Collection, OnDelete, Reference
from knowhub.core.operation import Row, View, is_live
from knowhub.core.table_schema import Index, TableSchema
from knowhub.resources import decisions
from knowhub.resources.model import RESOURCES, REVEALS, ResourceSummary

_ALL: Final = "all"


def summarize(row: Row, _ordinal: int, _change: int, _earlier: ResourceSummary | None) -> ResourceSummary:
    """Return the summary of a resource."""
    _, _, audience = scopes.intern_access(row["owner"], tuple(row["scopes"]))
    expires_at, sealed = row.get("expires_at"), row.get(decisions.SEALED)
    return ResourceSummary(
        id=row["id"],
        live=is_live(row),
        audience=audience,
        content_type=row["content_type"],
        key_id=None if sealed is None else sealed["key_id"],
        expires_at=None if expires_at is None else clock.parse_iso(expires_at),
    )


BY_ID: Final = Index[ResourceSummary](
    RESOURCES, "by_id", keys=lambda _summary: (_ALL,), order=lambda summary: summary.id
)
RESOURCE_TABLE: Final = TableSchema(RESOURCES, summarize, indexes=(BY_ID,))


def list_resources(view: View, prefix: str, after: str | None) -> Iterator[ResourceSummary]:
    """Yield the live resources whose ids begin with `prefix`, by id, only those after `after`."""
    for summary in view.scan(BY_ID, _ALL, max(prefix, after or "")):
        if not summary.id.startswith(prefix):
            return
        if summary.id != after:
            yield summary


def list_key_ids(view: View) -> Iterator[str]:
    """Yield the ids of the keys that the live sealed bodies of an account need."""
    return (summary.key_id for summary in view.rows(RESOURCE_TABLE) if summary.key_id is not None)


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
