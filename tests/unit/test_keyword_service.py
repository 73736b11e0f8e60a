"""The verbs on keywords: what they write, what they answer, and whom they refuse."""

import orjson
import pytest

from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Draft, View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules
from knowhub.keywords.model import (
    LINKS,
    ROOT_ID,
    InfoPolicy,
    NewInfo,
    NewKeyword,
    RelationType,
    make_link_id,
)
from knowhub.keywords.service import Deletion, KeywordService
from knowhub.keywords.tree import find_by_token, list_links_of_keyword
from tests.builders import CountedIds, FakeClock, local
from tests.fakes.memory_store import MemoryStore
from tests.keyword_verbs import ANN, BOB, STRANGER, last, made, names_below, ops, service_on, shown

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock(), CountedIds())


@pytest.fixture
def service(store: MemoryStore) -> KeywordService:
    return service_on(store)


# the root


async def test_an_account_that_nobody_wrote_to_has_a_root(service: KeywordService, store: MemoryStore) -> None:
    root = await shown(service, ROOT_ID)

    assert (root["name"], root["level"], root["version"], root["children"]) == ("root", 0, 1, [])
    assert await service.list_children(ANN, ROOT_ID) == []
    assert [orjson.loads(one)["id"] for one in await service.get_path(ANN, ROOT_ID)] == [ROOT_ID]
    assert await ops(store) == []


async def test_the_root_is_made_once_by_the_first_keyword(service: KeywordService, store: MemoryStore) -> None:
    await made(service, "one")
    await made(service, "two")

    assert await ops(store) == ["create_root", "create_keyword", "create_keyword"]
    assert (await shown(service, ROOT_ID))["child_count"] == 2


async def test_what_is_refused_makes_no_root(service: KeywordService, store: MemoryStore) -> None:
    for refused in (
        service.create(ANN, NewKeyword("!!!"), auto_place=False),
        service.create(ANN, NewKeyword("a", parent_id="never")),
        service.create_batch(ANN, [NewKeyword("a"), NewKeyword("b", parent_id="never")]),
        service.update(local(), ROOT_ID, {"aliases": ["all"]}),
        service.update(ANN, ROOT_ID, {"name": "mine"}),
        service.delete(ANN, "never"),
    ):
        with pytest.raises((InvalidInput, Conflict, Forbidden, NotFound)):
            await refused

    assert await ops(store) == []


async def test_the_root_is_renamed_by_who_may_do_everything(service: KeywordService, store: MemoryStore) -> None:
    written = await service.update(local(), ROOT_ID, {"name": "全部"}, expected=1)

    assert (written.row["name"], written.row["version"]) == ("全部", 2)
    assert await ops(store) == ["create_root", "update_keyword"]


@pytest.mark.parametrize("ctx", [local(), ANN])
async def test_the_root_is_neither_moved_nor_merged_nor_deleted_nor_aliased(
    service: KeywordService, store: MemoryStore, ctx: RequestContext
) -> None:
    one = await made(service, "one", ctx)

    for refused in (
        service.move(ctx, ROOT_ID, one),
        service.merge(ctx, ROOT_ID, one),
        service.merge(ctx, one, ROOT_ID),
        service.delete(ctx, ROOT_ID, Deletion(cascade=True)),
        service.add_alias(ctx, ROOT_ID, "all"),
    ):
        with pytest.raises(Conflict, match="root"):
            await refused

    assert await ops(store) == ["create_root", "create_keyword"]


# batches


