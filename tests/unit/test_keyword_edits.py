"""Changes of several rows at once: what is written, in which order, and what is refused with nothing written."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from knowhub.core.errors import Conflict, Forbidden, InvalidInput
from knowhub.core.operation import Row, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, info_rules
from knowhub.keywords.edits import Edit
from knowhub.keywords.model import KEYWORDS, LINKS, ROOT_ID, InfoPolicy, RelationType, make_link_id
from knowhub.keywords.tree import find_info
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.plain_text import PlainText

ANN, BOB = caller(user_id="ann"), caller(user_id="bob")
TEXT = PlainText()
PRIMARY, EXAMPLE, RELATED = RelationType.PRIMARY, RelationType.EXAMPLE, RelationType.RELATED


@pytest.fixture
def view() -> FakeKeywordView:
    return tree_of({"语言": {"Python": {"FastAPI": {}, "Django": {}}, "Go": {}}, "算法": {}})


def link(view: FakeKeywordView, info_id: str, name: str, relation: RelationType = PRIMARY) -> str:
    """Link an info, made when it is not there, and return the id of the link's row."""
    if find_info(view, info_id) is None:
        view.put_info(info_id)
    keyword_id = view.id_of(name)
    view.put_link(info_rules.new_link_row(info_id, keyword_id, relation, "agent", None, view.now))
    return make_link_id(info_id, keyword_id)


def moved(view: FakeKeywordView, name: str, parent: str, ctx: RequestContext | None = None) -> Row | None:
    return edits.move_keyword(
        view, ctx or local(), view.id_of(name), parent if parent == ROOT_ID else view.id_of(parent)
    )


def merged(view: FakeKeywordView, source: str, into: str, ctx: RequestContext | None = None) -> Edit:
    return edits.merge_keywords(view, ctx or local(), view.id_of(source), view.id_of(into), TEXT)


def deleted(
    view: FakeKeywordView,
    name: str,
    policy: InfoPolicy = InfoPolicy.REATTACH,
    ctx: RequestContext | None = None,
    *,
    cascade: bool = False,
) -> Edit:
    return edits.delete_subtree(view, ctx or local(), view.id_of(name), policy, cascade=cascade)


def by_id(writes: Sequence[Write], collection: str) -> dict[str, Mapping[str, Any]]:
    found = {write.id: write.after for write in writes if write.collection == collection}
    assert len(found) == sum(write.collection == collection for write in writes), "no row is written twice"
    return found


# move


def test_a_move_writes_the_one_row_that_says_where_it_hangs(view: FakeKeywordView) -> None:
    row = moved(view, "Python", "算法")

    before = view.get(KEYWORDS, view.id_of("Python")) or {}
    assert row is not None
    assert row == {**before, "parent_id": view.id_of("算法"), "version": 2, "updated_at": row["updated_at"]}


def test_a_keyword_moves_to_the_root_and_to_where_it_is_not_at_all(view: FakeKeywordView) -> None:
    to_root = moved(view, "Python", ROOT_ID)

    assert to_root is not None
    assert to_root["parent_id"] == ROOT_ID
    assert moved(view, "Python", "语言") is None


@pytest.mark.parametrize("parent", ["语言", "Python", "FastAPI"])
def test_nothing_moves_below_itself(view: FakeKeywordView, parent: str) -> None:
    with pytest.raises(Conflict) as refused:
        moved(view, "语言", parent)

    assert refused.value.extra == {"ids": [view.id_of(parent)]}


def test_a_parent_that_is_not_there_for_the_caller_is_refused(view: FakeKeywordView) -> None:
    mine = view.put("mine", owner="user:ann")
    secret = view.put("secret", owner="user:bob", scopes=("user:bob",))
    gone = view.id_of("Go")
    view.drop(gone)

    for parent_id in (secret.id, gone, "never"):
        with pytest.raises(InvalidInput, match="new_parent_id"):
            edits.move_keyword(view, ANN, mine.id, parent_id)


# merge


def test_a_merge_gives_names_links_and_children_and_deletes_the_source_last(view: FakeKeywordView) -> None:
    python, go = view.id_of("Python"), view.id_of("Go")
    link(view, "i-1", "Python", EXAMPLE)

    edit = merged(view, "Python", "Go")

    keywords = by_id(edit.writes, KEYWORDS)
    links = by_id(edit.writes, LINKS)
    children = [view.id_of("FastAPI"), view.id_of("Django")]
    assert list(keywords) == [go, *children, python]
    assert (keywords[go]["aliases"], keywords[go]["normalized"]) == (["Python"], ["go", "python"])
    assert [keywords[child]["parent_id"] for child in children] == [go, go]
    assert (keywords[python]["deleted"], keywords[python]["name"]) == (True, "Python")
    assert edit.writes[-1].id == python
    assert links[make_link_id("i-1", python)]["deleted"] is True
    new = links[make_link_id("i-1", go)]
    assert (new["relation"], new["created_by"], new["version"]) == ("EXAMPLE", "agent", 1)
    assert edit.reply == {
        "source": python,
        "into": go,
        "links": {"moved": 1, "dropped": 0},
        "children": children,
    }


