"""What the `View` of every store answers about keywords, for acknowledged and decided rows, on both stores."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.core.operation import Committed, Draft, View, Write, next_version
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, InfoQuery, InfoSort, RelationType, make_link_id
from knowhub.keywords.tree import (
    BY_INFO,
    BY_KEYWORD,
    BY_NAME,
    BY_PARENT,
    BY_PINYIN,
    INFO_TABLE,
    find_by_term,
    find_info,
    find_keyword,
    list_children,
    list_infos_of_keyword,
    list_keywords,
)
from knowhub.stores.files.store import FileStore
from tests.builders import CountedIds, FakeClock, open_files
from tests.fakes.memory_store import MemoryStore
from tests.keyword_rows import info_row, keyword_row, link_row
from tests.tree_answers import Rows, check_view

pytestmark = pytest.mark.anyio

Store = FileStore | MemoryStore
ACCOUNT, ACTOR = "default", "user:li"
TREE = (
    keyword_row(ROOT_ID) | {"parent_id": None, "normalized": [], "terms": []},
    keyword_row("lang", "编程语言"),
    keyword_row("py", "Python", "lang", aliases=["蟒蛇"], description="a language"),
    keyword_row("zh", "中文", "lang", scopes=["team:web"]),
    keyword_row("py2", "python"),
)
INFOS_OF_IT = (info_row("i1"), info_row("i2", scopes=["team:web"]), info_row("i3"))
LINKS_OF_IT = (
    link_row("i3", "py", "RELATED"),
    link_row("i1", "py", "SOURCE"),
    link_row("i2", "py", "PRIMARY"),
    link_row("i1", "zh"),
)


@pytest.fixture(params=["files", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = (
        open_files(tmp_path, ids=CountedIds()) if request.param == "files" else MemoryStore(FakeClock(), CountedIds())
    )
    yield opened
    await opened.close()


def key_of(row: dict[str, Any]) -> tuple[str, str]:
    if "relation" in row:
        return LINKS, make_link_id(row["info_id"], row["keyword_id"])
    return (INFOS if "content" in row else KEYWORDS), row["id"]


def write_draft(*rows: dict[str, Any]) -> Callable[[View], Draft]:
    """Write rows, each at the version that follows."""

    def decide(view: View) -> Draft:
        return Draft(
            "test", [Write(*key, row | {"version": next_version(view.get(*key))}) for key, row in key_rows(rows)]
        )

    return decide


def key_rows(rows: tuple[dict[str, Any], ...]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    return [(key_of(row), row) for row in rows]


async def write_rows(store: Store, *rows: dict[str, Any]) -> Rows:
    """Write rows in one operation and return their current state."""
    outcome = await store.commit(ACCOUNT, ACTOR, write_draft(*rows))
    assert isinstance(outcome, Committed)
    return {(change.collection, change.id): dict(change.after) for change in outcome.operation.changes}


async def plant_tree(store: Store) -> Rows:
    return await write_rows(store, *TREE, *INFOS_OF_IT, *LINKS_OF_IT)


async def view_in_batch(store: Store, *rows: dict[str, Any]) -> View:
    """Write rows and return the view of the decision that follows them in the same batch; nothing more is written."""
    views: list[View] = []

    def look(view: View) -> Draft:
        views.append(view)
        raise ViewTakenError

    # One group: on both stores the second decision sees what the first one decided.
    with pytest.raises(ViewTakenError):
        await store.commit_group(ACCOUNT, ACTOR, [write_draft(*rows), look])
    return views[0]


class ViewTakenError(Exception):
    """Raised by a decision once it has taken the view, so that nothing is written."""


async def test_an_account_without_a_tree_has_no_results(store: Store) -> None:
    view: View = store.view(ACCOUNT)

    assert (find_keyword(view, ROOT_ID), find_info(view, "i1"), view.raw(INFOS, "i1"), view.raw(LINKS, "i1:py")) == (
        None,
    ) * 4
    assert (
        list(view.lookup(BY_NAME, "python")),
        list(view.lookup(BY_PINYIN, "zw")),
        list(find_by_term(view, "python", 5)),
    ) == ([],) * 3
    assert (list(list_children(view, ROOT_ID)), view.count(BY_PARENT, ROOT_ID)) == ([], 0)
    assert (list(list_keywords(view)), list(view.newest(INFO_TABLE))) == ([], [])
    assert (list(view.lookup(BY_INFO, "i1")), list(view.lookup(BY_KEYWORD, "py"))) == ([], [])
    assert list(list_infos_of_keyword(view, "py", InfoQuery())) == []


async def test_a_written_tree_answers_as_its_rows(store: Store) -> None:
    rows = await plant_tree(store)

    view: View = store.view(ACCOUNT)

    check_view(view, rows)
    assert [node.id for node in view.lookup(BY_NAME, "python")] == ["py", "py2"]
    assert [node.id for node in view.lookup(BY_NAME, "蟒蛇")] == ["py"]
    assert [node.id for node in view.lookup(BY_PINYIN, "zw")] == ["zh"]
    assert [node.id for node in list_children(view, "lang")] == ["py", "zh"]
    assert [(link.info_id, link.relation) for link in view.lookup(BY_KEYWORD, "py")] == [
        ("i1", RelationType.SOURCE),
        ("i2", RelationType.PRIMARY),
        ("i3", RelationType.RELATED),
    ]
    assert [summary.id for summary in list_infos_of_keyword(view, "py", InfoQuery())] == ["i3", "i2", "i1"]
    by_relevance = list_infos_of_keyword(view, "py", InfoQuery(sort=InfoSort.RELEVANCE))
    assert [summary.id for summary in by_relevance] == ["i2", "i1", "i3"]


async def test_a_node_has_its_audience_and_the_fields_of_its_row(store: Store) -> None:
    await plant_tree(store)

    node, other = find_keyword(store.view(ACCOUNT), "zh"), find_keyword(store.view(ACCOUNT), "py")

    assert node is not None
    assert other is not None
    assert (node.name, node.name_keys, node.pinyin, node.parent_id) == ("中文", ("中文",), ("zhongwen", "zw"), "lang")
    assert (list(node.scopes), set(node.audience)) == (["team:web"], {"team:web", node.owner})
    assert (node.is_described, other.is_described, node.version, node.live) == (False, True, 1, True)


async def test_a_changed_tree_answers_as_its_rows(store: Store) -> None:
    rows = await plant_tree(store)

    for changed in (
        [keyword_row("py2", "Rust", "py")],
        [keyword_row("py", "Python", "zh"), link_row("i1", "py", "PRIMARY")],
        [info_row("i3", deleted=True), link_row("i3", "py", "RELATED", deleted=True)],
        [info_row("i2", scopes=["public"], content="changed")],
        [info_row("i4"), link_row("i4", "py2"), keyword_row("new", "中文", "py2")],
        [link_row("i1", "zh", deleted=True), keyword_row("new", "中文", "py")],
        [keyword_row("py2", "Rust", "py", deleted=True), link_row("i4", "py2", deleted=True)],
        [link_row("i1", "zh", "EXAMPLE"), keyword_row("py2", "Rust", "zh"), info_row("i3")],
    ):
        rows |= await write_rows(store, *changed)
        check_view(store.view(ACCOUNT), rows)


async def test_a_decision_sees_earlier_decisions_of_its_batch(store: Store) -> None:
    await plant_tree(store)

    view = await view_in_batch(
        store,
        keyword_row("py2", "中文", "lang"),
        keyword_row("zh", "中文", "lang", deleted=True),
        keyword_row("new", "Python", "py"),
        info_row("i4"),
        info_row("i2", deleted=True),
        link_row("i2", "py", deleted=True),
        link_row("i1", "py", "EXAMPLE"),
        link_row("i4", "py"),
        link_row("i1", "py2"),
    )

    assert [node.id for node in view.lookup(BY_NAME, "python")] == ["py", "new"]
    assert [node.id for node in view.lookup(BY_NAME, "中文")] == ["py2"]
    assert [node.id for node in view.lookup(BY_PINYIN, "zw")] == ["py2"]
    assert [node.id for node in find_by_term(view, "中文", 5)] == ["py2"]
    assert [node.id for node in list_children(view, "lang")] == ["py", "py2"]
    assert (view.count(BY_PARENT, "lang"), view.count(BY_PARENT, "py"), view.count(BY_PARENT, ROOT_ID)) == (2, 1, 1)
    assert [node.id for node in list_keywords(view)] == [ROOT_ID, "lang", "py", "py2", "new"]
    links = [(link.info_id, link.relation.value) for link in view.lookup(BY_KEYWORD, "py")]
    assert links == [("i1", "EXAMPLE"), ("i3", "RELATED"), ("i4", "PRIMARY")]
    assert sorted(link.keyword_id for link in view.lookup(BY_INFO, "i1")) == ["py", "py2", "zh"]
    gone, deleted, fresh = find_keyword(view, "zh"), find_info(view, "i2"), find_info(view, "i4")
    assert gone is not None
    assert deleted is not None
    assert fresh is not None
    assert (fresh.ordinal, fresh.live) == (3, True)
    assert not gone.live
    assert not deleted.live
    assert orjson.loads(view.raw(LINKS, "i1:py") or b"")["version"] == 2


async def test_a_failed_batch_does_not_change_the_tree(store: Store) -> None:
    rows = await plant_tree(store)

    await view_in_batch(store, keyword_row("py", "Rust"), info_row("i9"), link_row("i9", "py"))

    check_view(store.view(ACCOUNT), rows)
    assert find_info(store.view(ACCOUNT), "i9") is None


async def test_an_account_sees_no_keyword_of_another(store: Store) -> None:
    await plant_tree(store)

    other: View = store.view("other")

    assert find_keyword(other, "py") is None
    assert list(list_keywords(other)) == list(other.lookup(BY_NAME, "python")) == []
    assert list(other.newest(INFO_TABLE)) == []