async def test_a_batch_is_one_operation_in_which_items_hang_below_one_another(
    service: KeywordService, store: MemoryStore
) -> None:
    items = [
        NewKeyword("语言", ref="lang"),
        NewKeyword("Python", parent_ref="lang", ref="py"),
        NewKeyword("FastAPI", parent_ref="py"),
        NewKeyword("算法"),
    ]

    batch = await service.create_batch(ANN, items)

    assert [(row["name"], row["level"], row["child_count"]) for row in batch.rows] == [
        ("语言", 1, 1),
        ("Python", 2, 1),
        ("FastAPI", 3, 0),
        ("算法", 1, 0),
    ]
    assert await ops(store) == ["create_root", "batch_create_keywords"]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "items"),
        ([NewKeyword("a")] * 1_001, "items"),
        ([NewKeyword("a"), NewKeyword("?")], "items.1.name"),
        ([NewKeyword("a", aliases=["b", ""])], "items.0.aliases.1"),
        ([NewKeyword("a"), NewKeyword("b", parent_id="never")], "items.1.parent_id"),
        ([NewKeyword("a", parent_ref="r"), NewKeyword("b", ref="r")], "items.0.parent_ref"),
        ([NewKeyword("a", parent_ref="a", ref="a")], "items.0.parent_ref"),
        ([NewKeyword("a", ref="r"), NewKeyword("b", ref="r")], "items.1.ref"),
        ([NewKeyword("a", ref="r"), NewKeyword("b", parent_ref="r", parent_id=ROOT_ID)], "items.1.parent_ref"),
    ],
)
async def test_a_batch_with_one_bad_item_writes_nothing_and_names_it(
    service: KeywordService, store: MemoryStore, items: list[NewKeyword], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await service.create_batch(ANN, items)

    assert [error.field for error in refused.value.errors] == [field]
    assert await ops(store) == []


@pytest.mark.parametrize("named", [0, 2])
async def test_an_alias_in_a_batch_is_not_the_name_of_an_earlier_or_later_item(
    service: KeywordService, named: int
) -> None:
    items = [NewKeyword("a"), NewKeyword("b", aliases=["AbC"[named]]), NewKeyword("c")]

    with pytest.raises(Conflict, match=f"items.{named}") as refused:
        await service.create_batch(ANN, items)

    assert refused.value.extra == {"item": 1, "alias": "AbC"[named]}


async def test_a_batch_for_somebody_else_is_refused_with_the_item(service: KeywordService) -> None:
    with pytest.raises(Forbidden) as refused:
        await service.create_batch(ANN, [NewKeyword("a"), NewKeyword("b", owner="user:bob")])

    assert refused.value.extra == {"item": 1}


# reading


async def test_a_keyword_that_is_hidden_is_unknown_and_in_no_list(service: KeywordService) -> None:
    top = await made(service, "top")
    hidden = await made(service, "hidden", parent_id=top, scopes=["user:owner"])
    below = await made(service, "below", parent_id=hidden)

    assert await names_below(service, top, STRANGER) == []
    assert (await shown(service, top, STRANGER))["child_count"] == 0
    path = [orjson.loads(one) for one in await service.get_path(STRANGER, below)]
    assert [(one["name"], one["level"]) for one in path] == [("root", 0), ("top", 1), ("below", 2)]
    for read in (service.get, service.list_children, service.get_path, service.get_subtree):
        with pytest.raises(NotFound):
            await read(STRANGER, hidden)


async def test_a_subtree_is_nested_as_deep_as_was_asked_for(service: KeywordService) -> None:
    top = await made(service, "a")
    middle = await made(service, "b", parent_id=top)
    await made(service, "c", parent_id=middle)

    whole = await service.get_subtree(ANN, ROOT_ID)
    flat = await service.get_subtree(ANN, top, 0)
    one = await service.get_subtree(ANN, top, 1)

    assert whole["children_nodes"][0]["children_nodes"][0]["children_nodes"][0]["name"] == "c"
    assert (flat["children_nodes"], flat["child_count"]) == ([], 1)
    assert [(node["name"], node["children_nodes"], node["child_count"]) for node in one["children_nodes"]] == [
        ("b", [], 1)
    ]
    for depth in (-1, 51):
        with pytest.raises(InvalidInput, match="depth"):
            await service.get_subtree(ANN, top, depth)


async def test_more_children_than_are_read_in_a_turn_are_all_shown(service: KeywordService) -> None:
    names = [f"k{number}" for number in range(1_000)]
    top = await made(service, "top")
    await service.create_batch(ANN, [NewKeyword(name, parent_id=top) for name in names])

    assert await names_below(service, top) == names
    assert len((await service.get_subtree(ANN, top))["children_nodes"]) == 1_000


# changing


async def test_an_update_is_found_by_its_new_name_only(service: KeywordService, store: MemoryStore) -> None:
    keyword_id = await made(service, "Pyton", aliases=["py"])

    written = await service.update(ANN, keyword_id, {"name": "Python", "description": "d"}, expected=1)

    view = store.view("default")
    assert (written.row["version"], written.row["normalized"]) == (2, ["python", "py"])
    assert [node.id for node in find_by_token(view, "python")] == [keyword_id]
    assert find_by_token(view, "pyton") == []


async def test_what_changes_nothing_is_no_operation(service: KeywordService, store: MemoryStore) -> None:
    keyword_id = await made(service, "Python", aliases=["py"])

    for done in (
        await service.update(ANN, keyword_id, {"name": "Python", "aliases": ["py"]}),
        await service.add_alias(ANN, keyword_id, "py"),
        await service.move(ANN, keyword_id, ROOT_ID),
    ):
        assert (done.operation_id, done.row["version"], done.row["level"]) == (None, 1, 1)

    assert await ops(store) == ["create_root", "create_keyword"]


async def test_a_stale_version_changes_nothing(service: KeywordService, store: MemoryStore) -> None:
    one, two = await made(service, "one", aliases=["1"]), await made(service, "two")
    await service.update(ANN, one, {"description": "d"}, expected=1)

    for refused in (
        service.update(ANN, one, {"name": "x"}, expected=1),
        service.move(ANN, one, two, expected=1),
        service.merge(ANN, one, two, expected=1),
        service.delete(ANN, one, Deletion(expected=1)),
        service.add_alias(ANN, one, "x", expected=1),
        service.remove_alias(ANN, one, "1", expected=1),
    ):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}

    assert (await ops(store))[-1] == "update_keyword"