def test_a_link_that_the_other_has_already_stays_as_it_is(view: FakeKeywordView) -> None:
    link(view, "i-1", "Python", PRIMARY)
    link(view, "i-1", "Go", RELATED)

    edit = merged(view, "Python", "Go")

    assert list(by_id(edit.writes, LINKS)) == [make_link_id("i-1", view.id_of("Python"))]
    assert edit.reply["links"] == {"moved": 0, "dropped": 1}


def test_a_link_that_the_other_once_had_goes_on_with_its_versions(view: FakeKeywordView) -> None:
    link(view, "i-1", "Python", EXAMPLE)
    once = make_link_id("i-1", view.id_of("Go"))
    row = info_rules.new_link_row("i-1", view.id_of("Go"), PRIMARY, "user", None, 0.0)
    view.put_link(info_rules.make_link_tombstone(row, 0.0))

    links = by_id(merged(view, "Python", "Go").writes, LINKS)

    assert (links[once]["version"], links[once]["relation"]) == (3, "EXAMPLE")
    assert "deleted" not in links[once]


def test_a_child_merges_into_its_parent(view: FakeKeywordView) -> None:
    edit = merged(view, "Python", "语言")

    keywords = by_id(edit.writes, KEYWORDS)
    assert [keywords[view.id_of(name)]["parent_id"] for name in ("FastAPI", "Django")] == [view.id_of("语言")] * 2


@pytest.mark.parametrize("into", ["语言", "Python", "FastAPI"])
def test_a_keyword_merges_neither_into_itself_nor_below(view: FakeKeywordView, into: str) -> None:
    with pytest.raises(Conflict) as refused:
        merged(view, "语言", into)

    assert refused.value.extra == {"ids": [view.id_of(into)]}


def test_a_merge_into_what_is_not_there_is_refused(view: FakeKeywordView) -> None:
    with pytest.raises(InvalidInput, match="into"):
        edits.merge_keywords(view, local(), view.id_of("Go"), "never", TEXT)


def test_a_merge_needs_the_right_to_both_and_to_every_child() -> None:
    view = FakeKeywordView()
    mine = view.put("a", owner="user:ann")
    view.put("b", owner="user:ann")
    view.put("c", owner="user:bob")

    with pytest.raises(Forbidden):
        merged(view, "a", "c", ANN)
    with pytest.raises(Forbidden):
        merged(view, "c", "a", ANN)
    assert merged(view, "a", "b", ANN).reply["children"] == []

    seen = view.put("seen", mine.id, owner="user:bob")
    view.put("hidden", mine.id, owner="user:bob", scopes=("user:bob",))

    with pytest.raises(Forbidden) as refused:
        merged(view, "a", "b", ANN)

    assert refused.value.extra == {"ids": [seen.id]}


def test_a_merge_takes_along_the_children_that_the_caller_cannot_see_and_tells_of_none() -> None:
    view = FakeKeywordView()
    mine = view.put("a", owner="user:ann")
    into = view.put("b", owner="user:ann")
    hidden = view.put("hidden", mine.id, owner="user:bob", scopes=("user:bob",))

    edit = merged(view, "a", "b", ANN)

    assert by_id(edit.writes, KEYWORDS)[hidden.id]["parent_id"] == into.id
    assert edit.reply["children"] == []


def test_a_merge_that_adds_nothing_writes_the_other_all_the_same_so_that_its_answer_can_be_repeated(
    view: FakeKeywordView,
) -> None:
    view.put("go ", view.id_of("算法"))

    edit = merged(view, "go ", "Go")

    keywords = by_id(edit.writes, KEYWORDS)
    assert list(keywords) == [view.id_of("Go"), view.id_of("go ")]
    assert (keywords[view.id_of("Go")]["version"], keywords[view.id_of("Go")]["aliases"]) == (2, [])


# delete


def test_a_leaf_is_deleted_and_keeps_its_content_for_the_undo(view: FakeKeywordView) -> None:
    go = view.id_of("Go")

    edit = deleted(view, "Go")

    assert [(write.id, write.after["deleted"], write.after["name"]) for write in edit.writes] == [(go, True, "Go")]


