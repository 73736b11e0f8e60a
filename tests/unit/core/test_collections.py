"""The declarations of all collections fit together."""

import pytest

from knowhub.core.collection import Collection, OnDelete, Path
from knowhub.core.operation import Unchanged, get_operation
from knowhub.core.table_schema import Summary, TableSchema
from knowhub.wiring.collections import COLLECTIONS

EVERY = [pytest.param(collection, id=collection.name) for collection in COLLECTIONS.values()]


@pytest.mark.parametrize("collection", EVERY)
def test_every_reference_leads_to_a_declared_collection_and_can_be_reattached(collection: Collection) -> None:
    for reference in collection.references:
        target = COLLECTIONS[reference.target]
        if reference.on_delete is OnDelete.REATTACH:
            assert reference.via in {item.field for item in target.references if item.target == reference.target}


@pytest.mark.parametrize("collection", EVERY)
def test_no_field_is_merged_in_two_ways(collection: Collection) -> None:
    merged: list[frozenset[Path]] = [collection.counters, collection.append_only]
    merged += [computed.fields for computed in collection.computed]

    assert sum(map(len, merged)) == len(frozenset().union(*merged))


def test_a_mistake_of_a_caller_is_named() -> None:
    with pytest.raises(TypeError, match="rows of votes cannot be erased"):
        _ = COLLECTIONS["votes"].erase_rules
    with pytest.raises(KeyError, match="by_colour"):
        TableSchema[Summary]("rows").index("by_colour")
    with pytest.raises(TypeError, match="nothing written"):
        get_operation(Unchanged())