async def test_only_the_owner_changes_a_keyword(service: KeywordService, store: MemoryStore) -> None:
    one, two = await made(service, "one", aliases=["1"]), await made(service, "two", BOB)
    before = await ops(store)

    for refused in (
        service.update(BOB, one, {"name": "x"}),
        service.move(BOB, one, two),
        service.merge(BOB, one, two),
        service.merge(BOB, two, one),
        service.delete(BOB, one),
        service.add_alias(BOB, one, "x"),
        service.remove_alias(BOB, one, "1"),
    ):
        with pytest.raises(Forbidden):
            await refused

    assert await ops(store) == before


async def test_aliases_come_and_go(service: KeywordService, store: MemoryStore) -> None:
    keyword_id = await made(service, "Python")

    added = await service.add_alias(ANN, keyword_id, "蟒蛇")
    removed = await service.remove_alias(ANN, keyword_id, "蟒蛇")

    assert (added.row["aliases"], removed.row["aliases"], removed.row["version"]) == (["蟒蛇"], [], 3)
    assert (await ops(store))[-2:] == ["add_alias", "remove_alias"]
    with pytest.raises(NotFound, match="no alias with id '蟒蛇'"):
        await service.remove_alias(ANN, keyword_id, "蟒蛇")


async def test_a_move_takes_the_whole_subtree_along(service: KeywordService) -> None:
    left, right = await made(service, "left"), await made(service, "right")
    node = await made(service, "node", parent_id=left)
    leaf = await made(service, "leaf", parent_id=node)
    below_right = await made(service, "below right", parent_id=right)

    done = await service.move(ANN, node, below_right)

    assert (done.row["parent_id"], done.row["level"]) == (below_right, 3)
    path = [orjson.loads(one)["name"] for one in await service.get_path(ANN, leaf)]
    assert path == ["root", "right", "below right", "node", "leaf"]
    assert (await shown(service, leaf))["level"] == 4
    assert await names_below(service, left) == []
    with pytest.raises(Conflict):
        await service.move(ANN, right, leaf)


async def link_info(store: MemoryStore, info_id: str, keyword_id: str, relation: RelationType) -> None:
    """Write an info and link it, as the verbs on infos do."""

    def decide(view: View) -> Draft:
        info = info_rules.new_info_row(NewInfo("content"), info_id, view.now, ANN)
        row = info_rules.new_link_row(info_id, keyword_id, relation, "user", None, view.now)
        return Draft("create_info", [info_rules.write_info(info), info_rules.write_link(row)])

    await store.commit("default", "user:ann", decide)


async def test_a_merge_answers_the_one_that_stays_and_what_went_where(
    service: KeywordService, store: MemoryStore
) -> None:
    source, into = await made(service, "JS", description="d"), await made(service, "JavaScript")
    child = await made(service, "React", parent_id=source)
    await link_info(store, "i-1", source, RelationType.EXAMPLE)

    done = await service.merge(ANN, source, into)

    view = store.view("default")
    assert (done.row["id"], done.row["aliases"], done.row["description"]) == (into, ["JS"], "d")
    assert (done.row["children"], done.row["version"]) == ([child], 2)
    assert done.decided == {
        "source": source,
        "into": into,
        "links": {"moved": 1, "dropped": 0},
        "children": [child],
    }
    assert [node.id for node in find_by_token(view, "js")] == [into]
    assert [(link.info_id, link.relation) for link in list_links_of_keyword(view, into)] == [
        ("i-1", RelationType.EXAMPLE)
    ]
    assert list_links_of_keyword(view, source) == []
    assert (await ops(store))[-1] == "merge_keywords"
    with pytest.raises(NotFound):
        await service.get(ANN, source)


@pytest.mark.parametrize(
    ("policy", "left"), [(InfoPolicy.REATTACH, [("i-1", RelationType.EXAMPLE)]), (InfoPolicy.DETACH, [])]
)
async def test_a_deleted_subtree_leaves_its_infos_by_the_policy(
    service: KeywordService, store: MemoryStore, policy: InfoPolicy, left: list[tuple[str, RelationType]]
) -> None:
    top = await made(service, "top")
    node = await made(service, "node", parent_id=top)
    leaf = await made(service, "leaf", parent_id=node)
    await link_info(store, "i-1", leaf, RelationType.EXAMPLE)

    operation_id = await service.delete(ANN, node, Deletion(cascade=True, policy=policy))

    view = store.view("default")
    assert (await last(store)).operation_id == operation_id
    assert [(link.info_id, link.relation) for link in list_links_of_keyword(view, top)] == left
    assert (view.get(LINKS, make_link_id("i-1", leaf)) or {})["deleted"] is True
    assert await names_below(service, top) == []
    for gone in (node, leaf):
        with pytest.raises(NotFound):
            await service.get(ANN, gone)