def test_a_keyword_with_children_is_deleted_only_with_cascade(view: FakeKeywordView) -> None:
    with pytest.raises(Conflict, match="cascade") as refused:
        deleted(view, "Python")

    edit = deleted(view, "Python", cascade=True)

    children = [view.id_of("FastAPI"), view.id_of("Django")]
    assert refused.value.extra == {"children": 2, "ids": children}
    assert [write.id for write in edit.writes] == [children[1], children[0], view.id_of("Python")]


@pytest.mark.parametrize("cascade", [False, True])
def test_children_that_the_caller_cannot_see_go_to_what_the_deleted_hung_below(cascade: bool) -> None:
    view = FakeKeywordView()
    above = view.put("above", owner="user:bob")
    mine = view.put("mine", above.id, owner="user:ann")
    hidden = view.put("hidden", mine.id, owner="user:bob", scopes=("user:bob",))
    view.put("mine too", hidden.id, owner="user:ann")

    edit = deleted(view, "mine", ctx=ANN, cascade=cascade)

    told = [(write.id, write.after["parent_id"], "deleted" in write.after) for write in edit.writes]
    assert told == [(hidden.id, above.id, False), (mine.id, above.id, True)]
    assert edit.reply["keywords"] == [mine.id]


def test_infos_that_the_caller_cannot_see_are_neither_counted_nor_in_the_way_and_keep_a_link() -> None:
    view = FakeKeywordView()
    mine = view.put("mine", owner="user:ann")
    view.put_info("hidden", owner="user:bob", shown=("user:bob",))
    row_id = link(view, "hidden", "mine")

    edit = deleted(view, "mine", InfoPolicy.FORBID, ANN)

    links = by_id(edit.writes, LINKS)
    assert {one: "deleted" in row for one, row in links.items()} == {
        row_id: True,
        make_link_id("hidden", ROOT_ID): False,
    }
    assert edit.reply == {"keywords": [mine.id], "links": {"moved": 0, "dropped": 0}, "reattached_to": None}


def test_infos_of_what_is_deleted_go_to_what_it_hung_below_without_doubles(view: FakeKeywordView) -> None:
    language, python, fast_api = (view.id_of(name) for name in ("语言", "Python", "FastAPI"))
    link(view, "moves", "FastAPI", EXAMPLE)
    link(view, "twice", "Python", RELATED)
    link(view, "twice", "FastAPI", PRIMARY)
    link(view, "there", "Python")
    link(view, "there", "语言", RELATED)

    edit = deleted(view, "Python", cascade=True)

    links = by_id(edit.writes, LINKS)
    gone = {row_id for row_id, row in links.items() if row.get("deleted")}
    assert gone == {
        make_link_id(*pair) for pair in (("moves", fast_api), ("twice", python), ("twice", fast_api), ("there", python))
    }
    kept = {row_id: row["relation"] for row_id, row in links.items() if row_id not in gone}
    assert kept == {make_link_id("moves", language): "EXAMPLE", make_link_id("twice", language): "PRIMARY"}
    assert (edit.reply["links"], edit.reply["reattached_to"]) == ({"moved": 2, "dropped": 2}, language)


def test_infos_of_a_keyword_below_the_root_go_to_the_root(view: FakeKeywordView) -> None:
    link(view, "i-1", "算法")

    links = by_id(deleted(view, "算法").writes, LINKS)

    assert links[make_link_id("i-1", ROOT_ID)]["relation"] == "PRIMARY"


def test_infos_of_a_keyword_that_lost_its_parent_go_to_the_root(view: FakeKeywordView) -> None:
    link(view, "i-1", "Go")
    view.drop(view.id_of("语言"))

    assert deleted(view, "Go").reply["reattached_to"] == ROOT_ID


def test_detaching_only_unlinks(view: FakeKeywordView) -> None:
    one = link(view, "i-1", "Go")

    edit = deleted(view, "Go", InfoPolicy.DETACH)

    assert {row_id: row["deleted"] for row_id, row in by_id(edit.writes, LINKS).items()} == {one: True}
    assert edit.reply == {"keywords": [view.id_of("Go")], "links": {"moved": 0, "dropped": 1}, "reattached_to": None}


def test_forbidding_names_up_to_twenty_infos_and_lets_go_what_has_none(view: FakeKeywordView) -> None:
    for number in range(25):
        link(view, f"i-{number}", "FastAPI")

    with pytest.raises(Conflict) as refused:
        deleted(view, "Python", InfoPolicy.FORBID, cascade=True)

    assert refused.value.extra == {"ids": [f"i-{number}" for number in range(20)]}
    assert len(deleted(view, "Go", InfoPolicy.FORBID).writes) == 1


# aliases
