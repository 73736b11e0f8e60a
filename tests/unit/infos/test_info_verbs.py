"""The verbs on infos and links: who may do what, and what is answered when it cannot be."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import is_live
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    ROOT_ID,
    InfoQuery,
    LinkRequest,
    NewInfo,
    RelationType,
    make_link_id,
)
from tests.builders import retry_key
from tests.unit.infos.info_hub import ANN, BOB, STRANGER, Hub

pytestmark = pytest.mark.anyio


async def test_an_info_and_its_links_are_one_operation(hub: Hub) -> None:
    one, other = await hub.keyword("排序"), await hub.keyword("算法")
    before = hub.store.last_seq

    created = await hub.infos.create(ANN, NewInfo("冒泡排序是稳定的", keyword_ids=[one, other, one]))

    assert hub.store.last_seq == before + 1
    operation = await hub.last()
    assert (operation.op, operation.operation_id) == ("create_info", created.operation_id)
    assert [change.collection for change in operation.changes] == [INFOS, LINKS, LINKS]
    assert await hub.names_of(created.row["id"]) == {"排序": ("PRIMARY", "user"), "算法": ("PRIMARY", "user")}
    assert (created.row["owner"], created.row["scopes"], created.degraded) == ("user:ann", ["public"], ())


async def test_a_link_tells_who_made_it(hub: Hub) -> None:
    keyword = await hub.keyword("排序")

    info = await hub.info("x", keyword, created_by="crawler-7")

    assert await hub.names_of(info) == {"排序": ("PRIMARY", "crawler-7")}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"source": "s" * 2_049}, "source"),
        ({"keyword_ids": [ROOT_ID, "nowhere"]}, "keyword_ids.1"),
        ({"keyword_ids": [ROOT_ID] * 1_001}, "keyword_ids"),
        ({"created_by": ""}, "created_by"),
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


async def test_a_keyword_that_the_caller_does_not_see_is_unknown_to_them(hub: Hub) -> None:
    hidden, shown = await hub.keyword("hidden", scopes=["user:owner"]), await hub.keyword("shown")
    info = await hub.info("x", shown, ctx=BOB)

    with pytest.raises(InvalidInput, match=r"keyword_ids\.0"):
        await hub.info("x", hidden, ctx=BOB)
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.link(BOB, info, hidden)
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.list_for_keyword(BOB, hidden, InfoQuery())
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.list_newest(BOB, hidden, 10, None)

    assert await hub.infos.list_for_keyword(ANN, hidden, InfoQuery()) == []


async def test_an_info_is_seen_by_its_audience_and_unknown_to_all_others(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    shared = await hub.info("shared", keyword, scopes=["team:web"])
    own = await hub.info("own", keyword, scopes=["user:owner"])

    assert orjson.loads((await hub.infos.get(BOB, shared)).json)["content"] == "shared"
    assert await hub.contents_of(keyword, ANN) == ["own", "shared"]
    assert await hub.contents_of(keyword, BOB) == ["shared"]
    assert await hub.contents_of(keyword, STRANGER) == []
    for ctx, info_id in ((BOB, own), (STRANGER, shared), (STRANGER, "nowhere")):
        for refused in (
            hub.infos.get(ctx, info_id),
            hub.infos.list_keywords(ctx, info_id),
            hub.infos.update(ctx, info_id, {"content": "theirs"}),
            hub.infos.delete(ctx, info_id),
            hub.infos.link(ctx, info_id, keyword),
            hub.infos.unlink(ctx, info_id, keyword),
        ):
            with pytest.raises(NotFound, match=f"no info with id '{info_id}'"):
                await refused


async def test_only_its_owner_changes_deletes_and_links_an_info(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)

    for refused in (
        hub.infos.update(BOB, info, {"content": "theirs"}),
        hub.infos.delete(BOB, info),
        hub.infos.link(BOB, info, ROOT_ID),
        hub.infos.unlink(BOB, info, keyword),
    ):
        with pytest.raises(Forbidden):
            await refused
    with pytest.raises(Forbidden):
        await hub.info("x", owner="user:ann", ctx=BOB)

    assert (await hub.infos.get(ANN, info)).version == 1
    assert await hub.names_of(info) == {"k": ("PRIMARY", "user")}


async def test_an_update_counts_and_one_that_changes_nothing_does_not(hub: Hub) -> None:
    info = await hub.info("x")

    changed = await hub.infos.update(ANN, info, {"content": "y", "metadata": {"page": 1}}, expected=1)
    again = await hub.infos.update(ANN, info, {"content": "y"}, expected=2)

    assert (changed.row["version"], changed.row["content"]) == (2, "y")
    assert (again.operation_id, again.row["version"]) == (None, 2)
    assert (await hub.last()).op == "update_info"
    for refused in (hub.infos.update(ANN, info, {"content": "z"}, expected=1), hub.infos.delete(ANN, info, expected=1)):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}


async def test_deleting_an_info_takes_its_links_with_it_in_one_operation(hub: Hub) -> None:
    one, other = await hub.keyword("one"), await hub.keyword("other")
    info = await hub.info("x", one, other)

    operation_id = await hub.infos.delete(ANN, info)

    operation = await hub.last()
    assert (operation.operation_id, operation.op) == (operation_id, "delete_info")
    assert sorted(change.id for change in operation.changes) == sorted(
        [info, make_link_id(info, one), make_link_id(info, other)]
    )
    assert not any(is_live(change.after) for change in operation.changes)
    assert await hub.contents_of(one) == []
    with pytest.raises(NotFound):
        await hub.infos.get(ANN, info)


async def test_linking_again_replaces_relation_and_maker_and_the_same_ones_change_nothing(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x")

    first = await hub.infos.link(ANN, info, keyword)
    same = await hub.infos.link(ANN, info, keyword)
    taken_over = await hub.infos.link(ANN, info, keyword, LinkRequest(created_by="someone else"))
    other = await hub.infos.link(ANN, info, keyword, LinkRequest(RelationType.EXAMPLE, "crawler-7"))

    assert (first.row["relation"], first.row["version"]) == ("PRIMARY", 1)
    assert (same.operation_id, same.row) == (None, first.row)
    assert (taken_over.row["created_by"], taken_over.row["version"]) == ("someone else", 2)
    assert (other.row["relation"], other.row["version"]) == ("EXAMPLE", 3)
    assert await hub.contents_of(keyword) == ["x"]
    assert await hub.contents_of(keyword, relation=RelationType.EXAMPLE) == ["x"]
    assert await hub.contents_of(keyword, relation=RelationType.PRIMARY) == []


async def test_a_pair_that_was_unlinked_is_linked_anew_with_a_higher_version(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)

    await hub.infos.unlink(ANN, info, keyword)
    gone = await hub.names_of(info)
    again = await hub.infos.link(ANN, info, keyword, LinkRequest(RelationType.SOURCE))

    assert gone == {}
    assert (again.row["version"], again.row["relation"]) == (3, "SOURCE")
    assert await hub.names_of(info) == {"k": ("SOURCE", "user")}


async def test_a_link_is_changed_and_taken_away_at_the_version_that_was_read_only(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)
    await hub.infos.link(ANN, info, keyword, LinkRequest(RelationType.SOURCE, expected=1))
    seq = hub.store.last_seq

    for refused in (
        hub.infos.link(ANN, info, keyword, LinkRequest(RelationType.EXAMPLE, expected=1)),
        # Also where it would change nothing: who read version 1 does not know that.
        hub.infos.link(ANN, info, keyword, LinkRequest(RelationType.SOURCE, expected=1)),
        hub.infos.unlink(ANN, info, keyword, expected=1),
    ):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}
    with pytest.raises(Conflict) as unlinked:
        await hub.infos.link(ANN, info, ROOT_ID, LinkRequest(expected=1))

    assert unlinked.value.extra == {"current_version": None}
    assert hub.store.last_seq == seq
    await hub.infos.unlink(ANN, info, keyword, expected=2)
    assert await hub.names_of(info) == {}


async def test_an_item_for_somebody_else_is_refused_by_its_number(hub: Hub) -> None:
    with pytest.raises(Forbidden, match=r"^items\.1: ") as refused:
        await hub.infos.create_batch(ANN, [NewInfo("mine"), NewInfo("theirs", owner="user:bob")])

    assert refused.value.extra["item"] == 1


async def test_what_is_not_linked_is_not_unlinked(hub: Hub) -> None:
    keyword, hidden = await hub.keyword("k"), await hub.keyword("h", BOB)
    info = await hub.info("x", keyword, hidden)
    await hub.keywords.update(BOB, hidden, {"scopes": ["user:owner"]})
    await hub.infos.unlink(ANN, info, keyword)

    for keyword_id in (keyword, ROOT_ID, hidden, "nowhere"):
        with pytest.raises(NotFound, match="no link"):
            await hub.infos.unlink(ANN, info, keyword_id)

    assert await hub.names_of(info) == {}
    assert await hub.names_of(info, BOB) == {"h": ("PRIMARY", "user")}


async def test_infos_hang_on_the_root_before_it_has_a_row(hub: Hub) -> None:
    info = await hub.info("x", ROOT_ID)

    assert hub.store.view("default").raw(KEYWORDS, ROOT_ID) is None
    assert await hub.contents_of(ROOT_ID) == ["x"]
    assert await hub.names_of(info) == {"root": ("PRIMARY", "user")}


async def test_a_batch_is_one_operation_and_answers_in_order(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    before = hub.store.last_seq

    batch = await hub.infos.create_batch(ANN, [NewInfo("one", keyword_ids=[keyword]), NewInfo("two")])

    assert hub.store.last_seq == before + 1
    assert (await hub.last()).op == "batch_create_infos"
    assert [row["content"] for row in batch.rows] == ["one", "two"]
    assert await hub.contents_of(keyword) == ["one"]


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_has_between_one_and_a_thousand_infos(hub: Hub, count: int) -> None:
    with pytest.raises(InvalidInput, match="items"):
        await hub.infos.create_batch(ANN, [NewInfo("x")] * count)


async def test_a_retry_gets_the_first_answer(hub: Hub) -> None:
    first = await hub.infos.create(ANN, NewInfo("x"), retry_key())
    again = await hub.infos.create(ANN, NewInfo("x"), retry_key())

    assert (again.row, again.operation_id) == (first.row, first.operation_id)
