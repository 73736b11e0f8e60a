"""The verbs on infos and links: who may do what, and what is answered when it cannot be."""

from collections.abc import Mapping
from typing import Any

import pytest

from knowhub.core.errors import Forbidden, InvalidInput
from knowhub.keywords import info_rules
from knowhub.keywords.model import (
    KEYWORDS,
    ROOT_ID,
    NewInfo,
)
from tests.builders import retry_key
from tests.unit.keywords.tree_hub import ANN, Hub

pytestmark = pytest.mark.anyio


async def test_an_item_for_somebody_else_is_refused_by_its_number(hub: Hub) -> None:
    with pytest.raises(Forbidden, match=r"^items\.1: ") as refused:
        await hub.infos.create_batch(ANN, [NewInfo("mine"), NewInfo("theirs", owner="user:bob")])

    assert refused.value.extra["item"] == 1


async def test_infos_hang_on_the_root_before_it_has_a_row(hub: Hub) -> None:
    info = await hub.info("x", ROOT_ID)

    assert hub.store.view("default").raw(KEYWORDS, ROOT_ID) is None
    assert await hub.contents_of(ROOT_ID) == ["x"]
    assert await hub.names_of(info) == {"root": ("PRIMARY", "user")}


async def test_a_retry_gets_the_first_answer(hub: Hub) -> None:
    first = await hub.infos.create(ANN, NewInfo("x"), retry_key())
    again = await hub.infos.create(ANN, NewInfo("x"), retry_key())

    assert (again.row, again.operation_id) == (first.row, first.operation_id)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"source": "s" * 2_049}, "source"),
        ({"keyword_ids": [ROOT_ID, "nowhere"]}, "keyword_ids.1"),
        ({"keyword_ids": [ROOT_ID] * 1_001}, "keyword_ids"),
        ({"created_by": ""}, "created_by"),
        ({"created_by": "x" * 201}, "created_by"),
    ],
)
async def test_an_info_that_cannot_stand_is_refused_by_the_name_of_its_field(
    hub: Hub, fields: Mapping[str, Any], field: str
) -> None:
    new = NewInfo(**{"content": "good"} | dict(fields))

    with pytest.raises(InvalidInput) as alone:
        await hub.infos.create(ANN, new)
    with pytest.raises(InvalidInput) as in_batch:
        await hub.infos.create_batch(ANN, [NewInfo("good"), new])

    assert [error.field for error in alone.value.errors] == [field]
    assert [error.field for error in in_batch.value.errors] == [f"items.1.{field}"]
    assert hub.store.last_seq == 0


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_has_between_one_and_a_thousand_infos(hub: Hub, count: int) -> None:
    with pytest.raises(InvalidInput, match="items"):
        await hub.infos.create_batch(ANN, [NewInfo("x")] * count)


async def test_a_patch_and_an_undo_leave_no_info_that_could_not_have_been_saved(hub: Hub) -> None:
    info = await hub.info("x")

    for patch in ({"owner": "user:bob"}, {"content": " "}, {"source": "s" * 2_049}):
        with pytest.raises(InvalidInput):
            await hub.infos.update(ANN, info, patch)
    with pytest.raises(InvalidInput):
        info_rules.validate(lambda _collection, _row_id: None, [{"content": " "}])
