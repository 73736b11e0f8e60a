"""Infos: what is refused, what their pages show, and how they are linked."""

import orjson
import pytest

from knowhub.core.errors import Forbidden, InvalidInput, NotFound
from knowhub.keywords import info_rules
from knowhub.keywords.model import (
    KEYWORDS,
    ROOT_ID,
    InfoQuery,
    NewInfo,
    RelationType,
)
from tests.unit.keywords.tree_hub import ANN, BOB, TreeHub, hub_with

pytestmark = pytest.mark.anyio


async def test_a_batch_item_for_another_owner_is_refused_with_its_number(hub: TreeHub) -> None:
    with pytest.raises(Forbidden, match=r"^items\.1: ") as refused:
        await hub.infos.create_batch(ANN, [NewInfo("mine"), NewInfo("theirs", owner="user:bob")])

    assert refused.value.extra["item"] == 1


async def test_infos_are_linked_to_the_root_before_it_is_stored(hub: TreeHub) -> None:
    info = await hub.info("x", ROOT_ID)

    assert hub.store.view("default").raw(KEYWORDS, ROOT_ID) is None
    assert await hub.contents_of(ROOT_ID) == ["x"]
    assert await hub.names_of(info) == {"root": ("PRIMARY", "user")}


async def test_patches_and_undos_are_validated_like_new_infos(hub: TreeHub) -> None:
    info = await hub.info("x")

    for patch in ({"owner": "user:bob"}, {"content": " "}, {"source": "s" * 2_049}):
        with pytest.raises(InvalidInput):
            await hub.infos.patch(ANN, info, patch)
    with pytest.raises(InvalidInput):
        info_rules.validate(lambda _collection, _row_id: None, [{"content": " "}])


async def test_a_list_skips_any_number_of_hidden_infos(hub: TreeHub) -> None:
    await hub.info("oldest")
    for _ in range(6):
        await hub.infos.create_batch(ANN, [NewInfo("own", scopes=["user:owner"])] * 1_000)
    await hub.info("newest")

    page = await hub.infos.list_newest(BOB, None, 2, None)
    first = await hub.infos.list_newest(BOB, None, 1, None)

    assert [orjson.loads(row)["content"] for row in page.records] == ["newest", "oldest"]
    assert page.next_position is None
    assert [orjson.loads(row)["content"] for row in first.records] == ["newest"]
    assert first.next_position is not None


async def test_a_cached_page_is_fresh_after_every_change() -> None:
    hub = hub_with(cached=True)
    keyword, other = await hub.keyword("k"), await hub.keyword("other")
    first, hidden = await hub.info("first", keyword), await hub.info("hidden", keyword, scopes=["user:owner"])
    assert await hub.contents_of(keyword, BOB) == ["first"]

    await hub.infos.patch(ANN, first, {"content": "changed"})
    assert await hub.contents_of(keyword, BOB) == ["changed"]
    await hub.infos.patch(ANN, hidden, {"scopes": ["public"]})
    assert await hub.contents_of(keyword, BOB) == ["hidden", "changed"]
    await hub.infos.link(ANN, await hub.info("late"), keyword)
    assert await hub.contents_of(keyword, BOB) == ["late", "hidden", "changed"]
    await hub.infos.unlink(ANN, hidden, keyword)
    assert await hub.contents_of(keyword, BOB) == ["late", "changed"]
    await hub.infos.delete(ANN, first)
    assert await hub.contents_of(keyword, BOB) == ["late"]
    await hub.keywords.merge(ANN, keyword, other)
    assert await hub.contents_of(other, BOB) == ["late"]
    with pytest.raises(NotFound):
        await hub.contents_of(keyword, BOB)


async def test_a_page_is_cached_per_set_of_visible_rows() -> None:
    hub = hub_with(cached=True)
    keyword = await hub.keyword("k")
    await hub.info("own", keyword, scopes=["user:owner"])

    assert await hub.contents_of(keyword, ANN) == ["own"]
    assert await hub.contents_of(keyword, BOB) == []
    assert await hub.infos.list_for_keyword(ANN, keyword, InfoQuery()) is await hub.infos.list_for_keyword(
        ANN, keyword, InfoQuery()
    )
    assert await hub.contents_of(keyword, ANN, relation=RelationType.EXAMPLE) == []
    assert await hub.contents_of(keyword, ANN, page=1) == []
